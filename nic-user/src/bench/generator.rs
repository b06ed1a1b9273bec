//! Frames made inside the kernel, as fast as somebody takes them.

use std::{
    io::{self, ErrorKind},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use super::{
    bpf::{
        self, Hook, Program,
        insn::{Body, EXIT, Insn, R1, R2, R3, Size, call, if_more, mov, packet, store},
    },
    round::Over,
};
use crate::{
    error::{Error, Result},
    lab::Host,
};

const XDP_DROP: i32 = 1;
const FUNC_REDIRECT: i32 = 23;
/// Four bytes with TTL and checksum of IPv4 behind an Ethernet header.
const TTL: i16 = 22;
/// Bytes that every frame has.
const HEADERS_LEN: i32 = 34;

/// Frames of the first run, which shows how fast it goes.
const FIRST_RUN: u32 = 100_000;
/// How long a run takes at most: nobody should wait long for its end.
const LONGEST_RUN: Duration = Duration::from_secs(1);
/// How long the run after the first should take.
const WARM_UP: Duration = Duration::from_millis(100);
/// A run ends with a pause; so it should take longer than the round, by this.
const MARGIN: f64 = 1.25;

/// Sends one frame again and again out of a host's interface.
pub struct Generator {
    program: Program,
    frame: Vec<u8>,
    /// Frames of a run.
    pace: AtomicU32,
}

impl Generator {
    /// Out of the interface of `host`.
    pub fn new(host: &Host, frame: Vec<u8>) -> Result<Self> {
        let fail = |error: io::Error| Error::io("load a BPF program", &error);
        let program = Program::load(Hook::Xdp, &program(host.ifindex(), &frame)).map_err(fail)?;
        Ok(Self { program, frame, pace: AtomicU32::new(FIRST_RUN) })
    }

    /// Finds out how fast it goes, with a short run.
    pub fn warm_up(&self, host: &Host) -> Result<()> {
        let sent = host.run(|| self.run_once(WARM_UP))?;
        sent.map_err(|error| Error::io("generate frames", &error))
    }

    /// Sends until the round of this length is over, from the calling thread's processor. The
    /// thread stays in the host.
    pub fn run(&self, host: &Host, length: Duration, over: &Over) -> io::Result<()> {
        host.netns().enter().map_err(io::Error::other)?;
        let wanted = length.mul_f64(MARGIN).min(LONGEST_RUN);
        while !over.is_over() {
            self.run_once(wanted)?;
        }
        Ok(())
    }

    /// One run, and how long the next one has to be to take the time that is wanted.
    fn run_once(&self, wanted: Duration) -> io::Result<()> {
        let frames = self.pace.load(Ordering::Relaxed);
        let start = Instant::now();
        match bpf::run_live(&self.program, &self.frame, frames) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Err(_) => {}
            Ok(()) => {
                let in_time = wanted.as_secs_f64() / start.elapsed().as_secs_f64();
                // As many as the kernel takes in one run, at most.
                let pace = (f64::from(frames) * in_time).clamp(1.0, 1e8) as u32;
                self.pace.store(pace, Ordering::Relaxed);
            }
        }
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
        .then([mov(R1, ifindex as i32), mov(R2, 0), call(FUNC_REDIRECT), EXIT])
        .ending_in(XDP_DROP)
}
