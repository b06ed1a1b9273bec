//! Programming a NIC as a transaction: profile → plan → apply → verify → undo.
//!
//! All effects go through a [`Device`], of which [`KernelDevice`] is the real one, and through the
//! [`Journals`] on disk. A change is known before it is made ([`plan()`]), written down before it is made
//! ([`journal`]), looked at after it was made ([`apply()`]), and can be given back at any time
//! ([`undo()`]), also by another process after this one was killed.

pub mod apply;
pub mod device;
#[cfg(test)]
pub(crate) mod fake;
pub mod give_back;
pub mod journal;
pub mod kept;
pub mod kernel_device;
pub mod model;
pub mod names;
pub mod pending;
pub mod plan;
pub mod profile;
mod profile_file;
pub mod profile_text;
pub mod rules;
pub mod text;
pub mod undo;
pub mod wanted;

pub use apply::{Report, apply, apply_then};
pub use device::{Device, Identity};
pub use journal::Journals;
pub use kept::{Owner, Whose};
pub use kernel_device::KernelDevice;
pub use pending::{Bpffs, Deadline, Pending, Programs};
pub use plan::{Context, Plan, plan};
pub use profile::Profile;
pub use undo::{Restored, Undo, undo};
pub use wanted::{Desired, Origin, Request, Wanted};
