//! The copy decision: which bytes of a frame are copied, and which stay in their page.

use crate::headers::HeaderInfo;

/// What decides between copying a frame and leaving it where it is.
///
/// It travels as one 64-bit word ([`CopyPolicy::to_word`]), so that a program that reads it while
/// userspace changes it never sees half of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPolicy {
    /// Frames up to this many bytes are copied whole. 0 turns copying off.
    pub rx_copybreak: u16,
    /// Headers up to this many bytes are copied out when a payload follows them.
    pub max_linear: u16,
    /// Whether headers are split from payloads at all.
    pub split: bool,
}

/// What to do with one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Copy every byte; the page goes straight back to its pool.
    Copy = 0,
    /// Copy exactly the headers; the payload stays in its page.
    Split = 1,
    /// Take the frame as it is.
    Whole = 2,
}

impl Verdict {
    /// All verdicts, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Copy, Self::Split, Self::Whole];

    /// The verdict in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Split => "split",
            Self::Whole => "whole",
        }
    }

    /// Bytes of a frame that this verdict copies.
    #[inline(always)]
    pub const fn copied(self, frame_len: u32, header_len: u32) -> u32 {
        match self {
            Self::Copy => frame_len,
            Self::Split => header_len,
            Self::Whole => 0,
        }
    }
}

impl CopyPolicy {
    /// What most drivers with a copybreak use, and mlx5's linear size: 256 bytes each.
    pub const DEFAULT: Self = Self { rx_copybreak: 256, max_linear: 256, split: true };

    /// Largest accepted `rx_copybreak`: half a 4 KiB page, as in gve.
    pub const RX_COPYBREAK_MAX: u16 = 2048;
    /// Largest accepted `max_linear`: a 2 KiB half page.
    pub const MAX_LINEAR_MAX: u16 = 2048;

    /// The decision for a frame of `frame_len` bytes whose headers are `info`.
    ///
    /// The headers of an unparsed frame are not known, so it is never split.
    #[inline(always)]
    pub const fn decide(&self, frame_len: u32, info: &HeaderInfo) -> Verdict {
        if frame_len <= self.rx_copybreak as u32 {
            Verdict::Copy
        } else if self.split
            && info.header_len <= self.max_linear as u32
            && info.header_len < frame_len
            && !info.is_unparsed()
        {
            Verdict::Split
        } else {
            Verdict::Whole
        }
    }

    /// The policy as the word that lies in the map.
    pub const fn to_word(self) -> u64 {
        self.rx_copybreak as u64 | (self.max_linear as u64) << 16 | (self.split as u64) << 32
    }

    /// The policy in a word of the map.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self {
            rx_copybreak: word as u16,
            max_linear: (word >> 16) as u16,
            split: word >> 32 & 1 == 1,
        }
    }
}

/// Bit of the policy's word: some queue has rules of steering, so frames are to be looked up, and
/// get metadata for whoever reads the rings.
pub const STEERING: u64 = 1 << 33;

impl Default for CopyPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}
