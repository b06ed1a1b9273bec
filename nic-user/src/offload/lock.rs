//! One nicctl at a time changes things.

use std::{
    fs::{self, File, TryLockError},
    io::ErrorKind,
    os::linux::fs::MetadataExt,
    thread,
    time::{Duration, Instant},
};

use super::bpffs;
use crate::{
    error::{Error, Result},
    trusted,
};

/// How long to wait for another nicctl.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait without a word: attaching and detaching take less.
const SILENCE: Duration = Duration::from_millis(500);
/// How often to look again. `flock` has no time limit of its own.
const PAUSE: Duration = Duration::from_millis(20);

/// Held while attachments are changed; the kernel lets go of it when the process ends.
///
/// It lies on the root of bpffs itself, so it is the same for every network and mount namespace,
/// and nothing is left of it.
#[derive(Debug)]
pub struct Lock {
    /// Closing it lets go, which cannot fail.
    _file: File,
}

impl Lock {
    /// Waits for the lock, up to ten seconds; `waiting` is told once, with the holder's process id
    /// if that is known, when it takes longer than a moment.
    ///
    /// # Errors
    ///
    /// Another nicctl held it all that time, or bpffs cannot be had.
    pub fn take(waiting: impl FnOnce(Option<u32>)) -> Result<Self> {
        let root = bpffs::root()?;
        let gone = || Error::failed(format!("lock {}: it is gone", root.display()));
        let file = trusted::open_folder(&root)?.ok_or_else(gone)?;
        let inode = file.metadata().map(|metadata| metadata.st_ino()).unwrap_or_default();
        let start = Instant::now();
        let mut waiting = Some(waiting);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => {
                    return Err(Error::io(format!("lock {}", root.display()), &error));
                }
            }
            if start.elapsed() > SILENCE
                && let Some(waiting) = waiting.take()
            {
                waiting(holder(inode));
            }
            if start.elapsed() > PATIENCE {
                return Err(busy(holder(inode)));
            }
            thread::sleep(PAUSE);
        }
    }
}

fn busy(holder: Option<u32>) -> Error {
    let seconds = PATIENCE.as_secs();
    match holder {
        Some(pid) => Error::failed(format!(
            "another nicctl (process {pid}) has been at work for {seconds} seconds"
        ))
        .with_fix(format!("wait for it, or look at what process {pid} is doing")),
        None => Error::failed(format!("another nicctl has been at work for {seconds} seconds"))
            .with_fix("wait for it, and try again"),
    }
}

fn holder(inode: u64) -> Option<u32> {
    holders(inode).into_iter().next()
}

/// The processes that hold locks on this inode, by `/proc/locks`: 0 for one of another namespace of
/// processes.
pub(super) fn holders(inode: u64) -> Vec<u32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = |line: &str| {
        // 1: FLOCK  ADVISORY  WRITE 1234 00:1d:1 0 EOF
        let mut fields = line.split_whitespace().skip(1);
        if fields.next()? != "FLOCK" {
            return None;
        }
        let pid = fields.nth(2)?.parse().ok()?;
        let locked = fields.next()?.rsplit(':').next()?.parse::<u64>().ok()?;
        (locked == inode).then_some(pid)
    };
    locks.lines().filter_map(holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_lock_names_its_holder() {
        assert_eq!(
            busy(Some(7)).to_string(),
            "another nicctl (process 7) has been at work for 10 seconds"
        );
    }
}
