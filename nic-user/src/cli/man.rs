//! `nicctl man`: manual pages.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap_mangen::Man;

use crate::{error::Error, files};

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
        Some(dir) => write_pages(dir)
            .map_err(|e| Error::io(format_args!("write manual pages to {}", dir.display()), &e))?,
    }
    Ok(())
}

/// One page a command. Where root writes them, others may be able to write, too.
fn write_pages(dir: &Path) -> io::Result<()> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    write_page(dir, &command)
}

fn write_page(dir: &Path, command: &clap::Command) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    files::write_in_place(&dir.join(page.get_filename()), &text)?;
    let mut shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.try_for_each(|command| write_page(dir, command))
}
