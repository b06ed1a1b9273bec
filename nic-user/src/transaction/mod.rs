//! Programs and settings of an interface as one: both, or neither.
//!
//! The settings go first, because programs need them, and are given back last, because the kernel
//! refuses what a program that is still attached does not run with.

mod apply;
mod attach;
mod confirm;
mod detach;
mod lock;
mod present;
pub mod subject;
mod together;

pub use apply::apply;
pub use attach::{Done, Planned, attach, plan};
pub use confirm::{TakenBack, take_back_of, take_back_overdue};
pub use detach::{Detached, SettingsLeft, Wanted, detach, preview, settings};
pub use lock::{Lock, lock};
pub use present::Present;
pub use subject::{Scope, Subject};
pub use together::Manner;
