//! What an experiment is: cases, each of which compares variants.

use super::{
    model::{self, Measure, Published},
    round::{CpuUse, Round, Window},
};
use crate::error::Result;

/// An experiment that is set up and ready to run.
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The discussion whose figures it is held against.
    pub source: &'static str,
    /// Where it runs: devices, and processors of both sides.
    pub place: String,
    /// What is not comparable, and how to read it.
    pub notes: Vec<String>,
    /// What is compared.
    pub cases: Vec<Case>,
}

/// Variants of one thing; the first one is what the others are compared with.
pub struct Case {
    /// What they have in common.
    pub title: String,
    /// What is counted.
    pub measure: Measure,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// Says what came of it, if there is more to say than the figures do.
    pub conclude: Option<fn(&[model::Variant]) -> String>,
}

impl Case {
    /// A case for which the figures say it all.
    pub fn new(title: String, measure: Measure, variants: Vec<Variant>) -> Self {
        Self { title, measure, variants, conclude: None }
    }

    /// Says in a sentence what came of it.
    #[must_use]
    pub fn concluding(self, conclude: fn(&[model::Variant]) -> String) -> Self {
        Self { conclude: Some(conclude), ..self }
    }
}

/// One way to do it.
pub struct Variant {
    /// What it is.
    pub title: &'static str,
    /// What the discussion saw, as ratios to its own first variant.
    pub published: Published,
    trial: Box<dyn Trial>,
}

impl Variant {
    /// A variant for which nothing was published.
    pub fn new(title: &'static str, trial: impl Trial + 'static) -> Self {
        Self { title, published: Published::default(), trial: Box::new(trial) }
    }

    /// Says what was published.
    #[must_use]
    pub fn published(self, rate: Option<f64>, cost: Option<f64>) -> Self {
        Self { published: Published { rate, cost }, ..self }
    }

    /// One round.
    pub(super) fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        self.trial.set_up()?;
        self.trial.round(round)
    }
}

/// How a variant is set up and measured. Variants take turns, so each sets up anew what others may
/// have changed.
pub trait Trial {
    /// Brings the devices into the state that this variant needs, if it needs one.
    ///
    /// # Errors
    ///
    /// They cannot be: the variant is then reported as not available.
    fn set_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Measures once.
    ///
    /// # Errors
    ///
    /// It fails, or is interrupted.
    fn round(&mut self, round: &Round<'_>) -> Result<Sample>;
}

/// What one round came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// What was done in that time, in the case's unit.
    pub done: f64,
    /// CPU time that it took.
    pub cpu: CpuUse,
    /// What else was seen.
    pub figures: Vec<Figure>,
}

impl Sample {
    /// What was done in a window.
    pub fn of<T>(window: &Window<T>, done: u64) -> Self {
        let Window { seconds, cpu, .. } = *window;
        Self { seconds, done: done as f64, cpu, figures: Vec::new() }
    }

    /// Adds a figure.
    #[must_use]
    pub fn with(mut self, name: &'static str, unit: &'static str, value: Option<f64>) -> Self {
        self.figures.extend(value.map(|value| Figure { name, unit, value }));
        self
    }
}

/// Something else that was seen in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// How much.
    pub value: f64,
}

/// `part` of `whole` in percent; nothing of nothing.
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}
