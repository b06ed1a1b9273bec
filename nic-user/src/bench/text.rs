//! Results as text.

use std::io::{self, Write};

use super::{
    model::{Case, Document, Experiment, Measure, Measured, Variant},
    statistics::{Ratio, Spread},
};
use crate::report::{
    WIDTH, number, paragraph,
    style::Style,
    table::{Align, Table},
};

/// Columns of the labels in front of what is not a table.
const MARGIN: usize = 11;

/// Writes a run.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write(out: &mut dyn Write, style: Style, document: &Document) -> io::Result<()> {
    let Document { machine, rounds, round_seconds, .. } = document;
    let line = |out: &mut dyn Write, label: &str, text: &str| {
        paragraph::write_text(out, style, (label, MARGIN), text)
    };
    line(out, "machine", &machine_text(document))?;
    line(out, "kernel", &machine.kernel)?;
    line(
        out,
        "rounds",
        &format!(
            "{rounds} of {round_seconds} s per variant, interleaved; medians (lowest–highest), \
             ratios with their 95 % confidence interval"
        ),
    )?;
    for caveat in machine.caveats() {
        line(out, "note", &caveat)?;
    }
    for warning in &document.warnings {
        line(out, "warning", warning)?;
    }
    for experiment in &document.experiments {
        writeln!(out)?;
        write_experiment(out, style, experiment)?;
    }
    Ok(())
}

/// The machine in a line.
pub fn machine_text(document: &Document) -> String {
    let machine = &document.machine;
    let virtual_machine = if machine.virtual_machine { "virtual machine, " } else { "" };
    format!(
        "{virtual_machine}{} CPUs ({}, {}), {} of memory",
        machine.cpus,
        machine.cpu,
        machine.architecture,
        number::bytes(machine.memory)
    )
}

fn write_experiment(out: &mut dyn Write, style: Style, experiment: &Experiment) -> io::Result<()> {
    writeln!(out, "{}", style.bold(format_args!("{}: {}", experiment.name, experiment.title)))?;
    paragraph::write_text(out, style, ("beside", MARGIN), &experiment.source)?;
    paragraph::write_text(out, style, ("where", MARGIN), &experiment.place)?;
    for case in &experiment.cases {
        writeln!(out)?;
        write_case(out, style, case)?;
    }
    if let Some(overview) = overview(experiment).filter(Grid::fits) {
        writeln!(out)?;
        overview.write(out, style)?;
    }
    writeln!(out)?;
    for note in &experiment.notes {
        paragraph::write_text(out, style, ("note", MARGIN), note)?;
    }
    Ok(())
}

fn write_case(out: &mut dyn Write, style: Style, case: &Case) -> io::Result<()> {
    let scale = Scale::of(case);
    let title = format!("{}: {}, {}", case.title, scale.unit(), case.measure.cost_unit());
    writeln!(out, "{}", style.bold(title))?;
    let mut table = Table::new([
        ("VARIANT", Align::Left),
        ("RATE", Align::Right),
        ("SND/RCV%", Align::Right),
        ("SIRQ%", Align::Right),
        ("COST", Align::Right),
        ("RATIO", Align::Right),
        ("PUBL.", Align::Right),
    ]);
    for (index, variant) in case.variants.iter().enumerate() {
        table.push(row(variant, index == 0, scale));
    }
    table.write(out, style)?;
    paragraph::write_items(out, style, ("cost", MARGIN), &cost_ratios(case))?;
    if let Some(figures) = figures(case).filter(Grid::fits) {
        figures.write(out, style)?;
    }
    if let Some(conclusion) = &case.conclusion {
        paragraph::write_text(out, style, ("result", MARGIN), conclusion)?;
    }
    for variant in &case.variants {
        if let Some(reason) = &variant.unavailable {
            let text = format!("{}: {reason}", variant.title);
            paragraph::write_text(out, style, ("without", MARGIN), &text)?;
        }
    }
    Ok(())
}

fn row(variant: &Variant, is_base: bool, scale: Scale) -> [String; 7] {
    let title = variant.title.clone();
    let published = variant.published.rate.map(digits).unwrap_or_default();
    let Some(measured) = &variant.measured else {
        let [nothing @ .., _] = [const { String::new() }; 6];
        let [rate, sides, softirq, cost, ratio] = nothing.map(|_| "-".to_owned());
        return [title, rate, sides, softirq, cost, ratio, published];
    };
    [
        title,
        scale.spread(&measured.rate),
        sides(measured),
        percent(measured.cpu.softirq.as_ref()),
        measured.cost.as_ref().map_or_else(|| "-".to_owned(), |cost| digits(cost.median)),
        ratio_or_base(measured.rate_ratio, is_base),
        published,
    ]
}

/// How busy the threads of both sides were.
fn sides(measured: &Measured) -> String {
    let cpu = &measured.cpu;
    format!("{}/{}", percent(cpu.sender.as_ref()), percent(cpu.receiver.as_ref()))
}

/// The median of a share, in percent.
pub fn percent(share: Option<&Spread>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}", share.median * 100.0))
}

/// `2.86 (2.71–2.99)`
pub fn ratio(ratio: Ratio) -> String {
    let Ratio { median, low, high } = ratio;
    format!("{} ({}–{})", digits(median), digits(low), digits(high))
}

/// A ratio, or 1 for what the ratios are to.
pub fn ratio_or_base(of: Option<Ratio>, is_base: bool) -> String {
    let nothing = if is_base { "1" } else { "-" };
    of.map_or_else(|| nothing.to_owned(), ratio)
}

/// Three significant digits, or whole numbers.
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.0995 => format!("{value:.3}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// What the ratios of the costs came to.
fn cost_ratios(case: &Case) -> Vec<String> {
    let text = |variant: &Variant| {
        let cost = ratio(variant.measured.as_ref()?.cost_ratio?);
        let published = variant.published.cost;
        let published =
            published.map(|cost| format!(" (published {})", digits(cost))).unwrap_or_default();
        Some(format!("{} {cost} times{published}", variant.title))
    };
    case.variants.iter().filter_map(text).collect()
}

/// Names of the figures of a case, each once.
fn figure_names(case: &Case) -> Vec<&str> {
    let measured = case.variants.iter().filter_map(|variant| variant.measured.as_ref());
    let mut names = Vec::new();
    for figure in measured.flat_map(|measured| &measured.figures) {
        if !names.contains(&figure.name.as_str()) {
            names.push(figure.name.as_str());
        }
    }
    names
}

/// The figures of a case; nothing if it has none.
pub fn figures(case: &Case) -> Option<Grid> {
    let names = figure_names(case);
    let titles = std::iter::once("").chain(names.iter().copied()).map(str::to_owned).collect();
    let row = |variant: &Variant| {
        let cells = names.iter().map(|name| figure_cell(variant, name));
        std::iter::once(variant.title.clone()).chain(cells).collect()
    };
    let rows = case.variants.iter().map(row).collect();
    (!names.is_empty()).then_some(Grid { titles, rows })
}

/// The figure of this name; empty if the variant has none.
fn figure_cell(variant: &Variant, name: &str) -> String {
    let figures = variant.measured.iter().flat_map(|measured| &measured.figures);
    let found = figures.into_iter().find(|figure| figure.name == name);
    found.map(|figure| figure_text(figure.value.median, &figure.unit)).unwrap_or_default()
}

/// A figure with its unit.
fn figure_text(value: f64, unit: &str) -> String {
    match unit {
        "B" => number::bytes(value.round().max(0.0) as u64),
        "" => digits(value),
        "%" => format!("{}%", digits(value)),
        _ => format!("{} {unit}", digits(value)),
    }
}

/// The decimal prefix that all rates of a case are shown with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    measure: Measure,
    divisor: f64,
    prefix: &'static str,
}

impl Scale {
    /// The one that suits the fastest variant.
    pub fn of(case: &Case) -> Self {
        let measured = case.variants.iter().filter_map(|variant| variant.measured.as_ref());
        Self::of_rates(case.measure, measured.map(|measured| measured.rate.median))
    }

    /// The one that suits the highest of these rates.
    pub fn of_rates(measure: Measure, rates: impl Iterator<Item = f64>) -> Self {
        let (divisor, prefix) = match measure.shown(rates.fold(0.0, f64::max)) {
            1e9.. => (1e9, "G"),
            1e6.. => (1e6, "M"),
            1e4.. => (1e3, "k"),
            _ => (1.0, ""),
        };
        Self { measure, divisor, prefix }
    }

    /// The unit, prefix included.
    pub fn unit(self) -> String {
        format!("{}{}", self.prefix, self.measure.rate_unit())
    }

    /// A rate in that unit.
    pub fn number(self, rate: f64) -> f64 {
        self.measure.shown(rate) / self.divisor
    }

    /// Median, lowest and highest in that unit.
    pub fn spread(self, spread: &Spread) -> String {
        let [median, min, max] =
            [spread.median, spread.min, spread.max].map(|rate| digits(self.number(rate)));
        format!("{median} ({min}–{max})")
    }
}

/// A table of which only the contents say how wide it is. The first column is of words.
pub struct Grid {
    /// Titles of the columns.
    pub titles: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().chain([&self.titles]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    }

    fn line(&self, cells: &[String]) -> String {
        let cell = |(column, cell): (usize, &String)| match column {
            0 => format!("{cell:<0$}", self.width(column)),
            _ => format!("{cell:>0$}", self.width(column)),
        };
        cells.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")
    }

    /// Whether it is not wider than a terminal.
    fn fits(&self) -> bool {
        self.line(&self.titles).chars().count() <= WIDTH
    }

    fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        writeln!(out, "{}", style.bold(self.line(&self.titles)))?;
        self.rows.iter().try_for_each(|row| writeln!(out, "{}", self.line(row).trim_end()))
    }
}

/// Rates and CPU of the cases that compare the same variants, as the discussions lay out their
/// tables; nothing if the first one is the only one.
pub fn overview(experiment: &Experiment) -> Option<Grid> {
    let titles = |case: &Case| -> Vec<String> {
        case.variants.iter().map(|variant| variant.title.clone()).collect()
    };
    let first = experiment.cases.first()?;
    let same = |case: &&Case| titles(case) == titles(first) && case.measure == first.measure;
    let cases: Vec<&Case> = experiment.cases.iter().filter(same).collect();
    let scale = Scale::of(first);
    let rows = cases.iter().map(|case| {
        let cells = case.variants.iter().map(|variant| overview_cell(variant, scale));
        std::iter::once(case.title.clone()).chain(cells).collect()
    });
    let corner = format!("{}, CPU", scale.unit());
    (cases.len() > 1).then(|| Grid {
        titles: std::iter::once(corner).chain(titles(first)).collect(),
        rows: rows.collect(),
    })
}

/// Rate, and how busy both sides' processors were.
fn overview_cell(variant: &Variant, scale: Scale) -> String {
    let Some(measured) = &variant.measured else { return "-".to_owned() };
    let busy = percent(measured.cpu.busy.as_ref());
    format!("{} {busy}%", digits(scale.number(measured.rate.median)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0512, "0.051"),
            (0.5, "0.50"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (8384.2, "8384"),
        ] {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn all_rates_of_a_case_have_one_prefix() {
        let scale = Scale::of_rates(Measure::Bytes, [1e6, 2e9].into_iter());
        assert_eq!((scale.unit().as_str(), scale.number(2e9)), ("Gbit/s", 16.0));
        let scale = Scale::of_rates(Measure::Transactions, [8384.0].into_iter());
        assert_eq!((scale.unit().as_str(), scale.number(8384.0)), ("/s", 8384.0));
    }
}
