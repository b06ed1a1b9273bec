//! Packets that a router may get: sound and unsound ones, to everywhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nic_user::driver::checksum::Sum;
use proptest::{
    prelude::*,
    sample::{Index, select},
};

/// What every packet's payload begins with, in front of its number.
const MAGIC: [u8; 8] = *b"nicctl\r\n";
/// Payload that every packet has.
pub const LEAST: usize = MAGIC.len() + 4;

const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;
const DESTINATION: u8 = 60;

/// The station that a frame is sent to.
#[derive(Clone, Copy, Debug)]
pub enum Station {
    Router,
    /// The router's interface before it got another address.
    Former,
    Other,
    Broadcast,
    Multicast,
}

/// What is between the IP header and the payload.
#[derive(Clone, Copy, Debug)]
pub enum Options {
    None,
    /// IPv4 options, or bytes of a hop-by-hop header, padded by the builder.
    First(&'static [u8]),
    /// Bytes of IPv6 destination options; nothing of IPv4.
    Destination,
    /// An IPv6 routing header with no segments left; nothing of IPv4.
    Routing,
}

/// What is not as it should be.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    None,
    Version(u8),
    HeaderLen(u8),
    Longer(u16),
    Shorter(u16),
    HeaderChecksum,
    TransportChecksum,
    /// Frames end after so many bytes.
    CutAt(Index),
}

/// A packet in its frame.
#[derive(Clone, Debug)]
pub struct Packet {
    pub station: Station,
    pub tags: &'static [u16],
    pub from: IpAddr,
    pub to: IpAddr,
    pub tos: u8,
    pub hops: u8,
    /// Of IPv4 the whole field; of IPv6 a fragment header, if it is not 0.
    pub fragment: u16,
    pub options: Options,
    pub protocol: u8,
    pub ports: [u16; 2],
    pub payload: usize,
    pub padding: usize,
    pub lie: Lie,
}

impl Packet {
    /// A datagram with 12 bytes of payload.
    pub fn between(from: &str, to: &str) -> Self {
        Self {
            station: Station::Router,
            tags: &[],
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            tos: 0,
            hops: 64,
            fragment: 0,
            options: Options::None,
            protocol: UDP,
            ports: [4000, 9999],
            payload: LEAST,
            padding: 0,
            lie: Lie::None,
        }
    }

    /// Its frame from station to station, marked with a number.
    pub fn frame(&self, [to, from]: [[u8; 6]; 2], number: u32) -> Vec<u8> {
        let mut frame = [to, from].concat();
        for id in self.tags {
            frame.extend([0x81, 0]);
            frame.extend(id.to_be_bytes());
        }
        let (ethertype, mut packet) = match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => (0x0800_u16, self.ipv4(from, to, number)),
            (IpAddr::V6(from), IpAddr::V6(to)) => (0x86dd, self.ipv6(from, to, number)),
            mixed => panic!("{mixed:?}"),
        };
        frame.extend(ethertype.to_be_bytes());
        if let Lie::CutAt(at) = self.lie {
            packet.truncate(at.index(packet.len()));
        }
        frame.append(&mut packet);
        frame.resize(frame.len() + self.padding, 0xaa);
        frame
    }

    fn ipv4(&self, from: Ipv4Addr, to: Ipv4Addr, number: u32) -> Vec<u8> {
        let mut options = match self.options {
            Options::First(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        };
        options.resize(options.len().next_multiple_of(4), 0);
        let header_len = 20 + options.len();
        let transport = self.transport(&[from.octets(), to.octets()].concat(), number);
        let id = (number as u16).to_be_bytes();
        let [f0, f1] = self.fragment.to_be_bytes();
        let [l0, l1] = self.len(header_len + transport.len()).to_be_bytes();
        let first = self.first(4, (header_len / 4) as u8);
        let mut header = vec![first, self.tos, l0, l1, id[0], id[1], f0, f1];
        header.extend([self.hops, self.protocol, 0, 0]);
        header.extend(from.octets());
        header.extend(to.octets());
        header.append(&mut options);
        let checksum = Sum::of(&header).checksum();
        header[10..12].copy_from_slice(&checksum);
        if let Lie::HeaderChecksum = self.lie {
            header[10] ^= 0x40;
        }
        [header, transport].concat()
    }

    fn ipv6(&self, from: Ipv6Addr, to: Ipv6Addr, number: u32) -> Vec<u8> {
        let protocol = if self.protocol == ICMP { ICMPV6 } else { self.protocol };
        let transport = self.transport(&[from.octets(), to.octets()].concat(), number);
        let mut extensions = Vec::new();
        let mut next = protocol;
        if self.fragment != 0 {
            // Offset in steps of 8 bytes, and whether more follow.
            let [f0, f1] = (self.fragment << 3 | self.fragment >> 13 & 1).to_be_bytes();
            extensions = vec![next, 0, f0, f1, 0, 0, 0, number as u8];
            next = FRAGMENT;
        }
        let (kind, mut header) = match self.options {
            Options::None => (None, Vec::new()),
            Options::First(bytes) => (Some(HOP_BY_HOP), [&[next, 0], bytes].concat()),
            Options::Destination => (Some(DESTINATION), vec![next, 0, 1, 4, 0, 0, 0, 0]),
            Options::Routing => (Some(ROUTING), vec![next, 0, 2, 0, 0, 0, 0, 0]),
        };
        if let Some(kind) = kind {
            // A single byte of padding is one of zero.
            header.resize(header.len().next_multiple_of(8), 0);
            header[1] = (header.len() / 8 - 1) as u8;
            header.append(&mut extensions);
            (next, extensions) = (kind, header);
        }
        let [l0, l1] = self.len(extensions.len() + transport.len()).to_be_bytes();
        let first = self.first(6, self.tos >> 4);
        let mut packet = vec![first, self.tos << 4 | 5, 0, 7, l0, l1, next, self.hops];
        packet.extend(from.octets());
        packet.extend(to.octets());
        packet.append(&mut extensions);
        [packet, transport].concat()
    }

    const fn first(&self, version: u8, low: u8) -> u8 {
        match self.lie {
            Lie::Version(version) => version << 4 | low,
            Lie::HeaderLen(len) if version == 4 => version << 4 | len & 0xf,
            _ => version << 4 | low,
        }
    }

    const fn len(&self, len: usize) -> u16 {
        match self.lie {
            Lie::Longer(by) => (len as u16).wrapping_add(by),
            Lie::Shorter(by) => (len as u16).saturating_sub(by),
            _ => len as u16,
        }
    }

    /// What follows the IP headers. `addresses` are those of the pseudo header.
    fn transport(&self, addresses: &[u8], number: u32) -> Vec<u8> {
        let mut payload = [MAGIC.as_slice(), &number.to_be_bytes()].concat();
        payload.extend((0..self.payload - LEAST).map(|it| it as u8));
        let [source, destination] = self.ports.map(u16::to_be_bytes);
        let (mut header, checksum_at) = match self.protocol {
            UDP => {
                let len = (8 + payload.len()) as u16;
                ([&source[..], &destination, &len.to_be_bytes(), &[0; 2]].concat(), Some(6))
            }
            TCP => {
                let fixed = [0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0];
                let sequence = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
                ([&source[..], &destination, &sequence, &fixed].concat(), Some(16))
            }
            // Echo requests, or, where the ports say so, an error.
            ICMP if addresses.len() == 8 => (vec![8, 0, 0, 0, 0, 1, 0, 1], Some(2)),
            ICMP => (vec![128, 0, 0, 0, 0, 1, 0, 1], Some(2)),
            _ => (vec![0, 0, 0x88, 0xbe, 0, 0, 0, 0], None),
        };
        header.append(&mut payload);
        let Some(at) = checksum_at else { return header };
        let with_pseudo = !(self.protocol == ICMP && addresses.len() == 8);
        let protocol = if self.protocol == ICMP { ICMPV6 } else { self.protocol };
        let len = (header.len() as u32).to_be_bytes();
        let pseudo = [addresses, &len, &[0, 0, 0, protocol]].concat();
        let summed = if with_pseudo { [&pseudo, &*header].concat() } else { header.clone() };
        let checksum = Sum::of(&summed).udp_checksum();
        header[at..at + 2].copy_from_slice(&checksum);
        if let Lie::TransportChecksum = self.lie {
            header[at] ^= 0x10;
        }
        header
    }
}

/// A frame in which the router is told that its packets to `to` are longer than 1300 bytes, where
/// that is the most.
pub fn too_big([to_mac, from_mac]: [[u8; 6]; 2], to: Ipv6Addr) -> Vec<u8> {
    let [near, router] = ["fd01::2", "fd01::1"].map(|it| it.parse::<Ipv6Addr>().unwrap());
    let header = |len: u16, from: Ipv6Addr, to: Ipv6Addr| {
        let [l0, l1] = len.to_be_bytes();
        [&[0x60, 0, 0, 0, l0, l1, ICMPV6, 64][..], &from.octets(), &to.octets()].concat()
    };
    let quoted = [header(1400, router, to), vec![128, 0, 0, 0, 0, 1, 0, 1]].concat();
    let mut message = [&[2, 0, 0, 0][..], &1300_u32.to_be_bytes(), &quoted].concat();
    let len = message.len() as u16;
    let pseudo =
        [&near.octets()[..], &router.octets(), &u32::from(len).to_be_bytes(), &[0, 0, 0, ICMPV6]];
    let checksum = Sum::of(&[&pseudo.concat()[..], &message].concat()).checksum();
    message[2..4].copy_from_slice(&checksum);
    let ethernet = [&to_mac[..], &from_mac, &[0x86, 0xdd]].concat();
    [ethernet, header(len, near, router), message].concat()
}

/// The number in what arrived, wherever in it.
pub fn number(bytes: &[u8]) -> Option<u32> {
    let at = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)? + MAGIC.len();
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().unwrap()))
}

pub const SOURCES: [[&str; 12]; 2] = [
    [
        "10.1.0.2",
        "10.1.0.50",
        "10.1.0.66",
        "10.1.0.1",
        "10.1.0.255",
        "10.2.0.9",
        "10.3.0.9",
        "10.77.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
    ],
    [
        "fd01::2",
        "fd01::50",
        "fd01::66",
        "fd01::1",
        "fd01::",
        "fd02::9",
        "fd77::1",
        "fe80::1234",
        "::1",
        "::",
        "ff02::1",
        "::ffff:10.1.0.2",
    ],
];

pub const DESTINATIONS: [[&str; 24]; 2] = [
    [
        "10.2.0.2",
        "10.2.0.3",
        "10.2.0.1",
        "10.2.0.255",
        "10.1.0.1",
        "10.1.0.50",
        "10.1.0.77",
        "10.1.0.255",
        "10.3.0.255",
        "10.52.0.1",
        "10.53.0.1",
        "10.54.0.1",
        "10.55.0.1",
        "10.56.0.1",
        "10.57.0.1",
        "10.57.0.2",
        "10.58.0.1",
        "10.60.0.9",
        "10.61.0.1",
        "192.0.2.200",
        "240.0.0.1",
        "127.0.0.1",
        "224.0.0.251",
        "255.255.255.255",
    ],
    [
        "fd02::2",
        "fd02::3",
        "fd02::1",
        "fd02::",
        "fd01::1",
        "fd01::50",
        "fd50::1",
        "fd51::1",
        "fd52::1",
        "fd53::1",
        "fd54::1",
        "fd55::1",
        "fd55::2",
        "fd56::1",
        "fd60::9",
        "fd61::1",
        "2001:db8::1",
        "2001:db8::2",
        "::1",
        "::",
        "fe80::99",
        "ff02::fb",
        "ff0e::1",
        "::ffff:10.2.0.2",
    ],
];

/// Mostly the first ones, which are sound.
fn address(of: &'static [&'static str]) -> impl Strategy<Value = IpAddr> {
    let parsed = |addresses: &'static [&str]| {
        select(addresses).prop_map(|address| address.parse::<IpAddr>().unwrap())
    };
    prop_oneof![2 => parsed(&of[..2]), 2 => parsed(of)]
}

fn ends() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        (address(&SOURCES[0]), address(&DESTINATIONS[0])),
        (address(&SOURCES[1]), address(&DESTINATIONS[1])),
    ]
}

fn frame() -> impl Strategy<Value = (Station, &'static [u16], usize)> {
    let stations = prop_oneof![
        20 => Just(Station::Router),
        1 => Just(Station::Former),
        1 => Just(Station::Other),
        1 => Just(Station::Broadcast),
        1 => Just(Station::Multicast),
    ];
    let tags = prop_oneof![
        20 => Just([].as_slice()),
        1 => Just([0].as_slice()),
        1 => Just([5].as_slice()),
        1 => Just([0, 5].as_slice()),
    ];
    (stations, tags, prop_oneof![2 => Just(0_usize), 1 => 0..60_usize])
}

fn options() -> impl Strategy<Value = Options> {
    // Padding, router alert of either version, loose source route, timestamp for which there is no
    // room, record route, unknown.
    const BYTES: [&[u8]; 8] = [
        &[1, 1, 1, 1],
        &[148, 4, 0, 0],
        &[5, 2, 0, 0],
        &[131, 7, 4, 10, 2, 0, 3],
        &[68, 4, 5, 0],
        &[7, 7, 4, 0, 0, 0, 0],
        &[0x9e, 4, 0, 0],
        &[0xde, 4, 0, 0],
    ];
    prop_oneof![
        12 => Just(Options::None),
        2 => select(&BYTES).prop_map(Options::First),
        1 => Just(Options::Destination),
        1 => Just(Options::Routing),
    ]
}

fn lie() -> impl Strategy<Value = Lie> {
    prop_oneof![
        20 => Just(Lie::None),
        1 => (0..16_u8).prop_map(Lie::Version),
        1 => (0..16_u8).prop_map(Lie::HeaderLen),
        1 => (1..60_u16).prop_map(Lie::Longer),
        1 => (1..60_u16).prop_map(Lie::Shorter),
        1 => Just(Lie::HeaderChecksum),
        1 => Just(Lie::TransportChecksum),
        1 => any::<Index>().prop_map(Lie::CutAt),
    ]
}

/// Any packet.
pub fn any_packet() -> impl Strategy<Value = Packet> {
    // IPv4: not to be fragmented, more follow, an offset.
    let fragment = prop_oneof![6 => Just(0_u16), 3 => Just(0x4000_u16), 1 => Just(0x2000), 1 => Just(0x2002),
            1 => Just(3), 1 => Just(0x8000)];
    let hops = prop_oneof![8 => Just(64_u8), 1 => 0..4_u8, 1 => any::<u8>()];
    let tos = prop_oneof![4 => Just(0_u8), 1 => select(&[0x10, 0x11, 0x13, 0x08, 0xb8, 3, 0x1c])];
    let protocol = prop_oneof![6 => Just(UDP), 3 => Just(TCP), 1 => Just(ICMP), 1 => Just(47),
        1 => any::<u8>()];
    let payload = prop_oneof![
        6 => LEAST..100_usize,
        1 => 1200..1300_usize,
        1 => 1320..1480_usize,
        // Up to the longest that an interface sends.
        1 => Just(1440_usize),
    ];
    let ports = (select(&[4000_u16, 4001, 53, 0]), select(&[9999_u16, 9998, 53, 4789, 0]));
    ((frame(), ends(), tos, hops), (fragment, options(), protocol, ports, payload), lie()).prop_map(
        |((frame, (from, to), tos, hops), rest, lie)| {
            let (station, tags, padding) = frame;
            let (fragment, options, protocol, (source, destination), payload) = rest;
            let ports = [source, destination];
            Packet {
                station,
                tags,
                from,
                to,
                tos,
                hops,
                fragment,
                options,
                protocol,
                ports,
                payload,
                padding,
                lie,
            }
        },
    )
}
