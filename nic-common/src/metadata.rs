//! What the XDP program leaves in front of a frame for AF_XDP.

use crate::headers::{Flags, HeaderInfo, IpProtocol, Walk};

/// The metadata of one frame: two 64-bit words directly in front of it, in host byte order.
///
/// GRO merges two packets only if their metadata is equal (`skb_metadata_differs`,
/// include/linux/skbuff.h), so nothing in it may differ between the segments of one stream: no
/// counters, no times, no lengths but the header's, and no verdict, which depends on the frame's.
///
/// | word | bits | what |
/// | --- | --- | --- |
/// | 0 | 0..8 | [`Metadata::MAGIC`] |
/// | 0 | 8..16 | flags of the headers ([`Flags`]) |
/// | 0 | 16..24 | 0 |
/// | 0 | 24..32 | IP protocol; 255 where there is none |
/// | 0 | 32..48 | header length |
/// | 0 | 48..64 | ethertype of the innermost header |
/// | 1 | 0..16 | receive queue |
/// | 1 | 16..32 | offset of the innermost network header |
/// | 1 | 32..48 | offset of what follows it |
/// | 1 | 48..56 | VLAN tags |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The headers.
    pub headers: HeaderInfo,
    /// Receive queue.
    pub queue: u16,
}

impl Metadata {
    /// Size in front of the frame, in bytes.
    pub const SIZE: usize = size_of::<[u64; 2]>();
    /// Tells our metadata from somebody else's.
    pub const MAGIC: u8 = 0xc6;

    /// The words that lie in front of the frame. Lengths and offsets fit: the walk goes no farther
    /// than [`Walk::FARTHEST`].
    #[inline(always)]
    pub const fn to_words(self) -> [u64; 2] {
        let headers = &self.headers;
        let first = Self::MAGIC as u64
            | (headers.flags.bits() as u64) << 8
            | (headers.l4.raw() as u64) << 24
            | (headers.header_len as u16 as u64) << 32
            | (headers.l3 as u64) << 48;
        let second = self.queue as u64
            | (headers.l3_offset as u16 as u64) << 16
            | (headers.l4_offset as u16 as u64) << 32
            | (headers.vlan_depth as u64) << 48;
        [first, second]
    }

    /// The metadata in these words; `None` if it is not ours.
    #[inline(always)]
    pub const fn from_words([first, second]: [u64; 2]) -> Option<Self> {
        if first as u8 != Self::MAGIC {
            return None;
        }
        let headers = HeaderInfo {
            header_len: (first >> 32) as u16 as u32,
            l3_offset: (second >> 16) as u16 as u32,
            l4_offset: (second >> 32) as u16 as u32,
            l3: (first >> 48) as u16,
            l4: IpProtocol::new((first >> 24) as u8),
            vlan_depth: (second >> 48) as u8,
            flags: Flags::from_bits((first >> 8) as u8),
        };
        Some(Self { headers, queue: second as u16 })
    }
}

const _: () = assert!(Walk::FARTHEST <= u16::MAX as u32, "lengths and offsets fit into 16 bits");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_bring_everything_back(
            lengths: [u16; 4],
            protocols: (u16, u8),
            flags in 0_u8..128,
            vlan_depth: u8,
        ) {
            let metadata = Metadata {
                headers: HeaderInfo {
                    header_len: lengths[0].into(),
                    l3_offset: lengths[1].into(),
                    l4_offset: lengths[2].into(),
                    l3: protocols.0,
                    l4: IpProtocol::new(protocols.1),
                    vlan_depth,
                    flags: Flags::from_bits(flags),
                },
                queue: lengths[3],
            };
            prop_assert_eq!(Metadata::from_words(metadata.to_words()), Some(metadata));
        }

        #[test]
        fn words_of_others_are_refused(first: u64, second: u64) {
            prop_assume!(first as u8 != Metadata::MAGIC);
            prop_assert_eq!(Metadata::from_words([first, second]), None);
        }
    }
}
