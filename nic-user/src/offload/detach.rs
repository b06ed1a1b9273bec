//! Detaching, and clearing away what a killed process left half done.

use super::{
    clsact, link,
    lock::Lock,
    slot::{self, Slot},
};
use crate::error::Result;

/// Removes what was attached to the interface of `slot`; false if there was nothing.
pub fn detach(_lock: &Lock, slot: &Slot) -> Result<bool> {
    clear_staged()?;
    let existed = slot.exists()?;
    if existed {
        remove(slot)?;
    }
    slot::remove_directory_if_empty();
    Ok(existed)
}

/// Removes a slot, in one step for everybody who looks; then clears it. Only under the lock.
pub fn remove(slot: &Slot) -> Result<()> {
    let staged = slot.unstage()?;
    clear(&staged).inspect_err(|_| {
        // It is still there, so it stays to be seen.
        let _ = slot.commit(&staged);
    })
}

/// Clears away what processes that were killed left half made or half removed. Only under the lock.
pub fn clear_staged() -> Result<()> {
    slot::staged()?.iter().try_for_each(clear)
}

/// Detaches every link of a staged slot, undoes what is not a link, and removes the directory.
pub fn clear(staged: &Slot) -> Result<()> {
    link::check_all(staged, staged.ifindex)?;
    for name in slot::LINKS {
        staged.detach_link(name)?;
    }
    clsact::remove(staged)?;
    staged.remove_directory()
}
