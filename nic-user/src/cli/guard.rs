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
pub(super) struct Args {
    /// The deadline, in seconds since the machine was started
    deadline: u64,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    setsid().map_err(|error| Error::io("begin a session", &error.into()))?;
    write!(out, "{AT_POST}")?;
    out.flush()?;
    // Whoever posted it has written down everything, or is killed.
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(|error| Error::io("wait", &error))?;
    let (deadline, journals) = (Deadline(args.deadline), Journals::system());
    while let Some(left) = deadline.left()? {
        if !waits(&journals, deadline)? {
            return Ok(());
        }
        thread::sleep(PAUSE.min(Duration::from_secs(left)));
    }
    // Whoever has the lock gives back what is overdue.
    target::lock(&journals)?;
    Ok(())
}

/// Whether anything waits until then.
fn waits(journals: &Journals, deadline: Deadline) -> Result<bool> {
    let pending = journals.all_pending()?.into_iter();
    Ok(pending.flatten().any(|pending| pending.deadline == deadline))
}
