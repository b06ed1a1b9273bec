//! The header walk: from the bytes of an Ethernet frame to the length of its headers and what they
//! are. The header length is the one that the kernel's `eth_get_headlen` (net/ethernet/eth.c)
//! returns; the walk follows `__skb_flow_dissect` and `__skb_get_poff` (net/core/flow_dissector.c).
//!
//! [`HeaderInfo::of`] answers for every frame. [`HeaderInfo::of_common`] is the fast path: the same
//! answer for the stacks that most frames have, and none for the rest.

mod common;
mod walk;

pub use walk::Walk;

use network_types::{
    eth::{EthHdr, EtherType},
    ip::IpProto,
};

use crate::frame::Frame;

/// Ethertypes in host byte order, as [`HeaderInfo::l3`] has them.
pub mod ethertype {
    use super::EtherType;

    /// IPv4.
    pub const IPV4: u16 = u16::from_be(EtherType::Ipv4 as u16);
    /// IPv6.
    pub const IPV6: u16 = u16::from_be(EtherType::Ipv6 as u16);
    /// ARP.
    pub const ARP: u16 = u16::from_be(EtherType::Arp as u16);
    /// Customer VLAN tag, 802.1Q.
    pub const VLAN: u16 = u16::from_be(EtherType::Ieee8021q as u16);
    /// Service VLAN tag, 802.1ad.
    pub const SERVICE_VLAN: u16 = u16::from_be(EtherType::Ieee8021ad as u16);
    /// Fibre Channel over Ethernet.
    pub const FCOE: u16 = u16::from_be(EtherType::FibreChannel as u16);
    /// Ethernet frame in a tunnel (`ETH_P_TEB`).
    pub const TEB: u16 = 0x6558;
    /// MPLS, unicast.
    pub const MPLS_UNICAST: u16 = 0x8847;
    /// MPLS, multicast.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// PPPoE session.
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// PPP in GRE (PPTP, RFC 2637).
    pub const PPP: u16 = 0x880b;
    /// Precision time protocol, IEEE 1588.
    pub const PTP: u16 = 0x88f7;
    /// Parallel redundancy protocol.
    pub const PRP: u16 = 0x88fb;
    /// High-availability seamless redundancy.
    pub const HSR: u16 = 0x892f;
    /// batman-adv.
    pub const BATMAN: u16 = 0x4305;
}

/// IP protocols that the walk knows.
pub mod protocol {
    use super::IpProto;

    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = IpProto::HopOpt as u8;
    /// ICMP for IPv4.
    pub const ICMP: u8 = IpProto::Icmp as u8;
    /// IGMP.
    pub const IGMP: u8 = IpProto::Igmp as u8;
    /// IPv4 in IP.
    pub const IPV4: u8 = IpProto::Ipv4 as u8;
    /// TCP.
    pub const TCP: u8 = IpProto::Tcp as u8;
    /// UDP.
    pub const UDP: u8 = IpProto::Udp as u8;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 in IP.
    pub const IPV6: u8 = IpProto::Ipv6 as u8;
    /// IPv6 routing header.
    pub const ROUTING: u8 = IpProto::Ipv6Route as u8;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = IpProto::Ipv6Frag as u8;
    /// GRE.
    pub const GRE: u8 = IpProto::Gre as u8;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = IpProto::Ipv6Icmp as u8;
    /// IPv6 destination options.
    pub const DESTINATION: u8 = IpProto::Ipv6Opts as u8;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
    /// MPLS in IP.
    pub const MPLS: u8 = 137;
}

/// The protocol that an IP header announces, or none where there was no IP header.
///
/// Not an `Option`, whose empty half may hold anything: the verifier refuses to let such bytes be
/// copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpProtocol(u8);

impl IpProtocol {
    /// No IP header. The number is one that IANA keeps reserved.
    pub const NONE: Self = Self(255);

    /// The protocol of this number.
    #[inline(always)]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number, 255 for none.
    #[inline(always)]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// The number, if there was an IP header.
    pub const fn number(self) -> Option<u8> {
        match self {
            Self::NONE => None,
            Self(number) => Some(number),
        }
    }
}

/// What the walk noticed beside lengths and protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(u8);

impl Flags {
    /// Nothing noticed.
    pub const NONE: Self = Self(0);
    /// A header is cut off or contradicts itself: version, IHL, data offset, or a length that
    /// reaches beyond the frame.
    pub const MALFORMED: Self = Self(1);
    /// The headers go on where they could not be read; the header length is a lower bound.
    pub const UNPARSED: Self = Self(1 << 1);
    /// At least one VLAN tag.
    pub const VLAN: Self = Self(1 << 2);
    /// IP, GRE or MPLS in IP, or UDP to the port of a tunnel.
    pub const TUNNEL: Self = Self(1 << 3);
    /// A first fragment: its transport header is there.
    pub const FIRST_FRAGMENT: Self = Self(1 << 4);
    /// A later fragment: payload follows the IP header.
    pub const LATER_FRAGMENT: Self = Self(1 << 5);
    /// A packet over 65,535 bytes: IPv6 with a jumbo payload option or payload length 0, IPv4 with
    /// total length 0.
    pub const JUMBO: Self = Self(1 << 6);

    /// The flags as bits.
    #[inline(always)]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags of these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether any of `other`'s flags is set.
    #[inline(always)]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags and those of `other`.
    #[inline(always)]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All other flags.
    #[inline(always)]
    pub const fn complement(self) -> Self {
        Self(!self.0)
    }

    #[inline(always)]
    fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The headers of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderInfo {
    /// Length of all headers in bytes: what `eth_get_headlen` returns. Never more than the frame.
    pub header_len: u32,
    /// Where the innermost network header that was reached starts, in bytes.
    pub l3_offset: u32,
    /// Where what follows that header starts: the transport header, if there is one.
    pub l4_offset: u32,
    /// Ethertype where the walk stopped, in host byte order.
    pub l3: u16,
    /// IP protocol where the walk stopped.
    pub l4: IpProtocol,
    /// VLAN tags in the frame's bytes.
    pub vlan_depth: u8,
    /// What the walk noticed.
    pub flags: Flags,
}

impl HeaderInfo {
    /// The headers of `frame`.
    #[inline(always)]
    pub fn of<F: Frame + ?Sized>(frame: &F) -> Self {
        let mut walk = Walk::start(frame);
        while walk.step(frame) {}
        walk.end(frame)
    }

    /// The headers of `frame` if they are of a common, sound kind: Ethernet, up to two VLAN tags,
    /// IPv4 without fragments or IPv6 with up to two extension headers, then TCP, UDP or ICMP; or
    /// ARP. Equal to [`HeaderInfo::of`] wherever it answers.
    #[inline(always)]
    pub fn of_common<F: Frame + ?Sized>(frame: &F) -> Option<Self> {
        Self::of_common_with_len(frame).map(|(info, _)| info)
    }

    /// The same, with the length of the frame.
    #[inline(always)]
    pub fn of_common_with_len<F: Frame + ?Sized>(frame: &F) -> Option<(Self, u32)> {
        common::walk(frame)
    }

    /// The same headers, each of their numbers through `hide`: see [`Walk::through`].
    #[inline(always)]
    #[must_use]
    pub fn through(self, hide: impl Fn(u64) -> u64) -> Self {
        Self {
            header_len: hide(self.header_len.into()) as u32,
            l3_offset: hide(self.l3_offset.into()) as u32,
            l4_offset: hide(self.l4_offset.into()) as u32,
            l3: hide(self.l3.into()) as u16,
            l4: IpProtocol::new(hide(self.l4.raw().into()) as u8),
            vlan_depth: hide(self.vlan_depth.into()) as u8,
            flags: Flags::from_bits(hide(self.flags.bits().into()) as u8),
        }
    }

    /// Whether the headers go on where they could not be read.
    #[inline(always)]
    pub const fn is_unparsed(&self) -> bool {
        self.flags.any(Flags::UNPARSED)
    }
}

/// UDP destination ports of tunnels.
pub mod tunnel_port {
    /// VXLAN.
    pub const VXLAN: u16 = 4789;
    /// VXLAN, as Linux first had it.
    pub const OLD_VXLAN: u16 = 8472;
    /// VXLAN-GPE.
    pub const VXLAN_GPE: u16 = 4790;
    /// GENEVE.
    pub const GENEVE: u16 = 6081;
    /// GTP-U.
    pub const GTP_U: u16 = 2152;
}

#[inline(always)]
const fn is_tunnel_port(port: u16) -> bool {
    use tunnel_port::{GENEVE, GTP_U, OLD_VXLAN, VXLAN, VXLAN_GPE};
    matches!(port, VXLAN | OLD_VXLAN | VXLAN_GPE | GENEVE | GTP_U)
}

/// Bytes that the walk counts for a transport header of fixed size (`__skb_get_poff`); 0 for a
/// protocol it does not know, and for TCP, whose header says its own length.
#[inline(always)]
const fn fixed_transport_len(protocol: u8) -> u32 {
    match protocol {
        protocol::UDP | protocol::UDP_LITE | protocol::ICMP | protocol::ICMPV6 | protocol::IGMP => {
            8
        }
        protocol::SCTP | protocol::DCCP => 12,
        _ => 0,
    }
}

#[inline(always)]
const fn is_vlan(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN)
}

const ETHERNET_LEN: u32 = EthHdr::LEN as u32;
const VLAN_TAG_LEN: u32 = 4;
const IPV4_LEN: u32 = 20;
const IPV6_LEN: u32 = 40;
const TCP_LEN: u32 = 20;
