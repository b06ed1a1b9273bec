//! Ethernet frames made to order, from the inside out:
//! `ends.ethernet(vlan(5, ends.ipv6(hop_by_hop(ends.udp(IpVersion::V6, b"payload")))))`.
//!
//! Written by hand, because most of what is wanted here (GRE, VXLAN, jumbograms, everything
//! malformed) no packet builder makes; the tests let another parser read the frames.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Host;
use super::traffic::IpVersion;

const ETHER_TYPE_IPV4: u16 = 0x0800;
const ETHER_TYPE_ARP: u16 = 0x0806;
const ETHER_TYPE_VLAN: u16 = 0x8100;
const ETHER_TYPE_IPV6: u16 = 0x86dd;
const ETHER_TYPE_QINQ: u16 = 0x88a8;

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_FRAGMENT: u8 = 44;
const PROTOCOL_GRE: u8 = 47;
const PROTOCOL_DESTINATION_OPTIONS: u8 = 60;

const HOP_LIMIT: u8 = 64;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_ID: u16 = 0x5a5a;
const VXLAN_PORT: u16 = 4789;

/// A frame and what it is, in plain English.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is.
    pub title: &'static str,
    /// From the destination address on, without FCS.
    pub frame: Vec<u8>,
}

/// What an Ethernet header or VLAN tag is followed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtherPayload {
    ether_type: u16,
    bytes: Vec<u8>,
}

/// What an IP header or extension header is followed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPayload {
    protocol: u8,
    bytes: Vec<u8>,
}

/// Who frames are from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Ethernet addresses, source and destination.
    pub mac: [[u8; 6]; 2],
    /// IPv4 addresses, source and destination.
    pub ipv4: [Ipv4Addr; 2],
    /// IPv6 addresses, source and destination.
    pub ipv6: [Ipv6Addr; 2],
    /// TCP and UDP ports, source and destination.
    pub ports: [u16; 2],
}

impl Default for Ends {
    fn default() -> Self {
        let ipv6 = |number| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number);
        Self {
            mac: [[0x02, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 2]],
            ipv4: [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)],
            ipv6: [ipv6(1), ipv6(2)],
            ports: [40_000, 9],
        }
    }
}

impl Ends {
    /// From one host of a lab to the other.
    pub fn between(from: &Host, to: &Host) -> Self {
        Self {
            mac: [from.mac(), to.mac()],
            ipv4: [from.ipv4(), to.ipv4()],
            ipv6: [from.ipv6(), to.ipv6()],
            ..Self::default()
        }
    }

    /// The same from another source port: another flow, so perhaps another queue.
    #[must_use]
    pub const fn from_port(self, port: u16) -> Self {
        Self { ports: [port, self.ports[1]], ..self }
    }

    /// The same to another station: a router, say.
    #[must_use]
    pub const fn to_mac(self, mac: [u8; 6]) -> Self {
        Self { mac: [self.mac[0], mac], ..self }
    }

    /// The finished frame.
    pub fn ethernet(&self, payload: EtherPayload) -> Vec<u8> {
        let [source, destination] = self.mac;
        join(&[&destination, &source, &payload.ether_type.to_be_bytes(), &payload.bytes])
    }

    /// An ARP request for the destination.
    pub fn arp(&self) -> EtherPayload {
        let [source, destination] = self.ipv4.map(|address| address.octets());
        let fixed = [0, 1, 8, 0, 6, 4, 0, 1];
        let bytes = join(&[&fixed, &self.mac[0], &source, &[0; 6], &destination]);
        EtherPayload { ether_type: ETHER_TYPE_ARP, bytes }
    }

    /// An IPv4 packet.
    pub fn ipv4(&self, payload: IpPayload) -> EtherPayload {
        self.ipv4_fragment(payload, 0, false)
    }

    /// An IPv4 packet that holds a part of another one's payload, `offset` bytes into it (a
    /// multiple of 8).
    pub fn ipv4_fragment(&self, payload: IpPayload, offset: u16, more: bool) -> EtherPayload {
        const HEADER_LEN: usize = 20;
        let [source, destination] = self.ipv4.map(|address| address.octets());
        let len = (HEADER_LEN + payload.bytes.len()) as u16;
        let fragment = (offset / 8) | if more { MORE_FRAGMENTS } else { 0 };
        let mut header = join(&[
            &[0x45, 0],
            &len.to_be_bytes(),
            &FRAGMENT_ID.to_be_bytes(),
            &fragment.to_be_bytes(),
            &[HOP_LIMIT, payload.protocol, 0, 0],
            &source,
            &destination,
        ]);
        let checksum = checksum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        EtherPayload { ether_type: ETHER_TYPE_IPV4, bytes: join(&[&header, &payload.bytes]) }
    }

    /// An IPv6 packet. Its length field is 0 if the payload is longer than 65535 bytes, as in a
    /// jumbogram.
    pub fn ipv6(&self, payload: IpPayload) -> EtherPayload {
        let [source, destination] = self.ipv6.map(|address| address.octets());
        let len = u16::try_from(payload.bytes.len()).unwrap_or(0);
        let bytes = join(&[
            &[0x60, 0, 0, 0],
            &len.to_be_bytes(),
            &[payload.protocol, HOP_LIMIT],
            &source,
            &destination,
            &payload.bytes,
        ]);
        EtherPayload { ether_type: ETHER_TYPE_IPV6, bytes }
    }

    /// A TCP segment to go into a packet of version `ip`.
    pub fn tcp(&self, ip: IpVersion, payload: &[u8]) -> IpPayload {
        let [source, destination] = self.ports.map(u16::to_be_bytes);
        let fixed = [0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0];
        let bytes = join(&[&source, &destination, &fixed, payload]);
        self.with_checksum(ip, IpPayload { protocol: PROTOCOL_TCP, bytes }, 16)
    }

    /// A UDP datagram to go into a packet of version `ip`.
    pub fn udp(&self, ip: IpVersion, payload: &[u8]) -> IpPayload {
        const HEADER_LEN: usize = 8;
        let [source, destination] = self.ports.map(u16::to_be_bytes);
        let len = (HEADER_LEN + payload.len()) as u16;
        let bytes = join(&[&source, &destination, &len.to_be_bytes(), &[0; 2], payload]);
        self.with_checksum(ip, IpPayload { protocol: PROTOCOL_UDP, bytes }, 6)
    }

    /// `frame` in a VXLAN tunnel, as a UDP datagram to go into a packet of version `ip`.
    pub fn vxlan(&self, ip: IpVersion, vni: u32, frame: &[u8]) -> IpPayload {
        let header = join(&[&[0x08, 0, 0, 0], &(vni << 8).to_be_bytes()]);
        let ends = Self { ports: [self.ports[0], VXLAN_PORT], ..*self };
        ends.udp(ip, &join(&[&header, frame]))
    }

    /// Puts the checksum over pseudo-header and segment `at` bytes into it.
    fn with_checksum(&self, ip: IpVersion, mut segment: IpPayload, at: usize) -> IpPayload {
        let addresses = match ip {
            IpVersion::V4 => self.ipv4.map(|address| address.octets()).concat(),
            IpVersion::V6 => self.ipv6.map(|address| address.octets()).concat(),
        };
        let len = (segment.bytes.len() as u32).to_be_bytes();
        let protocol = [0, 0, 0, segment.protocol];
        let checksum = match checksum(&join(&[&addresses, &len, &protocol, &segment.bytes])) {
            // 0 would mean that a datagram has no checksum.
            0 => 0xffff,
            checksum => checksum,
        };
        segment.bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        segment
    }

    /// One of each kind of frame that the header walk must know, well formed.
    pub fn samples(&self) -> Vec<Sample> {
        use IpVersion::{V4, V6};
        let payload = [0xa5; 512];
        let segment = self.tcp(V4, &payload).bytes;
        let fragment = |offset: usize, len: usize| IpPayload {
            protocol: PROTOCOL_TCP,
            bytes: segment.get(offset..offset + len).unwrap_or_default().to_vec(),
        };
        let tcp4 = || self.ipv4(self.tcp(V4, &payload));
        let tcp6 = || self.ipv6(self.tcp(V6, &payload));
        let udp6 = || self.udp(V6, &payload);
        let inner = self.ethernet(tcp4());
        [
            ("TCP over IPv4", tcp4()),
            ("TCP over IPv6", tcp6()),
            ("UDP over IPv4", self.ipv4(self.udp(V4, &payload))),
            ("UDP over IPv6", self.ipv6(udp6())),
            ("64-byte UDP over IPv4", self.ipv4(self.udp(V4, &payload[..22]))),
            ("ARP request", self.arp()),
            ("VLAN, TCP over IPv4", vlan(5, tcp4())),
            ("VLAN, UDP over IPv6 with hop-by-hop options", vlan(5, self.ipv6(hop_by_hop(udp6())))),
            ("QinQ, TCP over IPv6", qinq(5, vlan(6, tcp6()))),
            (
                "UDP over IPv6 with hop-by-hop and destination options",
                self.ipv6(hop_by_hop(destination_options(udp6()))),
            ),
            ("first fragment of TCP over IPv4", self.ipv4_fragment(fragment(0, 256), 0, true)),
            ("later fragment of TCP over IPv4", self.ipv4_fragment(fragment(256, 276), 256, false)),
            ("first fragment of UDP over IPv6", self.ipv6(ipv6_fragment(udp6(), 0, true))),
            ("later fragment of UDP over IPv6", self.ipv6(ipv6_fragment(udp6(), 1024, false))),
            ("VXLAN over IPv4, inside TCP over IPv4", self.ipv4(self.vxlan(V4, 7, &inner))),
            ("VXLAN over IPv6, inside TCP over IPv4", self.ipv6(self.vxlan(V6, 7, &inner))),
            ("GRE over IPv4, inside TCP over IPv6", self.ipv4(gre(tcp6()))),
            ("GRE over IPv6, inside VLAN, TCP over IPv4", self.ipv6(gre(vlan(8, tcp4())))),
        ]
        .map(|(title, payload)| Sample { title, frame: self.ethernet(payload) })
        .into()
    }

    /// BIG TCP: TCP over IPv6 in one packet of 100,000 bytes of payload, with the jumbo option
    /// and, as newer kernels have it, without. No device sends them as they are.
    pub fn big_tcp(&self) -> [Sample; 2] {
        let segment = || self.tcp(IpVersion::V6, &[0xa5; 100_000]);
        let with = self.ethernet(self.ipv6(jumbo_option(segment())));
        let without = self.ethernet(self.ipv6(segment()));
        [
            Sample { title: "BIG TCP over IPv6 with jumbo option", frame: with },
            Sample { title: "BIG TCP over IPv6 without jumbo option", frame: without },
        ]
    }

    /// Frames whose headers are cut off or contradict themselves.
    pub fn malformed(&self) -> Vec<Sample> {
        use IpVersion::{V4, V6};
        let tcp4 = self.ethernet(self.ipv4(self.tcp(V4, &[0xa5; 64])));
        let tcp6 = self.ethernet(self.ipv6(self.tcp(V6, &[0xa5; 64])));
        let udp4 = self.ethernet(self.ipv4(self.udp(V4, &[0xa5; 64])));
        let options = self.ethernet(self.ipv6(hop_by_hop(self.udp(V6, &[]))));
        let tagged = self.ethernet(vlan(5, self.arp()));
        let cut = |frame: &[u8], len: usize| frame.get(..len).unwrap_or(frame).to_vec();
        let with = |frame: &[u8], at: usize, byte: u8| {
            let mut frame = frame.to_vec();
            frame.iter_mut().skip(at).take(1).for_each(|to| *to = byte);
            frame
        };
        [
            ("nothing after the Ethernet header", cut(&tcp4, 14)),
            ("VLAN tag cut off", cut(&tagged, 16)),
            ("IPv4 header cut off", cut(&tcp4, 14 + 10)),
            ("IPv4 header length below 20", with(&tcp4, 14, 0x44)),
            ("IPv4 header length beyond the frame", with(&cut(&tcp4, 14 + 40), 14, 0x4f)),
            ("IPv4 header of version 7", with(&tcp4, 14, 0x75)),
            ("TCP header cut off", cut(&tcp4, 14 + 20 + 10)),
            ("TCP header length below 20", with(&tcp4, 14 + 20 + 12, 0x40)),
            ("UDP header cut off", cut(&udp4, 14 + 20 + 4)),
            ("IPv6 header cut off", cut(&tcp6, 14 + 30)),
            ("hop-by-hop options beyond the frame", with(&options, 14 + 40 + 1, 0xff)),
        ]
        .map(|(title, frame)| Sample { title, frame })
        .into()
    }
}

/// A VLAN tag (802.1Q).
pub fn vlan(id: u16, payload: EtherPayload) -> EtherPayload {
    tag(ETHER_TYPE_VLAN, id, payload)
}

/// A service provider's VLAN tag (802.1ad), to be followed by a customer's.
pub fn qinq(id: u16, payload: EtherPayload) -> EtherPayload {
    tag(ETHER_TYPE_QINQ, id, payload)
}

fn tag(ether_type: u16, id: u16, payload: EtherPayload) -> EtherPayload {
    let bytes = join(&[&id.to_be_bytes(), &payload.ether_type.to_be_bytes(), &payload.bytes]);
    EtherPayload { ether_type, bytes }
}

/// A GRE tunnel without key, checksum and sequence number.
pub fn gre(payload: EtherPayload) -> IpPayload {
    let bytes = join(&[&[0, 0], &payload.ether_type.to_be_bytes(), &payload.bytes]);
    IpPayload { protocol: PROTOCOL_GRE, bytes }
}

/// An IP tunnel without anything between the headers.
pub fn ip_in_ip(payload: EtherPayload) -> IpPayload {
    let protocol = if payload.ether_type == ETHER_TYPE_IPV4 { 4 } else { 41 };
    IpPayload { protocol, bytes: payload.bytes }
}

/// An IPv6 hop-by-hop options header with nothing but padding; it must be the first.
pub fn hop_by_hop(payload: IpPayload) -> IpPayload {
    options(PROTOCOL_HOP_BY_HOP, [1, 4, 0, 0, 0, 0], payload)
}

/// An IPv6 destination options header with nothing but padding.
pub fn destination_options(payload: IpPayload) -> IpPayload {
    options(PROTOCOL_DESTINATION_OPTIONS, [1, 4, 0, 0, 0, 0], payload)
}

/// The hop-by-hop header that gives a jumbogram its length (RFC 2675).
pub fn jumbo_option(payload: IpPayload) -> IpPayload {
    const HEADER_LEN: usize = 8;
    let [a, b, c, d] = ((HEADER_LEN + payload.bytes.len()) as u32).to_be_bytes();
    options(PROTOCOL_HOP_BY_HOP, [0xc2, 4, a, b, c, d], payload)
}

fn options(protocol: u8, options: [u8; 6], payload: IpPayload) -> IpPayload {
    IpPayload { protocol, bytes: join(&[&[payload.protocol, 0], &options, &payload.bytes]) }
}

/// An IPv6 fragment header before a part of a packet, `offset` bytes into it (a multiple of 8).
pub fn ipv6_fragment(part: IpPayload, offset: u16, more: bool) -> IpPayload {
    let offset = offset & !7 | u16::from(more);
    let bytes = join(&[
        &[part.protocol, 0],
        &offset.to_be_bytes(),
        &u32::from(FRAGMENT_ID).to_be_bytes(),
        &part.bytes,
    ]);
    IpPayload { protocol: PROTOCOL_FRAGMENT, bytes }
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| match *pair {
        [high, low] => u64::from(u16::from_be_bytes([high, low])),
        [high] => u64::from(high) << 8,
        _ => 0,
    };
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use etherparse::{LaxSlicedPacket, NetSlice, SlicedPacket, TransportSlice};

    use super::*;

    const ENDS: Ends = Ends {
        mac: [[0x02, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 2]],
        ipv4: [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)],
        ipv6: [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED],
        ports: [1000, 2000],
    };

    #[test]
    fn another_parser_finds_nothing_wrong_with_the_samples() {
        for Sample { title, frame } in ENDS.samples() {
            let packet = SlicedPacket::from_ethernet(&frame).expect(title);
            let has_transport = packet.transport.is_some();
            let expects = !["ARP", "fragment", "GRE"].iter().any(|word| title.contains(word));
            assert_eq!(has_transport, expects, "{title}");
            assert_eq!(packet.vlan_ids().len(), vlan_tags(title), "{title}");
        }
    }

    /// Tags before any tunnel.
    fn vlan_tags(title: &str) -> usize {
        match title {
            _ if title.starts_with("VLAN") => 1,
            _ if title.starts_with("QinQ") => 2,
            _ => 0,
        }
    }

    #[test]
    fn checksums_are_what_another_parser_computes() {
        for Sample { title, frame } in ENDS.samples() {
            let packet = SlicedPacket::from_ethernet(&frame).expect(title);
            let (Some(net), Some(transport)) = (packet.net, packet.transport) else { continue };
            let (found, expected) = match (&net, transport) {
                (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
                    let header = ip.header().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum(), "{title}");
                    let sum = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload());
                    (tcp.checksum(), sum.unwrap())
                }
                (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
                    let header = ip.header().to_header();
                    let sum = tcp.to_header().calc_checksum_ipv6(&header, tcp.payload());
                    (tcp.checksum(), sum.unwrap())
                }
                (NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => {
                    let header = ip.header().to_header();
                    let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload());
                    (udp.checksum(), sum.unwrap())
                }
                (NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => {
                    let header = ip.header().to_header();
                    let sum = udp.to_header().calc_checksum_ipv6(&header, udp.payload());
                    (udp.checksum(), sum.unwrap())
                }
                _ => continue,
            };
            assert_eq!(found, expected, "{title}");
        }
    }

    #[test]
    fn sixty_four_bytes_are_sixty_four_with_the_fcs_left_out() {
        let samples = ENDS.samples();
        let small = samples.iter().find(|sample| sample.title.starts_with("64-byte")).unwrap();
        assert_eq!(small.frame.len(), 64);
    }

    #[test]
    fn malformed_samples_are_malformed_to_another_parser() {
        for Sample { title, frame } in ENDS.malformed() {
            let stopped = LaxSlicedPacket::from_ethernet(&frame).unwrap().stop_err.is_some();
            assert!(stopped, "{title}");
        }
    }

    #[test]
    fn titles_are_unique() {
        let samples = [ENDS.samples(), ENDS.malformed(), ENDS.big_tcp().into()].concat();
        let titles: std::collections::BTreeSet<_> =
            samples.iter().map(|sample| sample.title).collect();
        assert_eq!(titles.len(), samples.len());
    }

    #[test]
    fn big_tcp_has_no_length_in_the_ipv6_header() {
        let [with, without] = ENDS.big_tcp();
        assert_eq!((with.frame.len(), without.frame.len()), (100_082, 100_074));
        for sample in [&with, &without] {
            assert_eq!(&sample.frame[18..20], [0, 0]);
        }
        assert_eq!(&with.frame[54..62], [6, 0, 0xc2, 4, 0, 1, 0x86, 0xbc]);
    }
}
