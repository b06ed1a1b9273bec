//! Forwarding between two interfaces: whole frames, or IP packets by the kernel's routes; through
//! AF_XDP rings ([`InRings`]), or in the kernel by XDP ([`InKernel`]), which does the same without
//! a copy.
//!
//! Packets are routed only if the kernel would do just the same with them. All others are its own:
//! in the kernel it has them anyway; what rings took goes back to it, as if it had just arrived.

mod in_kernel;
mod in_rings;
pub mod model;
mod promiscuous;
mod router;
mod stations;
mod surroundings;
pub mod text;

use std::time::Duration;

pub use in_kernel::InKernel;
pub use in_rings::InRings;
pub use stations::LoopWatch;
pub use surroundings::{routes_ipv4, routes_ipv6};

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
    /// Of the frames that were looked at for a loop, those of stations that were last seen at the
    /// other interface.
    pub moved: u64,
    /// Of the frames that were looked at for it, those that were passed on without a checksum, which
    /// their sender had left to its device.
    pub unfinished: u64,
}

/// Frames dropped, by reason. The names are those of the JSON, too. From `malformed` on they are
/// reasons not to forward: the frame was dropped only because the kernel did not take it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Dropped", description = "Frames dropped, by reason.")]
pub struct Drops {
    /// They arrived faster than they were taken from the rings.
    pub missed: u64,
    /// The interface did not send fast enough, or was down.
    pub no_room: u64,
    /// Handed to an interface whose driver did not take them.
    pub not_taken: u64,
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
    /// Something that only the kernel does: options, tunnels, one way of several, a shorter way to
    /// tell of.
    pub kernel_only: u64,
}

/// A reason to drop: its counter.
type Reason = fn(&mut Drops) -> &mut u64;

impl Drops {
    /// All reasons: a name and the number.
    pub const fn by_name(&self) -> [(&'static str, u64); 10] {
        let Self {
            missed,
            no_room,
            not_taken,
            too_long,
            malformed,
            not_ours,
            expired,
            no_route,
            no_neighbour,
            kernel_only,
        } = *self;
        [
            ("missed", missed),
            ("with the TX ring full", no_room),
            ("rejected by the other interface", not_taken),
            ("too long", too_long),
            ("malformed", malformed),
            ("for other stations", not_ours),
            ("expired", expired),
            ("without route", no_route),
            ("without neighbour", no_neighbour),
            ("for the kernel alone", kernel_only),
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
