//! `nicctl show`: everything there is to know about an interface.

pub(super) mod document;
#[cfg(test)]
mod fixture;
mod queues;
mod text;

use std::io::{self, Write};

use super::chosen::InterfacesArgs;
use crate::{
    control::profile_text,
    error::{Error, Kind, Result},
    netlink::link::LinkInfo,
    nic::{
        interrupts,
        setting::{Group, Key, Setting},
        settings::{self, Survey},
    },
    report::{json, style::Style},
};

/// Show the settings of interfaces, with limits and defaults
///
/// A setting is called GROUP.NAME, with the name that ethtool or ip uses. Settings the device lacks
/// are not listed. Below them, each queue is shown with its NAPI, IRQ, CPUs and NUMA nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl show eth0
  nicctl show eth0 eth1 --group feature --group ring
  nicctl show --all --group coalesce
  nicctl show eth0 --json | jq .settings.ring.rx")]
pub(super) struct Args {
    #[command(flatten)]
    interfaces: InterfacesArgs,

    /// Show only the settings of this group, and all of them; may be repeated
    #[arg(long = "group", value_name = "GROUP",
        value_parser = clap::builder::PossibleValuesParser::new(Group::ALL.map(Group::name)))]
    groups: Vec<String>,

    /// Print JSON (`nicctl schema show`)
    #[arg(long, conflicts_with = "as_profile")]
    json: bool,

    /// Print the writable settings as a profile for `nicctl apply` (`nicctl schema profile`)
    #[arg(long)]
    as_profile: bool,
}

/// What to show.
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
    let chosen = args.interfaces.enter()?;
    let mut shown = Vec::new();
    for link in chosen.links()? {
        match look(link, args, chosen.netns.as_deref()) {
            Ok(one) => shown.push(one),
            // It went while the others were looked at.
            Err(error) if error.kind() == Kind::NotFound && chosen.is_all() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if args.json {
        let documents = shown.iter().map(document::Document::from).collect();
        json::write_pretty(out, &chosen.document(documents, Vec::new()))?;
        return Ok(());
    }
    for (index, one) in shown.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        if shown.len() > 1 && !one.groups.is_empty() && !args.as_profile {
            writeln!(out, "{}", Style::for_stdout().bold(&one.survey.link.name))?;
        }
        match args.as_profile {
            true => write_profile(one, out)?,
            false => text::write(out, Style::for_stdout(), one)?,
        }
    }
    Ok(())
}

fn look(link: LinkInfo, args: &Args, netns: Option<&str>) -> Result<Shown> {
    Ok(Shown {
        survey: settings::survey(link)?,
        netns: netns.map(str::to_owned),
        irqbalance: interrupts::irqbalance()
            .map_err(|error| Error::io("look for irqbalance", &error))?,
        groups: args.groups.iter().map(|group| group.parse()).collect::<Result<_>>()?,
    })
}

fn write_profile(shown: &Shown, out: &mut dyn Write) -> io::Result<()> {
    let settings = shown.settings().map(|(key, setting)| (key.clone(), setting.clone()));
    profile_text::write_profile(&shown.survey.link.name, &settings.collect(), out)
}
