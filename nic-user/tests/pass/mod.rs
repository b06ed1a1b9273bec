//! An XDP program that passes everything on, and is not nicctl's.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// `BPF_F_XDP_HAS_FRAGS`, of programs that read several buffers.
pub const HAS_FRAGS: u32 = 1 << 5;

/// The start of `union bpf_attr` for `BPF_PROG_LOAD` (linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// Loads it.
pub fn load(flags: u32) -> OwnedFd {
    const BPF_PROG_LOAD: i32 = 5;
    const BPF_PROG_TYPE_XDP: u32 = 6;
    // r0 = XDP_PASS; exit
    let insns = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0_u8]];
    let attributes = ProgLoad {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: insns.len() as u32,
        insns: insns.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        prog_flags: flags,
        ..ProgLoad::default()
    };
    // SAFETY: `attributes` and what it points to outlive the call, and the size given is its own.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<ProgLoad>())
    };
    assert!(fd >= 0, "load a program: {}", io::Error::last_os_error());
    // SAFETY: `fd` was just opened and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}
