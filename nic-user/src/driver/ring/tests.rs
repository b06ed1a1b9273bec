use std::{collections::VecDeque, ptr::NonNull, sync::atomic::Ordering::Relaxed};

use proptest::prelude::*;

use super::{
    ring::{Consumer, Parts, Producer},
    sync::{AtomicU32, UnsafeCell},
};

/// A ring of our own memory.
struct Memory {
    producer: AtomicU32,
    consumer: AtomicU32,
    slots: [UnsafeCell<u64>; SIZE as usize],
}

const SIZE: u32 = 8;

impl Memory {
    /// A ring whose positions are both `start`.
    fn new(start: u32) -> Box<Self> {
        let slots = std::array::from_fn(|_| UnsafeCell::new(0));
        let position = || AtomicU32::new(start);
        Box::new(Self { producer: position(), consumer: position(), slots })
    }

    fn parts(&self) -> Parts<u64> {
        Parts {
            producer: NonNull::from(&self.producer),
            consumer: NonNull::from(&self.consumer),
            slots: NonNull::from(&self.slots).cast(),
            size: SIZE,
        }
    }

    fn ends(&self) -> (Producer<u64>, Consumer<u64>) {
        // SAFETY: every test makes one pair, and drops it before the memory.
        unsafe { (Producer::new(self.parts()), Consumer::new(self.parts())) }
    }
}

#[test]
fn nothing_shows_before_the_guard_goes() {
    let memory = Memory::new(0);
    let (mut producer, mut consumer) = memory.ends();
    let mut reserved = producer.reserve(2);
    reserved.push(1);
    assert_eq!(consumer.peek(8).len(), 0);
    drop(reserved);
    assert_eq!(consumer.peek(8).len(), 1);
}

#[test]
fn what_was_not_taken_is_still_there() {
    let memory = Memory::new(0);
    let (mut producer, mut consumer) = memory.ends();
    (0..3).for_each(|value| producer.reserve(1).push(value));
    assert_eq!(consumer.peek(8).next(), Some(0));
    assert_eq!(consumer.peek(8).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_full_ring_takes_nothing() {
    let memory = Memory::new(0);
    let (mut producer, mut consumer) = memory.ends();
    let mut reserved = producer.reserve(100);
    assert_eq!(reserved.left(), SIZE);
    (0..100).for_each(|value| reserved.push(value));
    drop(reserved);
    assert_eq!(producer.reserve(1).left(), 0);
    assert_eq!(producer.pending(), SIZE);
    assert_eq!(consumer.peek(100).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(producer.reserve(100).left(), SIZE);
    assert_eq!(producer.pending(), 0);
}

#[test]
fn positions_that_cannot_be_are_no_reason_to_read_beyond_the_ring() {
    let memory = Memory::new(0);
    let (mut producer, mut consumer) = memory.ends();
    memory.producer.store(1000, Relaxed);
    assert_eq!(consumer.peek(u32::MAX).len(), SIZE as usize);
    memory.consumer.store(1000, Relaxed);
    assert!(producer.reserve(u32::MAX).left() <= SIZE);
}

proptest! {
    /// Against a queue of the standard library, from positions that soon wrap.
    #[test]
    fn it_is_a_queue(start in (u32::MAX - 20)..=u32::MAX, steps: Vec<(bool, u32, u32)>) {
        let memory = Memory::new(start);
        let (mut producer, mut consumer) = memory.ends();
        let mut queue = VecDeque::new();
        for (value, (produce, wanted, used)) in (0..).zip(steps) {
            let (wanted, used) = (wanted % (SIZE + 3), used % (SIZE + 3));
            if produce {
                let mut reserved = producer.reserve(wanted);
                prop_assert_eq!(reserved.left(), wanted.min(SIZE - queue.len() as u32));
                for _ in 0..used.min(reserved.left()) {
                    reserved.push(value);
                    queue.push_back(value);
                }
            } else {
                let available = consumer.peek(wanted);
                prop_assert_eq!(available.len(), (wanted as usize).min(queue.len()));
                for value in available.take(used as usize) {
                    prop_assert_eq!(queue.pop_front(), Some(value));
                }
            }
            prop_assert_eq!(producer.pending() as usize, queue.len());
        }
    }
}
