//! Medians, and ratios with the interval that they lie in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resamplings of one interval.
const RESAMPLES: usize = 2000;
/// The interval that holds 95 % of them.
const TAILS: [f64; 2] = [0.025, 0.975];

/// One figure of every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// All, in the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// Of the figures of all rounds; nothing without rounds, and nothing if one of them has no
    /// figure: what is divided by nothing.
    pub fn of(rounds: Vec<f64>) -> Option<Self> {
        if !rounds.iter().all(|figure| figure.is_finite()) {
            return None;
        }
        let sorted = sorted(&rounds);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: median(&sorted)?, min, max, rounds })
    }
}

/// How many times as much as something else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The median of the ratios of each round.
    pub median: f64,
    /// Lower end of its 95 % confidence interval.
    pub low: f64,
    /// Upper end of its 95 % confidence interval.
    pub high: f64,
}

impl Ratio {
    /// `what` over `base`, round by round: what disturbs a whole round disturbs both. The interval
    /// is that of the bootstrap: medians of rounds drawn again and again from those that there
    /// were.
    ///
    /// Nothing without rounds, and nothing if `base` is zero in one of them.
    pub fn paired(what: &[f64], base: &[f64]) -> Option<Self> {
        let ratios: Vec<f64> = what.iter().zip(base).map(|(what, base)| what / base).collect();
        if !ratios.iter().all(|ratio| ratio.is_finite()) {
            return None;
        }
        let median_ratio = median(&sorted(&ratios))?;
        let mut draw = Draw::default();
        let medians: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                let drawn: Vec<f64> = ratios.iter().filter_map(|_| draw.one_of(&ratios)).collect();
                median(&sorted(&drawn))
            })
            .collect();
        let medians = sorted(&medians);
        let [low, high] = TAILS.map(|share| quantile(&medians, share));
        Some(Self { median: median_ratio, low: low?, high: high? })
    }

    /// `what` over `base`, whose rounds have nothing to do with each other; the interval is as for
    /// [`Ratio::paired`].
    pub fn unpaired(what: &[f64], base: &[f64]) -> Option<Self> {
        let ratio = median(&sorted(what))? / median(&sorted(base))?;
        let mut draw = Draw::default();
        let mut drawn = |from: &[f64]| {
            let values: Vec<f64> = from.iter().filter_map(|_| draw.one_of(from)).collect();
            median(&sorted(&values))
        };
        let ratios: Vec<f64> =
            (0..RESAMPLES).filter_map(|_| Some(drawn(what)? / drawn(base)?)).collect();
        let ratios = sorted(&ratios);
        let [low, high] = TAILS.map(|share| quantile(&ratios, share));
        let ratio = Self { median: ratio, low: low?, high: high? };
        [ratio.median, ratio.low, ratio.high].iter().all(|end| end.is_finite()).then_some(ratio)
    }

    /// Whether the interval leaves it open which of the two is more.
    pub const fn is_inconclusive(self) -> bool {
        self.low <= 1.0 && self.high >= 1.0
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Of an even number, the mean of the two in the middle.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The value that `share` of all are below.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

/// Numbers that look random and are the same each time, so that a report can be repeated from its
/// rounds: Marsaglia's xorshift64*.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Default for Draw {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Draw {
    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// One of `values`; nothing if there are none.
    pub fn one_of(&mut self, values: &[f64]) -> Option<f64> {
        let count = values.len() as u64;
        values.get((self.next() >> 33).checked_rem(count)? as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers_of_rounds() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 5.0));
        assert_eq!(spread.rounds, [5.0, 1.0, 3.0]);
        assert_eq!(Spread::of(vec![4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![1.0, f64::NAN]), None);
    }

    #[test]
    fn the_interval_is_that_of_the_rounds() {
        let ratio = Ratio::paired(&[2.0, 4.0, 8.0, 3.0, 5.0], &[1.0, 2.0, 4.0, 1.5, 2.5]).unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 2.0, 2.0));

        let what = [1.9, 2.1, 2.0, 2.2, 1.8, 2.0, 2.05];
        let ratio = Ratio::paired(&what, &[1.0; 7]).unwrap();
        assert_eq!(ratio.median, 2.0);
        assert!(ratio.low < 2.0 && ratio.low >= 1.8, "{ratio:?}");
        assert!(ratio.high > 2.0 && ratio.high <= 2.2, "{ratio:?}");
        assert_eq!(Ratio::paired(&what, &[1.0; 7]), Some(ratio), "the same each time");
    }

    #[test]
    fn what_disturbs_a_whole_round_does_not_disturb_the_ratio() {
        let slow_rounds = [1.0, 0.1, 1.0, 0.2, 1.0];
        let doubled = slow_rounds.map(|rate| rate * 2.0);
        let ratio = Ratio::paired(&doubled, &slow_rounds).unwrap();
        assert_eq!((ratio.low, ratio.high), (2.0, 2.0));
        assert!(!ratio.is_inconclusive());
        assert!(Ratio::paired(&slow_rounds, &slow_rounds).unwrap().is_inconclusive());
    }

    #[test]
    fn runs_that_have_nothing_to_do_with_each_other() {
        let (slow, fast) = ([1.0, 1.1, 0.9, 1.0, 1.0], [2.0, 2.2, 2.0, 1.9, 2.0]);
        let ratio = Ratio::unpaired(&fast, &slow).unwrap();
        assert_eq!(ratio.median, 2.0);
        assert!(ratio.low > 1.7 && ratio.low < 2.0 && ratio.high > 2.0, "{ratio:?}");
        assert_eq!(Ratio::unpaired(&fast, &[0.0; 5]), None);
    }

    #[test]
    fn of_nothing_there_is_no_ratio() {
        assert_eq!(Ratio::paired(&[], &[]), None);
        assert_eq!(Ratio::paired(&[1.0], &[0.0]), None);
    }
}
