//! What `nicctl bench --json` prints, and `nicctl bench compare` reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    machine::Machine,
    statistics::{Ratio, Spread},
};
use crate::report::json::Version;

/// A run of `nicctl bench`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Version of this document's format.
    pub version: Version<1>,
    /// Version of nicctl.
    pub nicctl: String,
    /// When it began (RFC 3339).
    pub started: String,
    /// How long all of it took, in seconds.
    pub seconds: f64,
    /// Where it ran.
    pub machine: Machine,
    /// Rounds of every variant.
    pub rounds: u32,
    /// How long each round measured, in seconds.
    pub round_seconds: f64,
    /// Why the figures may be worse than they should be.
    pub warnings: Vec<String>,
    /// One entry an experiment.
    pub experiments: Vec<Experiment>,
}

/// An experiment and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Name on the command line.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// The discussion whose figures it is held against.
    pub source: String,
    /// Where it ran: devices, and processors of both sides.
    pub place: String,
    /// What is not comparable, and how to read it.
    pub notes: Vec<String>,
    /// What was compared.
    pub cases: Vec<Case>,
}

/// Variants of one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// What they have in common.
    pub title: String,
    /// What was counted.
    pub measure: Measure,
    /// What was compared; ratios are to the first one.
    pub variants: Vec<Variant>,
    /// What came of it, if there is more to say than the figures do.
    pub conclusion: Option<String>,
}

/// What is counted, and so what rates and costs are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Bytes: rates in bytes per second, costs in CPU seconds per GB.
    Bytes,
    /// Packets: rates in packets per second, costs in ns of CPU time per packet.
    Packets,
    /// Transactions: rates in transactions per second, costs in µs of CPU time per transaction.
    Transactions,
    /// Requests: rates in requests per second, costs in µs of CPU time per request.
    Requests,
}

impl Measure {
    /// The cost of `done` in its unit, if it took `busy` seconds of CPU time.
    pub fn cost(self, busy: f64, done: f64) -> f64 {
        let units = match self {
            Self::Bytes => done / 1e9,
            Self::Packets => done / 1e9,
            Self::Transactions | Self::Requests => done / 1e6,
        };
        busy / units
    }

    /// The unit of costs.
    pub const fn cost_unit(self) -> &'static str {
        match self {
            Self::Bytes => "CPU s/GB",
            Self::Packets => "CPU ns/packet",
            Self::Transactions => "CPU µs/transaction",
            Self::Requests => "CPU µs/request",
        }
    }

    /// Rates in the unit that they are shown in, before any prefix.
    pub const fn shown(self, rate: f64) -> f64 {
        match self {
            Self::Bytes => rate * 8.0,
            Self::Packets | Self::Transactions | Self::Requests => rate,
        }
    }

    /// The unit that rates are shown in.
    pub const fn rate_unit(self) -> &'static str {
        match self {
            Self::Bytes => "bit/s",
            Self::Packets => "pps",
            Self::Transactions => "/s",
            Self::Requests => "requests/s",
        }
    }
}

/// What a discussion reported, as ratios to its own first variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// Ratio of the rates.
    pub rate: Option<f64>,
    /// Ratio of the costs.
    pub cost: Option<f64>,
}

/// One way to do it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// What it is.
    pub title: String,
    /// What the discussion reported.
    pub published: Published,
    /// Why it could not be measured, if it could not.
    pub unavailable: Option<String>,
    /// What was measured, unless it could not be.
    pub measured: Option<Measured>,
}

/// The rounds of one variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// How much a second.
    pub rate: Spread,
    /// CPU time of both sides, softirqs included, for each unit.
    pub cost: Option<Spread>,
    /// How busy the processors were.
    pub cpu: Cpu,
    /// Rate over that of the first variant.
    pub rate_ratio: Option<Ratio>,
    /// Cost over that of the first variant.
    pub cost_ratio: Option<Ratio>,
    /// What else was seen.
    pub figures: Vec<Figure>,
}

/// Processors that were busy: 1 is one processor all the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The sender's threads.
    pub sender: Option<Spread>,
    /// The receiver's threads.
    pub receiver: Option<Spread>,
    /// Interrupts and softirqs on the processors of both, as far as the kernel tells them from
    /// what they interrupt.
    pub softirq: Option<Spread>,
    /// Everything on the processors of both.
    pub busy: Option<Spread>,
}

/// Something else that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// How much.
    pub value: Spread,
}
