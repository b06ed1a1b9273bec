//! `nicctl man`: manual pages.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use super::exit;
use crate::{error::Error, files, report::time::rfc3339};

/// Print the manual page, or write one page per command to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl man | man -l -
  nicctl man /usr/local/share/man/man8")]
pub(super) struct Args {
    /// Directory for the pages; created if missing
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// System administration commands.
const SECTION: &str = "8";
/// Date of this release; reproducible builds may override it with `SOURCE_DATE_EPOCH`.
const RELEASED: &str = "2026-12-03";

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.dir {
        None => render(&super::command(), &mut &mut *out)?,
        Some(dir) => write_pages(dir)
            .map_err(|e| Error::io(format_args!("write manual pages to {}", dir.display()), &e))?,
    }
    Ok(())
}

/// Writes one page per command. The directory may be one that others can write to.
fn write_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    write_page(dir, &command)
}

fn write_page(dir: &Path, command: &clap::Command) -> io::Result<()> {
    let mut text = Vec::new();
    render(command, &mut text)?;
    files::write_in_place(&dir.join(page(command).get_filename()), &text)?;
    let mut shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.try_for_each(|command| write_page(dir, command))
}

fn page(command: &clap::Command) -> Man {
    Man::new(command.clone())
        .section(SECTION)
        .date(date())
        .source(concat!("nicctl ", env!("CARGO_PKG_VERSION")))
        .manual("nicctl Manual")
}

fn date() -> String {
    let epoch = env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let day = epoch.map(|seconds| {
        let time = rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        time.split('T').next().unwrap_or_default().to_owned()
    });
    day.unwrap_or_else(|| RELEASED.to_owned())
}

fn render(command: &clap::Command, out: &mut dyn Write) -> io::Result<()> {
    let page = page(command);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        page.render_subcommands_section(out)?;
    }
    rest(command).to_writer(out)
}

/// What help prints after the options.
fn rest(command: &clap::Command) -> Roff {
    let mut roff = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = help.split(exit::HEADING).next().and_then(|help| help.split_once("Examples:"));
    if let Some((before, examples)) = examples {
        for paragraph in before.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
            roff.control("PP", []).text([roman(paragraph)]);
        }
        roff.control("SH", ["EXAMPLES"]).control("EX", []);
        for line in examples.trim_matches('\n').lines() {
            roff.text([roman(line.trim())]);
        }
        roff.control("EE", []);
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit::CODES {
        roff.control("TP", []).text([roman(code.to_string())]).text([roman(meaning)]);
    }
    let other = if command.get_name() == "nicctl" { "nicctl-doctor" } else { "nicctl" };
    roff.control("SH", ["SEE ALSO"]);
    for (name, end) in [(other, ","), ("ethtool", ","), ("ip", "")] {
        let place = format!("({SECTION}){end}");
        roff.control("BR", [name, place.as_str()]);
    }
    roff
}
