//! Where the driver takes its atomics from. `tests/memory_order.rs` compiles the modules that use
//! them a second time, over those of a model checker.

pub(super) use std::sync::atomic::{AtomicI64, AtomicU32};
