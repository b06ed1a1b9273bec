//! The fast path: common stacks, straight through. It answers only where nothing is out of the
//! ordinary; everything else is left to the whole walk.

use super::{
    ETHERNET_LEN, Flags, HeaderInfo, IPV4_LEN, IPV6_LEN, IpProtocol, TCP_LEN, VLAN_TAG_LEN,
    ethertype, fixed_transport_len, is_tunnel_port, is_vlan, protocol,
    walk::{check_ipv4, check_ipv6, check_udp},
};
use crate::frame::{Fields, Frame};

/// VLAN tags that are still common: QinQ.
const MAX_VLAN_TAGS: u8 = 2;

/// The headers, and the length of the frame.
#[inline(always)]
pub(super) fn walk<F: Frame + ?Sized>(frame: &F) -> Option<(HeaderInfo, u32)> {
    let ethernet = frame.header::<14>(0)?;
    let mut ethertype = ethernet.be16(12);
    let mut at = ETHERNET_LEN;
    let mut vlan_depth = 0;
    while is_vlan(ethertype) {
        if vlan_depth == MAX_VLAN_TAGS {
            return None;
        }
        ethertype = frame.header::<4>(at)?.be16(2);
        at += VLAN_TAG_LEN;
        vlan_depth += 1;
    }
    network(frame, at, ethertype, vlan_depth)
}

#[inline(always)]
fn network<F: Frame + ?Sized>(
    frame: &F,
    at: u32,
    ethertype: u16,
    vlan_depth: u8,
) -> Option<(HeaderInfo, u32)> {
    let flags = if vlan_depth > 0 { Flags::VLAN } else { Flags::NONE };
    let info = HeaderInfo {
        header_len: at,
        l3_offset: at,
        l4_offset: at,
        l3: ethertype,
        l4: IpProtocol::NONE,
        vlan_depth,
        flags,
    };
    match ethertype {
        ethertype::IPV4 => ipv4(frame, info),
        ethertype::IPV6 => ipv6(frame, info),
        ethertype::ARP => Some((info, frame.len())),
        _ => None,
    }
}

#[inline(always)]
fn ipv4<F: Frame + ?Sized>(frame: &F, info: HeaderInfo) -> Option<(HeaderInfo, u32)> {
    const ANY_FRAGMENT: u16 = 0x3fff;
    let at = info.l3_offset;
    let ip = frame.header::<20>(at)?;
    let total_len = u32::from(ip.be16(2));
    let frame_len = frame.len_if_packet_ends_at(at + total_len);
    let wrong = check_ipv4(ip.u8(0), total_len, frame_len - at);
    if wrong != Flags::NONE || ip.be16(6) & ANY_FRAGMENT != 0 {
        return None;
    }
    let header_len = u32::from(ip.u8(0) & 0xf) * 4;
    transport(frame, frame_len, info, at + header_len.max(IPV4_LEN), ip.u8(9))
}

#[inline(always)]
fn ipv6<F: Frame + ?Sized>(frame: &F, info: HeaderInfo) -> Option<(HeaderInfo, u32)> {
    let ip = frame.header::<40>(info.l3_offset)?;
    let at = info.l3_offset + IPV6_LEN;
    let next_header = ip.u8(6);
    let payload_len = u32::from(ip.be16(4));
    let frame_len = frame.len_if_packet_ends_at(at + payload_len);
    let wrong = check_ipv6(ip.u8(0), payload_len, next_header, frame_len - at);
    if wrong != Flags::NONE {
        return None;
    }
    if !is_extension(next_header) {
        return transport(frame, frame_len, info, at, next_header);
    }
    let (at, next_header) = extension(frame, at)?;
    if !is_extension(next_header) {
        return transport(frame, frame_len, info, at, next_header);
    }
    let (at, next_header) = extension(frame, at)?;
    transport(frame, frame_len, info, at, next_header)
}

#[inline(always)]
const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION)
}

/// Start and protocol of what follows the extension header at `at`.
#[inline(always)]
fn extension<F: Frame + ?Sized>(frame: &F, at: u32) -> Option<(u32, u8)> {
    let extension = frame.header::<2>(at)?;
    let next = at + (u32::from(extension.u8(1)) + 1) * 8;
    Some((next, extension.u8(0)))
}

#[inline(always)]
fn transport<F: Frame + ?Sized>(
    frame: &F,
    frame_len: u32,
    mut info: HeaderInfo,
    at: u32,
    protocol: u8,
) -> Option<(HeaderInfo, u32)> {
    let len = match protocol {
        protocol::TCP => {
            let tcp = frame.header::<13>(at)?;
            let len = u32::from(tcp.u8(12) >> 4) * 4;
            if len < TCP_LEN {
                return None;
            }
            len
        }
        protocol::UDP => {
            let udp = frame.header::<8>(at)?;
            if check_udp(u32::from(udp.be16(4)), frame_len - at) != Flags::NONE {
                return None;
            }
            if is_tunnel_port(udp.be16(2)) {
                info.flags.set(Flags::TUNNEL);
            }
            8
        }
        protocol::ICMP | protocol::ICMPV6 => fixed_transport_len(protocol),
        _ => return None,
    };
    info.header_len = at + len;
    info.l4_offset = at;
    info.l4 = IpProtocol::new(protocol);
    (info.header_len <= frame_len).then_some((info, frame_len))
}
