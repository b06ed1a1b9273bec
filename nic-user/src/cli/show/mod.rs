//! `nicctl show`: everything that an interface has.

pub(super) mod document;
#[cfg(test)]
mod fixture;
mod queues;
mod text;

use std::io::Write;

use super::{name, target};
use crate::{
    control::profile_text,
    error::Error,
    nic::{
        self, InterfaceName, interrupts,
        setting::{Group, Key, Setting},
        settings::{self, Survey},
    },
    report::{json, style::Style},
};

/// Show the settings of an interface, with limits and defaults
///
/// A setting is called GROUP.NAME, with the name that ethtool or ip has for it. What the device or
/// its driver does not have is not listed. Below the settings comes what serves each queue: NAPI,
/// interrupt, CPUs, NUMA nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl show eth0
  nicctl show eth0 --group feature --group ring
  nicctl show eth0 --json | jq .settings.ring.rx")]
pub(super) struct Args {
    /// Interface to show
    #[arg(value_name = "IFACE", value_parser = name::interface())]
    interface: String,

    /// The network namespace that the interface is in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Show only settings of this group, and all of them; may be repeated
    #[arg(long = "group", value_name = "GROUP",
        value_parser = clap::builder::PossibleValuesParser::new(Group::ALL.map(Group::name)))]
    groups: Vec<String>,

    /// Print JSON (`nicctl schema show`)
    #[arg(long, conflicts_with = "as_profile")]
    json: bool,

    /// Print what can be set as a profile, which `nicctl apply` takes (`nicctl schema profile`)
    #[arg(long)]
    as_profile: bool,
}

/// What there is to show.
struct Shown {
    survey: Survey,
    netns: Option<String>,
    /// The process id of irqbalance.
    irqbalance: Option<u32>,
    /// The groups to show; all of them, if there are none.
    groups: Vec<Group>,
}

impl Shown {
    /// The driver's name, or nothing.
    fn driver(&self) -> &str {
        self.survey.driver.as_ref().map_or("", |driver| &driver.driver)
    }

    /// The settings to show.
    fn settings(&self) -> impl Iterator<Item = (&Key, &Setting)> {
        let is_shown = |group| self.groups.is_empty() || self.groups.contains(&group);
        self.survey.settings.iter().filter(move |(key, _)| is_shown(key.group))
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = InterfaceName::new(&args.interface)?;
    target::enter(args.netns.as_deref())?;
    let shown = Shown {
        survey: settings::survey(nic::link(&name)?)?,
        netns: args.netns.clone(),
        irqbalance: interrupts::irqbalance()
            .map_err(|error| Error::io("look for irqbalance", &error))?,
        groups: args.groups.iter().map(|group| group.parse()).collect::<Result<_, Error>>()?,
    };
    if args.as_profile {
        let settings = shown.settings().map(|(key, setting)| (key.clone(), setting.clone()));
        profile_text::write_profile(name.as_str(), &settings.collect(), out)?;
    } else if args.json {
        json::write_pretty(out, &document::Document::from(&shown))?;
    } else {
        text::write(out, Style::for_stdout(), &shown)?;
    }
    Ok(())
}
