//! What is shown of a frame.

use std::borrow::Cow;

use nic_common::{frame::Frame, headers::Flags};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, Captured, names};
use crate::report::json::Version;

/// What nicctl sees in one frame: a line of `nicctl decode --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Decoded {
    /// Version of this document's format.
    pub version: Version<1>,
    /// Number of the frame in its source, from 0.
    pub index: u64,
    /// Bytes of the frame that were captured; everything else here is about these.
    pub len: u32,
    /// Bytes of the frame on the wire.
    pub original_len: u32,
    /// Length of all headers in bytes.
    pub header_len: u32,
    /// Innermost ethertype: "ipv4", "ipv6", "arp", ..., or a number like "0x88cc"; null if the
    /// Ethernet header is cut off.
    pub l3: Option<Cow<'static, str>>,
    /// Innermost IP protocol: "tcp", "udp", "icmp", "icmpv6", ..., or a number like "89"; null
    /// without an IP header.
    pub l4: Option<Cow<'static, str>>,
    /// Where the innermost network header starts, in bytes; null if the walker does not tell.
    pub l3_offset: Option<u32>,
    /// Where what follows the network header starts, in bytes; null if the walker does not tell.
    pub l4_offset: Option<u32>,
    /// VLAN tags in the frame's bytes; null if the walker does not tell.
    pub vlan_depth: Option<u8>,
    /// What the policy decides: copy the frame, copy its headers, or take it as it is.
    #[schemars(extend("enum" = ["copy", "split", "whole"]))]
    pub verdict: &'static str,
    /// Whether there is a VLAN tag in the frame's bytes.
    pub vlan: bool,
    /// IP, GRE or MPLS in IP, or UDP to the port of a tunnel.
    pub tunnel: bool,
    /// The first fragment of an IP packet.
    pub first_fragment: bool,
    /// A later fragment of an IP packet.
    pub later_fragment: bool,
    /// An IP packet of more than 65,535 bytes.
    pub jumbo: bool,
    /// A header is cut off or contradicts itself.
    pub malformed: bool,
    /// The headers go on where they could not be read; `header_len` is a lower bound.
    pub unparsed: bool,
    /// Less was captured than was on the wire.
    pub truncated: bool,
}

impl Decoded {
    /// The row of frame number `index`.
    pub fn new(index: u64, frame: &Captured<'_>, answer: &Answer) -> Self {
        let flag = |flag| answer.flags.any(flag);
        let len = Frame::len(frame.bytes);
        Self {
            version: Version,
            index,
            len,
            original_len: frame.original_len,
            header_len: answer.header_len,
            l3: answer.l3.map(names::l3),
            l4: answer.l4.map(names::l4),
            l3_offset: answer.layout.map(|layout| layout.l3_offset),
            l4_offset: answer.layout.map(|layout| layout.l4_offset),
            vlan_depth: answer.layout.map(|layout| layout.vlan_depth),
            verdict: answer.verdict.name(),
            vlan: flag(Flags::VLAN),
            tunnel: flag(Flags::TUNNEL),
            first_fragment: flag(Flags::FIRST_FRAGMENT),
            later_fragment: flag(Flags::LATER_FRAGMENT),
            jumbo: flag(Flags::JUMBO),
            malformed: flag(Flags::MALFORMED),
            unparsed: flag(Flags::UNPARSED),
            truncated: len < frame.original_len,
        }
    }

    /// What is out of the ordinary, the gravest first.
    pub fn notes(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.unparsed, "unparsed"),
            (self.malformed, "malformed"),
            (self.truncated, "truncated"),
            (self.first_fragment, "first-fragment"),
            (self.later_fragment, "later-fragment"),
            (self.tunnel, "tunnel"),
            (self.vlan, "vlan"),
            (self.jumbo, "jumbo"),
        ]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
    }
}
