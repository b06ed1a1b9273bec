//! `nicctl plan`: what a profile or settings would change.

use std::{fmt, io::Write};

use super::{
    name,
    settings::{self, InterfaceArgs},
};
use crate::control::{Desired, Journals, plan::with_arguments};

/// The exit code that says that there is something to change.
pub(super) const CHANGES_PENDING: u8 = 5;

/// Show what a profile or settings would change, and change nothing
///
/// Lists every change in the order in which it would be made, with the limits of the device taken
/// into account, and what it would interrupt. What can not be is refused, with the way out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl plan eth0 --profile throughput
  nicctl plan eth0 ring.rx=max coalesce.rx-usecs=20 feature.gro=on
  nicctl plan eth0 --profile ./mine.toml --detailed-exitcode")]
pub(super) struct Args {
    #[command(flatten)]
    interface: InterfaceArgs,

    /// Settings, as `nicctl set` takes them; they take the place of what the profile says
    #[arg(value_name = "GROUP.NAME=VALUE", required_unless_present = "profile",
        value_parser = name::utf8())]
    settings: Vec<String>,

    /// A built-in profile (throughput, latency, forwarding, big-tcp, udp-gso, header-split), or the
    /// path of one
    #[arg(long, value_name = "NAME|FILE", value_parser = name::utf8())]
    profile: Option<String>,

    /// Exit with 5 if there is something to change
    #[arg(long)]
    detailed_exitcode: bool,

    /// Print JSON (`nicctl schema plan`)
    #[arg(long)]
    json: bool,
}

/// There is something to change, and that was asked.
#[derive(Debug)]
pub(super) struct ChangesPending;

impl fmt::Display for ChangesPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is something to change")
    }
}

impl std::error::Error for ChangesPending {}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut device = args.interface.open()?;
    let desired = match &args.profile {
        Some(profile) => settings::profile(profile, &device)?,
        None => Desired::new(),
    };
    let desired = with_arguments(desired, &args.settings)?;
    let plan = settings::plan(&mut device, &desired, &Journals::system())?;
    settings::write_plan(&plan, args.json, out)?;
    if args.detailed_exitcode && !plan.is_empty() {
        return Err(ChangesPending.into());
    }
    Ok(())
}
