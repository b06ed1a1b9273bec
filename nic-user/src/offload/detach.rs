//! Detaching, and clearing away what a killed process left half done.

use super::{
    clsact, link,
    lock::Lock,
    slot::{self, Slot},
};
use crate::error::{Error, Result};

/// Removes what was attached to the interface of `slot`; false if there was nothing.
pub fn detach(_lock: &Lock, slot: &Slot) -> Result<bool> {
    let half_made = slot.is_half_made()?;
    clear_staged(slot)?;
    let existed = slot.exists()?;
    if existed {
        remove(slot)?;
    }
    slot::remove_directory_if_empty();
    Ok(existed || half_made)
}

/// Removes a slot, in one step for everybody who looks; then clears it. Only under the lock.
pub fn remove(slot: &Slot) -> Result<()> {
    let staged = slot.unstage()?;
    clear(&staged).inspect_err(|_| {
        // It is still there, so it stays to be seen.
        let _ = slot.commit(&staged);
    })
}

/// Clears away what processes that were killed left half made or half removed, of every interface.
/// Why it could not be is returned for all but this slot's. Only under the lock.
///
/// # Errors
///
/// What is left of this slot could not be cleared away.
pub fn clear_staged(slot: &Slot) -> Result<Vec<Error>> {
    let mut others = Vec::new();
    for staged in slot::staged()? {
        match clear(&staged) {
            Err(error) if staged.is_stage_of(slot) => return Err(error),
            cleared => others.extend(cleared.err()),
        }
    }
    Ok(others)
}

/// Detaches every link of a staged slot, undoes what is not a link, and removes the directory.
pub fn clear(staged: &Slot) -> Result<()> {
    link::check_all(staged)?;
    for name in slot::LINKS {
        staged.detach_link(name)?;
    }
    clsact::remove(staged)?;
    staged.remove_directory()
}
