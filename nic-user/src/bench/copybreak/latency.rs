//! How long packets were on their way, or answers.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;
use nix::time::{ClockId, clock_gettime};

use crate::{
    bench::experiment::Sample,
    error::{Error, Result},
};

/// The longest latency that is told from longer ones, in ns.
const LONGEST: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// Time since boot in ns, the same for all threads.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Latencies that one thread records while another looks.
pub struct Latencies(Mutex<Recorded>);

impl Latencies {
    /// None yet.
    pub fn new() -> Result<Self> {
        Ok(Self(Mutex::new(Recorded::new()?)))
    }

    /// Those since the last time.
    pub fn take(&self) -> Result<Recorded> {
        let none = Recorded::new()?;
        Ok(mem::replace(&mut *self.record(), none))
    }

    /// To record some.
    pub fn record(&self) -> MutexGuard<'_, Recorded> {
        // What a thread that panicked recorded is as good as the rest.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Latencies of some time, in ns.
pub struct Recorded {
    histogram: Histogram<u64>,
    last: Option<u64>,
    /// Sum of the differences from one packet to the next.
    differences: u64,
}

impl Recorded {
    fn new() -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS)
            .map_err(|error| Error::failed(format!("make a histogram: {error}")))?;
        Ok(Self { histogram, last: None, differences: 0 })
    }

    /// Records one.
    pub fn add(&mut self, latency: u64) {
        self.histogram.saturating_record(latency.max(1));
        if let Some(last) = self.last.replace(latency) {
            self.differences = self.differences.saturating_add(last.abs_diff(latency));
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// What `percentile` percent of all are not above, in µs; nothing of nothing.
    fn at(&self, percentile: f64) -> Option<f64> {
        (!self.histogram.is_empty())
            .then(|| self.histogram.value_at_percentile(percentile) as f64 / 1e3)
    }

    /// Adds them to a round's figures.
    pub fn describe(&self, sample: Sample) -> Sample {
        sample
            .with("p50", "µs", self.at(50.0))
            .with("p99", "µs", self.at(99.0))
            .with("p99.9", "µs", self.at(99.9))
            .with("max", "µs", self.at(100.0))
            .with("jitter", "µs", self.jitter())
    }

    /// The mean difference from one packet to the next, in µs.
    fn jitter(&self) -> Option<f64> {
        let pairs = self.histogram.len().checked_sub(1).filter(|pairs| *pairs > 0)?;
        Some(self.differences as f64 / pairs as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_jitter_in_microseconds() {
        let latencies = Latencies::new().unwrap();
        for latency in [1000, 3000, 2000] {
            latencies.record().add(latency);
        }
        let recorded = latencies.take().unwrap();
        assert!((recorded.at(50.0).unwrap() - 2.0).abs() < 0.01);
        assert!((recorded.at(100.0).unwrap() - 3.0).abs() < 0.01);
        assert_eq!(recorded.jitter(), Some(1.5));
        assert_eq!(recorded.count(), 3);
        let none = latencies.take().unwrap();
        assert_eq!((none.at(50.0), none.jitter()), (None, None));
    }
}
