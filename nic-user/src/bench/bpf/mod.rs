//! Programs of a few instructions: what they are made of, loading, attaching, running.
//!
//! They are so small that they are made here: what is compared differs in one instruction, and
//! some of it depends on the running kernel.

pub mod btf;
pub mod insn;

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use insn::Insn;

use crate::{error::Error, lab::Host, netlink::link::XdpMode};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_LINK_CREATE: libc::c_int = 28;

/// Live frames at a time: less than the 256 that a queue of veth holds.
const LIVE_BATCH: u32 = 64;

/// bpf(2) with the part of `union bpf_attr` that `command` uses.
fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is an initialised `repr(C)` part of `union bpf_attr`; every pointer in it
    // points to memory that outlives the call and has the size that is given with it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attr, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn bpf_fd<T>(command: libc::c_int, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Before there is a packet object.
    Xdp,
    /// Once there is one: TCX ingress (Linux 6.6).
    TcIngress,
}

impl Hook {
    /// Its program type and attach type (linux/bpf.h).
    const fn types(self) -> [u32; 2] {
        match self {
            Self::Xdp => [6, 37],
            Self::TcIngress => [3, 46],
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
    pub fn load(hook: Hook, instructions: &[Insn]) -> io::Result<Self> {
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
        let [prog_type, expected_attach_type] = hook.types();
        let mut attr = Attr {
            prog_type,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log: [0; 4],
            kern_version: 0,
            prog_flags: 0,
            prog_name: *b"nic_bench\0\0\0\0\0\0\0",
            prog_ifindex: 0,
            expected_attach_type,
        };
        Ok(Self { fd: bpf_fd(BPF_PROG_LOAD, &mut attr)?, hook })
    }

    /// Attaches it to an interface of a host, for as long as the link is open.
    pub fn attach(&self, host: &Host, ifindex: u32) -> crate::error::Result<Link> {
        #[repr(C)]
        struct Attr {
            prog_fd: u32,
            target_ifindex: u32,
            attach_type: u32,
            flags: u32,
            _relative: [u64; 2],
        }
        let [_, attach_type] = self.hook.types();
        let prog_fd = self.fd.as_raw_fd() as u32;
        // In the driver or not at all: anything else is not what is measured.
        let flags = match self.hook {
            Hook::Xdp => XdpMode::Native.flag(),
            Hook::TcIngress => 0,
        };
        let attach = || {
            let _relative = [0; 2];
            let mut attr = Attr { prog_fd, target_ifindex: ifindex, attach_type, flags, _relative };
            bpf_fd(BPF_LINK_CREATE, &mut attr)
        };
        let link = host.run(attach)?;
        link.map(|fd| Link { _fd: fd }).map_err(|error| Error::io("attach a BPF program", &error))
    }
}

/// Hands a frame to an XDP program again and again, as if a network card had received it each time
/// (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18); the program looks for interfaces in the namespace of
/// the calling thread. A run ends with some 25 ms of clearing up.
pub fn run_live(program: &Program, frame: &[u8], times: u32) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
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
    const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
    let mut attr = Attr {
        prog_fd: program.fd.as_raw_fd() as u32,
        retval: 0,
        data_size_in: frame.len() as u32,
        data_size_out: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat: times,
        duration: 0,
        ctx_size: [0; 2],
        ctx: [0; 2],
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        cpu: 0,
        batch_size: LIVE_BATCH,
        _hole: 0,
    };
    bpf(BPF_PROG_TEST_RUN, &mut attr).map(|_| ())
}

/// A program on an interface; detached when dropped.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// `N` counters in an array map of one value.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    map: OwnedFd,
}

impl<const N: usize> Counters<N> {
    /// All zero.
    pub fn new() -> io::Result<Self> {
        const BPF_MAP_TYPE_ARRAY: u32 = 2;
        Ok(Self { map: create_map(BPF_MAP_TYPE_ARRAY, size_of::<[u64; N]>() as u32, 1)? })
    }

    /// What was counted so far.
    pub fn read(&self) -> io::Result<[u64; N]> {
        let (key, mut value) = (0_u32, [0; N]);
        let mut attr = Element::of(&self.map, &raw const key, &raw mut value as u64);
        bpf(BPF_MAP_LOOKUP_ELEM, &mut attr)?;
        Ok(value)
    }
}

impl<const N: usize> AsFd for Counters<N> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// The AF_XDP sockets of an interface by receive queue (XSKMAP).
#[derive(Debug)]
pub struct SocketMap {
    map: OwnedFd,
}

impl SocketMap {
    /// For so many queues, none of which has a socket yet.
    pub fn new(queues: u32) -> io::Result<Self> {
        const BPF_MAP_TYPE_XSKMAP: u32 = 17;
        Ok(Self { map: create_map(BPF_MAP_TYPE_XSKMAP, 4, queues)? })
    }

    /// Gives a queue's frames to a socket, for as long as that is open.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket.as_raw_fd() as u32;
        let mut attr = Element::of(&self.map, &raw const queue, &raw const socket as u64);
        bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map(|_| ())
    }
}

impl AsFd for SocketMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

fn create_map(map_type: u32, value_size: u32, max_entries: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    bpf_fd(BPF_MAP_CREATE, &mut Attr { map_type, key_size: 4, value_size, max_entries })
}

/// The part of `union bpf_attr` for one element of a map.
#[repr(C)]
struct Element {
    map_fd: u32,
    _hole: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Element {
    fn of(map: &OwnedFd, key: *const u32, value: u64) -> Self {
        Self { map_fd: map.as_raw_fd() as u32, _hole: 0, key: key as u64, value, flags: 0 }
    }
}
