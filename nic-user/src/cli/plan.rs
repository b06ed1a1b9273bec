//! `nicctl plan`: what a profile or settings would change.

use std::io::Write;

use super::{chosen::InterfacesAndSettingsArgs, exit::Changed, name, settings};
use crate::{
    control::{Desired, Journals, KernelDevice, Profile, wanted},
    error::{Error, Result},
};

/// Show what a profile or settings would change, without changing anything
///
/// Lists every change in the order it would be made, within the limits of the device, and what it
/// would interrupt. Impossible changes are refused, with a fix.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "nicctl plan [OPTIONS] <IFACE>... [GROUP.NAME=VALUE]...
       nicctl plan [OPTIONS] --all [GROUP.NAME=VALUE]...",
    after_help = "Examples:
  nicctl plan eth0 --profile throughput
  nicctl plan eth0 eth1 ring.rx=max coalesce.rx-usecs=20 feature.gro=on
  nicctl plan --all --profile ./mine.toml --detailed-exitcode"
)]
pub(super) struct Args {
    #[command(flatten)]
    of: InterfacesAndSettingsArgs,

    /// A built-in profile (throughput, latency, forwarding, big-tcp, udp-gso, header-split), or the
    /// path of a profile file; settings given override it
    #[arg(long, value_name = "NAME|FILE", value_parser = name::utf8())]
    profile: Option<String>,

    /// Exit with 5 if something would change
    #[arg(long)]
    detailed_exitcode: bool,

    /// Print JSON (`nicctl schema plan`)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let (chosen, words) = args.of.enter()?;
    if words.is_empty() && args.profile.is_none() {
        return Err(Error::usage("nothing to plan")
            .with_fix("give settings after the interfaces, as in ring.rx=max, or a --profile")
            .into());
    }
    let asked = wanted::from_arguments(words, &args.of.origin())?;
    let profile = args.profile.as_deref().map(Profile::load).transpose()?;
    let wish = |device: &KernelDevice| -> Result<Desired> {
        let of_profile = profile.as_ref().map(|profile| settings::profile(profile, device));
        let mut desired = of_profile.transpose()?.unwrap_or_default();
        desired.extend(asked.clone());
        Ok(desired)
    };
    let planned = settings::plans(&chosen, &wish, &Journals::system())?;
    settings::write_plans(&chosen, &planned, args.json, out)?;
    Changed::told(args.detailed_exitcode && settings::is_to_change(&planned))
}
