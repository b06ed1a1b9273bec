//! Access to the bytes of a frame, wherever they lie: a slice in userspace, packet memory or a
//! kernel helper in BPF.

/// An Ethernet frame that can be read piece by piece.
pub trait Frame {
    /// `N` bytes of the frame, readable without further checks.
    type Header<const N: usize>: Fields;

    /// Length of the whole frame in bytes, from the destination address on, without FCS.
    fn len(&self) -> u32;

    /// Length of the whole frame, whose network packet says that it ends at `end`: the same as
    /// [`Frame::len`], only cheaper to tell where a frame may lie in several pieces.
    #[inline(always)]
    fn len_if_packet_ends_at(&self, _end: u32) -> u32 {
        self.len()
    }

    /// Whether there is no byte in the frame.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `N` bytes that start `at` bytes into the frame; `None` if they are not all there or
    /// cannot be reached.
    fn header<const N: usize>(&self, at: u32) -> Option<Self::Header<N>>;
}

/// The fields of a header whose bytes are known to be there.
///
/// `at` counts from the header's start and must lie inside it; every caller passes a constant.
pub trait Fields {
    /// The byte at `at`.
    fn u8(&self, at: usize) -> u8;
    /// The big-endian 16-bit word at `at`.
    fn be16(&self, at: usize) -> u16;
}

impl<const N: usize> Fields for [u8; N] {
    #[inline(always)]
    fn u8(&self, at: usize) -> u8 {
        self[at]
    }

    #[inline(always)]
    fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self[at], self[at + 1]])
    }
}

impl Frame for [u8] {
    type Header<const N: usize> = [u8; N];

    fn len(&self) -> u32 {
        u32::try_from(<[u8]>::len(self)).unwrap_or(u32::MAX)
    }

    fn header<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let at = at as usize;
        self.get(at..at.checked_add(N)?)?.try_into().ok()
    }
}
