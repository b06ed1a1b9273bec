use std::{sync::mpsc, thread};

use proptest::prelude::*;

use super::*;

fn pool(chunks: usize, chunk_size: usize) -> Pool {
    let memory = Region::whole(Memory::new(chunks * chunk_size).unwrap());
    Pool::new(memory.split_at(chunks * chunk_size).0, chunk_size).unwrap()
}

#[track_caller]
fn assert_account(pool: &Pool, free: u32, lent: u32, held: u32) {
    let account = pool.account();
    assert_eq!((account.free, account.lent, account.held), (free, lent, held));
    assert!(account.is_whole(), "{account:?}");
}

#[test]
fn chunk_sizes_are_powers_of_two() {
    for size in [0, 3, 3000] {
        let region = Region::whole(Memory::new(4096).unwrap());
        let error = Pool::new(region, size).unwrap_err();
        assert!(error.to_string().contains("power of two"), "{error}");
    }
}

#[test]
fn a_dropped_frame_is_taken_next() {
    let pool = pool(4, 2048);
    let mut frame = pool.take().unwrap();
    frame.fill(7);
    drop(frame);
    assert_eq!(pool.take().unwrap()[2047], 7);
    assert_account(&pool, 4, 0, 0);
}

#[test]
fn frames_do_not_overlap() {
    let pool = pool(8, 256);
    let mut frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for (value, frame) in (1..).zip(&mut frames) {
        frame.fill(value);
    }
    for (value, frame) in (1..).zip(&frames) {
        assert!(frame.len() == 256 && frame.iter().all(|byte| *byte == value));
    }
}

#[test]
fn an_empty_pool_gives_nothing_and_counts_it() {
    let pool = pool(2, 256);
    let frames = [pool.take(), pool.take()];
    assert!(frames.iter().all(Option::is_some) && pool.take().is_none());
    let account = pool.account();
    assert_eq!((account.hits, account.misses, account.exhausted), (2, 1, 1));
    assert_eq!((account.held, account.low_water), (2, 0));
}

#[test]
fn frames_come_home_from_other_threads() {
    let pool = pool(64, 256);
    for _ in 0..100 {
        let frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(frames.len(), 64);
        thread::spawn(move || drop(frames)).join().unwrap();
    }
    assert_account(&pool, 64, 0, 0);
    assert_eq!(pool.account().exhausted, 100);
}

#[test]
fn another_pool_of_the_other_thread_changes_nothing() {
    let here = pool(4, 256);
    let frame = here.take().unwrap();
    thread::spawn(move || {
        let there = pool(4, 256);
        drop(frame);
        assert_account(&there, 4, 0, 0);
    })
    .join()
    .unwrap();
    assert_account(&here, 4, 0, 0);
}

#[test]
fn frames_outlive_their_pool() {
    let first = pool(4, 256);
    let (mut kept, sent) = (first.take().unwrap(), first.take().unwrap());
    drop(first);
    kept.fill(3);
    thread::spawn(move || drop(sent)).join().unwrap();
    assert_eq!(kept[255], 3);
}

#[test]
fn a_stream_of_frames_to_another_thread_never_runs_dry() {
    let pool = pool(16, 256);
    let (sender, receiver) = mpsc::sync_channel::<Frame>(4);
    let user = thread::spawn(move || receiver.iter().map(|frame| u64::from(frame[0])).sum::<u64>());
    let mut sent = 0;
    while sent < 10_000 {
        if let Some(mut frame) = pool.take() {
            frame[0] = 1;
            sender.send(frame).unwrap();
            sent += 1;
        }
    }
    drop(sender);
    assert_eq!(user.join().unwrap(), sent);
    assert_account(&pool, 16, 0, 0);
}

#[test]
fn what_is_lent_comes_back_to_whom_it_was_lent() {
    let pool = pool(4, 2048);
    let (ours, other) = (pool.borrower().unwrap(), pool.borrower().unwrap());
    let place = pool.lend_free(ours).unwrap();
    assert_account(&pool, 3, 1, 0);
    // SAFETY: nobody uses any of the chunks.
    unsafe {
        assert!(pool.reclaim(place, other).is_none());
        assert!(pool.reclaim(place + 2048, ours).is_none());
        assert!(pool.reclaim(u64::MAX, ours).is_none());
        let (frame, offset) = pool.reclaim(place + 100, ours).unwrap();
        assert_eq!(offset, 100);
        assert!(pool.reclaim(place, ours).is_none());
        assert_account(&pool, 3, 0, 1);
        assert_eq!(pool.lend(frame, ours).unwrap(), place);
        pool.reclaim_all(other);
        assert_account(&pool, 3, 1, 0);
        pool.reclaim_all(ours);
    }
    assert_account(&pool, 4, 0, 0);
}

#[test]
fn frames_of_another_pool_are_not_lent() {
    let (first, second) = (pool(4, 256), pool(4, 256));
    let frame = first.take().unwrap();
    assert!(second.lend(frame, second.borrower().unwrap()).is_err());
    assert_account(&first, 4, 0, 0);
    assert_account(&second, 4, 0, 0);
}

#[test]
fn places_count_from_the_start_of_the_memory() {
    let (first, rest) = Region::whole(Memory::new(8192).unwrap()).split_at(4096);
    let (frames, copies) = (Pool::new(first, 2048).unwrap(), Pool::new(rest, 256).unwrap());
    let (borrower, other) = (frames.borrower().unwrap(), copies.borrower().unwrap());
    assert_eq!(frames.lend_free(borrower), Some(0));
    assert_eq!(copies.lend_free(other), Some(4096));
    // SAFETY: nobody uses the chunk.
    unsafe {
        assert!(copies.reclaim(0, other).is_none());
        assert!(copies.reclaim(4096 + 255, other).is_some());
    }
}

proptest! {
    /// Whatever is done in whatever order, every chunk is somewhere.
    #[test]
    fn no_chunk_is_ever_lost(steps in prop::collection::vec((0_u8..7, any::<prop::sample::Index>()), 0..200)) {
        let pool = pool(8, 256);
        let borrower = pool.borrower().unwrap();
        let (mut frames, mut places) = (Vec::new(), Vec::new());
        for (step, which) in steps {
            match step {
                0 | 1 => frames.extend(pool.take()),
                2 if !frames.is_empty() => drop(frames.swap_remove(which.index(frames.len()))),
                3 if !frames.is_empty() => {
                    let frame = frames.swap_remove(which.index(frames.len()));
                    thread::scope(|scope| scope.spawn(|| drop(frame)).join()).unwrap();
                }
                4 => places.extend(pool.lend_free(borrower)),
                5 if !frames.is_empty() => {
                    let frame = frames.swap_remove(which.index(frames.len()));
                    places.push(pool.lend(frame, borrower).unwrap());
                }
                6 if !places.is_empty() => {
                    let place = places.swap_remove(which.index(places.len()));
                    // SAFETY: nobody uses the chunk.
                    frames.push(unsafe { pool.reclaim(place, borrower) }.unwrap().0);
                }
                _ => {}
            }
            let account = pool.account();
            prop_assert!(account.is_whole());
            prop_assert_eq!(account.held as usize, frames.len());
            prop_assert_eq!(account.lent as usize, places.len());
        }
    }
}
