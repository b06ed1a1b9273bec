//! A packet that has arrived: its flow, and whether it may be merged at all.

use super::super::{
    checksum::Sum,
    headers::{Ip, Layout, Transport, UDP_LEN, be16, be32, chunk, tcp_flags},
    packet::Packet,
};
use super::{BUCKETS, Checksums};

/// What GRO has to know of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) layout: Layout,
    /// The same for all packets of a flow.
    pub(super) flow: u64,
    pub(super) payload_len: usize,
    /// TCP's sequence number; 0 for UDP.
    pub(super) sequence: u32,
    /// TCP's flags; 0 for UDP.
    pub(super) flags: u8,
    /// IPv4's identification; 0 for IPv6.
    pub(super) id: u16,
}

/// TCP flags that a large packet ends with.
pub(super) const END: u8 = tcp_flags::FIN | tcp_flags::PSH;

impl Arrival {
    /// `None` for a packet that is not TCP or UDP over IP.
    #[inline]
    pub(super) fn of(packet: &Packet) -> Option<Self> {
        let bytes = &*packet.linear;
        let layout = Layout::of(bytes, &packet.info).ok()?;
        Some(Self::with(packet, layout, flow(bytes, layout)))
    }

    /// A packet whose headers have this layout.
    #[inline]
    pub(super) fn with(packet: &Packet, layout: Layout, flow: u64) -> Self {
        let bytes = &*packet.linear;
        let (sequence, flags) = match layout.transport {
            Transport::Tcp => {
                let flags = bytes.get(layout.l4 + 13).copied().unwrap_or_default();
                (be32(bytes, layout.l4 + 4), flags)
            }
            Transport::Udp => (0, 0),
        };
        let id = match layout.ip {
            Ip::V4 => be16(bytes, layout.l3 + 4),
            Ip::V6 => 0,
        };
        let payload_len = packet.len() - layout.len;
        Self { layout, flow, payload_len, sequence, flags, id }
    }

    /// Which group its flow is in.
    #[inline]
    pub(super) const fn bucket(&self) -> usize {
        self.flow as usize % BUCKETS
    }

    /// Whether the packet ends a large packet that it joins, and starts none.
    #[inline]
    pub(super) const fn ends(&self) -> bool {
        self.flags & END != 0
    }

    /// Whether it may be merged with others.
    #[inline]
    pub(super) fn is_sound(&self, packet: &Packet, checksums: Checksums) -> bool {
        const NEVER: u8 = tcp_flags::SYN | tcp_flags::RST | tcp_flags::URG;
        let bytes = &*packet.linear;
        self.payload_len > 0
            && self.flags & NEVER == 0
            && self.has_right_lengths(bytes)
            && self.has_sound_ipv4_header(bytes)
            && self.has_usual_checksum(bytes)
            && (checksums == Checksums::Trusted || self.has_right_checksum(packet))
    }

    #[inline]
    fn has_right_lengths(&self, bytes: &[u8]) -> bool {
        let Layout { l4, transport, .. } = self.layout;
        let ip = usize::from(be16(bytes, self.layout.ip_length_at()));
        let transport = match transport {
            Transport::Tcp => true,
            Transport::Udp => usize::from(be16(bytes, l4 + 4)) == UDP_LEN + self.payload_len,
        };
        ip == self.layout.ip_length_field(self.payload_len) && transport
    }

    /// No options, no flag but DF, a right checksum.
    #[inline]
    fn has_sound_ipv4_header(&self, bytes: &[u8]) -> bool {
        let Layout { l3, l4, ip, .. } = self.layout;
        const DONT_FRAGMENT: u16 = 0x4000;
        ip == Ip::V6
            || l4 - l3 == 20
                && be16(bytes, l3 + 6) & !DONT_FRAGMENT == 0
                && be16(bytes, l3 + 10) != 0xffff
                && chunk::<20>(bytes, l3).is_some_and(|header| Sum::of_header(header).is_valid())
    }

    /// Whether its transport has one, and one that segmentation would write.
    #[inline]
    fn has_usual_checksum(&self, bytes: &[u8]) -> bool {
        let Layout { l4, transport, .. } = self.layout;
        let unusual = match transport {
            Transport::Tcp => 0xffff,
            // None at all.
            Transport::Udp => 0,
        };
        be16(bytes, l4 + transport.checksum_at()) != unusual
    }

    #[inline]
    fn has_right_checksum(&self, packet: &Packet) -> bool {
        let l4 = self.layout.l4;
        let bytes = &*packet.linear;
        let pseudo_header = self.layout.pseudo_header(bytes, self.payload_len);
        let mut sum = pseudo_header.plus(Sum::of(bytes.get(l4..).unwrap_or_default()));
        let mut at = bytes.len() - l4;
        for frag in &packet.frags {
            sum = sum.then(at, Sum::of(frag));
            at += frag.len();
        }
        sum.is_valid()
    }
}

/// A number that is the same for all packets between two ports of two addresses.
#[inline]
fn flow(bytes: &[u8], layout: Layout) -> u64 {
    // The golden ratio: a multiplication carries every bit upwards.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = |at| chunk(bytes, at).map_or(0, |word| u64::from_ne_bytes(*word));
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(SPREAD).rotate_left(29);
    let hash = mix(0, be32(bytes, layout.l4).into());
    let hash = match layout.ip {
        Ip::V4 => mix(hash, word(layout.l3 + 12)),
        Ip::V6 => {
            let addresses = layout.l3 + 8;
            [0, 8, 16, 24].into_iter().fold(hash, |hash, at| mix(hash, word(addresses + at)))
        }
    };
    hash ^ (hash >> 32)
}
