//! Link types of captures (<https://www.tcpdump.org/linktypes.html>). Only Ethernet is decoded;
//! the rest are refused by name.

use std::fmt;

use super::input::Input;
use crate::error::{Error, Result};

/// What kind of link the packets were captured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkType(pub u16);

impl LinkType {
    const ETHERNET: Self = Self(1);

    /// # Errors
    ///
    /// The packets are not Ethernet frames.
    pub fn expect_ethernet(self, input: &Input) -> Result<()> {
        if self == Self::ETHERNET {
            return Ok(());
        }
        let error = Error::failed(format!("{}: {self}, not Ethernet", input.name()));
        Err(error.with_fix("capture on one Ethernet interface: tcpdump -i IFACE -w FILE"))
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "BSD loopback",
            6 => "Token Ring",
            9 => "PPP",
            10 => "FDDI",
            50 => "PPP in HDLC framing",
            51 => "PPPoE",
            101 => "raw IP",
            104 => "Cisco HDLC",
            105 => "IEEE 802.11",
            108 => "OpenBSD loopback",
            113 => "Linux cooked capture",
            119 => "IEEE 802.11 with Prism header",
            127 => "IEEE 802.11 with radiotap header",
            147..=162 => "user-defined",
            187 | 201 => "Bluetooth HCI",
            189 | 220 => "Linux USB",
            195 | 230 => "IEEE 802.15.4",
            227 => "SocketCAN",
            228 => "raw IPv4",
            229 => "raw IPv6",
            239 => "netfilter log",
            247 => "InfiniBand",
            253 => "Linux netlink",
            276 => "Linux cooked capture v2",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "its link type is {name} ({})", self.0),
            None => write!(f, "its link type is {}", self.0),
        }
    }
}
