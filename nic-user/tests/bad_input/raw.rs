//! Programs and maps of somebody else, made with plain bpf(2).

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

const BPF_MAP_CREATE: i32 = 0;
const BPF_PROG_LOAD: i32 = 5;
const BPF_OBJ_PIN: i32 = 6;
const BPF_PROG_QUERY: i32 = 16;
const BPF_LINK_CREATE: i32 = 28;

/// `BPF_PROG_TYPE_SCHED_CLS`.
pub const SCHED_CLS: u32 = 3;
/// `BPF_PROG_TYPE_XDP`.
pub const XDP: u32 = 6;

/// `BPF_XDP`.
pub const XDP_LINK: u32 = 37;
/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS`.
pub const TCX: [u32; 2] = [46, 47];

fn bpf<T>(command: i32, attributes: &mut T) -> i32 {
    // SAFETY: `attributes` is an initialised `repr(C)` struct of this size, and what it points to
    // outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    assert!(result >= 0, "bpf({command}): {}", io::Error::last_os_error());
    result as i32
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just opened it for us, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A program called `foreign` that returns `verdict`.
pub fn program(kind: u32, verdict: i32) -> OwnedFd {
    #[repr(C)]
    struct Attributes {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
    }
    // r0 = verdict; exit
    let [a, b, c, d] = verdict.to_le_bytes();
    let insns = [[0xb7, 0, 0, 0, a, b, c, d], [0x95, 0, 0, 0, 0, 0, 0, 0_u8]];
    owned(bpf(
        BPF_PROG_LOAD,
        &mut Attributes {
            prog_type: kind,
            insn_cnt: insns.len() as u32,
            insns: insns.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags: 0,
            prog_name: *b"foreign\0\0\0\0\0\0\0\0\0",
        },
    ))
}

/// A link of a program to an interface of the present namespace.
pub fn link(program: &OwnedFd, ifindex: u32, hook: u32, flags: u32) -> OwnedFd {
    #[repr(C)]
    struct Attributes {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let prog_fd = program.as_raw_fd() as u32;
    let mut attributes = Attributes { prog_fd, target_ifindex: ifindex, attach_type: hook, flags };
    owned(bpf(BPF_LINK_CREATE, &mut attributes))
}

/// Ids of the programs on a hook of an interface of the present namespace.
pub fn programs(ifindex: u32, hook: u32) -> Vec<u32> {
    #[repr(C)]
    struct Attributes {
        target_ifindex: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        prog_ids: u64,
        count: u32,
        _hole: u32,
        prog_attach_flags: u64,
        link_ids: u64,
        link_attach_flags: u64,
        revision: u64,
    }
    let mut ids = [0_u32; 8];
    let mut attributes = Attributes {
        target_ifindex: ifindex,
        attach_type: hook,
        query_flags: 0,
        attach_flags: 0,
        prog_ids: ids.as_mut_ptr() as u64,
        count: ids.len() as u32,
        _hole: 0,
        prog_attach_flags: 0,
        link_ids: 0,
        link_attach_flags: 0,
        revision: 0,
    };
    bpf(BPF_PROG_QUERY, &mut attributes);
    ids[..attributes.count as usize].to_vec()
}

/// Pins an array of one value of `value_size` bytes.
pub fn pin_array(value_size: u32, path: &Path) {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    #[repr(C)]
    struct Pin {
        pathname: u64,
        bpf_fd: u32,
        file_flags: u32,
    }
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    let map_type = BPF_MAP_TYPE_ARRAY;
    let mut create = Create { map_type, key_size: 4, value_size, max_entries: 1 };
    let map = owned(bpf(BPF_MAP_CREATE, &mut create));
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let pathname = path.as_ptr() as u64;
    bpf(BPF_OBJ_PIN, &mut Pin { pathname, bpf_fd: map.as_raw_fd() as u32, file_flags: 0 });
}
