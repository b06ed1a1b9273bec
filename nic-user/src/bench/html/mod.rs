//! Results as one page that needs nothing else: to read on a phone, on a desk, on paper.

mod plot;

use std::fmt::Write;

use super::{
    model::{Case, Document, Experiment, Published, Variant},
    text::{self, Grid, Scale, digits},
};
use crate::error::Result;

/// The page of a run.
///
/// # Errors
///
/// A plot cannot be drawn.
pub fn page(document: &Document) -> Result<String> {
    let mut body = head(document);
    for experiment in &document.experiments {
        body.push_str(&section(experiment)?);
    }
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>nicctl bench</title>\n<style>\n{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        include_str!("style.css")
    ))
}

/// Text that stands for itself in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Adds a line. Writing to a string does not fail.
macro_rules! line {
    ($to:expr, $($format:tt)*) => {{
        let _ = writeln!($to, $($format)*);
    }};
}

fn head(document: &Document) -> String {
    let mut html = String::from("<h1>nicctl bench</h1>\n");
    for warning in &document.warnings {
        line!(html, "<p class=\"warning\">{}</p>", escaped(warning));
    }
    let Document { nicctl, started, seconds, rounds, round_seconds, machine, .. } = document;
    let rows = [
        ("when", format!("{started}, {seconds:.0} s, nicctl {nicctl}")),
        ("machine", text::machine_text(document)),
        ("kernel", machine.kernel.clone()),
        ("clock", machine.governor.clone().unwrap_or_else(|| "no governor".to_owned())),
        (
            "rounds",
            format!(
                "{rounds} of {round_seconds} s per variant, interleaved; medians with the lowest \
                 and highest round, ratios with their 95 % confidence interval (bootstrap over \
                 the rounds)"
            ),
        ),
        (
            "plots",
            "bars are medians, black lines span the lowest to the highest round, red lines mark \
             the published ratio"
                .to_owned(),
        ),
        ("not comparable", machine.caveats().join("; ")),
    ];
    line!(html, "<dl>");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        line!(html, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
    }
    line!(html, "</dl>\n<nav>");
    for Experiment { name, .. } in &document.experiments {
        line!(html, "<a href=\"#{0}\">{0}</a>", escaped(name));
    }
    line!(html, "</nav>");
    html
}

fn section(experiment: &Experiment) -> Result<String> {
    let Experiment { name, title, source, place, notes, cases } = experiment;
    let [name, title, source, place] = [name, title, source, place].map(|text| escaped(text));
    let mut html = format!("<h2 id=\"{name}\">{title}</h2>\n");
    line!(html, "<p class=\"aside\"><code>nicctl bench {name}</code>. {place}.</p>");
    line!(html, "<p class=\"aside\">Published figures: {source}.</p>");
    if let Some(Grid { titles, rows }) = text::overview(experiment) {
        html.push_str(&table(&titles, &rows));
    }
    for case in cases {
        html.push_str(&case_section(case)?);
    }
    line!(html, "<h3>Notes</h3>\n<ul>");
    for note in notes {
        line!(html, "<li>{}</li>", escaped(note));
    }
    line!(html, "</ul>");
    Ok(html)
}

fn case_section(case: &Case) -> Result<String> {
    let scale = Scale::of(case);
    let mut html = format!("<div class=\"case\">\n<h3>{}</h3>\n", escaped(&case.title));
    html.push_str(&plot::rates(case, scale)?);
    let (titles, rows) = results(case, scale);
    html.push_str(&table(&titles, &rows));
    if let Some(Grid { titles, rows }) = text::figures(case) {
        html.push_str(&table(&titles, &rows));
    }
    if let Some(conclusion) = &case.conclusion {
        line!(html, "<p><strong>{}</strong></p>", escaped(conclusion));
    }
    for variant in &case.variants {
        if let Some(reason) = &variant.unavailable {
            line!(html, "<p>Without {}: {}.</p>", escaped(&variant.title), escaped(reason));
        }
    }
    line!(html, "</div>");
    Ok(html)
}

/// One of the ratios that were published.
type PublishedRatio = fn(&Published) -> Option<f64>;

/// Titles and rows of the table of a case; columns of what was published, if anything was.
fn results(case: &Case, scale: Scale) -> (Vec<String>, Vec<Vec<String>>) {
    let published = |of: PublishedRatio| {
        let any = case.variants.iter().any(|variant| of(&variant.published).is_some());
        any.then_some(of)
    };
    let published = [published(|ratios| ratios.rate), published(|ratios| ratios.cost)];
    let rate = format!("{} (lowest–highest)", scale.unit());
    let amounts = [rate.as_str(), case.measure.cost_unit()];
    let mut titles = vec![String::new()];
    for (amount, published) in amounts.into_iter().zip(published) {
        titles.extend([amount.to_owned(), "ratio".to_owned()]);
        titles.extend(published.map(|_| "published".to_owned()));
    }
    titles.push("CPU: sender, receiver, softirq".to_owned());
    let row = |(index, variant): (usize, &Variant)| row(variant, index == 0, scale, published);
    (titles, case.variants.iter().enumerate().map(row).collect())
}

fn row(
    variant: &Variant,
    is_base: bool,
    scale: Scale,
    published: [Option<PublishedRatio>; 2],
) -> Vec<String> {
    let mut cells = vec![variant.title.clone()];
    let Some(measured) = &variant.measured else { return cells };
    let cost = measured.cost.as_ref().map(|cost| digits(cost.median)).unwrap_or_default();
    let amounts =
        [(scale.spread(&measured.rate), measured.rate_ratio), (cost, measured.cost_ratio)];
    for ((amount, ratio), published) in amounts.into_iter().zip(published) {
        cells.extend([amount, text::ratio_or_base(ratio, is_base)]);
        let ratio = published.map(|published| published(&variant.published));
        cells.extend(ratio.map(|ratio| ratio.map(digits).unwrap_or_default()));
    }
    let cpu = &measured.cpu;
    let shares = [&cpu.sender, &cpu.receiver, &cpu.softirq];
    cells.push(shares.map(|share| text::percent(share.as_ref()) + "%").join(", "));
    cells
}

fn table(titles: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"wide\"><table>\n<tr>");
    for title in titles {
        let _ = write!(html, "<th>{}</th>", escaped(title.as_ref()));
    }
    line!(html, "</tr>");
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        line!(html, "<tr>{cells}</tr>");
    }
    line!(html, "</table></div>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself() {
        assert_eq!(escaped("<b> & \"c\""), "&lt;b&gt; &amp; &quot;c&quot;");
    }
}
