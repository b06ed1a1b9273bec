//! Folders that one process has at a time.

use std::{
    fs::{self, File, TryLockError},
    io::ErrorKind,
    os::linux::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::error::{Error, Result};

/// How long to wait for another nicctl.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait without a word: attaching and detaching take less.
const SILENCE: Duration = Duration::from_millis(500);
/// How often to look again. `flock` has no time limit of its own.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until nobody else has an opened folder, up to ten seconds; `waiting` is told once, with the
/// holder's process id if that is known, when it takes longer than a moment. Closing the folder lets
/// go of it, which cannot fail; the kernel does so when the process ends.
///
/// # Errors
///
/// Another process had it all that time, or the kernel refuses.
pub fn lock(path: &Path, folder: &File, waiting: impl FnOnce(Option<u32>)) -> Result<()> {
    let action = || format!("lock {}", path.display());
    let metadata = folder.metadata().map_err(|error| Error::io(action(), &error))?;
    let inode = metadata.st_ino();
    let start = Instant::now();
    let mut waiting = Some(waiting);
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(Error::io(action(), &error)),
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

fn busy(holder: Option<u32>) -> Error {
    let seconds = PATIENCE.as_secs();
    match holder {
        Some(pid) => Error::failed(format!(
            "another nicctl (process {pid}) has held the lock for {seconds} seconds"
        ))
        .with_fix(format!("wait for it, or check what process {pid} is doing")),
        None => Error::failed(format!("another nicctl has held the lock for {seconds} seconds"))
            .with_fix("wait for it, and try again"),
    }
}

fn holder(inode: u64) -> Option<u32> {
    holders(inode).into_iter().next()
}

/// The processes that hold locks on this inode, by `/proc/locks`: 0 for one of another namespace of
/// processes.
pub fn holders(inode: u64) -> Vec<u32> {
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
            "another nicctl (process 7) has held the lock for 10 seconds"
        );
    }
}
