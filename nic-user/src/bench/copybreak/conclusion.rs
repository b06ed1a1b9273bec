//! Which threshold is the best.

use crate::bench::statistics::Ratio;

/// Ratios nearer to 1 than this are no difference.
const DIFFERENCE: f64 = 0.02;

/// What comes of trying some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Best<'v> {
    /// This one, and how much more it gets than none.
    Threshold(&'v str, Ratio),
    /// None: others get less.
    None,
    /// All are the same.
    Any,
}

impl<'v> Best<'v> {
    /// Of thresholds and what they get, over what is got without one: the first that gets about as
    /// much as the best, if any gets more than none.
    pub fn of(ratios: impl Iterator<Item = (&'v str, Ratio)>) -> Self {
        let ratios: Vec<_> = ratios.collect();
        let best = ratios.iter().map(|(_, ratio)| ratio.median).fold(0.0, f64::max);
        let as_good = |(_, ratio): &&(&str, Ratio)| {
            ratio.low > 1.0 + DIFFERENCE && ratio.median >= best * (1.0 - DIFFERENCE)
        };
        match ratios.iter().find(as_good) {
            Some((title, ratio)) => Self::Threshold(title, *ratio),
            None if ratios.iter().any(|(_, ratio)| ratio.high < 1.0 - DIFFERENCE) => Self::None,
            None => Self::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'v>(ratios: &[(&'v str, [f64; 3])]) -> Best<'v> {
        let ratio = |[low, median, high]: [f64; 3]| Ratio { median, low, high };
        Best::of(ratios.iter().map(|(title, ends)| (*title, ratio(*ends))))
    }

    #[test]
    fn the_best_threshold_is_the_smallest_of_the_best() {
        let helps = best(&[
            ("to 64", [1.1, 1.2, 1.3]),
            ("to 256", [1.9, 1.97, 2.0]),
            ("to 512", [1.9, 1.98, 2.0]),
        ]);
        let ratio = Ratio { median: 1.97, low: 1.9, high: 2.0 };
        assert_eq!(helps, Best::Threshold("to 256", ratio));
        assert_eq!(best(&[("to 64", [0.9, 1.1, 1.3])]), Best::Any);
        assert_eq!(best(&[("to 64", [0.8, 0.9, 0.95])]), Best::None);
        assert_eq!(best(&[]), Best::Any);
    }
}
