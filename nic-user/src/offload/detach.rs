//! Detaching.

use super::{
    lock::Lock,
    slot::{self, Slot},
};
use crate::error::Result;

/// Removes what was attached to the interface of `slot`; false if there was nothing.
pub fn detach(_lock: &Lock, slot: &Slot) -> Result<bool> {
    slot::clear_staging()?;
    let existed = slot.exists()?;
    if existed {
        slot.remove()?;
    }
    slot::remove_directory_if_empty();
    Ok(existed)
}
