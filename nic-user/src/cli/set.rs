//! `nicctl set`: change single settings.

use std::io::Write;

use super::{
    chosen::InterfacesAndSettingsArgs,
    settings::{self, CarryOutArgs},
};
use crate::{
    control::{Owner, wanted},
    error::Error,
};

/// Change settings of interfaces: all that are given, or none
///
/// Settings have the names that `nicctl show` prints. A value is a number, on, off, max, min, a
/// percentage of the device's maximum, or text. rps, xps and irq take all, off, a CPU list (0-3,8)
/// or a mask (mask:ff); rps.rx-* means every queue. Other settings stay as they are. `nicctl
/// restore` restores everything.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "nicctl set [OPTIONS] <IFACE>... <GROUP.NAME=VALUE>...
       nicctl set [OPTIONS] --all <GROUP.NAME=VALUE>...",
    after_help = "Examples:
  nicctl set eth0 ring.rx=max ring.tx=50%
  nicctl set eth0 eth1 coalesce.adaptive-rx=off coalesce.rx-usecs=20
  nicctl set eth0 'rps.rx-*=0-3' irq.42=cpus:8
  nicctl set --all feature.gro=on --detailed-exitcode
  nicctl set eth0 channels.combined=4 --confirm 60 && nicctl confirm eth0"
)]
pub(super) struct Args {
    #[command(flatten)]
    of: InterfacesAndSettingsArgs,

    #[command(flatten)]
    options: CarryOutArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let (chosen, words) = args.of.enter()?;
    if words.is_empty() {
        return Err(Error::usage("nothing to set")
            .with_fix("give settings after the interfaces, as in: ring.rx=max")
            .into());
    }
    let desired = wanted::from_arguments(words, &args.of.origin())?;
    let wish = |_: &_| Ok(desired.clone());
    settings::carry_out(&chosen, &wish, &Owner::Set, &args.options, out)
}
