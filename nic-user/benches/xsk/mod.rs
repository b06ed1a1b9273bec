//! The jobs, in C and over the driver.

pub mod bounce;
pub mod gso;
mod jobs;
mod peer;
mod ports;
pub mod soak;
mod stage;
mod xdp_bench;

pub use jobs::run;
pub use peer::Peer;
pub use stage::Stage;
pub use xdp_bench::XdpBench;

/// What the programs do with packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Job {
    RxDrop,
    TxOnly,
    L2Forward,
}

impl Job {
    pub const ALL: [Self; 3] = [Self::RxDrop, Self::TxOnly, Self::L2Forward];

    pub const fn name(self) -> &'static str {
        match self {
            Self::RxDrop => "rx-drop",
            Self::TxOnly => "tx-only",
            Self::L2Forward => "l2-forward",
        }
    }

    /// What xdp-bench calls it, if it has it.
    pub const fn of_xdp_bench(self) -> Option<&'static str> {
        match self {
            Self::RxDrop => Some("xsk-drop"),
            Self::TxOnly => None,
            Self::L2Forward => Some("xsk-tx"),
        }
    }
}
