//! The whole walk, as deep as the kernel's.

use super::{
    ETHERNET_LEN, Flags, HeaderInfo, IPV4_LEN, IPV6_LEN, IpProtocol, TCP_LEN, VLAN_TAG_LEN,
    ethertype, fixed_transport_len, is_tunnel_port, protocol,
};
use crate::frame::{Fields, Frame, Rounds};

/// Rounds of the walk: the first header and 15 re-dispatches (`MAX_FLOW_DISSECT_HDRS`).
const ROUNDS: u32 = 16;

/// What follows a header.
enum Next {
    /// Another header of a kind that the kernel counts: the next round.
    Again,
    /// The payload of the IP header just read: the same round.
    IpPayload,
    /// Nothing that the walk knows.
    Stop,
}

/// How far the walk has come.
struct Walk<'f, F: ?Sized> {
    frame: &'f F,
    /// Start of the next header in bytes. Never beyond the frame.
    at: u32,
    /// `n_proto` of the flow dissector: what the header at `at` is, or what the IP header was.
    ethertype: u16,
    /// `ip_proto` of the flow dissector.
    protocol: IpProtocol,
    /// Whether `protocol`, not `ethertype`, says what the header at `at` is.
    in_ip: bool,
    l3_offset: u32,
    vlan_depth: u8,
    flags: Flags,
}

#[inline(always)]
pub(super) fn walk<F: Frame + ?Sized>(frame: &F) -> HeaderInfo {
    let mut walk = Walk {
        frame,
        at: ETHERNET_LEN,
        ethertype: 0,
        protocol: IpProtocol::NONE,
        in_ip: false,
        l3_offset: ETHERNET_LEN,
        vlan_depth: 0,
        flags: Flags::NONE,
    };
    let Some(ethernet) = frame.header::<14>(0) else {
        walk.cut_off::<14>(0);
        walk.at = frame.len().min(ETHERNET_LEN);
        walk.l3_offset = walk.at;
        return walk.into_info(walk.at);
    };
    walk.ethertype = ethernet.be16(12);
    walk.hide();
    frame.repeat(ROUNDS, &mut walk);
    let header_len = walk.transport_end();
    walk.into_info(header_len)
}

impl<F: Frame + ?Sized> Rounds for Walk<'_, F> {
    /// One dispatch of the flow dissector: a header by its ethertype and, if that is an IP header,
    /// the one behind it; or a header by its IP protocol.
    #[inline(always)]
    fn next(&mut self) -> bool {
        let mut next = Next::IpPayload;
        if !self.in_ip {
            next = self.by_ethertype();
            self.hide();
        }
        if matches!(next, Next::IpPayload) {
            next = self.by_protocol();
            self.hide();
        }
        matches!(next, Next::Again)
    }
}

impl<F: Frame + ?Sized> Walk<'_, F> {
    fn into_info(&self, header_len: u32) -> HeaderInfo {
        HeaderInfo {
            header_len,
            l3_offset: self.l3_offset,
            l4_offset: self.at,
            l3: self.ethertype,
            l4: self.protocol,
            vlan_depth: self.vlan_depth,
            flags: self.flags,
        }
    }

    /// Hides the state from the verifier ([`Frame::opaque`]).
    #[inline(always)]
    fn hide(&mut self) {
        let opaque = |value| self.frame.opaque(value);
        self.at = opaque(self.at);
        self.ethertype = opaque(self.ethertype.into()) as u16;
        self.protocol = IpProtocol::new(opaque(self.protocol.raw().into()) as u8);
        self.in_ip = opaque(self.in_ip.into()) != 0;
        self.l3_offset = opaque(self.l3_offset);
        self.vlan_depth = opaque(self.vlan_depth.into()) as u8;
        self.flags = Flags::from_bits(opaque(self.flags.bits().into()) as u8);
    }

    /// The header of `N` bytes at `at`; notes why it cannot be had.
    #[inline(always)]
    fn header<const N: usize>(&mut self, at: u32) -> Option<F::Header<N>> {
        let header = self.frame.header::<N>(at);
        if header.is_none() {
            self.cut_off::<N>(at);
        }
        header
    }

    #[inline(always)]
    fn cut_off<const N: usize>(&mut self, at: u32) {
        let inside = at.saturating_add(N as u32) <= self.frame.len();
        self.flags.set(if inside { Flags::UNPARSED } else { Flags::MALFORMED });
    }

    /// Goes on by `bytes`, at most to the end of the frame.
    #[inline(always)]
    fn advance(&mut self, bytes: u32) {
        let end = self.frame.len();
        if bytes > end - self.at {
            self.flags.set(Flags::MALFORMED);
            self.at = end;
        } else {
            self.at += bytes;
        }
    }

    #[inline(always)]
    fn again_with(&mut self, ethertype: u16) -> Next {
        self.ethertype = ethertype;
        self.in_ip = false;
        Next::Again
    }

    /// The header that an ethertype announces.
    #[inline(always)]
    fn by_ethertype(&mut self) -> Next {
        match self.ethertype {
            ethertype::IPV4 => self.ipv4(),
            ethertype::IPV6 => self.ipv6(),
            ethertype::VLAN | ethertype::SERVICE_VLAN => self.vlan(),
            ethertype::PPPOE_SESSION => self.pppoe(),
            ethertype::BATMAN => self.batman(),
            ethertype::HSR | ethertype::PRP => self.redundancy_tag(),
            ethertype::MPLS_UNICAST | ethertype::MPLS_MULTICAST => self.one_header(4),
            ethertype::FCOE => self.whole_header::<38>(),
            ethertype::PTP => self.whole_header::<34>(),
            _ => Next::Stop,
        }
    }

    /// The header that an IP protocol announces. IPv6 extension headers count only in IPv6.
    #[inline(always)]
    fn by_protocol(&mut self) -> Next {
        let in_ipv6 = self.ethertype == ethertype::IPV6;
        match self.protocol.raw() {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION if in_ipv6 => {
                self.extension()
            }
            protocol::FRAGMENT if in_ipv6 => self.ipv6_fragment(),
            protocol::GRE => self.gre(),
            protocol::IPV4 => self.tunnel_to(ethertype::IPV4),
            protocol::IPV6 => self.tunnel_to(ethertype::IPV6),
            protocol::MPLS => self.tunnel_to(ethertype::MPLS_UNICAST),
            _ => Next::Stop,
        }
    }

    #[inline(always)]
    fn tunnel_to(&mut self, ethertype: u16) -> Next {
        self.flags.set(Flags::TUNNEL);
        self.again_with(ethertype)
    }

    #[inline(always)]
    fn one_header(&mut self, bytes: u32) -> Next {
        self.l3_offset = self.at;
        self.advance(bytes);
        Next::Stop
    }

    #[inline(always)]
    fn whole_header<const N: usize>(&mut self) -> Next {
        if self.header::<N>(self.at).is_none() {
            return Next::Stop;
        }
        self.one_header(N as u32)
    }

    #[inline(always)]
    fn vlan(&mut self) -> Next {
        let Some(tag) = self.header::<4>(self.at) else { return Next::Stop };
        self.vlan_depth = self.vlan_depth.saturating_add(1);
        self.flags.set(Flags::VLAN);
        self.advance(VLAN_TAG_LEN);
        self.l3_offset = self.at;
        self.again_with(tag.be16(2))
    }

    /// HSR and PRP tags.
    #[inline(always)]
    fn redundancy_tag(&mut self) -> Next {
        let Some(tag) = self.header::<6>(self.at) else { return Next::Stop };
        self.advance(6);
        self.l3_offset = self.at;
        self.again_with(tag.be16(4))
    }

    /// A batman-adv unicast packet with the Ethernet header it carries.
    #[inline(always)]
    fn batman(&mut self) -> Next {
        const UNICAST: u8 = 0x40;
        const VERSION: u8 = 15;
        let Some(batman) = self.header::<24>(self.at) else { return Next::Stop };
        if batman.u8(0) != UNICAST || batman.u8(1) != VERSION {
            return Next::Stop;
        }
        self.advance(24);
        self.l3_offset = self.at;
        self.again_with(batman.be16(22))
    }

    #[inline(always)]
    fn pppoe(&mut self) -> Next {
        const VERSION_AND_TYPE: u8 = 0x11;
        const SESSION_DATA: u8 = 0;
        let Some(pppoe) = self.header::<8>(self.at) else { return Next::Stop };
        if pppoe.u8(0) != VERSION_AND_TYPE || pppoe.u8(1) != SESSION_DATA {
            return Next::Stop;
        }
        self.advance(8);
        self.l3_offset = self.at;
        match pppoe.be16(6) {
            0x0021 => self.again_with(ethertype::IPV4),
            0x0057 => self.again_with(ethertype::IPV6),
            0x0281 => self.again_with(ethertype::MPLS_UNICAST),
            0x0283 => self.again_with(ethertype::MPLS_MULTICAST),
            _ => Next::Stop,
        }
    }

    #[inline(always)]
    fn ipv4(&mut self) -> Next {
        const MORE_FRAGMENTS: u16 = 0x2000;
        const FRAGMENT_OFFSET: u16 = 0x1fff;
        self.l3_offset = self.at;
        let Some(ip) = self.header::<20>(self.at) else { return Next::Stop };
        let header_len = u32::from(ip.u8(0) & 0xf) * 4;
        let total_len = u32::from(ip.be16(2));
        let room = self.frame.len() - self.at;
        self.flags.set(check_ipv4(ip.u8(0), total_len, room));
        if header_len < IPV4_LEN {
            return Next::Stop;
        }
        self.advance(header_len);
        self.protocol = IpProtocol::new(ip.u8(9));
        let fragment = ip.be16(6);
        if fragment & FRAGMENT_OFFSET != 0 {
            self.flags.set(Flags::LATER_FRAGMENT);
            return Next::Stop;
        }
        if fragment & MORE_FRAGMENTS != 0 {
            self.flags.set(Flags::FIRST_FRAGMENT);
        }
        self.in_ip = true;
        Next::IpPayload
    }

    #[inline(always)]
    fn ipv6(&mut self) -> Next {
        self.l3_offset = self.at;
        let Some(ip) = self.header::<40>(self.at) else { return Next::Stop };
        let room = self.frame.len() - self.at - IPV6_LEN;
        let next_header = ip.u8(6);
        self.flags.set(check_ipv6(ip.u8(0), u32::from(ip.be16(4)), next_header, room));
        self.advance(IPV6_LEN);
        self.protocol = IpProtocol::new(next_header);
        self.in_ip = true;
        Next::IpPayload
    }

    #[inline(always)]
    fn extension(&mut self) -> Next {
        let Some(extension) = self.header::<2>(self.at) else { return Next::Stop };
        self.protocol = IpProtocol::new(extension.u8(0));
        self.advance((u32::from(extension.u8(1)) + 1) * 8);
        Next::Again
    }

    #[inline(always)]
    fn ipv6_fragment(&mut self) -> Next {
        const FRAGMENT_OFFSET: u16 = 0xfff8;
        let Some(fragment) = self.header::<8>(self.at) else { return Next::Stop };
        self.advance(8);
        self.protocol = IpProtocol::new(fragment.u8(0));
        if fragment.be16(2) & FRAGMENT_OFFSET != 0 {
            self.flags.set(Flags::LATER_FRAGMENT);
            return Next::Stop;
        }
        self.flags.set(Flags::FIRST_FRAGMENT);
        Next::Again
    }

    /// GRE (RFC 2784, 2890) and PPTP's variant of it (RFC 2637). Whatever is wrong with it, the
    /// walk stops at its start.
    #[inline(always)]
    fn gre(&mut self) -> Next {
        const CHECKSUM: u16 = 0x8000;
        const ROUTING: u16 = 0x4000;
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        const ACKNOWLEDGMENT: u16 = 0x0080;
        const VERSION: u16 = 0x0007;
        let Some(gre) = self.header::<4>(self.at) else { return Next::Stop };
        let (bits, inner) = (gre.be16(0), gre.be16(2));
        let version = bits & VERSION;
        let pptp = version == 1 && inner == ethertype::PPP && bits & KEY != 0;
        if bits & ROUTING != 0 || !(version == 0 || pptp) {
            return Next::Stop;
        }
        self.flags.set(Flags::TUNNEL);
        let word = |bit: u16| if bits & bit != 0 { 4 } else { 0 };
        let mut len = 4 + word(CHECKSUM);
        if bits & KEY != 0 {
            if self.header::<4>(self.at + len).is_none() {
                return Next::Stop;
            }
            len += 4;
        }
        len += word(SEQUENCE);
        let mut ethertype = inner;
        if pptp {
            len += word(ACKNOWLEDGMENT);
            let Some(ppp) = self.header::<4>(self.at + len) else { return Next::Stop };
            len += 4;
            ethertype = match ppp.be16(2) {
                0x0021 => ethertype::IPV4,
                0x0057 => ethertype::IPV6,
                _ => inner,
            };
        } else if inner == ethertype::TEB {
            let Some(ethernet) = self.header::<14>(self.at + len) else { return Next::Stop };
            len += ETHERNET_LEN;
            ethertype = ethernet.be16(12);
        }
        self.advance(len);
        self.l3_offset = self.at;
        self.again_with(ethertype)
    }

    /// Where the headers end: behind the transport header, if there is one (`__skb_get_poff`).
    #[inline(always)]
    fn transport_end(&mut self) -> u32 {
        let fragments = Flags::FIRST_FRAGMENT.with(Flags::LATER_FRAGMENT);
        // A later fragment has no transport header, unless an outer first fragment carries it.
        if self.flags.bits() & fragments.bits() == Flags::LATER_FRAGMENT.bits() {
            return self.at;
        }
        let len = match self.protocol.raw() {
            protocol::TCP => self.tcp_len(),
            protocol::UDP => self.udp_len(),
            other => fixed_transport_len(other),
        };
        let room = self.frame.len() - self.at;
        if len > room {
            self.flags.set(Flags::MALFORMED);
        }
        self.at + len.min(room)
    }

    #[inline(always)]
    fn tcp_len(&mut self) -> u32 {
        let Some(tcp) = self.header::<13>(self.at) else { return 0 };
        let len = u32::from(tcp.u8(12) >> 4) * 4;
        if len < TCP_LEN {
            self.flags.set(Flags::MALFORMED);
        }
        len.max(TCP_LEN)
    }

    #[inline(always)]
    fn udp_len(&mut self) -> u32 {
        let fragment = self.flags.any(Flags::FIRST_FRAGMENT);
        let room = self.frame.len() - self.at;
        if let Some(udp) = self.header::<8>(self.at) {
            if is_tunnel_port(udp.be16(2)) {
                self.flags.set(Flags::TUNNEL);
            }
            if !fragment && !self.flags.any(Flags::JUMBO) {
                self.flags.set(check_udp(u32::from(udp.be16(4)), room));
            }
        }
        8
    }
}

/// What is wrong with an IPv4 header, if anything; `room` is what the frame has from its start on.
#[inline(always)]
pub(super) const fn check_ipv4(version_and_ihl: u8, total_len: u32, room: u32) -> Flags {
    let header_len = (version_and_ihl & 0xf) as u32 * 4;
    if total_len == 0 && room > u16::MAX as u32 {
        return Flags::JUMBO;
    }
    let sound = version_and_ihl >> 4 == 4
        && header_len >= IPV4_LEN
        && total_len >= header_len
        && total_len <= room;
    if sound { Flags::NONE } else { Flags::MALFORMED }
}

/// What is wrong with an IPv6 header, if anything; `room` is what the frame has behind it.
///
/// A jumbogram has payload length 0 and says its length in a hop-by-hop option (RFC 2675), or,
/// inside the kernel from 7.0 on, only in the packet itself.
#[inline(always)]
pub(super) const fn check_ipv6(version: u8, payload_len: u32, next_header: u8, room: u32) -> Flags {
    if payload_len == 0 && room > u16::MAX as u32 {
        return Flags::JUMBO;
    }
    let hop_by_hop_jumbo = payload_len == 0 && next_header == protocol::HOP_BY_HOP;
    let sound = version >> 4 == 6 && payload_len <= room;
    if !sound {
        Flags::MALFORMED
    } else if hop_by_hop_jumbo && room > 0 {
        Flags::JUMBO
    } else {
        Flags::NONE
    }
}

/// What is wrong with a UDP length, if anything; `room` is what the frame has from the UDP header
/// on.
#[inline(always)]
pub(super) const fn check_udp(len: u32, room: u32) -> Flags {
    if len >= 8 && len <= room { Flags::NONE } else { Flags::MALFORMED }
}
