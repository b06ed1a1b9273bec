//! The `netdev` family of generic netlink: what a device can do with XDP. Since Linux 6.3
//! (linux/netdev.h, linux/genetlink.h).

use netlink_bindings::utils::find_attr;

use super::request::Request;
use super::socket::Socket;
use super::{Error, Result};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
pub(super) const GENL_HEADER_LEN: usize = 4;

const FAMILY: &str = "netdev";
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

const NETDEV_XDP_ACT_BASIC: u64 = 1 << 0;
const NETDEV_XDP_ACT_HW_OFFLOAD: u64 = 1 << 4;
const NETDEV_XDP_ACT_RX_SG: u64 = 1 << 5;

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

    /// Whether the device itself runs programs.
    pub const fn offload(self) -> bool {
        self.0 & NETDEV_XDP_ACT_HW_OFFLOAD != 0
    }
}

/// Asks about devices of the network namespace in which it was opened.
pub struct Netdev {
    pub(super) socket: Socket,
    pub(super) family: u16,
}

impl Netdev {
    /// Opens a socket in the current network namespace; `ENOENT` if the kernel lacks the family.
    pub fn open() -> Result<Self> {
        let mut socket = Socket::open(libc::NETLINK_GENERIC)?;
        let request = Request::with_header(&[CTRL_CMD_GETFAMILY, 1, 0, 0])
            .string(CTRL_ATTR_FAMILY_NAME, FAMILY);
        let reply = socket.request(GENL_ID_CTRL, 0, request.as_bytes())?;
        let family = attribute(&reply.messages, CTRL_ATTR_FAMILY_ID).map(u16::from_ne_bytes);
        let family = family.ok_or_else(|| Error::malformed("no family id"))?;
        Ok(Self { socket, family })
    }

    /// What the device with this index can do with XDP.
    pub fn xdp_features(&mut self, ifindex: u32) -> Result<XdpFeatures> {
        let request =
            Request::with_header(&[NETDEV_CMD_DEV_GET, 1, 0, 0]).u32(NETDEV_A_DEV_IFINDEX, ifindex);
        let reply = self.socket.request(self.family, 0, request.as_bytes())?;
        attribute(&reply.messages, NETDEV_A_DEV_XDP_FEATURES)
            .map(|bytes| XdpFeatures(u64::from_ne_bytes(bytes)))
            .ok_or_else(|| Error::malformed("no XDP features"))
    }
}

/// The value of the first attribute of type `kind` in the first message.
fn attribute<const N: usize>(messages: &[Vec<u8>], kind: u16) -> Option<[u8; N]> {
    find_attr(messages.first()?.get(GENL_HEADER_LEN..)?, kind)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_message_makes_the_decoder_panic(message: Vec<u8>, kind in 0_u16..8) {
            let _ = attribute::<8>(&[message], kind);
        }
    }
}
