//! `nicctl set`: change single settings.

use std::io::Write;

use super::{
    name,
    settings::{self, CarryOutArgs, InterfaceArgs},
};
use crate::control::{Owner, wanted};

/// Change settings of an interface: all of those that are named, or none
///
/// A setting is called as `nicctl show` calls it. A value is a number, on, off, max, min, a
/// percentage of what the device takes at most, or text. rps, xps and irq take all, off, a list of
/// CPUs (0-3,8) or a mask (mask:ff), and rps.rx-* is every queue. Settings that are not named stay as they
/// are. `nicctl restore` gives everything back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl set eth0 ring.rx=max ring.tx=50%
  nicctl set eth0 coalesce.adaptive-rx=off coalesce.rx-usecs=20
  nicctl set eth0 'rps.rx-*=0-3' irq.42=cpus:8
  nicctl set eth0 feature.tso=off --dry-run")]
pub(super) struct Args {
    #[command(flatten)]
    interface: InterfaceArgs,

    /// What to set to what
    #[arg(value_name = "GROUP.NAME=VALUE", required = true, value_parser = name::utf8())]
    settings: Vec<String>,

    #[command(flatten)]
    options: CarryOutArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let desired = wanted::from_arguments(&args.settings)?;
    let mut device = args.interface.open()?;
    settings::carry_out(&mut device, &desired, &Owner::Set, &args.options, out)
}
