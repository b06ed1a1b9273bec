//! Captures in the pcap format (draft-ietf-opsawg-pcap).

use super::{
    Captured, Frames, Link, MAX_FRAME,
    fields::{ByteOrder, Fields},
    input::Input,
    link_type::{self, LinkType},
};
use crate::error::Result;

/// What the magic number says about the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    order: ByteOrder,
    /// Bytes that a packet's header has beyond the usual 16: "modified" pcap has some.
    extra: u64,
}

impl Format {
    /// The format that begins with these bytes.
    pub fn of(magic: [u8; 4]) -> Option<Self> {
        [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let extra = match order.u32(magic) {
                // Times in microseconds and in nanoseconds.
                0xa1b2_c3d4 | 0xa1b2_3c4d => 0,
                0xa1b2_cd34 => 8,
                _ => return None,
            };
            Some(Self { order, extra })
        })
    }
}

/// The frames of a pcap capture.
pub(super) struct Pcap {
    input: Input,
    format: Format,
    link: LinkType,
    /// Bytes of FCS behind every frame.
    fcs: u32,
    /// Packets read so far.
    count: u64,
    buffer: Vec<u8>,
}

impl Pcap {
    /// A capture whose magic number has been read.
    pub fn open(format: Format, mut input: Input) -> Result<Self> {
        let header = input.rest::<20>("the file header")?;
        let mut fields = Fields::new(&header, format.order);
        let version = fields.u16().unwrap_or_default();
        if version != 2 {
            let what = format_args!("file header: version {version} is not supported, only 2");
            return Err(input.damaged(4, what));
        }
        // Minor version, time zone, accuracy of times, snap length.
        fields.skip(14);
        let field = fields.u32().unwrap_or_default();
        let (link, fcs) = (LinkType(field as u16), link_type::fcs_len(field));
        if matches!(link.link(&[]), Link::Unknown(_)) {
            return Err(link.refused(&input));
        }
        Ok(Self { input, format, link, fcs, count: 0, buffer: Vec::new() })
    }

    /// Captured and original length of the next record.
    fn record(&mut self) -> Result<Option<(usize, u32)>> {
        const PART: &str = "a packet's header";
        let at = self.input.offset();
        let Some(header) = self.input.array::<16>(PART)? else { return Ok(None) };
        self.input.skip(self.format.extra, PART)?;
        let mut fields = Fields::new(&header, self.format.order);
        // Time.
        fields.skip(8);
        let captured = fields.u32().unwrap_or_default() as usize;
        let original = fields.u32().unwrap_or_default();
        if captured > MAX_FRAME {
            let what = format_args!(
                "packet {}: {captured} bytes captured, but no frame exceeds {MAX_FRAME}",
                self.count
            );
            return Err(self.input.damaged(at, what));
        }
        self.count += 1;
        Ok(Some((captured, original)))
    }
}

impl Frames for Pcap {
    fn next(&mut self) -> Result<Option<Captured<'_>>> {
        let Some((captured, original_len)) = self.record()? else { return Ok(None) };
        let bytes = self.input.bytes(&mut self.buffer, captured, "a packet")?;
        Ok(Some(Captured::new(self.link, bytes, original_len, self.fcs)))
    }

    fn is_drained(&self) -> bool {
        self.input.is_drained()
    }
}
