//! The memory ordering of the driver, under a model checker that tries every order that the
//! processors' rules allow.

/// What the driver's modules find as their `super::sync`.
mod sync {
    pub use loom::sync::atomic::{AtomicI64, AtomicU32};
}

#[path = "../src/driver/returns.rs"]
#[allow(dead_code, missing_docs, reason = "part of the driver")]
mod returns;

use loom::{cell::UnsafeCell, sync::Arc, thread};
use returns::{Last, Returns};

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
