//! Programs of a few instructions that redirect packets.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nic_user::lab::Host;

/// The start of `union bpf_attr` for `BPF_PROG_LOAD` (linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log: [u32; 4],
    kern_version: u32,
    prog_flags: u32,
}

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
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
    _pad: u32,
}

/// The part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// The part of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// The part of `union bpf_attr` for `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// bpf(2); whatever `attributes` points to must outlive the call and be as large as it says.
fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    // SAFETY: the size is that of `attributes`, and the caller answers for what it points to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// bpf(2) of a command that opens something.
fn bpf_fd<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `struct bpf_insn`: code, registers, offset, immediate.
type Instruction = [u8; 8];

const MOV: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

const fn instruction(code: u8, registers: u8, value: u32) -> Instruction {
    let [a, b, c, d] = value.to_ne_bytes();
    [code, registers, 0, 0, a, b, c, d]
}

const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;

fn load(prog_type: u32, prog_flags: u32, instructions: &[Instruction]) -> OwnedFd {
    const BPF_PROG_LOAD: i32 = 5;
    let attributes = ProgLoad {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        prog_flags,
        ..ProgLoad::default()
    };
    bpf_fd(BPF_PROG_LOAD, &attributes).expect("load a program")
}

/// A program that hands every packet to `bpf_redirect` of this interface.
fn load_redirect(prog_type: u32, ifindex: u32, flags: u32) -> OwnedFd {
    const BPF_REDIRECT: u32 = 23;
    let instructions = [
        instruction(MOV, 1, ifindex),
        instruction(MOV, 2, flags),
        instruction(CALL, 0, BPF_REDIRECT),
        instruction(EXIT, 0, 0),
    ];
    load(prog_type, 0, &instructions)
}

fn attach(host: &Host, program: &OwnedFd, ifindex: u32, attach_type: u32) -> OwnedFd {
    const BPF_LINK_CREATE: i32 = 28;
    let attributes = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: ifindex,
        attach_type,
        flags: 0,
    };
    host.run(|| bpf_fd(BPF_LINK_CREATE, &attributes)).unwrap().expect("attach a program")
}

/// What leaves `lo` of a host arrives at its interface instead, past XDP in the driver, as long as
/// the returned link is open.
pub fn redirect_loopback(host: &Host) -> OwnedFd {
    const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
    const BPF_TCX_EGRESS: u32 = 47;
    const BPF_F_INGRESS: u32 = 1;
    let program = load_redirect(BPF_PROG_TYPE_SCHED_CLS, host.ifindex(), BPF_F_INGRESS);
    let loopback = host.links(|links| links.by_name("lo")).unwrap().ifindex;
    attach(host, &program, loopback, BPF_TCX_EGRESS)
}

/// Drops what arrives at a host's interface, as long as the returned link is open.
pub fn drop_all(host: &Host) -> OwnedFd {
    const XDP_DROP: u32 = 1;
    let instructions = [instruction(MOV, 0, XDP_DROP), instruction(EXIT, 0, 0)];
    attach(host, &load(BPF_PROG_TYPE_XDP, 0, &instructions), host.ifindex(), BPF_XDP)
}

/// Gives what arrives at a host's interface to AF_XDP sockets, by queue, as long as it exists;
/// what arrives at queues without a socket is the kernel's.
pub struct ToSockets {
    sockets: OwnedFd,
    _link: OwnedFd,
}

impl ToSockets {
    const QUEUES: u32 = 64;

    pub fn attach(host: &Host) -> Self {
        const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
        let sockets = Self::map();
        let program = load(BPF_PROG_TYPE_XDP, BPF_F_XDP_HAS_FRAGS, &Self::program(&sockets));
        let link = attach(host, &program, host.ifindex(), BPF_XDP);
        Self { sockets, _link: link }
    }

    fn map() -> OwnedFd {
        const BPF_MAP_CREATE: i32 = 0;
        const BPF_MAP_TYPE_XSKMAP: u32 = 17;
        let attributes = MapCreate {
            map_type: BPF_MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: Self::QUEUES,
        };
        bpf_fd(BPF_MAP_CREATE, &attributes).expect("make an XSKMAP")
    }

    /// `return bpf_redirect_map(sockets, context->rx_queue_index, XDP_PASS)`
    fn program(sockets: &OwnedFd) -> [Instruction; 6] {
        const LOAD_WORD: u8 = 0x61;
        const LOAD_IMMEDIATE: u8 = 0x18;
        const MAP_FD: u8 = 1;
        const RX_QUEUE_INDEX: u8 = 16;
        const XDP_PASS: u32 = 2;
        const BPF_REDIRECT_MAP: u32 = 51;
        [
            [LOAD_WORD, 1 << 4 | 2, RX_QUEUE_INDEX, 0, 0, 0, 0, 0],
            instruction(LOAD_IMMEDIATE, MAP_FD << 4 | 1, sockets.as_raw_fd() as u32),
            instruction(0, 0, 0),
            instruction(MOV, 3, XDP_PASS),
            instruction(CALL, 0, BPF_REDIRECT_MAP),
            instruction(EXIT, 0, 0),
        ]
    }

    /// From now on the socket gets what arrives at the queue.
    pub fn insert(&self, queue: u32, socket: impl AsRawFd) -> io::Result<()> {
        insert(self.as_raw_fd(), queue, socket.as_raw_fd())
    }
}

/// Puts a socket into the map of a [`ToSockets`].
pub fn insert(map: RawFd, queue: u32, socket: RawFd) -> io::Result<()> {
    const BPF_MAP_UPDATE_ELEM: i32 = 2;
    let attributes = MapUpdate {
        map_fd: map as u32,
        _pad: 0,
        key: &raw const queue as u64,
        value: &raw const socket as u64,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &attributes).map(drop)
}

impl AsRawFd for ToSockets {
    fn as_raw_fd(&self) -> RawFd {
        self.sockets.as_raw_fd()
    }
}

impl AsFd for ToSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }
}

/// Sends frames out of one interface of a host, from within the kernel: test runs with
/// `BPF_F_TEST_XDP_LIVE_FRAMES` (Linux 5.18).
pub struct Generator<'h> {
    host: &'h Host,
    program: OwnedFd,
}

impl<'h> Generator<'h> {
    /// Frames at a time: less than the 256 that a queue of veth holds.
    const BATCH: u32 = 64;

    pub fn new(host: &'h Host) -> Self {
        Self { host, program: load_redirect(BPF_PROG_TYPE_XDP, host.ifindex(), 0) }
    }

    /// Sends `frame` `count` times.
    pub fn send(&self, frame: &[u8], count: u32) {
        const BPF_PROG_TEST_RUN: i32 = 10;
        const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
        let attributes = TestRun {
            prog_fd: self.program.as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: count,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: Self::BATCH,
            ..TestRun::default()
        };
        // The program looks for the interface in the namespace of who runs it.
        self.host.run(|| bpf(BPF_PROG_TEST_RUN, &attributes)).unwrap().expect("live frames");
    }
}
