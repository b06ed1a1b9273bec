//! Which format a capture has.

use super::{
    Frames,
    input::Input,
    pcap::{Format, Pcap},
    pcapng::PcapNg,
};
use crate::error::{Error, Result};

/// The frames of a pcap or pcapng capture.
///
/// # Errors
///
/// The input cannot be read or is no such capture.
pub fn open(mut input: Input) -> Result<Box<dyn Frames>> {
    let mut magic = [0; 4];
    if input.fill(&mut magic)? == 0 {
        return Err(Error::failed(format!("{}: it is empty", input.name())));
    }
    if magic == PcapNg::MAGIC {
        return Ok(Box::new(PcapNg::open(input)?));
    }
    match Format::of(magic) {
        Some(format) => Ok(Box::new(Pcap::open(format, input)?)),
        None => Err(unknown(magic, &input)),
    }
}

fn unknown(magic: [u8; 4], input: &Input) -> Error {
    let error = Error::failed(format!("{}: neither pcap nor pcapng", input.name()));
    match magic {
        [0x1f, 0x8b, ..] => error.with_fix("it is compressed: gzip -dc FILE | nicctl decode -"),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            error.with_fix("it is compressed: zstd -dc FILE | nicctl decode -")
        }
        _ => error,
    }
}
