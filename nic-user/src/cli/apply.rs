//! `nicctl apply`: apply a profile to interfaces.

use std::io::Write;

use super::{
    chosen::InterfacesArgs,
    name,
    settings::{self, CarryOutArgs},
};
use crate::control::{Owner, Profile};

/// Apply a profile to interfaces
///
/// Each step is read back and reported as what the device made of it. If one fails, all steps
/// before it are undone, on every interface. The original values are written to /var/lib/nicctl
/// first; `nicctl restore` brings them back, even after a crash. With --all, interfaces the profile
/// does not match are skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl apply eth0 --profile throughput
  nicctl apply eth0 eth1 --profile ./mine.toml --dry-run
  nicctl apply --all --profile ./fleet.toml --detailed-exitcode
  nicctl apply eth0 --profile latency --confirm 60 && nicctl confirm eth0")]
pub(super) struct Args {
    #[command(flatten)]
    interfaces: InterfacesArgs,

    /// A built-in profile (throughput, latency, forwarding, big-tcp, udp-gso, header-split), or the
    /// path of a profile file
    #[arg(long, value_name = "NAME|FILE", value_parser = name::utf8())]
    profile: String,

    #[command(flatten)]
    options: CarryOutArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let chosen = args.interfaces.enter()?;
    let profile = Profile::load(&args.profile)?;
    let wish = |device: &_| settings::profile(&profile, device);
    let owner = Owner::Profile(args.profile.clone());
    settings::carry_out(&chosen, &wish, &owner, &args.options, out)
}
