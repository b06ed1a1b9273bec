//! Nobody else changes anything.

use crate::{
    control::{Journals, journal},
    error::Result,
    offload,
};

/// Held while interfaces are changed: their programs, and their settings.
#[derive(Debug)]
pub struct Lock {
    /// Of the programs.
    pub(super) programs: offload::Lock,
    _settings: Option<journal::Lock>,
}

/// Waits for both locks, as each does, and clears away what others that were killed had not finished
/// writing.
///
/// # Errors
///
/// Those of [`offload::Lock::take`] and [`Journals::lock`]; what they had not finished cannot be
/// removed.
pub fn lock(journals: &Journals, waiting: &dyn Fn(Option<u32>)) -> Result<Lock> {
    let programs = offload::Lock::take(waiting)?;
    let settings = journals.lock(waiting)?;
    journals.clear_unfinished()?;
    Ok(Lock { programs, _settings: settings })
}
