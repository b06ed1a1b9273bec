//! Forwarding between two interfaces: whole frames, or IP packets by the kernel's routes; through
//! AF_XDP rings ([`InRings`]), or in the kernel by XDP ([`InKernel`]), which does the same without
//! a copy.
//!
//! What only the kernel can do it does only in the kernel's way: rings have no way back to the
//! stack, so what cannot be forwarded through them is dropped and counted.

mod in_kernel;
mod in_rings;
pub mod model;
mod promiscuous;
mod router;
pub mod text;

use std::time::Duration;

pub use in_kernel::InKernel;
pub use in_rings::InRings;

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;

/// What is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Every frame, to the other interface, as it is.
    Frames,
    /// IP packets to other hosts, as the kernel would route them; the rest is left to it.
    Packets,
}

/// What happened in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that arrived to be forwarded.
    pub packets: u64,
    /// Bytes of them, without FCS.
    pub bytes: u64,
    /// Frames handed to an interface to be sent.
    pub forwarded: u64,
    /// Frames left to the kernel's stack after all.
    pub passed: u64,
    /// Frames that were dropped.
    pub dropped: Drops,
}

/// Frames dropped, by reason. The names are those of the JSON, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Dropped", description = "Frames dropped, by reason.")]
pub struct Drops {
    /// They arrived faster than they were taken from the rings.
    pub missed: u64,
    /// The interface did not send fast enough, or was down.
    pub no_room: u64,
    /// Longer than the other interface sends.
    pub too_long: u64,
    /// Lengths, version or checksum of the IP header are wrong.
    pub malformed: u64,
    /// Not addressed to this host's Ethernet address.
    pub not_ours: u64,
    /// The hop limit is used up.
    pub expired: u64,
    /// No route, or not through either interface.
    pub no_route: u64,
    /// The next hop's Ethernet address is not known yet.
    pub no_neighbour: u64,
}

/// A reason to drop: its counter.
type Reason = fn(&mut Drops) -> &mut u64;

impl Drops {
    /// All reasons: a name and the number.
    pub const fn by_name(&self) -> [(&'static str, u64); 8] {
        let Self {
            missed,
            no_room,
            too_long,
            malformed,
            not_ours,
            expired,
            no_route,
            no_neighbour,
        } = *self;
        [
            ("missed", missed),
            ("without room to send", no_room),
            ("too long", too_long),
            ("malformed", malformed),
            ("for other stations", not_ours),
            ("expired", expired),
            ("without route", no_route),
            ("without neighbour", no_neighbour),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_name().iter().map(|(_, count)| count).sum()
    }
}

/// Something that forwards between two interfaces, for as long as it lives.
pub trait Forwarder {
    /// Forwards what there is, and waits up to `patience` if there is nothing.
    ///
    /// # Errors
    ///
    /// An interface is gone.
    fn turn(&mut self, patience: Duration) -> Result<()>;

    /// What happened so far to what arrived at either interface.
    fn counts(&self) -> Result<[Counts; 2]>;

    /// How either interface is used, in words.
    fn ways(&self) -> [String; 2];
}
