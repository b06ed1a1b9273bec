//! Nobody else changes anything.

use crate::{control::Journals, error::Result, offload::Lock};

/// Waits for the lock, as [`Lock::take`] does, and clears away what others that were killed had not
/// finished writing.
///
/// # Errors
///
/// Those of [`Lock::take`]; what they had not finished cannot be removed.
pub fn lock(journals: &Journals, waiting: impl FnOnce(Option<u32>)) -> Result<Lock> {
    let lock = Lock::take(waiting)?;
    journals.clear_unfinished()?;
    Ok(lock)
}
