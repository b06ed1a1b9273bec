//! How large packets are.

use nic_common::counters::{SIZE_BINS, size_bin_start};

use crate::bench::statistics::Draw;

/// Frames without FCS, in bytes: the smallest that Ethernet has, and the largest at MTU 1500.
const SMALLEST: usize = 60;
const LARGEST: usize = 1514;
/// Packets until the sequence repeats.
const SEQUENCE: usize = 4096;

/// A distribution of frame lengths, in bytes without FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    name: String,
    /// Length, and how many frames have it.
    shares: Vec<(usize, u64)>,
}

impl Sizes {
    /// The simple Internet mix: 7 of 64 bytes, 4 of 594, 1 of 1518, FCS included.
    pub fn imix() -> Self {
        Self { name: "IMIX".to_owned(), shares: vec![(60, 7), (590, 4), (1514, 1)] }
    }

    /// Small questions, larger answers, and their acknowledgements.
    pub fn rpc() -> Self {
        Self { name: "RPC".to_owned(), shares: vec![(66, 4), (192, 3), (350, 3), (450, 2)] }
    }

    /// Calls it differently.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds what was counted by [`nic_common::counters::size_bin`].
    pub fn count(&mut self, bins: &[u64; SIZE_BINS]) {
        let counted = bins.iter().enumerate().filter(|(_, frames)| **frames > 0);
        self.shares.extend(counted.map(|(bin, frames)| {
            let end = if bin + 1 < SIZE_BINS { size_bin_start(bin + 1) } else { u32::MAX };
            let middle = u32::midpoint(size_bin_start(bin), end) as usize;
            (middle.clamp(SMALLEST, LARGEST), *frames)
        }));
    }

    /// Whether there is no frame in it.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Lengths that follow each other as the distribution wants it, always the same.
    pub fn sequence(&self) -> Vec<usize> {
        let total: u64 = self.shares.iter().map(|(_, frames)| frames).sum();
        let mut draw = Draw::default();
        let one = |drawn: u64| {
            let mut left = drawn;
            let found = self.shares.iter().find(|(_, frames)| {
                let here = left < *frames;
                left = left.saturating_sub(*frames);
                here
            });
            found.map_or(SMALLEST, |(len, _)| *len)
        };
        (0..SEQUENCE).map(|_| one((draw.next() >> 16) % total.max(1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_has_the_shares_of_the_distribution() {
        let sequence = Sizes::imix().sequence();
        let share = |len| {
            let count = sequence.iter().filter(|size| **size == len).count();
            count as f64 / sequence.len() as f64
        };
        for (len, expected) in [(60, 7.0 / 12.0), (590, 4.0 / 12.0), (1514, 1.0 / 12.0)] {
            assert!((share(len) - expected).abs() < 0.03, "{len}: {}", share(len));
        }
        assert_eq!(sequence, Sizes::imix().sequence());
    }

    #[test]
    fn what_was_counted_becomes_a_distribution() {
        let mut bins = [0; SIZE_BINS];
        let mut sizes = Sizes::default();
        sizes.count(&bins);
        assert!(sizes.is_empty());
        bins[1] = 5;
        bins[SIZE_BINS - 1] = 5;
        sizes.count(&bins);
        let sequence = sizes.sequence();
        assert!(sequence.iter().all(|len| [96, LARGEST].contains(len)));
    }
}
