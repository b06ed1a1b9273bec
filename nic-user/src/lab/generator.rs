//! Frames made inside the kernel, as fast as somebody takes them.

use std::io;

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

/// Sends one frame again and again out of a host's interface. Whoever lets it must be in that
/// host's namespace.
pub struct Generator {
    program: Program,
    frame: Vec<u8>,
}

impl Generator {
    /// Out of the interface of `host`.
    pub fn new(host: &Host, frame: Vec<u8>) -> Result<Self> {
        let program = Program::load(Hook::Xdp, &program(host.ifindex(), &frame))?;
        Ok(Self { program, frame })
    }

    /// Sends it so many times, or less if a signal interrupts it (`EINTR`).
    pub fn send(&self, times: u32) -> io::Result<()> {
        self.program.run_live(&self.frame, times)
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
