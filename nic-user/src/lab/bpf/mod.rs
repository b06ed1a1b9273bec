//! Programs of a few instructions: what they are made of, loading, attaching, running.
//!
//! They are so small that they are made here: what is compared differs in one instruction, and
//! some of it depends on the running kernel.

pub mod insn;
pub mod map;
mod sys;

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use insn::{Body, Insn};
use sys::Command;

use super::Host;
use crate::{
    error::{Error, Result},
    netlink::link::XdpMode,
};

/// What XDP returns for the packet to be dropped.
pub const XDP_DROP: i32 = 1;
/// What XDP returns for the packet to go on.
pub const XDP_PASS: i32 = 2;
/// What TC returns for the packet to be dropped.
pub const TC_ACT_SHOT: i32 = 2;
/// What TC returns for the packet to go on, to the next program if there is one.
pub const TC_ACT_UNSPEC: i32 = -1;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Before there is a packet object; on packets in one buffer.
    Xdp,
    /// The same on packets in any number of buffers (Linux 5.18).
    XdpFrags,
    /// Once there is a packet object: TCX ingress (Linux 6.6).
    TcIngress,
    /// Before a packet leaves: TCX egress (Linux 6.6).
    TcEgress,
    /// Where the kernel wants to know the headers of a packet; only for test runs.
    FlowDissector,
}

impl Hook {
    const fn is_xdp(self) -> bool {
        matches!(self, Self::Xdp | Self::XdpFrags)
    }

    /// `enum bpf_prog_type` (linux/bpf.h)
    const fn program_type(self) -> u32 {
        match self {
            Self::Xdp | Self::XdpFrags => 6,
            Self::TcIngress | Self::TcEgress => 3,
            Self::FlowDissector => 22,
        }
    }

    /// `enum bpf_attach_type`
    const fn attach_type(self) -> u32 {
        match self {
            Self::Xdp | Self::XdpFrags => 37,
            Self::TcIngress => 46,
            Self::TcEgress => 47,
            Self::FlowDissector => 17,
        }
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    hook: Hook,
}

impl Program {
    /// Loads a program.
    pub fn load(hook: Hook, instructions: &[Insn]) -> Result<Self> {
        #[repr(C)]
        struct Attr {
            prog_type: u32,
            insn_cnt: u32,
            insns: u64,
            license: u64,
            log: [u32; 4],
            kern_version: u32,
            prog_flags: u32,
            prog_name: [u8; 16],
            prog_ifindex: u32,
            expected_attach_type: u32,
        }
        const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
        let mut attr = Attr {
            prog_type: hook.program_type(),
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log: [0; 4],
            kern_version: 0,
            prog_flags: if hook == Hook::XdpFrags { BPF_F_XDP_HAS_FRAGS } else { 0 },
            prog_name: *b"nic_lab\0\0\0\0\0\0\0\0\0",
            prog_ifindex: 0,
            expected_attach_type: hook.attach_type(),
        };
        let fd = sys::open(Command::ProgramLoad, &mut attr);
        let fd = fd.map_err(|error| Error::io("load a BPF program", &error))?;
        Ok(Self { fd, hook })
    }

    /// Loads one that does nothing but return `verdict`.
    pub fn returning(hook: Hook, verdict: i32) -> Result<Self> {
        Self::load(hook, &Body::default().ending_in(verdict))
    }

    /// Attaches it to an interface of a host, for as long as the link is open. XDP is attached in
    /// the driver, or not at all.
    pub fn attach(&self, host: &Host, ifindex: u32) -> Result<Link> {
        #[repr(C)]
        struct Attr {
            prog_fd: u32,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
            _relative: [u64; 2],
        }
        let mut attr = Attr {
            prog_fd: self.fd.as_raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: self.hook.attach_type(),
            flags: if self.hook.is_xdp() { XdpMode::Native.flag() } else { 0 },
            _relative: [0; 2],
        };
        let link = host.run(|| sys::open(Command::LinkCreate, &mut attr))?;
        link.map(|fd| Link { fd }).map_err(|error| Error::io("attach a BPF program", &error))
    }

    /// Hands a frame to an XDP program again and again, as if a network card had received it each
    /// time (Linux 5.18); the program looks for interfaces in the namespace of the calling thread.
    /// A run ends with some 25 ms of clearing up.
    pub fn run_live(&self, frame: &[u8], times: u32) -> io::Result<()> {
        const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
        /// Frames at a time: less than the 256 that a queue of veth holds.
        const BATCH: u32 = 64;
        TestRun {
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: BATCH,
            ..TestRun::of(self.as_fd(), frame, times)
        }
        .run()
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A program on an interface; detached when dropped.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Hands a frame to a program again and again, one that anybody has loaded; what it made of it the
/// time before is what it gets the next time. Nothing comes of the frame.
pub fn test_run(program: BorrowedFd<'_>, frame: &[u8], times: u32) -> io::Result<()> {
    TestRun::of(program, frame, times).run()
}

/// The part of `union bpf_attr` for test runs.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size: [u32; 2],
    ctx: [u64; 2],
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _hole: u32,
}

impl TestRun {
    /// The frame has to outlive it.
    fn of(program: BorrowedFd<'_>, frame: &[u8], times: u32) -> Self {
        Self {
            prog_fd: program.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: times,
            ..Self::default()
        }
    }

    fn run(mut self) -> io::Result<()> {
        sys::bpf(Command::TestRun, &mut self).map(drop)
    }
}
