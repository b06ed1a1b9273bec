//! `nicctl apply`: make interfaces what a profile says.

use std::io::Write;

use super::{
    chosen::InterfacesArgs,
    name,
    settings::{self, CarryOutArgs},
};
use crate::control::{Owner, Profile};

/// Make interfaces what a profile says
///
/// Every step is read back, and reported as what it became. If one fails, those before it are
/// undone, on every interface. What there was before is written to /var/lib/nicctl first, and
/// `nicctl restore` gives it back, also after a crash. With --all, interfaces that the profile is
/// not for are passed over.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl apply eth0 --profile throughput
  nicctl apply eth0 eth1 --profile ./mine.toml --dry-run
  nicctl apply --all --profile ./fleet.toml --detailed-exitcode
  nicctl apply eth0 --profile latency --confirm 60 && nicctl confirm eth0")]
pub(super) struct Args {
    #[command(flatten)]
    interfaces: InterfacesArgs,

    /// A built-in profile (throughput, latency, forwarding, big-tcp, udp-gso, header-split), or the
    /// path of one
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
