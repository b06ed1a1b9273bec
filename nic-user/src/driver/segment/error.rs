//! Why a super-packet cannot be segmented.

use std::fmt;

use super::super::headers::{MAX_HEADERS, NoLayout};

/// What is wrong with a super-packet. Nothing has been written when it is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The headers are not Ethernet, up to two VLAN tags, IPv4 or IPv6, then TCP or UDP, each whole
    /// and sound.
    UnknownHeaders,
    /// More bytes of headers than [`MAX_HEADERS`].
    HeadersTooLong,
    /// The headers belong to a fragment of an IP packet.
    Fragment,
    /// An IPv6 extension header that is not for every segment: routing, home address, or a jumbo
    /// payload option that is not the kernel's temporary one.
    Extension,
    /// There are bytes behind the transport header that do not belong to it.
    HeaderLength {
        /// Where the transport header ends.
        headers: usize,
        /// How many bytes there are.
        given: usize,
    },
    /// A length field contradicts the length of the packet.
    LengthField {
        /// Whose it is.
        header: &'static str,
        /// What it says.
        says: usize,
        /// What it should say.
        expected: usize,
    },
    /// The packet is longer than its kind may be.
    TooLong {
        /// Its length from the IP header on.
        len: usize,
        /// The longest that it may be.
        limit: usize,
    },
    /// Segments without payload are no segments.
    NoSegmentSize,
    /// A single segment would not fit the 16-bit length field of its IP header.
    SegmentTooLong {
        /// Its length from the IP header on.
        len: usize,
    },
    /// TCP's SYN and RST are for one segment, not for a run of them.
    ControlFlags,
}

impl From<NoLayout> for SegmentError {
    fn from(why: NoLayout) -> Self {
        match why {
            NoLayout::Unknown => Self::UnknownHeaders,
            NoLayout::TooLong => Self::HeadersTooLong,
            NoLayout::Fragment => Self::Fragment,
            NoLayout::Extension => Self::Extension,
        }
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHeaders => f.write_str("no whole headers of TCP or UDP over IP"),
            Self::HeadersTooLong => write!(f, "headers are longer than {MAX_HEADERS} bytes"),
            Self::Fragment => f.write_str("a fragment of an IP packet"),
            Self::Extension => {
                f.write_str("an IPv6 extension header that belongs to one packet only")
            }
            Self::HeaderLength { headers, given } => {
                write!(f, "the headers end after {headers} bytes, but there are {given}")
            }
            Self::LengthField { header, says, expected } => {
                write!(f, "the {header} header has length {says}, the packet {expected}")
            }
            Self::TooLong { len, limit } => write!(f, "{len} bytes long, the limit is {limit}"),
            Self::NoSegmentSize => f.write_str("the segment size is 0"),
            Self::SegmentTooLong { len } => {
                write!(f, "a segment would have {len} bytes, IP has at most 65535")
            }
            Self::ControlFlags => f.write_str("SYN or RST on more than one segment"),
        }
    }
}

impl std::error::Error for SegmentError {}

/// The buffer for a segment is shorter than the segment. Nothing was written; the same segment
/// is still the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTooShort {
    /// Length of the segment's frame in bytes.
    pub needed: usize,
}

impl fmt::Display for BufferTooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the next segment needs a buffer of {} bytes", self.needed)
    }
}

impl std::error::Error for BufferTooShort {}
