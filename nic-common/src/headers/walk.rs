//! The whole walk, as deep as the kernel's.

use super::{
    ETHERNET_LEN, Flags, HeaderInfo, IPV4_LEN, IPV6_LEN, IpProtocol, TCP_LEN, VLAN_TAG_LEN,
    ethertype, fixed_transport_len, is_tunnel_port, protocol,
};
use crate::frame::{Fields, Frame};

/// Headers of a kind that the kernel counts; it goes on behind no more (`MAX_FLOW_DISSECT_HDRS`).
const MAX_COUNTED: u8 = 15;

/// The longest that headers say to be.
const IPV4_MAX: u32 = 60;
const TCP_MAX: u32 = 60;
const EXTENSION_MAX: u32 = 256 * 8;

/// What follows a header.
enum Next {
    /// Another header of a kind that the kernel counts.
    Counted,
    /// The payload of the IP header just read, which it does not count.
    IpPayload,
    /// Nothing that the walk knows.
    Stop,
}

/// How far the walk of a frame has come. [`HeaderInfo::of`] is all of it in one; BPF takes the
/// steps one by one, each a function that the verifier checks on its own.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Walk {
    /// Start of the next header in bytes. Never beyond the frame.
    at: u32,
    l3_offset: u32,
    /// `n_proto` of the flow dissector: what the header at `at` is, or what the IP header was.
    ethertype: u16,
    /// `ip_proto` of the flow dissector.
    protocol: IpProtocol,
    flags: Flags,
    vlan_depth: u8,
    /// Counted headers so far.
    counted: u8,
    /// Whether `protocol`, not `ethertype`, says what the header at `at` is.
    in_ip: bool,
    _padding: u8,
}

impl Walk {
    /// The most steps that a walk takes: every counted header can be an IP header, whose payload is
    /// one step more.
    pub const MAX_STEPS: u32 = 2 * (MAX_COUNTED as u32 + 1);

    /// No header ends farther into a frame, in bytes: as many counted headers as there may be, each
    /// an IPv6 extension header or an IP header at its longest, and a TCP header.
    pub const FARTHEST: u32 =
        ETHERNET_LEN + (MAX_COUNTED as u32 + 1) * (EXTENSION_MAX + IPV4_MAX) + TCP_MAX;

    /// A walk that has read the Ethernet header of `frame`, if there is a whole one.
    #[inline(always)]
    pub fn start<F: Frame + ?Sized>(frame: &F) -> Self {
        let mut walk = Self {
            at: ETHERNET_LEN,
            l3_offset: ETHERNET_LEN,
            ethertype: 0,
            protocol: IpProtocol::NONE,
            flags: Flags::NONE,
            vlan_depth: 0,
            counted: 0,
            in_ip: false,
            _padding: 0,
        };
        match walk.header::<14, F>(frame, 0) {
            Some(ethernet) => walk.ethertype = ethernet.be16(12),
            None => {
                walk.at = frame.len().min(ETHERNET_LEN);
                walk.l3_offset = walk.at;
            }
        }
        walk
    }

    /// Reads one header; false if the walk ends there.
    #[inline(always)]
    pub fn step<F: Frame + ?Sized>(&mut self, frame: &F) -> bool {
        let next = if self.in_ip { self.by_protocol(frame) } else { self.by_ethertype(frame) };
        match next {
            Next::IpPayload => {
                self.in_ip = true;
                true
            }
            Next::Counted => {
                self.counted += 1;
                self.counted <= MAX_COUNTED
            }
            Next::Stop => false,
        }
    }

    /// The same walk, each of its numbers through `hide`: for BPF's verifier, which follows every
    /// step again for every number that it knows.
    #[inline(always)]
    #[must_use]
    pub fn through(self, hide: impl Fn(u64) -> u64) -> Self {
        Self {
            at: hide(self.at.into()) as u32,
            l3_offset: hide(self.l3_offset.into()) as u32,
            ethertype: hide(self.ethertype.into()) as u16,
            protocol: IpProtocol::new(hide(self.protocol.raw().into()) as u8),
            flags: Flags::from_bits(hide(self.flags.bits().into()) as u8),
            vlan_depth: hide(self.vlan_depth.into()) as u8,
            counted: hide(self.counted.into()) as u8,
            in_ip: hide(self.in_ip.into()) != 0,
            _padding: 0,
        }
    }

    /// Adds the transport header, if there is one (`__skb_get_poff`).
    #[inline(always)]
    pub fn end<F: Frame + ?Sized>(mut self, frame: &F) -> HeaderInfo {
        let header_len = self.at + self.transport_len(frame);
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

    /// The header of `N` bytes at `at`; notes why it cannot be had.
    #[inline(always)]
    fn header<const N: usize, F: Frame + ?Sized>(
        &mut self,
        frame: &F,
        at: u32,
    ) -> Option<F::Header<N>> {
        let header = frame.header::<N>(at);
        if header.is_none() {
            let inside = at.saturating_add(N as u32) <= frame.len();
            self.flags.set(if inside { Flags::UNPARSED } else { Flags::MALFORMED });
        }
        header
    }

    /// Goes on by `bytes`, at most to the end of the frame.
    #[inline(always)]
    fn advance<F: Frame + ?Sized>(&mut self, frame: &F, bytes: u32) {
        let end = frame.len();
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
        Next::Counted
    }

    /// The header that an ethertype announces.
    #[inline(always)]
    fn by_ethertype<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        match self.ethertype {
            ethertype::IPV4 => self.ipv4(frame),
            ethertype::IPV6 => self.ipv6(frame),
            ethertype::VLAN | ethertype::SERVICE_VLAN => self.vlan(frame),
            ethertype::PPPOE_SESSION => self.pppoe(frame),
            ethertype::BATMAN => self.batman(frame),
            ethertype::HSR | ethertype::PRP => self.redundancy_tag(frame),
            ethertype::MPLS_UNICAST | ethertype::MPLS_MULTICAST => self.one_header(frame, 4),
            ethertype::FCOE => self.whole_header::<38, F>(frame),
            ethertype::PTP => self.whole_header::<34, F>(frame),
            _ => Next::Stop,
        }
    }

    /// The header that an IP protocol announces. IPv6 extension headers count only in IPv6.
    #[inline(always)]
    fn by_protocol<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        let in_ipv6 = self.ethertype == ethertype::IPV6;
        match self.protocol.raw() {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION if in_ipv6 => {
                self.extension(frame)
            }
            protocol::FRAGMENT if in_ipv6 => self.ipv6_fragment(frame),
            protocol::GRE => self.gre(frame),
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
    fn one_header<F: Frame + ?Sized>(&mut self, frame: &F, bytes: u32) -> Next {
        self.l3_offset = self.at;
        self.advance(frame, bytes);
        Next::Stop
    }

    #[inline(always)]
    fn whole_header<const N: usize, F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        if self.header::<N, F>(frame, self.at).is_none() {
            return Next::Stop;
        }
        self.one_header(frame, N as u32)
    }

    #[inline(always)]
    fn vlan<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        let Some(tag) = self.header::<4, F>(frame, self.at) else { return Next::Stop };
        self.vlan_depth = self.vlan_depth.saturating_add(1);
        self.flags.set(Flags::VLAN);
        self.advance(frame, VLAN_TAG_LEN);
        self.l3_offset = self.at;
        self.again_with(tag.be16(2))
    }

    /// HSR and PRP tags.
    #[inline(always)]
    fn redundancy_tag<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        let Some(tag) = self.header::<6, F>(frame, self.at) else { return Next::Stop };
        self.advance(frame, 6);
        self.l3_offset = self.at;
        self.again_with(tag.be16(4))
    }

    /// A batman-adv unicast packet with the Ethernet header it carries.
    #[inline(always)]
    fn batman<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        const UNICAST: u8 = 0x40;
        const VERSION: u8 = 15;
        let Some(batman) = self.header::<24, F>(frame, self.at) else { return Next::Stop };
        if batman.u8(0) != UNICAST || batman.u8(1) != VERSION {
            return Next::Stop;
        }
        self.advance(frame, 24);
        self.l3_offset = self.at;
        self.again_with(batman.be16(22))
    }

    #[inline(always)]
    fn pppoe<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        const VERSION_AND_TYPE: u8 = 0x11;
        const SESSION_DATA: u8 = 0;
        let Some(pppoe) = self.header::<8, F>(frame, self.at) else { return Next::Stop };
        if pppoe.u8(0) != VERSION_AND_TYPE || pppoe.u8(1) != SESSION_DATA {
            return Next::Stop;
        }
        self.advance(frame, 8);
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
    fn ipv4<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        const MORE_FRAGMENTS: u16 = 0x2000;
        const FRAGMENT_OFFSET: u16 = 0x1fff;
        self.l3_offset = self.at;
        let Some(ip) = self.header::<20, F>(frame, self.at) else { return Next::Stop };
        let header_len = u32::from(ip.u8(0) & 0xf) * 4;
        let total_len = u32::from(ip.be16(2));
        let room = frame.len() - self.at;
        self.flags.set(check_ipv4(ip.u8(0), total_len, room));
        if header_len < IPV4_LEN {
            return Next::Stop;
        }
        self.advance(frame, header_len);
        self.protocol = IpProtocol::new(ip.u8(9));
        let fragment = ip.be16(6);
        if fragment & FRAGMENT_OFFSET != 0 {
            self.flags.set(Flags::LATER_FRAGMENT);
            return Next::Stop;
        }
        if fragment & MORE_FRAGMENTS != 0 {
            self.flags.set(Flags::FIRST_FRAGMENT);
        }
        Next::IpPayload
    }

    #[inline(always)]
    fn ipv6<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        self.l3_offset = self.at;
        let Some(ip) = self.header::<40, F>(frame, self.at) else { return Next::Stop };
        let room = frame.len() - self.at - IPV6_LEN;
        let next_header = ip.u8(6);
        self.flags.set(check_ipv6(ip.u8(0), u32::from(ip.be16(4)), next_header, room));
        self.advance(frame, IPV6_LEN);
        self.protocol = IpProtocol::new(next_header);
        Next::IpPayload
    }

    #[inline(always)]
    fn extension<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        let Some(extension) = self.header::<2, F>(frame, self.at) else { return Next::Stop };
        self.protocol = IpProtocol::new(extension.u8(0));
        self.advance(frame, (u32::from(extension.u8(1)) + 1) * 8);
        Next::Counted
    }

    #[inline(always)]
    fn ipv6_fragment<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        const FRAGMENT_OFFSET: u16 = 0xfff8;
        let Some(fragment) = self.header::<8, F>(frame, self.at) else { return Next::Stop };
        self.advance(frame, 8);
        self.protocol = IpProtocol::new(fragment.u8(0));
        if fragment.be16(2) & FRAGMENT_OFFSET != 0 {
            self.flags.set(Flags::LATER_FRAGMENT);
            return Next::Stop;
        }
        self.flags.set(Flags::FIRST_FRAGMENT);
        Next::Counted
    }

    /// GRE (RFC 2784, 2890) and PPTP's variant of it (RFC 2637). Whatever is wrong with it, the
    /// walk stops at its start.
    #[inline(always)]
    fn gre<F: Frame + ?Sized>(&mut self, frame: &F) -> Next {
        const CHECKSUM: u16 = 0x8000;
        const ROUTING: u16 = 0x4000;
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        const ACKNOWLEDGMENT: u16 = 0x0080;
        const VERSION: u16 = 0x0007;
        let Some(gre) = self.header::<4, F>(frame, self.at) else { return Next::Stop };
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
            if self.header::<4, F>(frame, self.at + len).is_none() {
                return Next::Stop;
            }
            len += 4;
        }
        len += word(SEQUENCE);
        let mut ethertype = inner;
        if pptp {
            len += word(ACKNOWLEDGMENT);
            let Some(ppp) = self.header::<4, F>(frame, self.at + len) else { return Next::Stop };
            len += 4;
            ethertype = match ppp.be16(2) {
                0x0021 => ethertype::IPV4,
                0x0057 => ethertype::IPV6,
                _ => inner,
            };
        } else if inner == ethertype::TEB {
            let Some(ethernet) = self.header::<14, F>(frame, self.at + len) else {
                return Next::Stop;
            };
            len += ETHERNET_LEN;
            ethertype = ethernet.be16(12);
        }
        self.advance(frame, len);
        self.l3_offset = self.at;
        self.again_with(ethertype)
    }

    /// Bytes of the transport header that the frame has.
    #[inline(always)]
    fn transport_len<F: Frame + ?Sized>(&mut self, frame: &F) -> u32 {
        let fragments = Flags::FIRST_FRAGMENT.with(Flags::LATER_FRAGMENT);
        // A later fragment has no transport header, unless an outer first fragment carries it.
        if self.flags.bits() & fragments.bits() == Flags::LATER_FRAGMENT.bits() {
            return 0;
        }
        let len = match self.protocol.raw() {
            protocol::TCP => self.tcp_len(frame),
            protocol::UDP => self.udp_len(frame),
            other => fixed_transport_len(other),
        };
        let room = frame.len() - self.at;
        if len > room {
            self.flags.set(Flags::MALFORMED);
        }
        len.min(room)
    }

    #[inline(always)]
    fn tcp_len<F: Frame + ?Sized>(&mut self, frame: &F) -> u32 {
        let Some(tcp) = self.header::<13, F>(frame, self.at) else { return 0 };
        let len = u32::from(tcp.u8(12) >> 4) * 4;
        if len < TCP_LEN {
            self.flags.set(Flags::MALFORMED);
        }
        len.max(TCP_LEN)
    }

    #[inline(always)]
    fn udp_len<F: Frame + ?Sized>(&mut self, frame: &F) -> u32 {
        let fragment = self.flags.any(Flags::FIRST_FRAGMENT);
        let room = frame.len() - self.at;
        if let Some(udp) = self.header::<8, F>(frame, self.at) {
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
    let sound = version_and_ihl >> 4 == 4
        && header_len >= IPV4_LEN
        && total_len >= header_len
        && total_len <= room;
    if sound {
        Flags::NONE
    } else if total_len == 0 && room > u16::MAX as u32 {
        Flags::JUMBO
    } else {
        Flags::MALFORMED
    }
}

/// What is wrong with an IPv6 header, if anything; `room` is what the frame has behind it.
///
/// A jumbogram has payload length 0 and says its length in a hop-by-hop option (RFC 2675), or,
/// inside the kernel from 7.0 on, only in the packet itself.
#[inline(always)]
pub(super) const fn check_ipv6(version: u8, payload_len: u32, next_header: u8, room: u32) -> Flags {
    let is_ipv6 = version >> 4 == 6;
    if payload_len > 0 {
        return if is_ipv6 && payload_len <= room { Flags::NONE } else { Flags::MALFORMED };
    }
    let jumbo_option = is_ipv6 && next_header == protocol::HOP_BY_HOP && room > 0;
    if room > u16::MAX as u32 || jumbo_option {
        Flags::JUMBO
    } else if is_ipv6 {
        Flags::NONE
    } else {
        Flags::MALFORMED
    }
}

/// What is wrong with a UDP length, if anything; `room` is what the frame has from the UDP header
/// on.
#[inline(always)]
pub(super) const fn check_udp(len: u32, room: u32) -> Flags {
    if len >= 8 && len <= room { Flags::NONE } else { Flags::MALFORMED }
}
