//! File systems without a place among the others.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

/// Mounts a new file system of this type, which only who has the descriptor can see: its root is at
/// `/proc/self/fd/N`. It is gone with the last that uses it. Since Linux 5.2.
///
/// A new sysfs shows the calling thread's network namespace.
pub fn mount(file_system: &CStr) -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: libc::c_uint = 1;
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    const FSMOUNT_CLOEXEC: libc::c_uint = 1;
    // SAFETY: fsopen(2) reads the name, which ends with NUL.
    let context =
        owned(unsafe { libc::syscall(libc::SYS_fsopen, file_system.as_ptr(), FSOPEN_CLOEXEC) })?;
    let null = ptr::null::<libc::c_void>();
    // SAFETY: FSCONFIG_CMD_CREATE takes no key and no value; both pointers must be null.
    let created = unsafe {
        let fd = context.as_raw_fd();
        libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, null, null, 0)
    };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fsmount(2) reads no memory of ours.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

/// The file descriptor that a system call just returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(result).ok().filter(|&fd| fd >= 0);
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).ok_or_else(io::Error::last_os_error)
}
