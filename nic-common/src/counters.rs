//! Counters per queue, as they lie in the maps: one value per CPU, host byte order.
//!
//! Nothing that follows from other counters is stored: packets are the sum of the verdicts, spared
//! bytes are what was not copied.

use crate::{layout::layout, policy::Verdict};

/// Bins of the packet-size histogram.
pub const SIZE_BINS: usize = 31;
/// Bins of the header-length histogram.
pub const HEADER_BINS: usize = 33;

/// Frames below this many bytes are counted in bins of [`SIZE_BIN_WIDTH`].
const SIZE_LINEAR_END: u32 = 1536;
const SIZE_BIN_WIDTH: u32 = 64;
const SIZE_LINEAR_BINS: u32 = SIZE_LINEAR_END / SIZE_BIN_WIDTH;
const HEADER_BIN_WIDTH: u32 = 8;

/// The bin of a frame of `len` bytes: 64 bytes wide up to 1536, then by powers of two; the last
/// one has everything from 65536 on.
#[inline(always)]
pub const fn size_bin(len: u32) -> usize {
    if len < SIZE_LINEAR_END {
        return (len / SIZE_BIN_WIDTH) as usize;
    }
    // BPF has no instruction for the logarithm; jumbo frames pay for these comparisons alone.
    let doublings = match len {
        ..2048 => 0,
        2048..4096 => 1,
        4096..8192 => 2,
        8192..16384 => 3,
        16384..32768 => 4,
        32768..65536 => 5,
        65536.. => 6,
    };
    SIZE_LINEAR_BINS as usize + doublings
}

/// The smallest frame length of a bin of the packet-size histogram.
pub const fn size_bin_start(bin: usize) -> u32 {
    let bin = bin as u32;
    if bin <= SIZE_LINEAR_BINS { bin * SIZE_BIN_WIDTH } else { 1024 << (bin - SIZE_LINEAR_BINS) }
}

/// The bin of a header length: 8 bytes wide up to 256; the last one has everything from there on.
#[inline(always)]
pub const fn header_bin(len: u32) -> usize {
    let bin = len / HEADER_BIN_WIDTH;
    if bin < HEADER_BINS as u32 - 1 { bin as usize } else { HEADER_BINS - 1 }
}

/// The smallest header length of a bin of the header-length histogram.
pub const fn header_bin_start(bin: usize) -> u32 {
    bin as u32 * HEADER_BIN_WIDTH
}

/// What XDP counts per receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RxCounters {
    /// Frames by [`Verdict`] number.
    pub verdicts: [u64; 3],
    /// Bytes of all frames, without FCS.
    pub bytes: u64,
    /// Header bytes of all frames.
    pub header_bytes: u64,
    /// Bytes that the verdicts copy.
    pub copied_bytes: u64,
    /// Frames whose headers are cut off or contradict themselves.
    pub malformed: u64,
    /// Frames whose headers the program could not walk to their end.
    pub unparsed: u64,
    /// IP fragments, first and later.
    pub fragments: u64,
    /// Frames with at least one VLAN tag in their bytes.
    pub vlan: u64,
    /// Frames with an IP, GRE or MPLS tunnel, or UDP to a tunnel's port.
    pub tunnelled: u64,
    /// Frames for which the driver had no room for metadata.
    pub no_metadata: u64,
    /// Frames that went to the rings of a user instead of to the stack.
    pub redirected: u64,
    /// When a malformed frame was last logged, in ns since boot. Paces the log.
    pub logged_at: u64,
    /// Frames by [`size_bin`].
    pub sizes: [u64; SIZE_BINS],
    /// Frames by [`header_bin`].
    pub headers: [u64; HEADER_BINS],
}

/// What TC ingress counts per receive queue, after GRO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IngressCounters {
    /// Packets as the stack gets them: after GRO.
    pub packets: u64,
    /// Bytes of all packets, link-layer header included.
    pub bytes: u64,
    /// Bytes in the linear part.
    pub linear_bytes: u64,
    /// Payload bytes that lie in the linear part, where they keep GRO from merging by fragments.
    pub linear_payload_bytes: u64,
    /// Packets that GRO or LRO merged.
    pub gro_packets: u64,
    /// Segments in them.
    pub gro_segments: u64,
    /// Bytes of the largest packet.
    pub largest: u64,
    /// Packets pulled together (`--pull`).
    pub pulled: u64,
    /// Packets that could not be pulled together.
    pub pull_failed: u64,
}

/// What TC egress counts per transmit queue, before segmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TxCounters {
    /// Packets as the stack sends them: super-packets count once.
    pub packets: u64,
    /// Bytes of all packets, link-layer header included.
    pub bytes: u64,
    /// Header bytes of all packets.
    pub header_bytes: u64,
    /// TCP super-packets.
    pub gso_tcp_packets: u64,
    /// Segments in them.
    pub gso_tcp_segments: u64,
    /// UDP super-packets.
    pub gso_udp_packets: u64,
    /// Segments in them.
    pub gso_udp_segments: u64,
    /// Packets over 65536 bytes: BIG TCP.
    pub over_64k: u64,
}

/// What forwarding in the kernel counts per direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ForwardCounters {
    /// Frames that arrived.
    pub packets: u64,
    /// Bytes of them, without FCS.
    pub bytes: u64,
    /// Frames handed to the other interface; the rest went to the stack.
    pub forwarded: u64,
    /// Of the frames that were looked at for it, those of stations that were last seen at the other
    /// interface.
    pub moved: u64,
    /// Of the frames that were handed over, those that the driver did not take.
    pub not_taken: u64,
    /// Of the frames that were looked at for it, those whose checksum their sender left to its
    /// device.
    pub unfinished: u64,
}

/// Counters that add up over CPUs and queues.
pub trait Counters: Copy {
    /// All zero.
    const ZERO: Self;
    /// Adds `other` to `self`; wraps like the counters themselves.
    fn add(&mut self, other: &Self);
}

/// Adds the named fields of one struct to those of another.
macro_rules! add_fields {
    ($to:ident, $from:ident: $($field:ident),* $(,)?) => {
        $($to.$field = $to.$field.wrapping_add($from.$field);)*
    };
}

fn add_bins(to: &mut [u64], from: &[u64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = to.wrapping_add(*from);
    }
}

layout!(RxCounters: verdicts, bytes, header_bytes, copied_bytes, malformed, unparsed, fragments, vlan,
    tunnelled, no_metadata, redirected, logged_at, sizes, headers);
layout!(IngressCounters: packets, bytes, linear_bytes, linear_payload_bytes, gro_packets, gro_segments,
    largest, pulled, pull_failed);
layout!(TxCounters: packets, bytes, header_bytes, gso_tcp_packets, gso_tcp_segments, gso_udp_packets,
    gso_udp_segments, over_64k);
layout!(ForwardCounters: packets, bytes, forwarded, moved, not_taken, unfinished);

impl Counters for RxCounters {
    const ZERO: Self = Self {
        verdicts: [0; 3],
        bytes: 0,
        header_bytes: 0,
        copied_bytes: 0,
        malformed: 0,
        unparsed: 0,
        fragments: 0,
        vlan: 0,
        tunnelled: 0,
        no_metadata: 0,
        redirected: 0,
        logged_at: 0,
        sizes: [0; SIZE_BINS],
        headers: [0; HEADER_BINS],
    };

    fn add(&mut self, other: &Self) {
        add_fields!(self, other: bytes, header_bytes, copied_bytes, malformed, unparsed,
            fragments, vlan, tunnelled, no_metadata, redirected);
        self.logged_at = self.logged_at.max(other.logged_at);
        add_bins(&mut self.verdicts, &other.verdicts);
        add_bins(&mut self.sizes, &other.sizes);
        add_bins(&mut self.headers, &other.headers);
    }
}

impl RxCounters {
    /// Frames: each has exactly one verdict.
    pub fn packets(&self) -> u64 {
        self.verdicts.iter().fold(0, |sum, frames| sum.wrapping_add(*frames))
    }

    /// Frames with this verdict.
    pub const fn verdict(&self, verdict: Verdict) -> u64 {
        self.verdicts[verdict as usize]
    }

    /// Bytes that are not copied.
    pub const fn spared_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.copied_bytes)
    }
}

impl Counters for IngressCounters {
    const ZERO: Self = Self {
        packets: 0,
        bytes: 0,
        linear_bytes: 0,
        linear_payload_bytes: 0,
        gro_packets: 0,
        gro_segments: 0,
        largest: 0,
        pulled: 0,
        pull_failed: 0,
    };

    fn add(&mut self, other: &Self) {
        add_fields!(self, other: packets, bytes, linear_bytes, linear_payload_bytes,
            gro_packets, gro_segments, pulled, pull_failed);
        self.largest = self.largest.max(other.largest);
    }
}

impl IngressCounters {
    /// Bytes that lie in page fragments.
    pub const fn paged_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.linear_bytes)
    }
}

impl Counters for TxCounters {
    const ZERO: Self = Self {
        packets: 0,
        bytes: 0,
        header_bytes: 0,
        gso_tcp_packets: 0,
        gso_tcp_segments: 0,
        gso_udp_packets: 0,
        gso_udp_segments: 0,
        over_64k: 0,
    };

    fn add(&mut self, other: &Self) {
        add_fields!(self, other: packets, bytes, header_bytes, gso_tcp_packets,
            gso_tcp_segments, gso_udp_packets, gso_udp_segments, over_64k);
    }
}

impl Counters for ForwardCounters {
    const ZERO: Self =
        Self { packets: 0, bytes: 0, forwarded: 0, moved: 0, not_taken: 0, unfinished: 0 };

    fn add(&mut self, other: &Self) {
        add_fields!(self, other: packets, bytes, forwarded, moved, not_taken, unfinished);
    }
}

// SAFETY: the counters are `repr(C)` structs of `u64` alone: no padding, every bit pattern valid.
#[cfg(feature = "user")]
unsafe impl aya::Pod for RxCounters {}
// SAFETY: as above.
#[cfg(feature = "user")]
unsafe impl aya::Pod for IngressCounters {}
// SAFETY: as above.
#[cfg(feature = "user")]
unsafe impl aya::Pod for TxCounters {}
// SAFETY: as above.
#[cfg(feature = "user")]
unsafe impl aya::Pod for ForwardCounters {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_bins_follow_each_other_without_gap() {
        for bin in 0..SIZE_BINS {
            let start = size_bin_start(bin);
            assert_eq!(size_bin(start), bin, "start of bin {bin}");
            if bin > 0 {
                assert_eq!(size_bin(start - 1), bin - 1, "end of bin {}", bin - 1);
            }
        }
        assert_eq!(size_bin_start(SIZE_BINS - 1), 65536);
        assert_eq!(size_bin(u32::MAX), SIZE_BINS - 1);
    }

    #[test]
    fn header_bins_follow_each_other_without_gap() {
        for bin in 0..HEADER_BINS {
            let start = header_bin_start(bin);
            assert_eq!(header_bin(start), bin);
            if bin > 0 {
                assert_eq!(header_bin(start - 1), bin - 1);
            }
        }
        assert_eq!(header_bin(u32::MAX), HEADER_BINS - 1);
    }
}
