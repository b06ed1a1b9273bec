//! The memory ordering of the driver, under a model checker that tries every order that the
//! processors' rules allow.

/// What the driver's modules find as their `super::sync`.
mod sync {
    pub use loom::{
        cell::UnsafeCell,
        sync::atomic::{AtomicI64, AtomicU32},
    };
}

#[path = "../src/driver/returns.rs"]
#[allow(dead_code, missing_docs, reason = "part of the driver")]
mod returns;

#[path = "../src/driver/ring.rs"]
#[allow(dead_code, missing_docs, reason = "part of the driver")]
mod ring;

use std::ptr::NonNull;

use loom::{cell::UnsafeCell, sync::Arc, thread};
use returns::{Last, Returns};
use ring::{Consumer, Parts, Producer};
use sync::AtomicU32;

/// Chunks whose every use the checker watches.
type Chunks = Arc<[UnsafeCell<u32>; 2]>;

fn chunks() -> Chunks {
    Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)])
}

fn use_chunk(chunks: &Chunks, index: u32) {
    // SAFETY: whoever has the chunk calls this; the checker complains if that is not true.
    chunks[index as usize].with_mut(|chunk| unsafe { *chunk += 1 });
}

#[test]
fn a_chunk_that_came_home_is_nobody_elses() {
    loom::model(|| {
        let (returns, chunks) = (Arc::new(Returns::new(2)), chunks());
        let users = [0, 1].map(|index| {
            let (returns, chunks) = (Arc::clone(&returns), Arc::clone(&chunks));
            thread::spawn(move || {
                use_chunk(&chunks, index);
                assert_eq!(returns.put(index), Last::No);
            })
        });
        let mut home = 0;
        let mut collect = || {
            returns.take_all(|index| {
                use_chunk(&chunks, index);
                home += 1;
            });
        };
        collect();
        for user in users {
            user.join().unwrap();
        }
        collect();
        assert_eq!(home, 2);
    });
}

/// A chunk goes round while another comes home: what would be the ABA problem.
#[test]
fn a_chunk_goes_round() {
    loom::model(|| {
        let returns = Arc::new(Returns::new(2));
        let users = [0, 1].map(|index| {
            let returns = Arc::clone(&returns);
            thread::spawn(move || assert_eq!(returns.put(index), Last::No))
        });
        let mut home = Vec::new();
        returns.take_all(|index| home.push(index));
        let again = home.pop();
        if let Some(index) = again {
            assert_eq!(returns.put(index), Last::No);
        }
        for user in users {
            user.join().unwrap();
        }
        returns.take_all(|index| home.push(index));
        home.sort_unstable();
        assert_eq!(home, [0, 1]);
    });
}

#[test]
fn exactly_one_is_the_last() {
    loom::model(|| {
        let (returns, chunks) = (Arc::new(Returns::new(2)), chunks());
        let users = [0, 1].map(|index| {
            let (returns, chunks) = (Arc::clone(&returns), Arc::clone(&chunks));
            thread::spawn(move || {
                use_chunk(&chunks, index);
                let last = returns.put(index) == Last::Yes;
                if last {
                    use_all(&chunks);
                }
                u32::from(last)
            })
        });
        let mut home = 0;
        let count = std::cell::Cell::new(0);
        let last = returns.close(|_| count.set(count.get() + 1), || 2 - count.get());
        if last == Last::Yes {
            use_all(&chunks);
            home += 1;
        }
        let lasts: u32 = users.into_iter().map(|user| user.join().unwrap()).sum();
        assert_eq!(lasts + home, 1);
    });
}

/// Whoever is last may do with all chunks what it wants.
fn use_all(chunks: &Chunks) {
    use_chunk(chunks, 0);
    use_chunk(chunks, 1);
}

/// A ring of two slots.
struct Ring {
    producer: AtomicU32,
    consumer: AtomicU32,
    slots: [UnsafeCell<u32>; 2],
}

// SAFETY: a test gives each end to one thread; the checker complains if they meet in a slot.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Arc<Self> {
        // Close to where positions wrap.
        let position = || AtomicU32::new(u32::MAX);
        let slots = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Self { producer: position(), consumer: position(), slots })
    }

    fn parts(&self) -> Parts<u32> {
        Parts {
            producer: NonNull::from(&self.producer),
            consumer: NonNull::from(&self.consumer),
            slots: NonNull::from(&self.slots).cast(),
            size: 2,
        }
    }
}

/// What the kernel does at the other end is what the driver does at the ends it has.
#[test]
fn everything_arrives_once_and_in_order() {
    loom::model(|| {
        let ring = Ring::new();
        let other_end = Arc::clone(&ring);
        let kernel = thread::spawn(move || {
            // SAFETY: the only producer of a ring that this thread keeps.
            let mut producer = unsafe { Producer::new(other_end.parts()) };
            let mut value = 0;
            while value < 3 {
                let mut reserved = producer.reserve(2);
                while reserved.left() > 0 && value < 3 {
                    reserved.push(value);
                    value += 1;
                }
                drop(reserved);
                thread::yield_now();
            }
        });
        // SAFETY: the only consumer of a ring that this thread keeps.
        let mut consumer = unsafe { Consumer::new(ring.parts()) };
        let mut arrived = Vec::new();
        while arrived.len() < 3 {
            arrived.extend(consumer.peek(2));
            thread::yield_now();
        }
        assert_eq!(arrived, [0, 1, 2]);
        kernel.join().unwrap();
    });
}
