//! What is known about an attachment, kept in a map of its own beside the counters.

use crate::{
    counters::{IngressCounters, RxCounters, TxCounters},
    layout::{Layout, layout, number_of},
};

/// Facts of one attachment, in host byte order. It lies in a pinned map, so it lives exactly as
/// long as the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AttachRecord {
    /// [`AttachRecord::LAYOUT`] of the nicctl that made the maps. In every release it comes first.
    pub layout: u64,
    /// When it was first attached, in ns since 1970.
    pub attached_at: u64,
    /// When the programs were last replaced, in ns since 1970.
    pub loaded_at: u64,
    /// Cookie of the network namespace.
    pub netns: u64,
    /// Interface index in that namespace.
    pub ifindex: u32,
    /// XDP mode: `XDP_FLAGS_DRV_MODE`, `XDP_FLAGS_SKB_MODE` or `XDP_FLAGS_HW_MODE`; 0 at TC alone.
    pub mode: u32,
    /// Entries of the maps of receive counters.
    pub rx_queues: u32,
    /// Entries of the map of transmit counters.
    pub tx_queues: u32,
    /// Options as bits: [`AttachRecord::PULL`] and its like.
    pub options: u64,
    /// Hash of the object and of all that was fixed when it was loaded: the same programs have the
    /// same.
    pub loaded_as: u64,
    /// Name of the interface when it was attached, padded with zeros (`IFNAMSIZ`).
    pub name: [u8; 16],
    /// Version of the nicctl that loaded the programs, padded with zeros.
    pub version: [u8; 16],
}

impl AttachRecord {
    /// The layouts of record and counters as a number. Whoever finds another one looks for every
    /// field by its name, in the types that the kernel keeps of a map.
    pub const LAYOUT: u64 =
        number_of(&[RxCounters::FIELDS, IngressCounters::FIELDS, TxCounters::FIELDS, Self::FIELDS]);

    /// TC ingress pulls small packets together.
    pub const PULL: u64 = 1;
    /// Malformed frames are logged.
    pub const LOG: u64 = 1 << 1;
    /// The XDP program is the frags build.
    pub const FRAGS: u64 = 1 << 2;
    /// The TC programs are filters of a clsact qdisc instead of TCX links.
    pub const CLSACT: u64 = 1 << 3;
    /// The clsact qdisc was made for them.
    pub const OWN_QDISC: u64 = 1 << 4;
    /// Attached by a user of rings: the last of them to close detaches.
    pub const FOR_RINGS: u64 = 1 << 5;
    /// XDP was added by a user of rings: the last of them to close leaves TC alone.
    pub const XDP_FOR_RINGS: u64 = 1 << 6;
    /// There were several transmit queues when the programs were loaded, so TC egress guesses which
    /// the stack will pick.
    pub const GUESSES_TX_QUEUE: u64 = 1 << 7;

    /// Nothing attached.
    pub const EMPTY: Self = Self {
        layout: 0,
        attached_at: 0,
        loaded_at: 0,
        netns: 0,
        ifindex: 0,
        mode: 0,
        rx_queues: 0,
        tx_queues: 0,
        options: 0,
        loaded_as: 0,
        name: [0; 16],
        version: [0; 16],
    };

    /// Whether an option is set.
    pub const fn has(&self, option: u64) -> bool {
        self.options & option != 0
    }
}

// SAFETY: a `repr(C)` struct without padding, as `layout!` asserts, of types for which every bit pattern is valid.
#[cfg(feature = "user")]
unsafe impl aya::Pod for AttachRecord {}

layout!(AttachRecord: layout, attached_at, loaded_at, netns, ifindex, mode, rx_queues, tx_queues,
    options, loaded_as, name, version);
