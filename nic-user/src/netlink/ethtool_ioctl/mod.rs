//! What drivers say through `SIOCETHTOOL` (linux/ethtool.h).

pub mod rss;
pub mod rules;
mod rxnfc;
pub mod tunable;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Error, Result};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;

/// A kernel has some 70 features; this only bounds an allocation.
const MAX_FEATURES: u32 = 4096;

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

/// How many queues of each type there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Receive only.
    pub rx: u32,
    /// Transmit only.
    pub tx: u32,
    /// Neither: link events and the like.
    pub other: u32,
    /// Receive and transmit.
    pub combined: u32,
}

/// Queues in use, and how many there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// In use.
    pub current: ChannelCounts,
    /// The most that the driver allows.
    pub max: ChannelCounts,
}

/// One offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feature {
    /// Whether it is on.
    pub on: bool,
    /// Whether it can not be changed; `ethtool -k` shows it as `[fixed]`.
    pub fixed: bool,
}

/// Offloads by the kernel's name for them: `rx-lro`, `rx-gro-hw`, ...
pub type Features = BTreeMap<String, Feature>;

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

    /// The channels of `interface`; `EOPNOTSUPP` if the driver has no such notion.
    pub fn channels(&self, interface: &str) -> Result<Channels> {
        // struct ethtool_channels: cmd, then the counts.
        let mut request = [0_u32; 9];
        request[0] = ETHTOOL_GCHANNELS;
        self.call(interface, &mut request)?;
        let [_, max_rx, max_tx, max_other, max_combined, rx, tx, other, combined] = request;
        Ok(Channels {
            current: ChannelCounts { rx, tx, other, combined },
            max: ChannelCounts { rx: max_rx, tx: max_tx, other: max_other, combined: max_combined },
        })
    }

    /// The offloads of `interface`.
    pub fn features(&self, interface: &str) -> Result<Features> {
        let names = self.feature_names(interface)?;
        // struct ethtool_gfeatures: cmd, number of blocks; a block has 32 features as the bit
        // masks available, requested, active, never_changed.
        let blocks = names.len().div_ceil(32);
        let mut request = vec![0_u32; 2 + 4 * blocks];
        request[0] = ETHTOOL_GFEATURES;
        request[1] = blocks as u32;
        self.call(interface, &mut request)?;
        Ok(decode_features(&names, &request[2..]))
    }

    fn feature_names(&self, interface: &str) -> Result<Vec<String>> {
        let count = self.feature_count(interface)?;
        if count > MAX_FEATURES {
            return Err(Error::malformed("number of features"));
        }
        // struct ethtool_gstrings: cmd, set, number, then the strings.
        let mut request = vec![0_u32; 3 + count as usize * ETH_GSTRING_LEN / size_of::<u32>()];
        request[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count]);
        self.call(interface, &mut request)?;
        Ok(bytes_of(&request[3..]).chunks_exact(ETH_GSTRING_LEN).map(text).collect())
    }

    fn feature_count(&self, interface: &str) -> Result<u32> {
        // struct ethtool_sset_info: cmd, reserved, 64-bit set mask, then a count per set.
        let mut request = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
        let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
        let [m0, m1, m2, m3, m4, m5, m6, m7] = mask;
        request[2] = u32::from_ne_bytes([m0, m1, m2, m3]);
        request[3] = u32::from_ne_bytes([m4, m5, m6, m7]);
        self.call(interface, &mut request)?;
        Ok(request[4])
    }

    /// Runs one ethtool command; `request` is its structure as 32-bit words, all of which the
    /// kernel may write.
    fn call(&self, interface: &str, request: &mut [u32]) -> Result<()> {
        // SAFETY: `ifreq` is plain data for which all zeroes are valid.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = interface.as_bytes();
        if name.len() >= ifreq.ifr_name.len() {
            return Err(Error::from_errno(libc::ENODEV));
        }
        for (to, from) in ifreq.ifr_name.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
        // SAFETY: `ifreq` and `request` outlive the call. Each caller's `request` has the length
        // that the command's structure has for the counts in it, so the kernel writes inside.
        let done =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut ifreq) };
        if done < 0 { Err(io::Error::last_os_error().into()) } else { Ok(()) }
    }
}

fn decode_features(names: &[String], blocks: &[u32]) -> Features {
    let feature = |(index, name): (usize, &String)| {
        let [available, _requested, active, never_changed] =
            *blocks.get(index / 32 * 4..)?.first_chunk()?;
        let has = |mask: u32| mask >> (index % 32) & 1 == 1;
        let fixed = !has(available) || has(never_changed);
        (!name.is_empty()).then(|| (name.clone(), Feature { on: has(active), fixed }))
    };
    names.iter().enumerate().filter_map(feature).collect()
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
    fn the_loopback_device_shows_its_features() {
        let features = EthtoolIoctl::open().unwrap().features("lo").unwrap();
        assert_eq!(features.get("loopback"), Some(&Feature { on: true, fixed: true }));
        assert_eq!(features.get("rx-gro-hw"), Some(&Feature { on: false, fixed: true }));
    }

    #[test]
    fn a_feature_is_fixed_when_unavailable_or_never_changed() {
        let names: Vec<String> = (0..40).map(|index| format!("f{index}")).collect();
        let features = decode_features(&names, &[0b011, 0, 0b110, 0b010, 1 << 7, 0, 1 << 7, 0]);
        assert_eq!(features["f0"], Feature { on: false, fixed: false });
        assert_eq!(features["f1"], Feature { on: true, fixed: true });
        assert_eq!(features["f2"], Feature { on: true, fixed: true });
        assert_eq!(features["f39"], Feature { on: true, fixed: false });
        assert_eq!(decode_features(&names, &[0; 4]).len(), 32);
    }

    #[test]
    fn an_unknown_interface_is_enodev() {
        let ioctl = EthtoolIoctl::open().unwrap();
        assert_eq!(ioctl.driver("nic-none").unwrap_err().errno, libc::ENODEV);
        assert_eq!(ioctl.driver("name-longer-than-15").unwrap_err().errno, libc::ENODEV);
    }
}
