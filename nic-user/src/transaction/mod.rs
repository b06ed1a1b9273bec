//! Programs and settings of an interface as one: both, or neither.
//!
//! The settings go first, because programs need them, and are given back last, because the kernel
//! refuses what a program that is still attached does not run with.

mod attach;
mod detach;
mod present;

pub use attach::{Done, Planned, attach, plan};
pub use detach::{Detached, Presence, SettingsLeft, detach, is_gone, presence, preview};
pub use present::Present;
