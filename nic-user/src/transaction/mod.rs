//! Programs and settings of an interface as one: both, or neither.
//!
//! The settings go first, because programs need them, and are given back last, because the kernel
//! refuses what a program that is still attached does not run with.

mod attach;
mod detach;
mod lock;
mod present;
pub mod subject;

pub use attach::{Done, Planned, attach, plan};
pub use detach::{Detached, SettingsLeft, Wanted, detach, preview, settings};
pub use lock::lock;
pub use present::Present;
pub use subject::{Scope, Subject};
