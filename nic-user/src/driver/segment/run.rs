//! A run of segments of one size: what a NIC with large-send offload gets as one descriptor.

use super::super::{
    checksum::Sum,
    headers::{Ip, Transport, put, tcp_flags},
};
use super::{BufferTooShort, Ids, headers::Headers, payload::Payload};

/// The segments of one size that are still to be written: their headers, with the lengths of each
/// one, and the payload of all.
#[derive(Clone, Debug)]
pub struct Run<'a, I> {
    /// What the fields that differ from segment to segment are in the next one; all others are in
    /// `headers`.
    next: Variable,
    headers: Headers,
    sums: Sums,
    payload: Payload<'a, I>,
    payload_len: usize,
    ids: Ids,
    /// Segments that are left.
    segments: usize,
    /// TCP flags that only the last segment has, if it is the last of the super-packet.
    last_flags: u8,
}

/// The fields that differ from segment to segment.
#[derive(Clone, Copy, Debug)]
struct Variable {
    id: u16,
    sequence: u32,
    flags: u8,
}

/// What checksums count in every segment alike.
#[derive(Clone, Copy, Debug)]
struct Sums {
    ip: Sum,
    transport: Sum,
}

/// TCP flags that are for the end of a stream's piece: only the last segment has them.
const ONLY_LAST: u8 = tcp_flags::FIN | tcp_flags::PSH;

impl<'a, I: Iterator<Item = &'a [u8]>> Run<'a, I> {
    /// `segments` segments of `payload_len` bytes of `payload` each.
    pub(super) fn new(
        mut headers: Headers,
        payload: Payload<'a, I>,
        (segments, payload_len): (usize, usize),
        ids: Ids,
    ) -> Self {
        let flags = headers.tcp_flags();
        let next = Variable { id: headers.id(), sequence: headers.sequence(), flags };
        headers.set_payload_len(payload_len);
        headers.clear_variable_fields();
        let sums = Sums::of(&headers, payload_len);
        let last_flags = flags & ONLY_LAST;
        let mut run = Self { next, headers, sums, payload, payload_len, ids, segments, last_flags };
        run.next.flags = run.flags_of_next(flags & !ONLY_LAST);
        run
    }

    /// Segments that are left.
    pub const fn segments(&self) -> usize {
        self.segments
    }

    /// Length of the frame of each segment, from the destination address on.
    pub const fn frame_len(&self) -> usize {
        self.headers.layout.len + self.payload_len
    }

    /// Writes the next segment to the start of `to`, headers and payload; its length, or `None` if
    /// there is none left.
    #[inline]
    pub fn write(&mut self, to: &mut [u8]) -> Result<Option<usize>, BufferTooShort> {
        if self.segments == 0 {
            return Ok(None);
        }
        let needed = self.frame_len();
        let Some((headers, payload)) = to
            .get_mut(..needed)
            .and_then(|frame| frame.split_at_mut_checked(self.headers.layout.len))
        else {
            return Err(BufferTooShort { needed });
        };
        let payload = self.payload.copy_to(payload);
        headers.copy_from_slice(self.headers.bytes());
        self.fill_in(headers, payload);
        self.advance();
        Ok(Some(needed))
    }

    /// The fields that differ, and the checksums.
    #[inline]
    fn fill_in(&self, headers: &mut [u8], payload: Sum) {
        let layout = self.headers.layout;
        let Variable { id, sequence, flags } = self.next;
        if layout.ip == Ip::V4 {
            put(headers, layout.l3 + 4, id.to_be_bytes());
            put(headers, layout.l3 + 10, self.sums.ip.with_u16(id).checksum());
        }
        let sum = self.sums.transport.plus(payload);
        match layout.transport {
            Transport::Tcp => {
                put(headers, layout.l4 + 4, sequence.to_be_bytes());
                put(headers, layout.l4 + 13, [flags]);
                let sum = sum.with_u32(sequence).with_u16(flags.into());
                put(headers, layout.l4 + 16, sum.checksum());
            }
            Transport::Udp => put(headers, layout.l4 + 6, sum.udp_checksum()),
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.segments -= 1;
        self.next.id = self.ids.after(self.next.id, 1);
        self.next.sequence = self.next.sequence.wrapping_add(self.payload_len as u32);
        self.next.flags = self.flags_of_next(self.next.flags & !tcp_flags::CWR);
    }

    #[inline]
    const fn flags_of_next(&self, flags: u8) -> u8 {
        if self.segments == 1 { flags | self.last_flags } else { flags }
    }
}

impl Sums {
    /// The sums over `headers`, whose differing fields are zero, and the pseudo-header.
    fn of(headers: &Headers, payload_len: usize) -> Self {
        let layout = headers.layout;
        let bytes = headers.bytes();
        let part = |from: usize, to: usize| Sum::of(bytes.get(from..to).unwrap_or_default());
        let pseudo_header = layout.pseudo_header(bytes, payload_len);
        let transport = pseudo_header.plus(part(layout.l4, layout.len));
        Self { ip: part(layout.l3, layout.l4), transport }
    }
}
