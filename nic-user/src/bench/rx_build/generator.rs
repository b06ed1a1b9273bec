//! Frames made inside the kernel, as fast as somebody takes them.

use std::{
    io::{self, ErrorKind},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use super::programs;
use crate::{
    bench::{
        bpf::{self, Program},
        round::Over,
    },
    error::Result,
    lab::{Host, frames::Ends, traffic::IpVersion::V4},
};

/// Payload of a frame of 64 bytes: less Ethernet, IPv4 and UDP headers, and FCS.
const PAYLOAD_LEN: usize = 64 - 14 - 20 - 8 - 4;
/// Frames of the first run, which shows how fast it goes.
const FIRST_RUN: u32 = 100_000;
/// How long a run takes at most: nobody should wait long for its end.
const LONGEST_RUN: Duration = Duration::from_secs(1);
/// A run ends with a pause; so it should take longer than the round, by this.
const MARGIN: f64 = 1.25;

/// Sends frames of 64 bytes out of a host's interface.
pub struct Generator {
    program: Program,
    frame: Vec<u8>,
    /// Frames of a run.
    pace: AtomicU32,
}

impl Generator {
    /// From `host` to whom these ends say.
    pub fn new(host: &Host, ends: &Ends) -> Result<Self> {
        let frame = ends.ethernet(ends.ipv4(ends.udp(V4, &[0xa5; PAYLOAD_LEN])));
        let program = programs::generator(host.ifindex(), &frame)?;
        Ok(Self { program, frame, pace: AtomicU32::new(FIRST_RUN) })
    }

    /// Sends until the round of this length is over, from the calling thread's processor. The
    /// thread stays in the host.
    pub fn run(&self, host: &Host, length: Duration, over: &Over) -> io::Result<()> {
        host.netns().enter().map_err(io::Error::other)?;
        let wanted = length.mul_f64(MARGIN).min(LONGEST_RUN);
        while !over.is_over() {
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
        }
        Ok(())
    }
}
