//! What a command printed, as a picture of a terminal (SVG).

use std::fmt::Write;

const CHARACTER: f32 = 7.8;
const LINE: usize = 18;
const MARGIN: usize = 16;

/// `command` behind a prompt, and below it what it printed.
pub fn svg(command: &str, printed: &str) -> String {
    let prompt = format!("$ {command}");
    let lines: Vec<&str> =
        [prompt.as_str()].into_iter().chain(printed.trim_end().lines()).collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let width = (columns as f32 * CHARACTER) as usize + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f24\"/>\n\
         <g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\" \
         fill=\"#d7dde4\" xml:space=\"preserve\">\n",
        escaped(command)
    );
    for (number, line) in (1..).zip(lines) {
        let y = MARGIN + number * LINE - 5;
        let (length, text) = (line.chars().count() as f32 * CHARACTER, escaped(line));
        // A fixed length keeps columns in place whatever font there is.
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" textLength=\"{length:.1}\">{text}</text>"
        );
    }
    svg + "</g>\n</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
