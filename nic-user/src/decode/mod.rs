//! Frames out of captures and hex, and what nicctl sees in them.

mod capture;
mod fields;
mod hex;
mod input;
mod link_type;
mod names;
mod pcap;
mod pcapng;
mod row;
mod walker;

pub use capture::open;
pub use hex::{HexLines, HexWords};
pub use input::Input;
pub use row::Decoded;
pub use walker::{Answer, Layout, Native, Walker};

use crate::error::Result;

/// Largest frame that is read: 16 MiB, far above any real one. A length beyond it means that the
/// capture is damaged.
pub const MAX_FRAME: usize = 16 << 20;

/// An Ethernet frame as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// The bytes that were captured, from the destination address on.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes; more than was captured if the capture had a snap length.
    pub original_len: u32,
}

/// Where frames come from, one after the other.
pub trait Frames {
    /// The next frame; `None` at the end.
    ///
    /// # Errors
    ///
    /// The source cannot be read, is damaged or is not Ethernet; the message says where. There is
    /// nothing to be had after an error.
    fn next(&mut self) -> Result<Option<Captured<'_>>>;

    /// Whether the next frame has to be waited for: nothing of it has been read yet.
    fn is_drained(&self) -> bool;
}
