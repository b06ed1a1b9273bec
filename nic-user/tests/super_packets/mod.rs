//! Super-packets of every kind that segmentation knows, made from a description.
#![allow(dead_code, reason = "every test uses a part of it")]

use nic_user::driver::segment::{Ids, Segments, SuperPacket};
use proptest::{option, prelude::*};

/// Ethernet addresses, destination and source.
pub const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// A super-packet.
#[derive(Clone, Debug)]
pub struct Spec {
    /// VLAN tags, outermost first.
    pub vlans: Vec<u16>,
    pub ip: Ip,
    pub transport: Transport,
    pub ports: [u16; 2],
    pub segment_size: usize,
    pub payload_len: usize,
    /// What the payload is made of.
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub enum Ip {
    V4 { tos: u8, id: u16, dont_fragment: bool, ttl: u8, options: usize },
    V6 { class_and_label: u32, hop_limit: u8, extensions: Vec<Extension>, jumbo_option: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    HopByHop,
    Destination,
}

#[derive(Clone, Debug)]
pub enum Transport {
    Tcp { sequence: u32, acknowledged: u32, flags: u8, window: u16, options: Vec<u8> },
    Udp,
}

impl Spec {
    /// The packet's headers. The checksum of its transport is that of the pseudo-header, as the
    /// kernel has it in a packet whose checksum is still to be finished.
    pub fn headers(&self) -> Vec<u8> {
        let transport = self.transport_header();
        let mut headers = MACS.to_vec();
        let [outer, inner] = [[0x88, 0xa8], [0x81, 0x00]];
        for (index, tag) in self.vlans.iter().enumerate() {
            let is_inner = index + 1 == self.vlans.len();
            headers.extend(if is_inner { inner } else { outer });
            headers.extend(tag.to_be_bytes());
        }
        headers.extend(match self.ip {
            Ip::V4 { .. } => [0x08, 0x00],
            Ip::V6 { .. } => [0x86, 0xdd],
        });
        headers.extend(self.network_header(transport.len() + self.payload_len));
        headers.extend(transport);
        headers
    }

    /// The packet's payload.
    pub fn payload(&self) -> Vec<u8> {
        let mut state = self.seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let mut payload = vec![0; self.payload_len];
        for word in payload.chunks_mut(8) {
            word.copy_from_slice(&next()[..word.len()]);
        }
        payload
    }

    /// Segments that it has to become.
    pub fn segments(&self) -> usize {
        self.payload_len.div_ceil(self.segment_size).max(1)
    }

    pub fn is_v4(&self) -> bool {
        matches!(self.ip, Ip::V4 { .. })
    }

    pub fn is_tcp(&self) -> bool {
        matches!(self.transport, Transport::Tcp { .. })
    }

    /// Where the IP header starts.
    pub fn l3(&self) -> usize {
        14 + 4 * self.vlans.len()
    }

    /// Length of the transport header.
    pub fn transport_header_len(&self) -> usize {
        match &self.transport {
            Transport::Tcp { options, .. } => 20 + options.len(),
            Transport::Udp => 8,
        }
    }

    fn protocol(&self) -> u8 {
        if self.is_tcp() { 6 } else { 17 }
    }

    fn addresses(&self) -> Vec<u8> {
        match self.ip {
            Ip::V4 { .. } => vec![192, 0, 2, 1, 192, 0, 2, 2],
            Ip::V6 { .. } => {
                let address = |last| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat();
                [address(1), address(2)].concat()
            }
        }
    }

    fn transport_header(&self) -> Vec<u8> {
        let [source, destination] = self.ports.map(u16::to_be_bytes);
        let mut header = [source, destination].concat();
        let checksum_at = match &self.transport {
            Transport::Tcp { sequence, acknowledged, flags, window, options } => {
                header.extend(sequence.to_be_bytes());
                header.extend(acknowledged.to_be_bytes());
                header.extend([(((20 + options.len()) / 4) << 4) as u8, *flags]);
                header.extend(window.to_be_bytes());
                header.extend([0; 4]);
                header.extend(options);
                16
            }
            Transport::Udp => {
                header.extend(((8 + self.payload_len) as u16).to_be_bytes());
                header.extend([0; 2]);
                6
            }
        };
        let len = (header.len() + self.payload_len) as u32;
        let pseudo =
            [&self.addresses()[..], &len.to_be_bytes(), &[0, 0, 0, self.protocol()]].concat();
        header[checksum_at..checksum_at + 2].copy_from_slice(&ones_sum(&pseudo).to_be_bytes());
        header
    }

    fn network_header(&self, len: usize) -> Vec<u8> {
        match &self.ip {
            &Ip::V4 { tos, id, dont_fragment, ttl, options } => {
                let header_len = 20 + options;
                let total = u16::try_from(header_len + len).unwrap_or(0);
                let mut header = vec![0x40 | (header_len / 4) as u8, tos];
                header.extend(total.to_be_bytes());
                header.extend(id.to_be_bytes());
                header.extend([u8::from(dont_fragment) << 6, 0, ttl, self.protocol(), 0, 0]);
                header.extend(self.addresses());
                // No-operation options.
                header.extend(vec![1; options]);
                let checksum = !ones_sum(&header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                header
            }
            Ip::V6 { class_and_label, hop_limit, extensions, jumbo_option } => {
                let mut behind = Vec::new();
                let mut next = self.protocol();
                for extension in extensions.iter().rev() {
                    // An option that is padding.
                    behind.splice(0..0, [next, 0, 1, 4, 0, 0, 0, 0]);
                    next = match extension {
                        Extension::HopByHop => 0,
                        Extension::Destination => 60,
                    };
                }
                let mut total = behind.len() + len;
                if total > 65535 && *jumbo_option {
                    assert!(extensions.is_empty());
                    let [a, b, c, d] = ((8 + total) as u32).to_be_bytes();
                    behind.splice(0..0, [next, 0, 0xc2, 4, a, b, c, d]);
                    next = 0;
                    total += 8;
                }
                let mut header = (6 << 28 | class_and_label).to_be_bytes().to_vec();
                header.extend(u16::try_from(total).unwrap_or(0).to_be_bytes());
                header.extend([next, *hop_limit]);
                header.extend(self.addresses());
                header.extend(behind);
                header
            }
        }
    }
}

/// All segments of a packet, each in a buffer of its own.
pub fn write_all<'a, I: Iterator<Item = &'a [u8]>>(mut segments: Segments<'a, I>) -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    while let Some(len) = segments.next_len() {
        let mut frame = vec![0xee; len];
        assert_eq!(segments.write(&mut frame), Ok(Some(len)));
        written.push(frame);
    }
    assert_eq!(segments.write(&mut []), Ok(None));
    written
}

/// What our segmentation makes of a packet.
pub fn segment(spec: &Spec, payload: &[u8], ids: Ids) -> Vec<Vec<u8>> {
    let parts = std::iter::once(payload);
    let packet = SuperPacket::new(&spec.headers(), parts, spec.segment_size, ids).unwrap();
    write_all(packet.segments())
}

/// The ones' complement sum of 16-bit words (RFC 1071).
pub fn ones_sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Any super-packet of up to `max_segments` segments.
pub fn specs(max_segments: usize) -> impl Strategy<Value = Spec> {
    let transport = prop_oneof![tcp().boxed(), Just(Transport::Udp).boxed()];
    let size = prop_oneof![1_usize..100, 100_usize..1500, Just(1448), 1500_usize..9000];
    let vlan = option::weighted(0.3, any::<u16>());
    let vlans = (vlan, option::weighted(0.2, any::<u16>()));
    (vlans, ip(), transport, any::<[u16; 2]>(), size, segments(max_segments), any::<u64>())
        .prop_map(|((outer, inner), ip, transport, ports, segment_size, (whole, rest), seed)| {
            let vlans = outer.into_iter().chain(inner).collect();
            let rest = if rest { seed as usize % segment_size } else { 0 };
            let payload_len = whole * segment_size + rest;
            Spec { vlans, ip, transport, ports, segment_size, payload_len, seed }.within_limits()
        })
}

/// Whole segments, and whether a shorter one follows.
fn segments(max: usize) -> impl Strategy<Value = (usize, bool)> {
    (prop_oneof![1..=max.min(5), 1..=max], any::<bool>())
}

fn tcp() -> impl Strategy<Value = Transport> {
    let options = prop_oneof![
        Just(vec![]),
        any::<[u8; 8]>().prop_map(|stamps| [&[1, 1, 8, 10][..], &stamps].concat()),
        (0_usize..=10).prop_map(|words| vec![1; 4 * words]),
    ];
    // No SYN, no RST.
    let flags = any::<u8>().prop_map(|flags| flags & !0x06);
    (any::<u32>(), any::<u32>(), flags, any::<u16>(), options).prop_map(
        |(sequence, acknowledged, flags, window, options)| Transport::Tcp {
            sequence,
            acknowledged,
            flags,
            window,
            options,
        },
    )
}

fn ip() -> impl Strategy<Value = Ip> {
    let options = prop_oneof![4 => Just(0_usize), 1 => (1_usize..=10).prop_map(|words| 4 * words)];
    let v4 = (any::<u8>(), any::<u16>(), any::<bool>(), 1_u8.., options).prop_map(
        |(tos, id, dont_fragment, ttl, options)| Ip::V4 { tos, id, dont_fragment, ttl, options },
    );
    let extensions = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![Extension::HopByHop]),
        1 => Just(vec![Extension::HopByHop, Extension::Destination]),
    ];
    let v6 = (0_u32..1 << 28, 1_u8.., extensions, any::<bool>()).prop_map(
        |(class_and_label, hop_limit, extensions, jumbo_option)| {
            let jumbo_option = jumbo_option && extensions.is_empty();
            Ip::V6 { class_and_label, hop_limit, extensions, jumbo_option }
        },
    );
    prop_oneof![v4.boxed(), v6.boxed()]
}

impl Spec {
    /// As much of the payload as a packet of its kind may have.
    fn within_limits(mut self) -> Self {
        let max = if self.is_tcp() { 8 * 65535 } else { 65535 };
        let headers = self.headers().len() - self.l3();
        self.payload_len = self.payload_len.min(max - headers);
        self
    }
}
