//! `nicctl apply`: make an interface what a profile says.

use std::io::Write;

use super::{
    name,
    settings::{self, CarryOutArgs, InterfaceArgs},
};
use crate::control::Owner;

/// Make an interface what a profile says
///
/// Every step is read back, and reported as what it became. If one fails, those before it are
/// undone. What there was before is written to /var/lib/nicctl first, and `nicctl restore` gives it
/// back, also after a crash.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl apply eth0 --profile throughput
  nicctl apply eth0 --profile ./mine.toml --dry-run")]
pub(super) struct Args {
    #[command(flatten)]
    interface: InterfaceArgs,

    /// A built-in profile (throughput, latency, forwarding, big-tcp, udp-gso, header-split), or the
    /// path of one
    #[arg(long, value_name = "NAME|FILE", value_parser = name::utf8())]
    profile: String,

    #[command(flatten)]
    options: CarryOutArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut device = args.interface.open()?;
    let desired = settings::profile(&args.profile, &device)?;
    let owner = Owner::Profile(args.profile.clone());
    settings::carry_out(&mut device, &desired, &owner, &args.options, out)
}
