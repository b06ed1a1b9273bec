//! Programs and settings of an interface as one: both, or neither.
//!
//! The settings go first, because programs need them, and are given back last, because the kernel
//! refuses what a program that is still attached does not run with.

mod attach;
mod detach;
mod lock;
mod present;

pub use attach::{Done, Planned, attach, plan};
pub use detach::{
    Detached, Presence, SettingsLeft, Wanted, detach, former, is_gone, is_gone_or_unseen, presence,
    preview, slot_of,
};
pub use lock::lock;
pub use present::Present;
