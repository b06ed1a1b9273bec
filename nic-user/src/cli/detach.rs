//! `nicctl detach`: undo everything that attach did.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::{name, target};
use crate::{
    error::Result,
    nic::namespace,
    offload::{self, Attachment, Lock, Slot},
    report::json::{self, Version},
};

/// Detach from interfaces: undo what attach did, and nothing else
///
/// Removes programs, links, maps and pins that attach made. Counters are gone with them. An
/// interface that nothing is attached to is left alone, which is a success.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl detach eth0
  nicctl detach --all --dry-run
  nicctl detach --gone")]
pub(super) struct Args {
    /// Interfaces to detach from
    #[arg(value_name = "IFACE", required_unless_present_any = ["all", "gone"],
        conflicts_with_all = ["all", "gone"], value_parser = name::utf8())]
    interfaces: Vec<String>,

    /// Detach from every interface, in every network namespace
    #[arg(long)]
    all: bool,

    /// Clear away what is left of interfaces that no longer exist, in every network namespace
    #[arg(long, conflicts_with = "all")]
    gone: bool,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema detach`)
    #[arg(long)]
    json: bool,
}

/// What `nicctl detach --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// Whether nothing was changed, because of --dry-run.
    dry_run: bool,
    /// One entry an interface.
    interfaces: Vec<Entry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Name of the interface.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// Whether anything was attached.
    was_attached: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let slots = if args.all || args.gone {
        all(args.gone)?
    } else {
        named(&args.interfaces, namespace::current_cookie()?)?
    };
    let interfaces = if args.dry_run {
        slots
            .into_iter()
            .map(|(name, slot)| Ok(entry(name, &slot, slot.exists()?)))
            .collect::<Result<_>>()?
    } else {
        detach(slots)?
    };
    report(args, interfaces, out)?;
    Ok(())
}

/// The slots of these interfaces, and of earlier ones of the same names that are gone.
fn named(names: &[String], netns: u64) -> Result<Vec<(String, Slot)>> {
    let mut slots = target::slots(names, netns)?;
    for name in names {
        let recorded = target::recorded(name, netns)?.into_iter();
        for slot in recorded.filter(Attachment::is_stale).map(|gone| gone.slot().clone()) {
            if slots.iter().all(|(_, known)| *known != slot) {
                slots.push((name.clone(), slot));
            }
        }
    }
    Ok(slots)
}

/// Every slot, or those whose interface is gone.
fn all(gone: bool) -> Result<Vec<(String, Slot)>> {
    let mut slots = Vec::new();
    for slot in Slot::all()? {
        let attachment = Attachment::of(slot.clone()).ok().flatten();
        let is_gone = attachment.as_ref().is_some_and(Attachment::is_stale);
        if is_gone || !gone {
            let unknown = || format!("interface {}", slot.ifindex);
            let name = attachment.map_or_else(unknown, |attachment| attachment.recorded_name());
            slots.push((name, slot));
        }
    }
    Ok(slots)
}

/// Detaches from all that it can, whatever becomes of the others; then reports the first failure.
fn detach(slots: Vec<(String, Slot)>) -> Result<Vec<Entry>> {
    if offload::existing_root()?.is_none() {
        return Ok(slots.into_iter().map(|(name, slot)| entry(name, &slot, false)).collect());
    }
    let lock = Lock::take(target::say_waiting)?;
    let results: Vec<Result<Entry>> = slots
        .into_iter()
        .map(|(name, slot)| match offload::detach(&lock, &slot) {
            Ok(was_attached) => Ok(entry(name, &slot, was_attached)),
            Err(error) => Err(error.while_doing(format!("detach from {name}"))),
        })
        .collect();
    results.into_iter().collect()
}

fn entry(name: String, slot: &Slot, was_attached: bool) -> Entry {
    Entry { name, ifindex: slot.ifindex, was_attached }
}

fn report(args: &Args, interfaces: Vec<Entry>, out: &mut dyn Write) -> io::Result<()> {
    if args.json {
        let document = Document { version: Version, dry_run: args.dry_run, interfaces };
        return json::write_pretty(out, &document);
    }
    if interfaces.is_empty() {
        writeln!(out, "nothing is attached")?;
    }
    for Entry { name, was_attached, .. } in interfaces {
        let what = match (was_attached, args.dry_run) {
            (false, _) => "nothing was attached",
            (true, false) => "detached",
            (true, true) => "would detach",
        };
        writeln!(out, "{name}: {what}")?;
    }
    Ok(())
}
