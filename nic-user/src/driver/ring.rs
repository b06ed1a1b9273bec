//! Rings between one producer and one consumer, one of which is the kernel (net/xdp/xsk_queue.h).
//!
//! A ring is a power of two of slots and two positions that only grow: where the producer is and
//! where the consumer is. Each side writes its own position and reads the other's.
//!
//! The order of things is kept by two guards. What is pushed to [`Reserved`] was free, and is
//! published when the guard goes. What comes out of [`Available`] was published, and is released
//! when the guard goes. There is no other way to a slot.

use std::{
    ptr::NonNull,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use super::sync::{AtomicU32, UnsafeCell};

/// Where the parts of a ring are.
#[derive(Debug)]
pub(super) struct Parts<T> {
    pub producer: NonNull<AtomicU32>,
    pub consumer: NonNull<AtomicU32>,
    pub slots: NonNull<UnsafeCell<T>>,
    /// Slots, a power of two.
    pub size: u32,
}

impl<T: Copy> Parts<T> {
    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: who made the ring promised that it is valid.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: who made the ring promised that it is valid.
        unsafe { self.consumer.as_ref() }
    }

    /// The slot of a position.
    #[inline]
    fn slot(&self, position: u32) -> &UnsafeCell<T> {
        let index = position & (self.size - 1);
        // SAFETY: `index` is below `size`, so this is one of the slots.
        unsafe { self.slots.add(index as usize).as_ref() }
    }
}

/// The producer's side of a ring.
#[derive(Debug)]
pub(super) struct Producer<T> {
    parts: Parts<T>,
    /// Position of the next slot to write; not published before [`Reserved`] goes.
    next: u32,
    /// The consumer's position when it was last looked at.
    consumer: u32,
}

impl<T: Copy> Producer<T> {
    /// The producer of a ring.
    ///
    /// # Safety
    ///
    /// The parts are valid as long as the producer is, they are a ring's, and it is the only
    /// producer.
    pub unsafe fn new(parts: Parts<T>) -> Self {
        let next = parts.producer().load(Relaxed);
        let consumer = parts.consumer().load(Acquire);
        Self { parts, next, consumer }
    }

    /// Up to `wanted` free slots.
    #[inline]
    pub fn reserve(&mut self, wanted: u32) -> Reserved<'_, T> {
        if self.free() < wanted {
            // Acquire: the consumer has read the slots that it gave back.
            self.consumer = self.parts.consumer().load(Acquire);
        }
        let left = self.free().min(wanted);
        Reserved { published: self.next, ring: self, left }
    }

    /// Slots that were pushed and that the consumer has not taken yet.
    pub fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.parts.consumer().load(Relaxed)).min(self.parts.size)
    }

    #[inline]
    fn free(&self) -> u32 {
        self.parts.size.saturating_sub(self.next.wrapping_sub(self.consumer))
    }
}

/// Slots that are free. Those that were pushed are published when this goes.
#[derive(Debug)]
pub(super) struct Reserved<'r, T: Copy> {
    ring: &'r mut Producer<T>,
    left: u32,
    published: u32,
}

impl<T: Copy> Reserved<'_, T> {
    /// Slots left.
    #[inline]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Writes the next slot; does nothing if there is none.
    #[inline]
    pub fn push(&mut self, value: T) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let ring = &mut *self.ring;
        // SAFETY: the slot is free, so the consumer does not touch it before it is published.
        ring.parts.slot(ring.next).with_mut(|slot| unsafe { *slot = value });
        ring.next = ring.next.wrapping_add(1);
    }
}

impl<T: Copy> Drop for Reserved<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.ring.next != self.published {
            // Release: the slots were written before.
            self.ring.parts.producer().store(self.ring.next, Release);
        }
    }
}

/// The consumer's side of a ring.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    parts: Parts<T>,
    /// Position of the next slot to read.
    next: u32,
    /// The producer's position when it was last looked at.
    producer: u32,
}

impl<T: Copy> Consumer<T> {
    /// The consumer of a ring.
    ///
    /// # Safety
    ///
    /// The parts are valid as long as the consumer is, they are a ring's, and it is the only
    /// consumer.
    pub unsafe fn new(parts: Parts<T>) -> Self {
        let next = parts.consumer().load(Relaxed);
        Self { parts, next, producer: next }
    }

    /// Up to `wanted` slots that have something in them.
    #[inline]
    pub fn peek(&mut self, wanted: u32) -> Available<'_, T> {
        if self.available() < wanted {
            // Acquire: the producer has written the slots that it published.
            self.producer = self.parts.producer().load(Acquire);
        }
        let left = self.available().min(wanted);
        Available { released: self.next, ring: self, left }
    }

    #[inline]
    fn available(&self) -> u32 {
        self.producer.wrapping_sub(self.next).min(self.parts.size)
    }
}

/// Slots that have something in them. Those that were taken are released when this goes.
#[derive(Debug)]
pub(super) struct Available<'r, T: Copy> {
    ring: &'r mut Consumer<T>,
    left: u32,
    released: u32,
}

impl<T: Copy> Iterator for Available<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        let ring = &mut *self.ring;
        // SAFETY: the slot was published, and the producer does not touch it before its release.
        let value = ring.parts.slot(ring.next).with(|slot| unsafe { *slot });
        ring.next = ring.next.wrapping_add(1);
        Some(value)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl<T: Copy> ExactSizeIterator for Available<'_, T> {}

impl<T: Copy> Drop for Available<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.ring.next != self.released {
            // Release: the slots were read before.
            self.ring.parts.consumer().store(self.ring.next, Release);
        }
    }
}
