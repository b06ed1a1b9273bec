//! Userspace of nicctl: programs the NIC, loads the kernel programs around it, and shows what
//! happened.

pub mod counters;
pub mod error;
