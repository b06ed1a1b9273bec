//! Loops: two interfaces that are joined by another path as well, over which frames come back.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Stations that are remembered: more, and all are forgotten.
const MOST: usize = 1024;
/// One frame of so many is looked at.
const SAMPLED: u64 = 32;

/// At which interface each station was seen last.
#[derive(Debug, Default)]
pub struct Stations {
    seen: HashMap<[u8; 6], usize>,
    frames: u64,
}

impl Stations {
    /// Whether a frame that arrived at one interface is of a station that was last seen at the
    /// other one. Not every frame is looked at.
    pub fn has_moved(&mut self, frame: &[u8], from: usize) -> bool {
        self.frames += 1;
        if !self.frames.is_multiple_of(SAMPLED) {
            return false;
        }
        let Some(station) = frame.get(6..12).and_then(|it| it.try_into().ok()) else {
            return false;
        };
        if self.seen.len() >= MOST {
            self.seen.clear();
        }
        self.seen.insert(station, from).is_some_and(|before| before != from)
    }
}

/// Tells a loop from stations that move now and then.
#[derive(Debug)]
pub struct LoopWatch {
    since: Instant,
    moved: u64,
    said: bool,
}

impl LoopWatch {
    /// Since now.
    pub const fn since(now: Instant) -> Self {
        Self { since: now, moved: 0, said: false }
    }

    /// Whether `moved`, how often stations were seen to have moved so far, is that of a loop: true
    /// once.
    pub fn notices(&mut self, moved: u64) -> bool {
        const MANY: u64 = 16;
        const SOON: Duration = Duration::from_secs(2);
        let many = moved.saturating_sub(self.moved) >= MANY;
        if self.since.elapsed() > SOON {
            (self.since, self.moved) = (Instant::now(), moved);
        }
        let notices = many && !self.said;
        self.said |= many;
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_at_one_interface_does_not_move() {
        let mut stations = Stations::default();
        let frame = [7; 14];
        assert_eq!((0..1000).filter(|_| stations.has_moved(&frame, 0)).count(), 0);
        let moves = (0..1000).filter(|at| stations.has_moved(&frame, at / 100 % 2)).count();
        assert_eq!(moves, 9);
        assert!(!(0..100).any(|_| stations.has_moved(&frame[..10], 0)));
    }

    #[test]
    fn a_loop_is_noticed_once() {
        let mut watch = LoopWatch::since(Instant::now());
        assert!(!watch.notices(3));
        assert!(watch.notices(100) && !watch.notices(1000));
    }
}
