//! `nicctl guard`: gives back at a deadline what nobody has confirmed. Only nicctl calls it.

use std::{
    io::{self, Write},
    thread,
    time::Duration,
};

use nix::unistd::setsid;

use super::target;
use crate::{
    control::{Deadline, Journals},
    error::{Error, Result},
};

/// What the command is called.
pub(super) const NAME: &str = "guard";

/// What it says as soon as what ends the shell, the terminal or the caller does not end it.
pub(super) const AT_POST: &str = "at post\n";

/// How often to look whether there is anything left to guard.
const PAUSE: Duration = Duration::from_secs(1);

/// Give back at a deadline what is not confirmed
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    setsid().map_err(|error| Error::io("begin a session", &error.into()))?;
    write!(out, "{AT_POST}")?;
    out.flush()?;
    // Whoever posted it has written down everything, or is killed.
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(|error| Error::io("wait", &error))?;
    let journals = Journals::system();
    while let Some(deadline) = next(&journals)? {
        let Some(left) = deadline.left()? else {
            // Whoever has the lock gives back what is overdue.
            target::lock(&journals)?;
            if next(&journals)? == Some(deadline) {
                return Err(Error::failed("not given back: the next command tries again").into());
            }
            continue;
        };
        thread::sleep(PAUSE.min(Duration::from_secs(left)));
    }
    Ok(())
}

/// The next deadline of all that waits.
fn next(journals: &Journals) -> Result<Option<Deadline>> {
    let pending = journals.all_pending()?.into_iter();
    Ok(pending.flatten().map(|pending| pending.deadline).min())
}
