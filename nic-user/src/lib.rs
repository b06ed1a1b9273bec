//! Userspace of nicctl: programs the NIC, loads the kernel programs around it, and shows what
//! happened.

pub mod bench;
pub mod cli;
pub mod command_line;
pub mod control;
pub mod counters;
pub mod decode;
pub mod doctor;
pub mod driver;
pub mod error;
pub mod files;
pub mod forward;
pub mod lab;
pub mod locked;
pub mod netlink;
pub mod nic;
pub mod offload;
pub mod report;
pub mod statistics;
pub mod transaction;
pub mod trusted;
