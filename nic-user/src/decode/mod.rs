//! Frames out of captures and hex, and what nicctl sees in them.

mod capture;
mod captured;
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
pub use captured::{Captured, Link};
pub use hex::{HexLines, HexWords};
pub use input::Input;
pub use link_type::{CAPTURE_ETHERNET, LinkType};
pub use row::Decoded;
pub use walker::{Answer, Native, Walker};

use crate::error::Result;

/// Largest frame that is read: 16 MiB, far above any real one. A length beyond it means that the
/// capture is damaged.
pub const MAX_FRAME: usize = 16 << 20;

/// Where frames come from, one after the other.
pub trait Frames {
    /// The next frame, also one whose [`Link`] is unknown; `None` at the end.
    ///
    /// # Errors
    ///
    /// The source cannot be read, is damaged, or is of a link type that cannot be read; the message
    /// says where. There is nothing to be had after an error.
    fn next(&mut self) -> Result<Option<Captured<'_>>>;

    /// Whether the next frame has to be waited for: nothing of it has been read yet.
    fn is_drained(&self) -> bool;
}
