//! What leaves GRO.

use super::super::{
    packet::{Frag, Packet},
    segment::{Ids, SegmentError, SuperPacket},
};

/// A packet that leaves.
#[derive(Debug)]
pub enum Received<'g> {
    /// As it came.
    Packet(Packet),
    /// Of several.
    Merged(Merged<'g>),
}

/// Several packets of one flow as one large one.
///
/// Frames stay with it until it is dropped, or the fragments and chained packets are taken out.
#[derive(Debug)]
pub struct Merged<'g> {
    /// The first packet, with the headers of all: its lengths are those of the large packet (IP's
    /// 0 beyond 65535 bytes), its IPv4 checksum is right, its FIN and PSH are the last packet's,
    /// its transport checksum is that of the pseudo-header.
    pub head: Packet,
    /// The payloads that joined by fragments, behind the first packet's own.
    pub frags: &'g mut Vec<Frag>,
    /// The packets that were chained, without their headers, behind those fragments.
    pub chain: &'g mut Vec<Packet>,
    /// Bytes of headers at the start of the first packet.
    pub header_len: usize,
    /// Bytes of payload, all together.
    pub payload_len: usize,
    /// Packets that it is made of.
    pub packets: u32,
    /// Bytes of payload of each packet but the last, which may have had fewer.
    pub segment_size: usize,
    /// How IPv4 identifications counted.
    pub ids: Ids,
}

impl Merged<'_> {
    /// The headers.
    pub fn headers(&self) -> &[u8] {
        self.head.linear.get(..self.header_len).unwrap_or_default()
    }

    /// The parts of the payload, in order.
    pub fn payload(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let first = self.head.linear.get(self.header_len..).unwrap_or_default();
        let own = self.head.frags.iter().map(|frag| &**frag);
        let joined = self.frags.iter().map(|frag| &**frag);
        let chained = self.chain.iter().flat_map(|packet| {
            let frags = packet.frags.iter().map(|frag| &**frag);
            std::iter::once(&*packet.linear).chain(frags)
        });
        std::iter::once(first).chain(own).chain(joined).chain(chained)
    }

    /// The packet, to be segmented again.
    pub fn super_packet(
        &self,
    ) -> Result<SuperPacket<'_, impl Iterator<Item = &[u8]> + Clone>, SegmentError> {
        SuperPacket::new(self.headers(), self.payload(), self.segment_size, self.ids)
    }
}
