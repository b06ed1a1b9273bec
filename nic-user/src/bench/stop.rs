//! Ending early: every wait of a benchmark is one that an interruption cuts short.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::error::{Error, Result};

/// Whether the user wants an end; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Ends whatever waits, now and later.
    pub fn request(&self) {
        *self.wanted() = true;
        self.shared.changed.notify_all();
    }

    /// Goes on if nobody wants an end.
    ///
    /// # Errors
    ///
    /// Somebody does.
    pub fn check(&self) -> Result<()> {
        if *self.wanted() { Err(interrupted()) } else { Ok(()) }
    }

    /// Waits for `time` to pass.
    ///
    /// # Errors
    ///
    /// Somebody wanted an end before it had.
    pub fn wait(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        let mut wanted = self.wanted();
        while !*wanted {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return Ok(()) };
            let woken = self.shared.changed.wait_timeout(wanted, left);
            (wanted, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Err(interrupted())
    }

    fn wanted(&self) -> MutexGuard<'_, bool> {
        // A flag is whole whoever panicked while holding it.
        self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn interrupted() -> Error {
    Error::failed("interrupted; nothing was left behind")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_wait_is_cut_short() {
        let stop = Stop::default();
        stop.wait(Duration::ZERO).unwrap();
        stop.check().unwrap();
        let other = stop.clone();
        let waiting = thread::spawn(move || other.wait(Duration::from_secs(3600)));
        stop.request();
        assert!(waiting.join().unwrap().is_err());
        assert!(stop.check().is_err());
    }
}
