//! `nicctl man`: manual pages.

use std::{io::Write, path::PathBuf};

use clap_mangen::{Man, generate_to};

use crate::error::Error;

/// Print the manual page, or write one page a command to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl man | man -l -
  nicctl man /usr/local/share/man/man1")]
pub(super) struct Args {
    /// Where to write the pages; it must exist
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.dir {
        None => Man::new(super::command()).render(&mut &mut *out)?,
        Some(dir) => generate_to(super::command(), dir)
            .map_err(|e| Error::io(format_args!("write manual pages to {}", dir.display()), &e))?,
    }
    Ok(())
}
