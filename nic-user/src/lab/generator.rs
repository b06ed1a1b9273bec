//! Frames made inside the kernel, as fast as somebody takes them.

use std::io::{self, ErrorKind};

use super::{
    Host,
    bpf::{
        Hook, Program, XDP_DROP,
        insn::{
            Body, EXIT, Helper, Insn, R1, R2, R3, R6, Size, call, copy, if_more, mov, packet, store,
        },
    },
};
use crate::{
    error::Result,
    nic::{drivers::KernelVersion, preflight::Machine},
};

/// Frames of one run, as many as the kernel takes: the end of a run is a pause of some 25 ms.
const RUN: u32 = 100_000_000;

/// Four bytes with TTL and checksum of IPv4 behind an Ethernet header.
const TTL: i16 = 22;
/// Bytes that every frame has.
const HEADERS_LEN: i32 = 34;

/// From here on, a page that comes back with its frame elsewhere is put right before it is used
/// again (`frame_was_changed`, net/bpf/test_run.c).
const PUTS_RIGHT: KernelVersion = KernelVersion(6, 4);
/// Bytes in front of a frame for older kernels, which do it only for programs that change where
/// frames begin: they are taken off. Otherwise virtio_net, which writes in front of frames, comes to
/// write over what the kernel keeps there, and its device stops for good.
const TAKEN_OFF: usize = 4;

/// Sends one frame again and again out of a host's interface. Whoever lets it must be in that
/// host's namespace.
pub struct Generator {
    program: Program,
    frame: Vec<u8>,
}

impl Generator {
    /// Out of the interface of `host`.
    pub fn new(host: &Host, frame: Vec<u8>) -> Result<Self> {
        let taken_off = if Machine::current().kernel < PUTS_RIGHT { TAKEN_OFF } else { 0 };
        let program = Program::load(Hook::Xdp, &program(host.ifindex(), &frame, taken_off))?;
        Ok(Self { program, frame: [vec![0; taken_off], frame].concat() })
    }

    /// Sends it so many times, or less if a signal interrupts it (`EINTR`).
    pub fn send(&self, times: u32) -> io::Result<()> {
        self.program.run_live(&self.frame, times)
    }

    /// Sends it without a pause until `is_over`, which is asked when a signal interrupts the thread
    /// ([`Interruption`](super::interruption::Interruption)).
    pub fn send_until(&self, is_over: impl Fn() -> bool) -> io::Result<()> {
        while !is_over() {
            match self.send(RUN) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => sent?,
            }
        }
        Ok(())
    }
}

/// XDP that sends `frame` out of an interface. Pages come back as the receivers left them, so
/// Ethernet addresses, TTL and checksum are written anew.
fn program(ifindex: u32, frame: &[u8], taken_off: usize) -> Vec<Insn> {
    let take_off =
        [copy(R6, R1), mov(R2, taken_off as i32), call(Helper::AdjustHead), copy(R1, R6)];
    let written = [0, 4, 8, TTL].into_iter().filter_map(|at| {
        let bytes = frame.get(at as usize..at as usize + 4)?.try_into().ok()?;
        Some(store(Size::Word, R2, at, i32::from_ne_bytes(bytes)))
    });
    Body::default()
        .then(take_off.into_iter().filter(|_| taken_off > 0))
        .then(packet(HEADERS_LEN))
        .end_if(if_more(R1, R3))
        .then(written)
        .then([mov(R1, ifindex as i32), mov(R2, 0), call(Helper::Redirect), EXIT])
        .ending_in(XDP_DROP)
}
