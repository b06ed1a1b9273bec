//! How chunks find their way home from other threads: a list of indices without locks.
//!
//! Any thread puts one index on it; the owner takes all. Because nothing is ever taken one by one,
//! the list has no ABA problem.
//!
//! When the owner goes, it closes the list. From then on nothing is listed; what is still away is
//! counted down, and who brings the last chunk learns so.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::sync::{AtomicI64, AtomicU32};

/// Ends a list.
const END: u32 = u32::MAX;
/// In the place of the first index: the owner is gone.
const CLOSED: u32 = u32::MAX - 1;

/// The list.
#[derive(Debug)]
pub(super) struct Returns {
    first: AtomicU32,
    /// What follows each index that is on the list.
    next: Box<[AtomicU32]>,
    /// Chunks away, once the owner is gone; before that, minus those counted too early.
    away: AtomicI64,
}

/// Whether a chunk was the last one of a pool whose owner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Last {
    /// There are more, or there is an owner.
    No,
    /// It was: nobody else will ever use the pool.
    Yes,
}

impl Returns {
    /// An empty list for the indices below `chunks`.
    pub fn new(chunks: u32) -> Self {
        let next = (0..chunks).map(|_| AtomicU32::new(END)).collect();
        Self { first: AtomicU32::new(END), next, away: AtomicI64::new(0) }
    }

    /// Brings back the chunk `index`, which whoever calls has and gives up.
    pub fn put(&self, index: u32) -> Last {
        let Some(next) = self.next.get(index as usize) else { return Last::No };
        let mut first = self.first.load(Relaxed);
        while first != CLOSED {
            next.store(first, Relaxed);
            // Release: what was done with the chunk happens before its next use.
            match self.first.compare_exchange_weak(first, index, Release, Relaxed) {
                Ok(_) => return Last::No,
                Err(other) => first = other,
            }
        }
        self.count_home(1)
    }

    /// Takes every index off the list, for the owner.
    pub fn take_all(&self, each: impl FnMut(u32)) {
        // Most often there is none; then the line stays shared between the processors.
        if self.first.load(Relaxed) != END {
            self.walk(self.first.swap(END, Acquire), each);
        }
    }

    /// Closes the list, for an owner that goes. `away` is told every index that was on it, and then
    /// asked how many chunks are still away.
    pub fn close(&self, each: impl FnMut(u32), away: impl FnOnce() -> u32) -> Last {
        self.walk(self.first.swap(CLOSED, Acquire), each);
        self.count_home(-i64::from(away()))
    }

    fn walk(&self, mut at: u32, mut each: impl FnMut(u32)) {
        while let Some(next) = self.next.get(at as usize) {
            // Read first: `each` may give the chunk away, and it may come back at once.
            let after = next.load(Relaxed);
            each(at);
            at = after;
        }
    }

    /// AcqRel: everything that others did with the pool happens before its end.
    fn count_home(&self, home: i64) -> Last {
        if self.away.fetch_sub(home, AcqRel) == home { Last::Yes } else { Last::No }
    }
}
