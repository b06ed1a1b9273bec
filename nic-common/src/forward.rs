//! What a router in the kernel is told of the interfaces that it forwards between.

/// Which packets of an interface may be routed.
///
/// A program reads it while userspace changes it, each field at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// The interface's Ethernet address, as [`Gate::mac`] makes it: packets to others are the
    /// stack's.
    pub mac: u64,
    /// The longest IPv4 and IPv6 packets that may be routed, in bytes from the IP header on; 0 for
    /// none.
    pub longest: [u32; 2],
}

impl Gate {
    /// An Ethernet address in the lower 48 bits of a word.
    #[inline(always)]
    pub const fn mac(&[a, b, c, d, e, f]: &[u8; 6]) -> u64 {
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

// SAFETY: `repr(C)`, of integers only and without padding.
#[cfg(feature = "user")]
unsafe impl aya::Pod for Gate {}
