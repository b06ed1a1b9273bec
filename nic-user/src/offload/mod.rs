//! Kernel programs: load, attach, pin, upgrade, detach, read. The only place that knows aya.
//!
//! What is attached to an interface lives in one directory of bpffs, its [`Slot`]: links, programs,
//! counters and the record of the attachment. There is no other state; whoever is killed at any
//! moment leaves either a whole slot or a staging directory that the next command clears away.

mod attach;
mod attachment;
mod bpffs;
mod btf;
mod clsact;
mod detach;
mod foreign;
mod forward;
mod layout;
mod link;
mod lock;
mod log;
mod map;
mod object;
mod pinned;
mod privilege;
mod programs;
mod rings;
mod slot;
mod support;
mod sys;
mod tc_counters;
mod test_run;
mod to_stack;

pub use attach::{
    Attached, Choice, Effect, Hooks, ModeWanted, Options, Switches, attach, attachment_of, choose,
    plan,
};
pub use attachment::{Attachment, set_policy};
pub use bpffs::{
    choose as choose_bpffs, existing_root, identity as bpffs_identity,
    mount_here_command as mount_bpffs_command, path as bpffs_path,
};
pub(crate) use btf::Btf;
pub use detach::detach;
pub use forward::ForwardPrograms;
pub use lock::Lock;
pub use log::follow;
pub use object::Build;
pub use privilege::{
    NEEDS, Needs, WHERE_HIDDEN, check as check_privileges, check_settings, hint as privilege_hint,
    refuse_those_of_a_file,
};
pub use programs::Programs;
pub use rings::{Rings, refuse_if_used};
pub use slot::{Slot, staged as half_made};
pub use support::{has_tcx, trial};
pub use tc_counters::TcCounters;
pub use test_run::BpfWalker;
pub use to_stack::ToStack;
