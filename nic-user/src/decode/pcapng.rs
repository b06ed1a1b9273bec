//! Captures in the pcapng format (draft-ietf-opsawg-pcapng).

use std::{fmt, ops::Range};

use super::{
    Captured, Frames, MAX_FRAME,
    fields::{ByteOrder, Fields},
    input::Input,
    link_type::{self, LinkType},
};
use crate::error::{Error, Result};

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
    /// Bytes of FCS behind every frame.
    fcs: u32,
}

/// A packet in the body of the block that was read last.
struct Packet {
    interface: Interface,
    bytes: Range<usize>,
    original_len: u32,
    fcs: u32,
}

/// A block of which the type was read.
#[derive(Clone, Copy)]
struct Block {
    kind: u32,
    /// Where it begins in the input.
    at: u64,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SECTION => f.write_str("section header"),
            INTERFACE => f.write_str("interface description"),
            OLD_PACKET => f.write_str("packet block"),
            SIMPLE_PACKET => f.write_str("simple packet block"),
            ENHANCED_PACKET => f.write_str("enhanced packet block"),
            kind => write!(f, "block of type {kind}"),
        }
    }
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

    /// The block lies: what contradicts what.
    fn damaged(&self, block: Block, what: impl fmt::Display) -> Error {
        self.input.damaged(block.at, format_args!("{block}: {what}"))
    }

    /// The rest of a section header whose type has been read; its block begins at byte `at`.
    fn section(&mut self, at: u64) -> Result<()> {
        const MAGIC: u32 = 0x1a2b_3c4d;
        const FIXED: u32 = 16;
        let block = Block { kind: SECTION, at };
        let len = self.input.rest::<4>(PART)?;
        let magic = self.input.rest::<4>(PART)?;
        self.order = match (ByteOrder::Little.u32(magic), ByteOrder::Big.u32(magic)) {
            (MAGIC, _) => ByteOrder::Little,
            (_, MAGIC) => ByteOrder::Big,
            (other, _) => {
                let what = format_args!("{other:#010x} is not the byte-order magic {MAGIC:#010x}");
                return Err(self.damaged(block, what));
            }
        };
        self.interfaces.clear();
        let body = self.body_len(block, len)?;
        let Some(rest) = body.checked_sub(FIXED) else {
            let what = format_args!("{body} bytes, but its fields need {FIXED}");
            return Err(self.damaged(block, what));
        };
        self.version(block)?;
        self.input.skip(u64::from(rest) + 8, PART)?;
        self.end_of_block(block, len)
    }

    fn version(&mut self, section: Block) -> Result<()> {
        let bytes = self.input.rest::<4>(PART)?;
        let mut fields = Fields::new(&bytes, self.order);
        match (fields.u16(), fields.u16()) {
            (Some(1), _) => Ok(()),
            (major, minor) => {
                let [major, minor] = [major, minor].map(Option::unwrap_or_default);
                let what = format_args!("version {major}.{minor} is not supported, only 1");
                Err(self.damaged(section, what))
            }
        }
    }

    /// Bytes of the body of a block whose length field is `len`.
    fn body_len(&self, block: Block, len: [u8; 4]) -> Result<u32> {
        let len = self.order.u32(len);
        match len.checked_sub(FRAMING) {
            Some(body) if len.is_multiple_of(4) => Ok(body),
            Some(_) => {
                let what = format_args!("its length of {len} bytes is not a multiple of 4");
                Err(self.damaged(block, what))
            }
            None => {
                let what = format_args!(
                    "its length of {len} bytes is less than the {FRAMING} of an empty one"
                );
                Err(self.damaged(block, what))
            }
        }
    }

    fn end_of_block(&mut self, block: Block, len: [u8; 4]) -> Result<()> {
        let again = self.input.rest::<4>(PART)?;
        if again == len {
            return Ok(());
        }
        let [len, again] = [len, again].map(|len| self.order.u32(len));
        let what = format_args!("its length is {len} at its start and {again} at its end");
        Err(self.damaged(block, what))
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
            let block = Block { kind: self.order.u32(kind), at };
            let len = self.input.rest::<4>(PART)?;
            let body = self.body_len(block, len)?;
            match block.kind {
                INTERFACE => {
                    self.read_body(block, body, len)?;
                    self.interface(block)?;
                }
                OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    self.read_body(block, body, len)?;
                    let packet = self.parse_packet(block.kind);
                    return packet.map(Some).map_err(|what| self.damaged(block, what));
                }
                _ => {
                    self.input.skip(body.into(), PART)?;
                    self.end_of_block(block, len)?;
                }
            }
        }
    }

    /// Reads the rest of a block whose length field is `len`.
    fn read_body(&mut self, block: Block, body: u32, len: [u8; 4]) -> Result<()> {
        let body = body as usize;
        if body > MAX_FRAME {
            let what = format_args!("{body} bytes, but no frame exceeds {MAX_FRAME}");
            return Err(self.damaged(block, what));
        }
        self.body.resize(body, 0);
        self.input.bytes(&mut self.body, body, PART)?;
        self.end_of_block(block, len)
    }

    fn interface(&mut self, block: Block) -> Result<()> {
        const FCS_LEN: u16 = 13;
        let mut fields = Fields::new(&self.body, self.order);
        let link = fields.u16();
        // Reserved.
        fields.skip(2);
        let (Some(link), Some(snaplen)) = (link, fields.u32()) else {
            let what = format_args!("{} bytes, but its fields need 8", self.body.len());
            return Err(self.damaged(block, what));
        };
        let fcs = option(fields, FCS_LEN).and_then(|mut value| value.bytes(1)?.first().copied());
        let fcs = fcs.map_or(0, link_type::fcs_option_len);
        self.interfaces.push(Interface { link: LinkType(link), snaplen, fcs });
        Ok(())
    }

    /// The packet in the body, or what contradicts what in it.
    fn parse_packet(&self, kind: u32) -> Result<Packet, String> {
        let mut fields = Fields::new(&self.body, self.order);
        let too_short = || format!("{} bytes, but its fields need more", self.body.len());
        let number = match kind {
            ENHANCED_PACKET => fields.u32(),
            OLD_PACKET => {
                let number = fields.u16();
                // Drops.
                fields.skip(2);
                number.map(u32::from)
            }
            _ => Some(0),
        }
        .ok_or_else(too_short)?;
        let Some(&interface) = self.interfaces.get(number as usize) else {
            let known = self.interfaces.len();
            return Err(format!("it belongs to interface {number}, but its section has {known}"));
        };
        let (captured, original_len) = if kind == SIMPLE_PACKET {
            let original = fields.u32().ok_or_else(too_short)?;
            let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
            (original.min(limit) as usize, original)
        } else {
            // Time.
            fields.skip(8);
            let captured = fields.u32().ok_or_else(too_short)?;
            (captured as usize, fields.u32().ok_or_else(too_short)?)
        };
        let (start, left) = (self.body.len() - fields.left(), fields.left());
        if fields.bytes(captured).is_none() {
            return Err(format!("{captured} bytes captured, but it holds only {left}"));
        }
        fields.skip(captured.next_multiple_of(4) - captured);
        let fcs = (kind == ENHANCED_PACKET).then(|| packet_fcs(fields)).flatten();
        let fcs = fcs.unwrap_or(interface.fcs);
        Ok(Packet { interface, bytes: start..start + captured, original_len, fcs })
    }
}

/// Bytes of FCS behind a frame, by the flags among its block's options.
fn packet_fcs(options: Fields<'_>) -> Option<u32> {
    const FLAGS: u16 = 2;
    match option(options, FLAGS)?.u32()? >> 5 & 0xf {
        0 => None,
        fcs => Some(fcs),
    }
}

/// The value of the first option of this code.
fn option(mut options: Fields<'_>, wanted: u16) -> Option<Fields<'_>> {
    loop {
        let (code, len) = (options.u16()?, options.u16()?);
        let value = options.part(len.into())?;
        options.skip(usize::from(len).next_multiple_of(4) - usize::from(len));
        if code == wanted {
            return Some(value);
        }
        if code == 0 {
            return None;
        }
    }
}

impl Frames for PcapNg {
    fn next(&mut self) -> Result<Option<Captured<'_>>> {
        let Some(Packet { interface, bytes, original_len, fcs }) = self.packet()? else {
            return Ok(None);
        };
        let bytes = self.body.get(bytes).unwrap_or_default();
        Ok(Some(Captured::new(interface.link, bytes, original_len, fcs)))
    }

    fn is_drained(&self) -> bool {
        self.input.is_drained()
    }
}
