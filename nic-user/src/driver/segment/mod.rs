//! Transmit segmentation: one packet larger than the wire carries becomes a run of segments of one
//! size and, if the payload is no multiple of it, one shorter segment at the end.
//!
//! ```text
//! headers | payload .................................  super-packet, segment size
//! headers | payload  headers | payload  headers | pay  what is written
//! [------------- run ----------------] [--- last ---]  what a NIC would get as descriptors
//! ```
//!
//! What `__udp_gso_segment` (net/ipv4/udp_offload.c), `tcp_gso_segment` (net/ipv4/tcp_offload.c),
//! `inet_gso_segment` and `ipv6_gso_segment` put into the fields is what is put here:
//!
//! | field | is |
//! | --- | --- |
//! | IPv4 total length, IPv6 payload length, UDP length | that of the segment |
//! | IPv4 identification | one more in each segment, or the same in all ([`Ids`]) |
//! | TCP sequence number | that of the segment's first byte |
//! | TCP FIN and PSH | on the last segment only |
//! | TCP CWR | on the first segment only |
//! | checksums | whole, whatever was in the super-packet |
//!
//! Packets beyond 65535 bytes (BIG TCP) have an IP length of 0; in IPv6 they may have the kernel's
//! temporary hop-by-hop header with their length, which does not go on the wire.

mod error;
mod headers;
mod payload;
mod run;

pub use error::{BufferTooShort, SegmentError};
pub use run::Run;

use headers::Headers;
use payload::Payload;

use super::headers::{Transport, tcp_flags};

/// The longest packet from the IP header on, in bytes (`GSO_MAX_SIZE`, linux/netdevice.h).
pub const MAX_LEN: usize = 8 * 65535;

/// IPv4 identifications of the segments of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// One more in each segment.
    #[default]
    Increment,
    /// The same in all segments (`SKB_GSO_TCP_FIXEDID`), as some senders have it in packets that
    /// must not be fragmented.
    Fixed,
}

impl Ids {
    const fn after(self, id: u16, segments: usize) -> u16 {
        match self {
            Self::Increment => id.wrapping_add(segments as u16),
            Self::Fixed => id,
        }
    }
}

/// A packet to be segmented, found sound.
#[derive(Clone, Debug)]
pub struct SuperPacket<'a, I> {
    headers: Headers,
    payload: Payload<'a, I>,
    payload_len: usize,
    segment_size: usize,
    ids: Ids,
}

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> SuperPacket<'a, I> {
    /// A packet of `headers`, from the destination address to the end of TCP or UDP, and the parts
    /// of `payload`, to be cut after every `segment_size` bytes. A packet whose payload is not
    /// longer than that becomes one segment.
    ///
    /// Length fields have to be those of this packet: IP's 0 beyond 65535 bytes. Checksums may be
    /// anything.
    pub fn new(
        headers: &[u8],
        payload: I,
        segment_size: usize,
        ids: Ids,
    ) -> Result<Self, SegmentError> {
        let payload_len = payload.clone().map(<[u8]>::len).sum();
        let headers = Headers::of_super_packet(headers, payload_len)?;
        if segment_size == 0 {
            return Err(SegmentError::NoSegmentSize);
        }
        let len = headers.layout.ip_len(segment_size.min(payload_len));
        if len > usize::from(u16::MAX) {
            return Err(SegmentError::SegmentTooLong { len });
        }
        let control = headers.tcp_flags() & (tcp_flags::SYN | tcp_flags::RST) != 0;
        if control && payload_len > segment_size {
            return Err(SegmentError::ControlFlags);
        }
        let payload = Payload::new(payload);
        Ok(Self { headers, payload, payload_len, segment_size, ids })
    }

    /// The run of equal segments, and the last one if it is shorter: one or two descriptors for a
    /// NIC that replicates headers by itself.
    pub fn runs(self) -> (Run<'a, I>, Option<Run<'a, I>>) {
        let (equal, last) = self.partial();
        (equal.into_run(), last.map(Self::into_run))
    }

    /// The segments, one after the other.
    pub fn segments(self) -> Segments<'a, I> {
        let (run, last) = self.runs();
        Segments { run, last }
    }

    /// The packet as two, the way of `NETIF_F_GSO_PARTIAL`: one whose payload is a multiple of the
    /// segment size, and what is left as one of its own. Lengths, identification, sequence number
    /// and flags are those of either, and so is IPv4's checksum; the transport checksum is that of
    /// the pseudo-header. Segmented, they give what the whole gives.
    pub fn partial(self) -> (Self, Option<Self>) {
        let rest = self.payload_len % self.segment_size;
        let len = self.payload_len - rest;
        if rest == 0 || len == 0 {
            return (self, None);
        }
        let flags = self.headers.tcp_flags();
        let mut last = self.clone();
        last.payload.skip(len);
        last.headers.set_id(self.ids.after(self.headers.id(), len / self.segment_size));
        last.headers.set_sequence(self.headers.sequence().wrapping_add(len as u32));
        last.headers.set_tcp_flags(flags & !tcp_flags::CWR);
        last.set_payload_len(rest);
        let mut equal = self;
        equal.headers.set_tcp_flags(flags & !(tcp_flags::FIN | tcp_flags::PSH));
        equal.set_payload_len(len);
        (equal, Some(last))
    }

    /// The headers, without the temporary hop-by-hop header.
    pub fn headers(&self) -> &[u8] {
        self.headers.bytes()
    }

    /// Bytes of payload.
    pub const fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Whether it is TCP; UDP, if not.
    pub fn is_tcp(&self) -> bool {
        self.headers.layout.transport == Transport::Tcp
    }

    fn set_payload_len(&mut self, len: usize) {
        self.payload_len = len;
        self.headers.set_payload_len(len);
    }

    /// A packet that is a multiple of its segment size, or not longer than it.
    fn into_run(self) -> Run<'a, I> {
        let payload_len = self.segment_size.min(self.payload_len);
        let segments = self.payload_len.checked_div(payload_len).unwrap_or(1);
        Run::new(self.headers, self.payload, (segments, payload_len), self.ids)
    }
}

/// The segments of a packet that are still to be written.
#[derive(Clone, Debug)]
pub struct Segments<'a, I> {
    run: Run<'a, I>,
    last: Option<Run<'a, I>>,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Segments<'a, I> {
    /// Segments that are left.
    pub fn left(&self) -> usize {
        self.run.segments() + self.last.as_ref().map_or(0, Run::segments)
    }

    /// Length of the next segment's frame; `None` if there is none left.
    pub fn next_len(&self) -> Option<usize> {
        let run = if self.run.segments() > 0 { Some(&self.run) } else { self.last.as_ref() };
        run.filter(|run| run.segments() > 0).map(Run::frame_len)
    }

    /// Writes the next segment to the start of `to`; its length, or `None` if there is none left.
    #[inline]
    pub fn write(&mut self, to: &mut [u8]) -> Result<Option<usize>, BufferTooShort> {
        match (self.run.segments(), &mut self.last) {
            (0, Some(last)) => last.write(to),
            _ => self.run.write(to),
        }
    }
}
