//! The copy policy as arguments.

use clap::{Args, ValueEnum};
use nic_common::policy::CopyPolicy;

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

/// The parts of the copy policy that were given.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Copy policy")]
pub(super) struct PolicyArgs {
    /// Copy frames of up to N bytes whole, 0 to 2048; 0 disables this [default: 256]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = bytes::<{ CopyPolicy::RX_COPYBREAK_MAX }>)]
    rx_copybreak: Option<u16>,

    /// Split off headers of up to N bytes, 0 to 2048 [default: 256]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = bytes::<{ CopyPolicy::MAX_LINEAR_MAX }>)]
    max_linear: Option<u16>,

    /// Split larger frames: copy the headers, leave the payload in its page [default: on]
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    split: Option<Switch>,
}

/// A number of bytes up to `MAX`.
fn bytes<const MAX: u16>(text: &str) -> Result<u16, String> {
    let bytes = text.parse().ok().filter(|bytes| *bytes <= MAX);
    bytes.ok_or_else(|| format!("it must be a number of bytes from 0 to {MAX}"))
}

impl PolicyArgs {
    /// `base`, overridden by what was given.
    pub(super) fn over(self, base: CopyPolicy) -> CopyPolicy {
        CopyPolicy {
            rx_copybreak: self.rx_copybreak.unwrap_or(base.rx_copybreak),
            max_linear: self.max_linear.unwrap_or(base.max_linear),
            split: self.split.map_or(base.split, |split| split == Switch::On),
        }
    }
}
