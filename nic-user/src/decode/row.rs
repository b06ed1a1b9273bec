//! What is shown of a frame.

use std::borrow::Cow;

use nic_common::{frame::Frame, headers::Flags};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, Captured, captured::ETHERNET_LEN, names};
use crate::report::json::Version;

/// What nicctl sees in one frame: a line of `nicctl decode --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Decoded {
    /// Version of this document's format.
    pub version: Version<1>,
    /// Number of the frame in its source, from 0.
    pub index: u64,
    /// Bytes of the frame that were captured, without FCS, from the link's header on.
    pub len: u32,
    /// Bytes of the frame on the wire, without FCS; what follows is about these.
    pub original_len: u32,
    /// Length of all headers in bytes, the link's included.
    pub header_len: u32,
    /// Innermost ethertype: "ipv4", "ipv6", "arp", ..., or a number like "0x88cc"; null if the
    /// link's header is cut off.
    pub l3: Option<Cow<'static, str>>,
    /// Innermost IP protocol: "tcp", "udp", "icmp", "icmpv6", ..., or a number like "89"; null
    /// without an IP header.
    pub l4: Option<Cow<'static, str>>,
    /// Where the innermost network header starts, in bytes.
    pub l3_offset: u32,
    /// Where what follows the network header starts, in bytes.
    pub l4_offset: u32,
    /// VLAN tags in the frame's bytes.
    pub vlan_depth: u8,
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
    /// A header contradicts itself or the frame's length on the wire.
    pub malformed: bool,
    /// The headers go on where they could not be read, as behind what was captured; `header_len` is
    /// a lower bound.
    pub unparsed: bool,
    /// Less was captured than was on the wire.
    pub truncated: bool,
}

impl Decoded {
    /// The row of frame number `index`.
    pub fn new(index: u64, frame: &Captured<'_>, answer: &Answer) -> Self {
        let Answer { headers, verdict } = answer;
        let flag = |flag| headers.flags.any(flag);
        let len = Frame::len(frame.bytes);
        // The walk was over an Ethernet header.
        let shifted = |offset: u32| {
            (offset + frame.link_len()).saturating_sub(ETHERNET_LEN).min(frame.original_len)
        };
        Self {
            version: Version,
            index,
            len,
            original_len: frame.original_len,
            header_len: shifted(headers.header_len),
            l3: (len >= frame.link_len()).then(|| names::l3(headers.l3)),
            l4: headers.l4.number().map(names::l4),
            l3_offset: shifted(headers.l3_offset),
            l4_offset: shifted(headers.l4_offset),
            vlan_depth: headers.vlan_depth,
            verdict: verdict.name(),
            vlan: flag(Flags::VLAN),
            tunnel: flag(Flags::TUNNEL),
            first_fragment: flag(Flags::FIRST_FRAGMENT),
            later_fragment: flag(Flags::LATER_FRAGMENT),
            jumbo: flag(Flags::JUMBO),
            malformed: flag(Flags::MALFORMED),
            unparsed: flag(Flags::UNPARSED),
            truncated: frame.is_cut(),
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
