//! The JSON of `nicctl forward`. Names are kept; what is added later does not change version 1.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Counts, Drops, Forwarder, Layer};
use crate::{error::Result, report::json::Version};

/// What `nicctl forward --json` prints: one document a line, the first when forwarding begins.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "nicctl forward")]
pub struct Document {
    /// Version of this format.
    pub version: Version<1>,
    /// What is forwarded: `l2`, whole frames, or `l3`, IP packets.
    pub layer: String,
    /// Whether it is done in the kernel, not through AF_XDP rings.
    pub in_kernel: bool,
    /// Seconds since forwarding began.
    pub seconds: f64,
    /// One entry an interface: what arrived there.
    pub directions: Vec<Direction>,
}

/// What arrived at one interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Direction {
    /// Name of the interface.
    pub from: String,
    /// How it is used: the mode of XDP, or of the rings and why.
    pub way: String,
    /// Frames that arrived to be forwarded.
    pub packets: u64,
    /// Bytes of them, without FCS.
    pub bytes: u64,
    /// Frames handed to an interface to be sent. In the kernel, those that its driver took; where
    /// that is not known, `way` says so.
    pub forwarded: u64,
    /// Frames left to the kernel's stack.
    pub passed: u64,
    /// Frames dropped, by reason.
    pub dropped: Drops,
}

impl Document {
    /// What `forwarder` did between the interfaces of these names.
    pub fn new(
        forwarder: &dyn Forwarder,
        names: [&str; 2],
        layer: Layer,
        in_kernel: bool,
        since: Duration,
    ) -> Result<Self> {
        let layer = match layer {
            Layer::Frames => "l2",
            Layer::Packets => "l3",
        };
        let ends = names.into_iter().zip(forwarder.ways()).zip(forwarder.counts()?);
        Ok(Self {
            version: Version,
            layer: layer.to_owned(),
            in_kernel,
            seconds: since.as_secs_f64(),
            directions: ends.map(|((name, way), it)| Direction::new(name, way, it)).collect(),
        })
    }
}

impl Direction {
    fn new(from: &str, way: String, counts: Counts) -> Self {
        let Counts { packets, bytes, forwarded, passed, dropped, .. } = counts;
        Self { from: from.to_owned(), way, packets, bytes, forwarded, passed, dropped }
    }
}
