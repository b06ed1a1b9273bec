//! What netlink does not have, and drivers say through `SIOCETHTOOL` (linux/ethtool.h).

pub mod rss;
pub mod rules;
mod rxnfc;
pub mod tunable;
pub mod unknown;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Error, Result};

const ETHTOOL_GDRVINFO: u32 = 0x03;

/// A driver's name for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// The driver: `igb`, `veth`, ...
    pub driver: String,
    /// Its version; since Linux 5.7 mostly the kernel's.
    pub version: String,
    /// The device's firmware.
    pub firmware_version: String,
    /// Where the device sits: a PCI address, for example.
    pub bus_info: String,
}

/// Asks drivers of the network namespace in which it was opened.
pub struct EthtoolIoctl {
    socket: OwnedFd,
}

impl EthtoolIoctl {
    /// Opens a socket in the current network namespace.
    pub fn open() -> Result<Self> {
        // SAFETY: socket(2) reads no memory of ours.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(Self { socket: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The driver of `interface`; `EOPNOTSUPP` if it does not say.
    pub fn driver(&self, interface: &str) -> Result<DriverInfo> {
        // struct ethtool_drvinfo: cmd, driver[32], version[32], fw_version[32], bus_info[32],
        // erom_version[32], reserved2[12], five counts.
        let mut request = [0_u32; 49];
        request[0] = ETHTOOL_GDRVINFO;
        self.call(interface, &mut request)?;
        let strings = bytes_of(&request[1..]);
        let mut strings = strings.chunks_exact(32).map(text);
        let mut next = || strings.next().unwrap_or_default();
        Ok(DriverInfo {
            driver: next(),
            version: next(),
            firmware_version: next(),
            bus_info: next(),
        })
    }

    /// Runs one ethtool command; `request` is its structure as 32-bit words, all of which the
    /// kernel may write.
    fn call(&self, interface: &str, request: &mut [u32]) -> Result<()> {
        // SAFETY: `ifreq` is plain data for which all zeroes are valid.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = super::name::bytes(interface);
        if name.len() >= ifreq.ifr_name.len() {
            return Err(Error::from_errno(libc::ENODEV));
        }
        for (to, from) in ifreq.ifr_name.iter_mut().zip(&name) {
            *to = *from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
        // SAFETY: `ifreq` and `request` outlive the call. Each caller's `request` has the length
        // that the command's structure has for the counts in it, so the kernel writes inside.
        let call = || unsafe {
            libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut ifreq)
        };
        match uninterrupted(call) {
            Ok(()) => Ok(()),
            // The driver of a device in reset answers so, too.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                Err(Error::unanswered(&error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes a system call again until no signal has interrupted it.
fn uninterrupted(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    while call() < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The text before the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_interface_is_enodev() {
        let ioctl = EthtoolIoctl::open().unwrap();
        assert_eq!(ioctl.driver("nic-none").unwrap_err().errno, libc::ENODEV);
        assert_eq!(ioctl.driver("name-longer-than-15").unwrap_err().errno, libc::ENODEV);
    }
}
