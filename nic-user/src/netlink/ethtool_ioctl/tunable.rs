//! Tunables: the sizes up to which packets are copied (`ethtool --show-tunable`).

use super::EthtoolIoctl;
use super::unknown::{Question, says_unknown};
use crate::netlink::Result;

const ETHTOOL_GTUNABLE: u32 = 0x48;
const ETHTOOL_STUNABLE: u32 = 0x49;
const ETHTOOL_TUNABLE_U32: u32 = 3;

/// A size that a driver lets be tuned, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tunable {
    /// Received packets up to it are copied into a buffer of their size.
    RxCopybreak,
    /// Sent packets up to it are copied instead of mapped for the device.
    TxCopybreak,
    /// The buffer that sent packets are copied into.
    TxBufSize,
}

impl Tunable {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RxCopybreak, Self::TxCopybreak, Self::TxBufSize];

    /// ethtool's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RxCopybreak => "rx-copybreak",
            Self::TxCopybreak => "tx-copybreak",
            Self::TxBufSize => "tx-buf-size",
        }
    }

    /// `ETHTOOL_*` in `enum tunable_id`.
    const fn id(self) -> u32 {
        match self {
            Self::RxCopybreak => 1,
            Self::TxCopybreak => 2,
            Self::TxBufSize => 4,
        }
    }
}

impl EthtoolIoctl {
    /// A tunable of `interface`, in bytes; `None` if its driver has no such thing.
    pub fn tunable(&self, interface: &str, tunable: Tunable) -> Result<Option<u32>> {
        let mut request = encode(ETHTOOL_GTUNABLE, tunable, 0);
        match self.call(interface, &mut request) {
            Ok(()) => Ok(Some(request[4])),
            Err(error) if says_unknown(Question::Tunable, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets a tunable of `interface`, in bytes. `EOPNOTSUPP` or `EINVAL` if its driver has no
    /// such thing, `EINVAL` also for a size that the driver does not take.
    pub fn set_tunable(&self, interface: &str, tunable: Tunable, bytes: u32) -> Result<()> {
        self.call(interface, &mut encode(ETHTOOL_STUNABLE, tunable, bytes))
            .map_err(|error| error.at(tunable.name()))
    }
}

/// `struct ethtool_tunable`: cmd, id, type, length, value.
const fn encode(command: u32, tunable: Tunable, value: u32) -> [u32; 5] {
    [command, tunable.id(), ETHTOOL_TUNABLE_U32, size_of::<u32>() as u32, value]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_that_ethtool_sends() {
        // strace -e ioctl ethtool --set-tunable IFACE tx-copybreak 128
        let words = encode(ETHTOOL_STUNABLE, Tunable::TxCopybreak, 128);
        assert_eq!(words, [0x49, 2, 3, 4, 128]);
        assert_eq!(encode(ETHTOOL_GTUNABLE, Tunable::TxBufSize, 0), [0x48, 4, 3, 4, 0]);
    }

    #[test]
    fn the_loopback_device_has_no_tunables() {
        let ioctl = EthtoolIoctl::open().unwrap();
        for tunable in Tunable::ALL {
            assert_eq!(ioctl.tunable("lo", tunable), Ok(None));
            let error = ioctl.set_tunable("lo", tunable, 128).unwrap_err();
            assert_eq!(error.attribute.as_deref(), Some(tunable.name()));
        }
        assert_eq!(
            ioctl.tunable("nic-none", Tunable::RxCopybreak).unwrap_err().errno,
            libc::ENODEV
        );
    }
}
