//! What the XDP program leaves in front of a frame for TC ingress and AF_XDP.

use crate::{
    headers::{Flags, HeaderInfo, IpProtocol},
    policy::Verdict,
};

/// The metadata of one frame: one 64-bit word directly in front of it, in host byte order.
///
/// GRO merges two packets only if their metadata is equal (`skb_metadata_differs`,
/// include/linux/skbuff.h), so nothing in it may differ between the segments of one stream:
/// no counters, no times, no lengths but the header's.
///
/// | bits | what |
/// | --- | --- |
/// | 0..8 | [`Metadata::MAGIC`] |
/// | 8..16 | flags of the headers ([`Flags`]) |
/// | 16..24 | verdict |
/// | 24..32 | IP protocol; 255 where there is none |
/// | 32..48 | header length |
/// | 48..64 | ethertype of the innermost header |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What the policy decided.
    pub verdict: Verdict,
    /// What the walk noticed.
    pub flags: Flags,
    /// Ethertype where the walk stopped.
    pub l3: u16,
    /// IP protocol where the walk stopped.
    pub l4: IpProtocol,
    /// Header length in bytes.
    pub header_len: u16,
}

impl Metadata {
    /// Size in front of the frame, in bytes.
    pub const SIZE: usize = size_of::<u64>();
    /// Tells our metadata from somebody else's.
    pub const MAGIC: u8 = 0xc5;

    /// The metadata for a frame with these headers and this verdict.
    #[inline(always)]
    pub const fn new(info: &HeaderInfo, verdict: Verdict) -> Self {
        Self {
            verdict,
            flags: info.flags,
            l3: info.l3,
            l4: info.l4,
            header_len: if info.header_len > u16::MAX as u32 {
                u16::MAX
            } else {
                info.header_len as u16
            },
        }
    }

    /// The word that lies in front of the frame.
    #[inline(always)]
    pub const fn to_word(self) -> u64 {
        Self::MAGIC as u64
            | (self.flags.bits() as u64) << 8
            | (self.verdict as u64) << 16
            | (self.l4.raw() as u64) << 24
            | (self.header_len as u64) << 32
            | (self.l3 as u64) << 48
    }

    /// The metadata in a word; `None` if it is not ours.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Option<Self> {
        if word as u8 != Self::MAGIC {
            return None;
        }
        let verdict = match (word >> 16) as u8 {
            0 => Verdict::Copy,
            1 => Verdict::Split,
            2 => Verdict::Whole,
            _ => return None,
        };
        Some(Self {
            verdict,
            flags: Flags::from_bits((word >> 8) as u8),
            l3: (word >> 48) as u16,
            l4: IpProtocol::new((word >> 24) as u8),
            header_len: (word >> 32) as u16,
        })
    }
}
