//! Two runs beside each other.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    model::{Case, Document, Measure, Measured},
    statistics::Ratio,
    text::{Scale, digits, ratio},
};
use crate::report::{
    json::Version,
    paragraph,
    style::Style,
    table::{Align, Table},
};

const MARGIN: usize = 8;

/// Two runs of `nicctl bench`, as far as they measured the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this document's format.
    pub version: Version<1>,
    /// The first run.
    pub a: Run,
    /// The second run.
    pub b: Run,
    /// What both measured.
    pub cases: Vec<ComparedCase>,
    /// What only one of them measured.
    pub unmatched: Vec<String>,
}

/// When and where a run was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// When it began (RFC 3339).
    pub started: String,
    /// Version of nicctl.
    pub nicctl: String,
    /// Release and version of the kernel.
    pub kernel: String,
    /// Model of the processors.
    pub cpu: String,
}

/// A case of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedCase {
    /// Name of the experiment.
    pub experiment: String,
    /// What its variants have in common.
    pub title: String,
    /// What was counted.
    pub measure: Measure,
    /// The variants of both runs.
    pub variants: Vec<ComparedVariant>,
}

/// A variant of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedVariant {
    /// What it is.
    pub title: String,
    /// Median rate of the first run.
    pub a: f64,
    /// Median rate of the second run.
    pub b: f64,
    /// Rate of the second run over that of the first one.
    pub change: Option<Ratio>,
    /// Rate over that of the case's first variant, in the first run.
    pub ratio_a: Option<Ratio>,
    /// Rate over that of the case's first variant, in the second run.
    pub ratio_b: Option<Ratio>,
    /// Whether the intervals of the two have something in common.
    pub ratios_agree: Option<bool>,
}

impl Comparison {
    /// Of two runs.
    pub fn of(a: &Document, b: &Document) -> Self {
        let (in_a, in_b) = (cases(a), cases(b));
        let mut unmatched = Vec::new();
        let mut compared = Vec::new();
        for (experiment, case) in &in_a {
            match find(&in_b, experiment, &case.title) {
                Some(other) if other.measure == case.measure => {
                    compared.push(ComparedCase::of(experiment, case, other));
                }
                _ => unmatched.push(format!("{experiment}, {}", case.title)),
            }
        }
        let only_in_b =
            in_b.iter().filter(|(experiment, case)| find(&in_a, experiment, &case.title).is_none());
        unmatched
            .extend(only_in_b.map(|(experiment, case)| format!("{experiment}, {}", case.title)));
        Self { version: Version, a: Run::of(a), b: Run::of(b), cases: compared, unmatched }
    }

    /// Writes it as text.
    ///
    /// # Errors
    ///
    /// What writing to `out` ends in.
    pub fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        for (name, run) in [("A", &self.a), ("B", &self.b)] {
            let Run { started, nicctl, kernel, cpu } = run;
            let text = format!("{started}, nicctl {nicctl}, {cpu}, {kernel}");
            paragraph::write_text(out, style, (name, MARGIN), &text)?;
        }
        for case in &self.cases {
            case.write(out, style)?;
        }
        if !self.unmatched.is_empty() {
            writeln!(out)?;
        }
        paragraph::write_items(out, style, ("only one", MARGIN + 2), &self.unmatched)
    }
}

impl Run {
    fn of(document: &Document) -> Self {
        Self {
            started: document.started.clone(),
            nicctl: document.nicctl.clone(),
            kernel: document.machine.kernel.clone(),
            cpu: document.machine.cpu.clone(),
        }
    }
}

fn cases(document: &Document) -> Vec<(&str, &Case)> {
    let experiments = document.experiments.iter();
    experiments
        .flat_map(|experiment| experiment.cases.iter().map(|case| (experiment.name.as_str(), case)))
        .collect()
}

fn find<'c>(cases: &[(&str, &'c Case)], experiment: &str, title: &str) -> Option<&'c Case> {
    let same = |(name, case): &&(&str, &Case)| *name == experiment && case.title == title;
    cases.iter().find(same).map(|(_, case)| *case)
}

impl ComparedCase {
    fn of(experiment: &str, a: &Case, b: &Case) -> Self {
        let variants = a.variants.iter().filter_map(|variant| {
            let other = b.variants.iter().find(|other| other.title == variant.title)?;
            let (a, b) = (variant.measured.as_ref()?, other.measured.as_ref()?);
            Some(ComparedVariant::of(&variant.title, a, b))
        });
        Self {
            experiment: experiment.to_owned(),
            title: a.title.clone(),
            measure: a.measure,
            variants: variants.collect(),
        }
    }

    fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let rates = self.variants.iter().flat_map(|variant| [variant.a, variant.b]);
        let scale = Scale::of_rates(self.measure, rates);
        let title = format!("{}, {}: {}", self.experiment, self.title, scale.unit());
        writeln!(out, "\n{}", style.bold(title))?;
        let mut table = Table::new([
            ("VARIANT", Align::Left),
            ("A", Align::Right),
            ("B", Align::Right),
            ("B/A", Align::Right),
            ("RATIO IN A", Align::Right),
            ("IN B", Align::Right),
            ("", Align::Left),
        ]);
        let median =
            |ratio: Option<Ratio>| ratio.map(|ratio| digits(ratio.median)).unwrap_or_default();
        for variant in &self.variants {
            table.push([
                variant.title.clone(),
                digits(scale.number(variant.a)),
                digits(scale.number(variant.b)),
                variant.change.map(ratio).unwrap_or_default(),
                median(variant.ratio_a),
                median(variant.ratio_b),
                if variant.ratios_agree == Some(false) { "differ" } else { "" }.to_owned(),
            ]);
        }
        table.write(out, style)
    }
}

impl ComparedVariant {
    fn of(title: &str, a: &Measured, b: &Measured) -> Self {
        let overlap = |(a, b): (Ratio, Ratio)| a.low <= b.high && b.low <= a.high;
        Self {
            title: title.to_owned(),
            a: a.rate.median,
            b: b.rate.median,
            change: Ratio::unpaired(&b.rate.rounds, &a.rate.rounds),
            ratio_a: a.rate_ratio,
            ratio_b: b.rate_ratio,
            ratios_agree: a.rate_ratio.zip(b.rate_ratio).map(overlap),
        }
    }
}
