//! `nicctl stats --from`: what was saved of statistics, here or elsewhere.

use std::{fmt::Display, io::Write, path::Path};

use crate::{
    command_line::CommandLine,
    counters::model::Document,
    error::{Error, Result},
    files,
    report::{json, style::Style, terminal::say},
    statistics::{self, drivers, model::Source, text},
};

/// What errors call the file.
const WHAT: &str = "statistics";

pub(super) fn run(
    file: &Path,
    driver: Option<&str>,
    as_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let sources = read(file, driver)?;
    if let Some(name) = driver.filter(|name| drivers::named(name).is_none()) {
        say(format_args!(
            "driver {name} is not in nicctl's tables: its names are read as those of any driver"
        ));
    }
    if as_json {
        return Ok(json::write_pretty(out, &Document::saved(sources))?);
    }
    for (index, source) in sources.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        text::write(out, Style::for_stdout(), source)?;
    }
    Ok(())
}

/// The lists in a file; at least one.
fn read(file: &Path, driver: Option<&str>) -> Result<Vec<Source>> {
    let bytes = match file == Path::new("-") {
        true => files::read_stdin(WHAT, statistics::LIMIT)?,
        false => files::read(file, WHAT, statistics::LIMIT)?,
    };
    let sources = statistics::read(&bytes, &file.display().to_string(), driver);
    if sources.is_empty() {
        return Err(nothing_in(file));
    }
    Ok(sources)
}

fn nothing_in(file: &Path) -> Error {
    let shown = file.display();
    let shown = if file == Path::new("-") { &"standard input" as &dyn Display } else { &shown };
    let save = CommandLine::networking(&["ethtool", "-S", "IFACE"]);
    Error::usage(format!("{shown} has no statistics: no line in it is \"NAME: NUMBER\""))
        .with_fix(format!("save them: {save} > FILE"))
}
