//! bpf(2) itself.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// `enum bpf_cmd` (linux/bpf.h)
#[derive(Clone, Copy, Debug)]
pub enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    ProgramLoad = 5,
    Pin = 6,
    TestRun = 10,
    LinkCreate = 28,
}

/// Does something with the part of `union bpf_attr` that `command` uses; the kernel takes the rest
/// as zero.
pub fn bpf<T>(command: Command, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is an initialised `repr(C)` part of `union bpf_attr`; every pointer in it
    // points to memory that outlives the call and has the size that is given with it.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command as i32, &raw mut *attr, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// The same with a command that opens something.
pub fn open<T>(command: Command, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
