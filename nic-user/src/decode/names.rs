//! Names of protocols, as [`Decoded`](super::Decoded) has them.

use std::borrow::Cow;

use nic_common::headers::{ethertype, protocol};

/// The name of an ethertype; its number in hex if it has none here.
pub(super) fn l3(number: u16) -> Cow<'static, str> {
    match number {
        ethertype::IPV4 => "ipv4".into(),
        ethertype::IPV6 => "ipv6".into(),
        ethertype::ARP => "arp".into(),
        ethertype::VLAN => "802.1q".into(),
        ethertype::SERVICE_VLAN => "802.1ad".into(),
        ethertype::FCOE => "fcoe".into(),
        ethertype::TEB => "ethernet".into(),
        ethertype::MPLS_UNICAST | ethertype::MPLS_MULTICAST => "mpls".into(),
        ethertype::PPPOE_SESSION => "pppoe".into(),
        ethertype::PPP => "ppp".into(),
        ethertype::PTP => "ptp".into(),
        ethertype::PRP => "prp".into(),
        ethertype::HSR => "hsr".into(),
        ethertype::BATMAN => "batman".into(),
        _ => format!("{number:#06x}").into(),
    }
}

/// The name of an IP protocol; its number if it has none here.
pub(super) fn l4(number: u8) -> Cow<'static, str> {
    match number {
        protocol::HOP_BY_HOP => "hop-by-hop".into(),
        protocol::ICMP => "icmp".into(),
        protocol::IGMP => "igmp".into(),
        protocol::IPV4 => "ipv4".into(),
        protocol::TCP => "tcp".into(),
        protocol::UDP => "udp".into(),
        protocol::DCCP => "dccp".into(),
        protocol::IPV6 => "ipv6".into(),
        protocol::ROUTING => "routing".into(),
        protocol::FRAGMENT => "fragment".into(),
        protocol::GRE => "gre".into(),
        protocol::ICMPV6 => "icmpv6".into(),
        protocol::DESTINATION => "dest-opts".into(),
        protocol::SCTP => "sctp".into(),
        protocol::UDP_LITE => "udplite".into(),
        protocol::MPLS => "mpls".into(),
        _ => number.to_string().into(),
    }
}
