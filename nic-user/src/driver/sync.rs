//! Where the driver takes its atomics and shared cells from. `tests/memory_order.rs` compiles the
//! modules that use them a second time, over those of a model checker.

pub(super) use std::sync::atomic::{AtomicI64, AtomicU32};

/// A cell that two sides share by rules of their own.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    #[cfg(test)]
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
