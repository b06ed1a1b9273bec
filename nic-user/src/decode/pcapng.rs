//! Captures in the pcapng format (draft-ietf-opsawg-pcapng).

use std::ops::Range;

use super::{
    Captured, Frames, MAX_FRAME,
    fields::{ByteOrder, Fields},
    input::Input,
    link_type::LinkType,
};
use crate::error::Result;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Type, length, and length again at the end.
const FRAMING: u32 = 12;
const PART: &str = "a block";

/// An interface of a section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Longest captured part of a packet in bytes; 0 is no limit.
    snaplen: u32,
}

/// A packet in the body of the block that was read last.
struct Packet {
    interface: Interface,
    bytes: Range<usize>,
    original_len: u32,
}

/// The frames of a pcapng capture.
pub(super) struct PcapNg {
    input: Input,
    order: ByteOrder,
    interfaces: Vec<Interface>,
    body: Vec<u8>,
}

impl PcapNg {
    /// How every section begins, in either byte order.
    pub const MAGIC: [u8; 4] = SECTION.to_le_bytes();

    /// A capture whose first block type has been read.
    pub fn open(input: Input) -> Result<Self> {
        let order = ByteOrder::Little;
        let mut capture = Self { input, order, interfaces: Vec::new(), body: Vec::new() };
        capture.section(0)?;
        Ok(capture)
    }

    /// The rest of a section header whose type has been read; its block begins at byte `at`.
    fn section(&mut self, at: u64) -> Result<()> {
        const MAGIC: u32 = 0x1a2b_3c4d;
        let len = self.input.rest::<4>(PART)?;
        let magic = self.input.rest::<4>(PART)?;
        self.order = match (ByteOrder::Little.u32(magic), ByteOrder::Big.u32(magic)) {
            (MAGIC, _) => ByteOrder::Little,
            (_, MAGIC) => ByteOrder::Big,
            _ => return Err(self.input.damaged(at, "a section without a byte-order magic")),
        };
        self.interfaces.clear();
        let body = self.body_len(at, len)?;
        let Some(rest) = body.checked_sub(4) else {
            return Err(self.input.damaged(at, "a section header that is too short"));
        };
        self.input.skip(rest.into(), PART)?;
        self.end_of_block(at, len)
    }

    /// Bytes of the body of a block whose length field is `len`.
    fn body_len(&self, at: u64, len: [u8; 4]) -> Result<u32> {
        let len = self.order.u32(len);
        match len.checked_sub(FRAMING) {
            Some(body) if len.is_multiple_of(4) => Ok(body),
            _ => Err(self.input.damaged(at, format_args!("a block of {len} bytes"))),
        }
    }

    fn end_of_block(&mut self, at: u64, len: [u8; 4]) -> Result<()> {
        if self.input.rest::<4>(PART)? == len {
            return Ok(());
        }
        Err(self.input.damaged(at, "a block whose two lengths differ"))
    }

    /// Reads blocks up to the next packet.
    fn packet(&mut self) -> Result<Option<Packet>> {
        loop {
            let at = self.input.offset();
            let Some(kind) = self.input.array::<4>(PART)? else { return Ok(None) };
            if kind == Self::MAGIC {
                self.section(at)?;
                continue;
            }
            let len = self.input.rest::<4>(PART)?;
            let body = self.body_len(at, len)?;
            let kind = self.order.u32(kind);
            if !matches!(kind, INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                self.input.skip(body.into(), PART)?;
                self.end_of_block(at, len)?;
                continue;
            }
            self.read_body(at, body)?;
            self.end_of_block(at, len)?;
            if kind == INTERFACE {
                self.interface(at)?;
                continue;
            }
            return match self.parse_packet(kind) {
                Some(packet) => Ok(Some(packet)),
                None => Err(self.input.damaged(at, "a packet block that contradicts itself")),
            };
        }
    }

    fn read_body(&mut self, at: u64, len: u32) -> Result<()> {
        let len = len as usize;
        if len > MAX_FRAME {
            let what = format_args!("a block of {len} bytes; no frame is that long");
            return Err(self.input.damaged(at, what));
        }
        self.body.resize(len, 0);
        self.input.bytes(&mut self.body, len, PART)?;
        Ok(())
    }

    fn interface(&mut self, at: u64) -> Result<()> {
        let mut fields = Fields::new(&self.body, self.order);
        let link = fields.u16();
        // Reserved.
        fields.skip(2);
        let (Some(link), Some(snaplen)) = (link, fields.u32()) else {
            return Err(self.input.damaged(at, "an interface block that is too short"));
        };
        self.interfaces.push(Interface { link: LinkType(link), snaplen });
        Ok(())
    }

    /// The packet in the body; `None` if its fields contradict each other or name an interface
    /// that does not exist.
    fn parse_packet(&self, kind: u32) -> Option<Packet> {
        let mut fields = Fields::new(&self.body, self.order);
        let number = match kind {
            ENHANCED_PACKET => fields.u32()?,
            OLD_PACKET => {
                let number = fields.u16()?;
                // Drops.
                fields.skip(2);
                number.into()
            }
            _ => 0,
        };
        let interface = *self.interfaces.get(number as usize)?;
        let (captured, original_len) = if kind == SIMPLE_PACKET {
            let original = fields.u32()?;
            let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
            (original.min(limit) as usize, original)
        } else {
            // Time.
            fields.skip(8);
            (fields.u32()? as usize, fields.u32()?)
        };
        let start = self.body.len() - fields.left();
        fields.bytes(captured)?;
        Some(Packet { interface, bytes: start..start + captured, original_len })
    }
}

impl Frames for PcapNg {
    fn next(&mut self) -> Result<Option<Captured<'_>>> {
        let Some(packet) = self.packet()? else { return Ok(None) };
        packet.interface.link.expect_ethernet(&self.input)?;
        let bytes = self.body.get(packet.bytes).unwrap_or_default();
        Ok(Some(Captured { bytes, original_len: packet.original_len }))
    }

    fn is_drained(&self) -> bool {
        self.input.is_drained()
    }
}
