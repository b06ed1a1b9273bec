//! Programs of a few instructions, and test runs of any program, by bpf(2) itself: aya loads only
//! what comes out of an object, and takes no time of its own.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;

const BPF_MAP_TYPE_PROG_ARRAY: u32 = 3;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;

const FUNC_TAIL_CALL: i32 = 12;
const FUNC_XDP_ADJUST_META: i32 = 54;

/// What a program is loaded as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Classifier,
    Xdp,
    XdpFrags,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn insn(code: u8, dst: u8, src: u8, immediate: i32) -> Insn {
    Insn { code, registers: dst | src << 4, offset: 0, immediate }
}

const fn mov(dst: u8, value: i32) -> Insn {
    insn(0xb7, dst, 0, value)
}

const fn mov_register(dst: u8, src: u8) -> Insn {
    insn(0xbf, dst, src, 0)
}

const fn call(function: i32) -> Insn {
    insn(0x85, 0, 0, function)
}

const EXIT: Insn = insn(0x95, 0, 0, 0);

/// Returns `action` and does nothing else.
pub fn nothing(action: i32) -> Vec<Insn> {
    vec![mov(0, action), EXIT]
}

/// Moves the start of the metadata by `bytes`, `times` times, and returns `action`.
pub fn adjust_meta(bytes: i32, times: usize, action: i32) -> Vec<Insn> {
    let mut program = vec![mov_register(6, 1)];
    program.extend(meta_moves(bytes, times));
    program.extend(nothing(action));
    program
}

/// Moves the start of the metadata by `bytes`, `times` times, and goes on with program 0 of `map`.
pub fn adjust_meta_then(bytes: i32, times: usize, map: BorrowedFd<'_>) -> Vec<Insn> {
    const BPF_PSEUDO_MAP_FD: u8 = 1;
    let mut program = vec![mov_register(6, 1)];
    program.extend(meta_moves(bytes, times));
    program.extend([
        mov_register(1, 6),
        insn(0x18, 2, BPF_PSEUDO_MAP_FD, map.as_raw_fd()),
        insn(0, 0, 0, 0),
        mov(3, 0),
        call(FUNC_TAIL_CALL),
    ]);
    program.extend(nothing(0));
    program
}

fn meta_moves(bytes: i32, times: usize) -> impl Iterator<Item = Insn> {
    let one = [mov_register(1, 6), mov(2, bytes), call(FUNC_XDP_ADJUST_META)];
    std::iter::repeat_n(one, times).flatten()
}

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

/// Loads a program.
pub fn load(kind: Kind, program: &[Insn]) -> io::Result<OwnedFd> {
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
    let (prog_type, prog_flags, expected_attach_type) = match kind {
        Kind::Classifier => (3, 0, 0),
        Kind::Xdp => (6, 0, BPF_XDP),
        Kind::XdpFrags => (6, BPF_F_XDP_HAS_FRAGS, BPF_XDP),
    };
    let mut attr = Attr {
        prog_type,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log: [0; 4],
        kern_version: 0,
        prog_flags,
        prog_name: [0; 16],
        prog_ifindex: 0,
        expected_attach_type,
    };
    bpf_fd(BPF_PROG_LOAD, &mut attr)
}

/// A program array that holds one program.
pub fn array_of(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    #[repr(C)]
    struct Update {
        map_fd: u32,
        _hole: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let mut create =
        Create { map_type: BPF_MAP_TYPE_PROG_ARRAY, key_size: 4, value_size: 4, max_entries: 1 };
    let map = bpf_fd(BPF_MAP_CREATE, &mut create)?;
    let (key, value) = (0_u32, program.as_raw_fd());
    let mut update = Update {
        map_fd: map.as_raw_fd() as u32,
        _hole: 0,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &mut update)?;
    Ok(map)
}

/// Runs a program over a frame, `repeat` times in one call; the CPU time of one run in ns.
///
/// The kernel's own figure is whole nanoseconds, so the clock of this thread's CPU time is taken.
pub fn time(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<f64> {
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
    }
    let mut attr = Attr {
        prog_fd: program.as_raw_fd() as u32,
        retval: 0,
        data_size_in: frame.len() as u32,
        data_size_out: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat,
        duration: 0,
    };
    let start = cpu_time()?;
    bpf(BPF_PROG_TEST_RUN, &mut attr)?;
    Ok((cpu_time()? - start) * 1e9 / f64::from(repeat))
}

/// CPU time of this thread, in seconds.
fn cpu_time() -> io::Result<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, which outlives the call.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
