//! Tap devices, whose driver has settings that a veth's has not.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use nic_user::lab::Host;

/// Its name.
pub const NAME: &str = "nic-tap";

/// A tap device of a lab's host; gone when dropped.
pub struct Tap {
    /// Frames that the kernel sends are read from it, frames written to it are received.
    pub file: File,
    /// Its index.
    pub ifindex: u32,
}

impl Tap {
    /// Makes one.
    pub fn new(host: &Host) -> Self {
        let file = host.run(make).unwrap();
        let ifindex = host.links(|links| links.by_name(NAME)).unwrap().ifindex;
        Self { file, ifindex }
    }
}

fn make() -> File {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: `ifreq` is plain data for which all zeroes are valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(NAME.as_bytes()) {
        *to = *from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: `ifreq` is what TUNSETIFF reads and writes, and outlives the call.
    assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut ifreq) }, 0);
    file
}
