//! Frames from within the kernel: a test run of an XDP program that redirects every frame out of
//! an interface (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18).

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

/// Sends frames out of one interface of a host, in batches.
pub struct Generator<'h> {
    host: &'h Host,
    program: OwnedFd,
}

impl<'h> Generator<'h> {
    /// Frames at a time: less than the 256 that a queue of veth holds.
    const BATCH: u32 = 64;

    pub fn new(host: &'h Host) -> Self {
        const BPF_PROG_LOAD: i32 = 5;
        const BPF_PROG_TYPE_XDP: u32 = 6;
        const MOV: u8 = 0xb7;
        const CALL: u8 = 0x85;
        const EXIT: u8 = 0x95;
        const BPF_REDIRECT: u32 = 23;
        let instruction = |code: u8, register: u8, value: u32| {
            let [a, b, c, d] = value.to_ne_bytes();
            [code, register, 0, 0, a, b, c, d]
        };
        let instructions = [
            instruction(MOV, 1, host.ifindex()),
            instruction(MOV, 2, 0),
            instruction(CALL, 0, BPF_REDIRECT),
            instruction(EXIT, 0, 0),
        ];
        let attributes = ProgLoad {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            ..ProgLoad::default()
        };
        // SAFETY: `attributes` and what it points to outlive the call; the size is its own.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_PROG_LOAD,
                &raw const attributes,
                size_of::<ProgLoad>(),
            )
        };
        assert!(fd >= 0, "load a program: {}", io::Error::last_os_error());
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Self { host, program: unsafe { OwnedFd::from_raw_fd(fd as i32) } }
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
        let run = || {
            // SAFETY: `attributes` and the frame it points to outlive the call; the size is its
            // own.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_bpf,
                    BPF_PROG_TEST_RUN,
                    &raw const attributes,
                    size_of::<TestRun>(),
                )
            };
            if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        // The program looks for the interface in the namespace of who runs it.
        self.host.run(run).unwrap().expect("live frames");
    }
}
