//! Packets of one flow that wait for the next.

use nic_common::policy::Verdict;

use super::{
    super::{
        headers::{Ip, Layout, Transport, be32, chunk, put, tcp_flags::CWR},
        packet::{Frag, Packet},
        segment::Ids,
    },
    Counters, Limits, Merged, Received,
    arrival::{Arrival, END},
};

/// The most datagrams of a large packet (`UDP_GRO_CNT_MAX`, net/udp.h).
const MAX_DATAGRAMS: u32 = 64;

/// What joined the first packet.
#[derive(Debug, Default)]
pub(super) struct Parts {
    frags: Vec<Frag>,
    chain: Vec<Packet>,
}

/// The packets of a flow so far.
#[derive(Debug)]
pub(super) struct Held {
    first: Arrival,
    head: Packet,
    parts: Parts,
    payload_len: usize,
    packets: u32,
    ids: Ids,
    /// The last packet's FIN and PSH.
    end: u8,
}

/// What a packet is to those of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// The one that follows.
    Next,
    /// Another one.
    SameFlow,
}

impl Held {
    pub(super) fn new(head: Packet, arrival: &Arrival, parts: Parts) -> Self {
        Self {
            first: *arrival,
            head,
            parts,
            payload_len: arrival.payload_len,
            packets: 1,
            ids: Ids::Increment,
            end: 0,
        }
    }

    /// Whether more than one packet is held.
    pub(super) const fn is_merged(&self) -> bool {
        self.packets > 1
    }

    /// What `packet` is to these; `None` if it belongs to another flow.
    #[inline]
    pub(super) fn relation(&self, arrival: &Arrival, packet: &Packet) -> Option<Relation> {
        if self.first.flow != arrival.flow {
            return None;
        }
        let (ours, theirs) = (&*self.head.linear, &*packet.linear);
        if self.first.layout == arrival.layout && are_alike(ours, theirs, arrival.layout) {
            return Some(self.relation_of_alike(arrival));
        }
        are_of_one_flow((ours, self.first.layout), (theirs, arrival.layout))
            .then_some(Relation::SameFlow)
    }

    /// `packet` and what it is to these, if their headers are alike: so there is no need to find
    /// out anew what those are.
    #[inline]
    pub(super) fn if_alike(&self, packet: &Packet) -> Option<(Arrival, Relation)> {
        let Arrival { layout, flow, .. } = self.first;
        let is_alike = packet.info == self.head.info
            && packet.linear.len() >= layout.len
            && are_alike(&self.head.linear, &packet.linear, layout);
        if !is_alike {
            return None;
        }
        let arrival = Arrival::with(packet, layout, flow);
        Some((arrival, self.relation_of_alike(&arrival)))
    }

    #[inline]
    fn relation_of_alike(&self, arrival: &Arrival) -> Relation {
        if self.follows(arrival) { Relation::Next } else { Relation::SameFlow }
    }

    /// Whether what counts on from packet to packet has counted on. Headers are alike.
    #[inline]
    fn follows(&self, next: &Arrival) -> bool {
        let in_sequence = match next.layout.transport {
            Transport::Tcp => {
                next.sequence == self.first.sequence.wrapping_add(self.payload_len as u32)
            }
            Transport::Udp => true,
        };
        in_sequence
            && next.flags & CWR == 0
            && next.payload_len <= self.first.payload_len
            && self.ids_with(next).is_some()
    }

    /// How IPv4 identifications count if `next` joins; `None` if they would not
    /// (`inet_gro_flush`, net/gro.h).
    #[inline]
    fn ids_with(&self, next: &Arrival) -> Option<Ids> {
        if next.layout.ip == Ip::V6 {
            return Some(self.ids);
        }
        let offset = next.id.wrapping_sub(self.first.id);
        let may_be_fixed = self.ids == Ids::Fixed || self.packets == 1 && self.has_dont_fragment();
        match offset {
            0 if may_be_fixed => Some(Ids::Fixed),
            _ if self.ids == Ids::Fixed => None,
            _ => (u32::from(offset) == self.packets).then_some(Ids::Increment),
        }
    }

    #[inline]
    fn has_dont_fragment(&self) -> bool {
        self.head.linear.get(self.first.layout.l3 + 6).is_some_and(|flags| flags & 0x40 != 0)
    }

    /// Whether the packet would not become too large.
    #[inline]
    pub(super) fn has_room(&self, next: &Arrival, limits: Limits) -> bool {
        let len = next.layout.ip_len(self.payload_len + next.payload_len);
        match next.layout.transport {
            Transport::Tcp => len <= limits.max_len,
            Transport::Udp => len <= limits.max_len.min(usize::from(u16::MAX)),
        }
    }

    /// Takes the packet that follows; whether it is the last one.
    #[inline]
    pub(super) fn join(&mut self, packet: Packet, next: &Arrival, counters: &mut Counters) -> bool {
        self.ids = self.ids_with(next).unwrap_or(self.ids);
        self.payload_len += next.payload_len;
        self.packets += 1;
        self.end = next.flags & END;
        self.parts.add(packet, next.layout.len, counters);
        let is_full = next.layout.transport == Transport::Udp && self.packets >= MAX_DATAGRAMS;
        next.payload_len < self.first.payload_len || next.ends() || is_full
    }

    /// Hands out what is held, and gives back the room for its parts.
    pub(super) fn hand_out(self, each: &mut impl FnMut(Received<'_>)) -> Parts {
        let Self { first, mut head, mut parts, payload_len, packets, ids, end } = self;
        if packets == 1 {
            each(Received::Packet(head));
            return parts;
        }
        let Layout { l4, len, transport, .. } = first.layout;
        if transport == Transport::Tcp {
            put(&mut head.linear, l4 + 13, [first.flags | end]);
        }
        first.layout.set_lengths(&mut head.linear, payload_len);
        each(Received::Merged(Merged {
            head,
            frags: &mut parts.frags,
            chain: &mut parts.chain,
            header_len: len,
            payload_len,
            packets,
            segment_size: first.payload_len,
            ids,
        }));
        parts.frags.clear();
        parts.chain.clear();
        parts
    }
}

impl Parts {
    #[inline]
    fn add(&mut self, packet: Packet, header_len: usize, counters: &mut Counters) {
        let only_headers = packet.linear.len() == header_len;
        if only_headers || packet.verdict == Verdict::Whole {
            counters.by_frags += 1;
            self.add_frags(packet, header_len);
        } else {
            counters.chained += 1;
            let mut packet = packet;
            packet.linear.advance(header_len as u32);
            self.chain.push(packet);
        }
    }

    /// Behind the last chained packet, if there is one, as the kernel has it.
    #[inline]
    fn add_frags(&mut self, packet: Packet, header_len: usize) {
        let Packet { mut linear, mut frags, .. } = packet;
        linear.advance(header_len as u32);
        let linear = if linear.is_empty() { None } else { Some(linear) };
        if let Some(last) = self.chain.last_mut() {
            last.frags.extend(linear.into_iter().chain(frags));
            return;
        }
        self.frags.extend(linear);
        // Mostly there is one.
        if frags.len() > 1 {
            self.frags.extend(frags);
        } else {
            self.frags.extend(frags.pop());
        }
    }
}

/// Whether headers of one layout are the same but for lengths, checksums and what counts on.
#[inline]
fn are_alike(a: &[u8], b: &[u8], layout: Layout) -> bool {
    // Which bits of a header are compared.
    const ETHERNET: [u8; 14] = [0xff; 14];
    const IPV4: [u8; 20] = {
        let mut mask = [0xff; 20];
        // Total length and identification, checksum.
        [mask[2], mask[3], mask[4], mask[5], mask[10], mask[11]] = [0; 6];
        mask
    };
    const IPV6: [u8; 40] = {
        let mut mask = [0xff; 40];
        // Payload length.
        [mask[4], mask[5]] = [0; 2];
        mask
    };
    const TCP: [u8; 20] = {
        let mut mask = [0xff; 20];
        // Sequence number, flags, checksum.
        [mask[4], mask[5], mask[6], mask[7]] = [0; 4];
        mask[13] = !(CWR | END);
        [mask[16], mask[17]] = [0; 2];
        mask
    };
    // Ports only.
    const UDP: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let Layout { l3, l4, len, ip, transport } = layout;
    let (network, network_end) = match ip {
        Ip::V4 => (difference(a, b, l3, &IPV4), l3 + IPV4.len()),
        Ip::V6 => (difference(a, b, l3, &IPV6), l3 + IPV6.len()),
    };
    let (transport, transport_end) = match transport {
        Transport::Tcp => (difference(a, b, l4, &TCP), l4 + TCP.len()),
        Transport::Udp => (difference(a, b, l4, &UDP), l4 + UDP.len()),
    };
    difference(a, b, 0, &ETHERNET) | network | transport == 0
        && same_bytes(a, b, ETHERNET.len(), l3)
        && same_bytes(a, b, network_end, l4)
        && same_bytes(a, b, transport_end, len)
}

/// Whether packets have the same Ethernet header, VLANs, addresses and ports.
fn are_of_one_flow((a, of_a): (&[u8], Layout), (b, of_b): (&[u8], Layout)) -> bool {
    let addresses = match of_a.ip {
        Ip::V4 => of_a.l3 + 12..of_a.l3 + 20,
        Ip::V6 => of_a.l3 + 8..of_a.l3 + 40,
    };
    (of_a.l3, of_a.ip, of_a.transport) == (of_b.l3, of_b.ip, of_b.transport)
        && same_bytes(a, b, 0, of_a.l3)
        && same_bytes(a, b, addresses.start, addresses.end)
        && be32(a, of_a.l4) == be32(b, of_b.l4)
}

/// 0 if the bits of `mask` are the same in both, from `at` on.
#[inline(always)]
fn difference<const N: usize>(a: &[u8], b: &[u8], at: usize, mask: &[u8; N]) -> u64 {
    const WORD: usize = 8;
    const { assert!(N >= WORD) };
    let (Some(a), Some(b)) = (chunk::<N>(a, at), chunk::<N>(b, at)) else { return u64::MAX };
    let word = |bytes: &[u8; N], at| chunk(bytes, at).map_or(0, |word| u64::from_ne_bytes(*word));
    let differing = |at| (word(a, at) ^ word(b, at)) & word(mask, at);
    // The last word may overlap the one before.
    (0..N / WORD).fold(differing(N - WORD), |all, index| all | differing(index * WORD))
}

#[inline]
fn same_bytes(a: &[u8], b: &[u8], from: usize, to: usize) -> bool {
    from == to || a.get(from..to) == b.get(from..to)
}
