//! A busy machine: `stress --cpu 8 --io 4 --vm 2 --vm-bytes 128M`, built in.

use std::{
    env,
    fs::{File, OpenOptions},
    hint::black_box,
    io::{Seek, Write},
    os::unix::fs::OpenOptionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::error::{Error, Result};

const CPU_THREADS: usize = 8;
const IO_THREADS: usize = 4;
const MEMORY_THREADS: usize = 2;
/// Memory of each of them, in bytes.
const MEMORY: usize = 128 << 20;
/// What is written and brought to the disk at a time, in bytes.
const BLOCK: usize = 1 << 20;
/// Writes until a file begins anew.
const BLOCKS: usize = 16;
const PAGE: usize = 4096;

/// Threads that keep processors, disk and memory busy until this is dropped.
pub struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts them, if they are `wanted`.
    pub fn start_if(wanted: bool) -> Result<Option<Self>> {
        wanted.then(Self::start).transpose()
    }

    /// Anywhere on the machine.
    fn start() -> Result<Self> {
        let mut load = Self { over: Arc::default(), threads: Vec::new() };
        let files: Vec<File> = (0..IO_THREADS).map(|_| unnamed_file()).collect::<Result<_>>()?;
        for _ in 0..CPU_THREADS {
            load.spawn(compute)?;
        }
        for file in files {
            load.spawn(move |over| write(file, over))?;
        }
        for _ in 0..MEMORY_THREADS {
            load.spawn(touch)?;
        }
        Ok(load)
    }

    fn spawn(&mut self, work: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<()> {
        let over = self.over.clone();
        let thread = thread::Builder::new().spawn(move || work(&over));
        self.threads.push(thread.map_err(|error| Error::io("load the machine", &error))?);
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked is no load any more, either.
            let _ = thread.join();
        }
    }
}

/// A file that is gone when it is closed.
fn unnamed_file() -> Result<File> {
    let directory = env::temp_dir();
    let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(&directory);
    file.map_err(|error| {
        Error::io(format!("load the disk: a file in {}", directory.display()), &error)
            .with_fix("set TMPDIR to a directory on a disk")
    })
}

fn compute(over: &AtomicBool) {
    const STEPS: u32 = 100_000;
    while !over.load(Ordering::Relaxed) {
        black_box((1..STEPS).map(|n| f64::from(black_box(n)).sqrt()).sum::<f64>());
    }
}

fn write(mut file: File, over: &AtomicBool) {
    let block = vec![0xa5; BLOCK];
    let mut blocks = 0;
    while !over.load(Ordering::Relaxed) {
        // A full disk is as busy as it gets.
        let _ = file.write_all(&block).and_then(|()| file.sync_data());
        blocks += 1;
        if blocks % BLOCKS == 0 {
            let _ = file.rewind();
        }
    }
}

fn touch(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut memory = vec![0_u8; MEMORY];
        for byte in memory.iter_mut().step_by(PAGE) {
            *byte = 1;
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
        black_box(memory);
    }
}
