//! `nicctl guard`: reverts at the deadline what was not confirmed. Only nicctl calls it.

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

/// What it prints once nothing that ends the shell, the terminal or the caller ends it.
pub(super) const AT_POST: &str = "at post\n";

/// How often to check whether anything is left to guard.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a failure is retried before it is left to the next command: something may be
/// unreadable for a moment, or another nicctl may hold the lock.
const TRIES: u32 = 60;

/// Revert at a deadline what was not confirmed
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

/// Reverts what is overdue; returns the time until the next check, if anything is left to guard.
fn look(journals: &Journals) -> Result<Option<Duration>> {
    let Some(deadline) = next(journals)? else { return Ok(None) };
    if let Some(left) = deadline.left()? {
        return Ok(Some(PAUSE.min(Duration::from_secs(left))));
    }
    // Whoever has the lock gives back what is overdue.
    target::lock(journals)?;
    match next(journals)? == Some(deadline) {
        true => Err(Error::failed("not reverted: the next command tries again")),
        false => Ok(Some(Duration::ZERO)),
    }
}

/// The earliest deadline; an unreadable one may be the earliest if there is no other.
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
