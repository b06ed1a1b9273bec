//! What a router in the kernel is told of the interfaces that it forwards between.

/// Which packets of an interface may be routed, as one 64-bit word, so that a program that reads it
/// while userspace changes it never sees half of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The interface's Ethernet address, as [`Gate::mac`] makes it: packets to others are the
    /// stack's.
    pub mac: u64,
    /// Whether this host routes IPv6 (`net.ipv6.conf.all.forwarding`). Whether it routes IPv4, the
    /// lookup says.
    pub routes_ipv6: bool,
}

const ROUTES_IPV6: u64 = 1 << 48;

impl Gate {
    /// An Ethernet address in the lower 48 bits of a word.
    #[inline(always)]
    pub const fn mac(&[a, b, c, d, e, f]: &[u8; 6]) -> u64 {
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// As it lies in the map.
    pub const fn to_word(self) -> u64 {
        self.mac | if self.routes_ipv6 { ROUTES_IPV6 } else { 0 }
    }

    /// What a word of the map says.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self { mac: word & (ROUTES_IPV6 - 1), routes_ipv6: word & ROUTES_IPV6 != 0 }
    }
}
