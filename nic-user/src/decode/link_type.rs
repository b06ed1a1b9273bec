//! Link types of captures (<https://www.tcpdump.org/linktypes.html>). Ethernet, and
//! those whose header leads straight to a network header, are decoded; the rest are told by name.

use std::fmt;

use nic_common::headers::ethertype;

use super::{Link, input::Input};
use crate::error::Error;

/// The way out for a capture none of whose frames can be read.
pub const CAPTURE_ETHERNET: &str = "capture on one Ethernet interface: tcpdump -i IFACE -w FILE";

/// What kind of link the packets were captured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkType(pub(super) u16);

impl LinkType {
    /// What a frame that begins with `bytes` has in front of its network header.
    pub(super) fn link(self, bytes: &[u8]) -> Link {
        let behind = |len: u32, ethertype| Link::Other { len, ethertype };
        match self.0 {
            1 => Link::Ethernet,
            0 => behind(4, array(bytes, 0).map(|family| by_family(family, Order::Unknown))),
            108 => behind(4, array(bytes, 0).map(|family| by_family(family, Order::Network))),
            12 | 14 | 101 => behind(0, bytes.first().map(|version| by_version(*version))),
            113 => behind(16, array(bytes, 14).map(u16::from_be_bytes)),
            228 => behind(0, Some(ethertype::IPV4)),
            229 => behind(0, Some(ethertype::IPV6)),
            276 => behind(20, array(bytes, 0).map(u16::from_be_bytes)),
            _ => Link::Unknown(self),
        }
    }

    /// That no frame of `input` can be read, because they are all of this type.
    pub(super) fn refused(self, input: &Input) -> Error {
        let error = Error::failed(format!(
            "{}: its link type is {self}, which nicctl cannot decode",
            input.name()
        ));
        error.with_fix(CAPTURE_ETHERNET)
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            6 => "Token Ring",
            9 => "PPP",
            10 => "FDDI",
            50 => "PPP in HDLC framing",
            51 => "PPPoE",
            104 => "Cisco HDLC",
            105 => "IEEE 802.11",
            119 => "IEEE 802.11 with Prism header",
            127 => "IEEE 802.11 with radiotap header",
            147..=162 => "user-defined",
            187 | 201 => "Bluetooth HCI",
            189 | 220 => "Linux USB",
            195 | 230 => "IEEE 802.15.4",
            227 => "SocketCAN",
            239 => "netfilter log",
            247 => "InfiniBand",
            253 => "Linux netlink",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Byte order of an address family in front of a packet.
#[derive(Clone, Copy)]
enum Order {
    Network,
    /// That of the machine that captured, whatever it was.
    Unknown,
}

/// The ethertype of an address family; 0 of one that is not IP.
fn by_family(family: [u8; 4], order: Order) -> u16 {
    // IPv6's number in Linux, NetBSD, FreeBSD, Darwin.
    let ethertype = |family| match family {
        2 => Some(ethertype::IPV4),
        10 | 24 | 28 | 30 => Some(ethertype::IPV6),
        _ => None,
    };
    let big = ethertype(u32::from_be_bytes(family));
    match order {
        Order::Network => big,
        Order::Unknown => big.or_else(|| ethertype(u32::from_le_bytes(family))),
    }
    .unwrap_or_default()
}

/// The ethertype of an IP header's first byte.
const fn by_version(first: u8) -> u16 {
    if first >> 4 == 6 { ethertype::IPV6 } else { ethertype::IPV4 }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Bytes of FCS behind a frame, by the upper half of the link type in a pcap file's header. The
/// format counts words of 16 bits, some writers bytes: 4 words are no FCS of any link.
pub(super) const fn fcs_len(field: u32) -> u32 {
    const IS_KNOWN: u32 = 1 << 26;
    match (field & IS_KNOWN, field >> 28) {
        (0, _) => 0,
        (_, 4) => 4,
        (_, words) => words * 2,
    }
}

/// Bytes of FCS behind a frame, by `if_fcslen`. The format counts bits, writers bytes.
pub(super) const fn fcs_option_len(value: u8) -> u32 {
    if value < 16 { value as u32 } else { value as u32 / 8 }
}
