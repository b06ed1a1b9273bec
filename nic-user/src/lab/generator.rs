//! Frames made inside the kernel, as fast as somebody takes them.

use std::{
    io::{self, ErrorKind},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use super::{
    Host,
    bpf::{
        Hook, Program, XDP_DROP,
        insn::{Body, EXIT, Helper, Insn, R1, R2, R3, Size, call, if_more, mov, packet, store},
    },
};
use crate::error::Result;

/// Four bytes with TTL and checksum of IPv4 behind an Ethernet header.
const TTL: i16 = 22;
/// Bytes that every frame has.
const HEADERS_LEN: i32 = 34;

/// Frames of the first run, which shows how fast it goes.
const FIRST_RUN: u32 = 100_000;

/// Sends one frame again and again out of a host's interface. Whoever lets it must be in that
/// host's namespace.
pub struct Generator {
    program: Program,
    frame: Vec<u8>,
    /// Frames of the next run.
    pace: AtomicU32,
}

impl Generator {
    /// Out of the interface of `host`.
    pub fn new(host: &Host, frame: Vec<u8>) -> Result<Self> {
        let program = Program::load(Hook::Xdp, &program(host.ifindex(), &frame))?;
        Ok(Self { program, frame, pace: AtomicU32::new(FIRST_RUN) })
    }

    /// Sends it so many times.
    pub fn send(&self, times: u32) -> io::Result<()> {
        self.program.run_live(&self.frame, times)
    }

    /// Sends for about this long, as far as runs before have shown how fast it goes; for less if a
    /// signal interrupts it.
    pub fn send_for(&self, wanted: Duration) -> io::Result<()> {
        let frames = self.pace.load(Ordering::Relaxed);
        let start = Instant::now();
        match self.send(frames) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            sent => sent?,
        }
        let in_time = wanted.as_secs_f64() / start.elapsed().as_secs_f64();
        // As many as the kernel takes in one run, at most.
        let pace = (f64::from(frames) * in_time).clamp(1.0, 1e8) as u32;
        self.pace.store(pace, Ordering::Relaxed);
        Ok(())
    }
}

/// XDP that sends `frame` out of an interface. Pages come back as the receivers left them, so
/// Ethernet addresses, TTL and checksum are written anew.
fn program(ifindex: u32, frame: &[u8]) -> Vec<Insn> {
    let written = [0, 4, 8, TTL].into_iter().filter_map(|at| {
        let bytes = frame.get(at as usize..at as usize + 4)?.try_into().ok()?;
        Some(store(Size::Word, R2, at, i32::from_ne_bytes(bytes)))
    });
    Body::default()
        .then(packet(HEADERS_LEN))
        .end_if(if_more(R1, R3))
        .then(written)
        .then([mov(R1, ifindex as i32), mov(R2, 0), call(Helper::Redirect), EXIT])
        .ending_in(XDP_DROP)
}
