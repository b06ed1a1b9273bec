//! `nicctl guard`: gives back at a deadline what nobody has confirmed. Only nicctl calls it.

use std::{
    io::{self, Write},
    thread,
    time::Duration,
};

use nix::unistd::setsid;

use super::target;
use crate::{
    control::{Deadline, Journals, Pending},
    error::{Error, Result},
};

/// What the command is called.
pub(super) const NAME: &str = "guard";

/// What it says as soon as what ends the shell, the terminal or the caller does not end it.
pub(super) const AT_POST: &str = "at post\n";

/// How often to look whether there is anything left to guard.
const PAUSE: Duration = Duration::from_secs(1);

/// How often what failed is tried again, before it is left to the next command: something cannot be
/// read for a moment, or another nicctl is at work for long.
const TRIES: u32 = 60;

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
    let mut failed = 0;
    loop {
        match look(&journals) {
            Ok(Some(pause)) => thread::sleep(pause),
            Ok(None) => return Ok(()),
            Err(error) if failed == TRIES => return Err(error.into()),
            Err(_) => {
                failed += 1;
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Gives back what is overdue; how long to wait until the next look, if there is anything to guard.
fn look(journals: &Journals) -> Result<Option<Duration>> {
    let Some(deadline) = next(journals)? else { return Ok(None) };
    if let Some(left) = deadline.left()? {
        return Ok(Some(PAUSE.min(Duration::from_secs(left))));
    }
    // Whoever has the lock gives back what is overdue.
    target::lock(journals)?;
    match next(journals)? == Some(deadline) {
        true => Err(Error::failed("not given back: the next command tries again")),
        false => Ok(Some(Duration::ZERO)),
    }
}

/// The next deadline of all that waits; what cannot be read may have the next where there is none.
fn next(journals: &Journals) -> Result<Option<Deadline>> {
    let (mut next, mut unread) = (None, None);
    for pending in journals.all_pending()? {
        match pending {
            Ok(Pending { deadline, .. }) => {
                next = Some(next.map_or(deadline, |next: Deadline| next.min(deadline)));
            }
            Err(error) => unread = Some(error),
        }
    }
    match (next, unread) {
        (None, Some(error)) => Err(error),
        (next, _) => Ok(next),
    }
}
