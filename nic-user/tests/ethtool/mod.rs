//! Turns offloads of a lab's interfaces on and off (linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nic_user::lab::Host;

#[derive(Clone, Copy, Debug)]
#[repr(u32)]
#[allow(dead_code, reason = "every test uses a part of it")]
pub enum Offload {
    /// `ETHTOOL_STSO`
    Tso = 0x1f,
    /// `ETHTOOL_SGRO`
    Gro = 0x2c,
}

pub fn set(host: &Host, offload: Offload, on: bool) {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    /// `struct ifreq`
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        data: *mut u32,
        _rest: [u8; 16],
    }
    let mut name = [0; libc::IFNAMSIZ];
    name.iter_mut().zip(host.interface().bytes()).for_each(|(to, from)| *to = from);
    let done = host.run(|| {
        // SAFETY: socket(2) reads no memory of ours.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: `fd` was just opened and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // `struct ethtool_value`
        let mut value = [offload as u32, u32::from(on)];
        let mut request = Request { name, data: value.as_mut_ptr(), _rest: [0; 16] };
        // SAFETY: `request` and what it points to outlive the call and are laid out as it wants.
        unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) }
    });
    assert_eq!(done.unwrap(), 0, "{offload:?} of {host:?}");
}
