//! What the kernel programs and userspace share: the header walk, the copy decision, and the
//! layout of counters and metadata. No I/O, no allocation; the same code runs in BPF, in
//! userspace and under the fuzzer.
#![no_std]

pub mod counters;
pub mod forward;
pub mod frame;
pub mod headers;
pub mod layout;
pub mod metadata;
pub mod policy;
pub mod record;
pub mod steer;
