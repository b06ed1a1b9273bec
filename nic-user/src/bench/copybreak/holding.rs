//! A consumer that keeps what it is given for a while, as applications do.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Keeps packets of any kind, each for the same time.
pub struct Holding<T> {
    time: Duration,
    held: VecDeque<(Instant, T)>,
}

impl<T> Holding<T> {
    /// For this time each.
    pub const fn new(time: Duration) -> Self {
        Self { time, held: VecDeque::new() }
    }

    /// Keeps one from `now` on.
    pub fn keep(&mut self, packet: T, now: Instant) {
        if !self.time.is_zero() {
            self.held.push_back((now + self.time, packet));
        }
    }

    /// Drops what was kept long enough; how long it is until the next one, if there is one.
    pub fn release(&mut self, now: Instant) -> Option<Duration> {
        while let Some((until, _)) = self.held.front() {
            if *until > now {
                return Some(*until - now);
            }
            self.held.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn each_is_kept_for_its_time() {
        let packet = Rc::new(());
        let start = Instant::now();
        let mut holding = Holding::new(Duration::from_millis(5));
        for after in [0, 2] {
            holding.keep(packet.clone(), start + Duration::from_millis(after));
        }
        assert_eq!(holding.release(start), Some(Duration::from_millis(5)));
        assert_eq!(Rc::strong_count(&packet), 3);
        let left = holding.release(start + Duration::from_millis(6));
        assert_eq!((left, Rc::strong_count(&packet)), (Some(Duration::from_millis(1)), 2));
        assert_eq!(holding.release(start + Duration::from_millis(7)), None);
        assert_eq!(Rc::strong_count(&packet), 1);
    }

    #[test]
    fn without_a_time_nothing_is_kept() {
        let packet = Rc::new(());
        Holding::new(Duration::ZERO).keep(packet.clone(), Instant::now());
        assert_eq!(Rc::strong_count(&packet), 1);
    }
}
