//! Programs of a few instructions that redirect packets.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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

/// bpf(2); whatever `attributes` points to must outlive the call and be as large as it says.
fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    // SAFETY: the size is that of `attributes`, and the caller answers for what it points to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// A program that hands every packet to `bpf_redirect` of this interface.
fn load_redirect(prog_type: u32, ifindex: u32, flags: u32) -> OwnedFd {
    const BPF_PROG_LOAD: i32 = 5;
    const MOV: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const BPF_REDIRECT: u32 = 23;
    let instruction = |code: u8, register: u8, value: u32| {
        let [a, b, c, d] = value.to_ne_bytes();
        [code, register, 0, 0, a, b, c, d]
    };
    let instructions = [
        instruction(MOV, 1, ifindex),
        instruction(MOV, 2, flags),
        instruction(CALL, 0, BPF_REDIRECT),
        instruction(EXIT, 0, 0),
    ];
    let attributes = ProgLoad {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..ProgLoad::default()
    };
    let fd = bpf(BPF_PROG_LOAD, &attributes).expect("load a program");
    // SAFETY: `fd` was just opened and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// What leaves `lo` of a host arrives at its interface instead, past XDP in the driver, as long as
/// the returned link is open.
pub fn redirect_loopback(host: &Host) -> OwnedFd {
    const BPF_LINK_CREATE: i32 = 28;
    const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
    const BPF_TCX_EGRESS: u32 = 47;
    const BPF_F_INGRESS: u32 = 1;
    let program = load_redirect(BPF_PROG_TYPE_SCHED_CLS, host.ifindex(), BPF_F_INGRESS);
    let attributes = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: host.links(|links| links.by_name("lo")).unwrap().ifindex,
        attach_type: BPF_TCX_EGRESS,
        flags: 0,
    };
    let fd = host.run(|| bpf(BPF_LINK_CREATE, &attributes)).unwrap().expect("attach to lo");
    // SAFETY: `fd` was just opened and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
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
        const BPF_PROG_TYPE_XDP: u32 = 6;
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
