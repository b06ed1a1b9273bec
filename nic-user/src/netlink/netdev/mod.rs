//! The `netdev` family of generic netlink: what a device can do with XDP, its queues, NAPI
//! instances and page pools. Since Linux 6.3 (linux/netdev.h).

pub mod napi;
pub mod page_pool;
pub mod queue;

use super::attribute::Attributes;
use super::generic::{self, Family};
use super::request::Request;
use super::{Error, IfSupported, Result};

const FAMILY: &str = "netdev";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;

const NETDEV_XDP_ACT_BASIC: u64 = 1 << 0;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 1 << 2;
const NETDEV_XDP_ACT_XSK_ZEROCOPY: u64 = 1 << 3;
const NETDEV_XDP_ACT_HW_OFFLOAD: u64 = 1 << 4;
const NETDEV_XDP_ACT_RX_SG: u64 = 1 << 5;

const NETDEV_XSK_FLAGS_TX_CHECKSUM: u64 = 1 << 1;

/// What a device's driver says it can do with XDP (`enum netdev_xdp_act`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Whether it runs programs natively.
    pub const fn native(self) -> bool {
        self.0 & NETDEV_XDP_ACT_BASIC != 0
    }

    /// Whether it takes programs that read several buffers (`xdp.frags`).
    pub const fn frags(self) -> bool {
        self.0 & NETDEV_XDP_ACT_RX_SG != 0
    }

    /// Whether it sends frames that programs of other devices redirect to it.
    pub const fn takes_redirects(self) -> bool {
        self.0 & NETDEV_XDP_ACT_NDO_XMIT != 0
    }

    /// Whether AF_XDP sockets can have its own receive buffers.
    pub const fn zero_copy(self) -> bool {
        self.0 & NETDEV_XDP_ACT_XSK_ZEROCOPY != 0
    }

    /// Whether the device itself runs programs.
    pub const fn offload(self) -> bool {
        self.0 & NETDEV_XDP_ACT_HW_OFFLOAD != 0
    }
}

/// What a device's driver does for what AF_XDP sockets send with zero copy (`enum
/// netdev_xsk_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskFeatures(u64);

impl XskFeatures {
    /// Whether it fills in checksums.
    pub const fn tx_checksum(self) -> bool {
        self.0 & NETDEV_XSK_FLAGS_TX_CHECKSUM != 0
    }
}

/// Asks about devices of the network namespace in which it was opened.
pub struct Netdev {
    family: Family,
}

impl Netdev {
    /// Opens a socket in the current network namespace; [`Error::is_unsupported`] if the kernel lacks
    /// the family.
    pub fn open() -> Result<Self> {
        Ok(Self { family: Family::open(FAMILY)? })
    }

    /// The same; `None` if the kernel lacks the family.
    pub fn find() -> Result<Option<Self>> {
        Ok(Family::find(FAMILY)?.map(|family| Self { family }))
    }

    /// What the device with this index can do with XDP.
    pub fn xdp_features(&mut self, ifindex: u32) -> Result<XdpFeatures> {
        self.device(ifindex, decode_xdp_features)
    }

    /// What the device with this index does for AF_XDP sockets; nothing before Linux 6.8.
    pub fn xsk_features(&mut self, ifindex: u32) -> Result<XskFeatures> {
        self.device(ifindex, decode_xsk_features)
    }

    fn device<T>(
        &mut self,
        ifindex: u32,
        decode: impl FnOnce(Attributes<'_>) -> Result<T>,
    ) -> Result<T> {
        let request = generic::command(NETDEV_CMD_DEV_GET).u32(NETDEV_A_DEV_IFINDEX, ifindex);
        let reply = self.family.request(&request)?;
        decode(generic::only_message(&reply)?)
    }

    /// Everything that `command` lists for the query that `fill` makes; nothing if the kernel or
    /// the driver has no such list. `decode` leaves out what it does not know.
    fn dump<T>(
        &mut self,
        command: u8,
        fill: impl FnOnce(Request) -> Request,
        decode: impl Fn(Attributes<'_>) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let reply = self.family.dump(&fill(generic::command(command))).if_supported()?;
        let reply = reply.unwrap_or_default();
        let decoded = reply.messages.iter().map(|message| decode(generic::attributes(message)?));
        decoded.filter_map(Result::transpose).collect()
    }
}

pub(crate) fn decode_xdp_features(attributes: Attributes<'_>) -> Result<XdpFeatures> {
    let features = number(attributes, NETDEV_A_DEV_XDP_FEATURES)?;
    features.map(XdpFeatures).ok_or_else(|| Error::malformed("no XDP features"))
}

pub(crate) fn decode_xsk_features(attributes: Attributes<'_>) -> Result<XskFeatures> {
    Ok(number(attributes, NETDEV_A_DEV_XSK_FEATURES)?.map(XskFeatures).unwrap_or_default())
}

/// The number in the first attribute of this kind, if there is one.
fn number(attributes: Attributes<'_>, kind: u16) -> Result<Option<u64>> {
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == kind {
            return attribute.uint().map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel says of a device.
    fn device(xsk: Option<u64>) -> Request {
        let device = Request::default().u32(NETDEV_A_DEV_IFINDEX, 2).uint(3, 0x7f);
        xsk.into_iter().fold(device, |device, features| device.uint(6, features))
    }

    #[test]
    fn a_device_that_says_nothing_does_nothing_for_af_xdp() {
        for (xsk, checksum) in [(None, false), (Some(0), false), (Some(1), false), (Some(3), true)]
        {
            let device = device(xsk);
            let features = decode_xsk_features(Attributes::new(device.as_bytes())).unwrap();
            assert_eq!(features.tx_checksum(), checksum, "{xsk:?}");
            let features = decode_xdp_features(Attributes::new(device.as_bytes())).unwrap();
            assert!(features.zero_copy());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoders_panic(bytes: Vec<u8>) {
            let _ = decode_xdp_features(Attributes::new(&bytes));
            let _ = decode_xsk_features(Attributes::new(&bytes));
        }
    }
}
