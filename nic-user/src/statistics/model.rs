//! What is read from a source, and its JSON: part of `nicctl stats --json`, version 1.

use schemars::JsonSchema;
use serde::Serialize;

use super::counters::Unified;

/// Which way packets go, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the wire to the host.
    Rx,
    /// From the host to the wire.
    Tx,
}

impl Direction {
    /// `rx` or `tx`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
        }
    }
}

/// One statistic: what it counts, of which queue, and the driver's own name for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reading {
    /// rx or tx; null where the statistic belongs to neither, or that is not known.
    pub direction: Option<Direction>,
    /// Number of the queue; null where the statistic is not one queue's: of the device, a port, a
    /// priority, a CPU.
    pub queue: Option<u32>,
    /// The driver's own name. Names may repeat: rows are in the driver's order.
    pub name: String,
    /// The name that all drivers share; null where there is none. Rows of one queue and direction
    /// that share it are parts of one counter: add them.
    pub unified: Option<Unified>,
    /// The value.
    pub value: u64,
}

/// Where readings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Kind {
    /// The strings and values of a driver (ETHTOOL_GSTRINGS, ETHTOOL_GSTATS).
    #[serde(rename = "driver strings")]
    DriverStrings,
}

/// Everything that one source says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Source {
    /// Where the rows come from.
    pub kind: Kind,
    /// The file that they were saved in; - is standard input.
    pub file: String,
    /// The driver that was named on the command line; null if none was.
    pub driver: Option<String>,
    /// The statistics, in the driver's order.
    pub rows: Vec<Reading>,
    /// Lines that are no statistic.
    pub notes: Vec<Note>,
}

/// A line that is no statistic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Note {
    /// Its number in the file, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}
