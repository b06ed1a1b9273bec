//! `nicctl detach`: undo everything that attach did.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::{name, target};
use crate::{
    control::{
        Journals,
        journal::Journal,
        model::{ChangeEntry, LeftEntry},
        text,
    },
    error::{Error, Kind, Result},
    nic::namespace,
    offload::{self, Attachment, Lock, Slot},
    report::{
        json::{self, Version},
        style::Style,
    },
    transaction::{self, Detached, SettingsLeft, Wanted, slot_of},
};

/// Detach from interfaces: undo everything that nicctl did to them, and nothing else
///
/// Removes programs, links, maps and pins that attach made; counters are gone with them. Then gives
/// back every setting that nicctl changed on the interface, with attach, apply or set. It does not
/// matter where one of these was interrupted. That there was nothing to undo is a success.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl detach eth0
  nicctl detach eth0 --keep-settings
  nicctl detach --all --dry-run
  nicctl detach --gone")]
pub(super) struct Args {
    /// Interfaces to detach from
    #[arg(value_name = "IFACE", required_unless_present_any = ["all", "everywhere", "gone"],
        conflicts_with_all = ["all", "everywhere", "gone"], value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Detach from every interface of this network namespace, or of the one that --netns names
    #[arg(long)]
    all: bool,

    /// Detach from every interface of the machine, in every network namespace
    #[arg(long, conflicts_with_all = ["all", "netns"])]
    everywhere: bool,

    /// Clear away what is left of interfaces that no longer exist, in every network namespace;
    /// those of a namespace without a name and a process, and without a program of nicctl, count
    /// as such
    #[arg(long, conflicts_with_all = ["all", "everywhere", "netns"])]
    gone: bool,

    /// Detach also where a program has rings, as `nicctl forward` does: it gets nothing more
    #[arg(long)]
    force: bool,

    /// Leave settings as they are; `nicctl restore` still gives them back
    #[arg(long, conflicts_with = "gone")]
    keep_settings: bool,

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
    /// Settings that were given back, or would be.
    given_back: Vec<ChangeEntry>,
    /// Settings that could not be given back.
    left: Vec<LeftEntry>,
    /// Whether settings were changed of an interface that is no more: only their journal is
    /// removed.
    settings_are_gone: bool,
}

/// An interface by the name to show, and where what nicctl did to it is.
type Target = (String, Slot);

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let journals = Journals::system();
    let targets = if args.everywhere {
        all(&journals)?
    } else if args.all {
        let here = namespace::current_cookie()?;
        let targets = all(&journals)?.into_iter();
        targets.filter(|(_, slot)| slot.netns == here).collect()
    } else if args.gone {
        gone(&journals)?
    } else {
        named(&args.interfaces, namespace::current_cookie()?, &journals)?
    };
    let unread = unread(args, &journals)?;
    let (detached, failure) = detach(targets, args, &journals)?;
    let failure = failure.or(unread);
    report(args, detached, out)?;
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// These interfaces, and earlier ones of the same names that are gone.
fn named(names: &[String], netns: u64, journals: &Journals) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for name in names {
        let gone = former(name, netns, journals)?;
        match target::slots(std::slice::from_ref(name), netns) {
            Err(error) if error.kind() == Kind::NotFound && !gone.is_empty() => {}
            slots => targets.extend(slots?),
        }
        for slot in gone {
            add(&mut targets, name, slot);
        }
    }
    Ok(targets)
}

/// Slots of interfaces that were called `name` and are gone.
fn former(name: &str, netns: u64, journals: &Journals) -> Result<Vec<Slot>> {
    let recorded = target::recorded(name, netns)?.into_iter();
    let stale = recorded.filter(Attachment::is_stale).map(|gone| gone.slot().clone());
    let journaled = transaction::former(journals, name, netns)?;
    Ok(stale.chain(journaled.iter().map(slot_of)).collect())
}

/// Everything that nicctl did anywhere.
fn all(journals: &Journals) -> Result<Vec<Target>> {
    let mut targets = attached(|_| true)?;
    for journal in journaled(journals)? {
        add(&mut targets, &journal.identity.name, slot_of(&journal));
    }
    Ok(targets)
}

/// What is left of interfaces that no longer exist.
fn gone(journals: &Journals) -> Result<Vec<Target>> {
    let mut targets = attached(|attachment| attachment.is_some_and(Attachment::is_stale))?;
    for journal in journaled(journals)?.filter(transaction::is_gone_or_unseen) {
        add(&mut targets, &journal.identity.name, slot_of(&journal));
    }
    Ok(targets)
}

fn add(targets: &mut Vec<Target>, name: &str, slot: Slot) {
    if targets.iter().all(|(_, known)| *known != slot) {
        targets.push((name.to_owned(), slot));
    }
}

/// Every slot that is wanted, by what is attached there; by nothing where that can not be read.
fn attached(wanted: impl Fn(Option<&Attachment>) -> bool) -> Result<Vec<Target>> {
    let slots = Slot::all()?.into_iter().filter_map(|slot| {
        let attachment = Attachment::of(slot.clone()).ok().flatten();
        let unknown = || format!("interface {}", slot.ifindex);
        let name = attachment.as_ref().map_or_else(unknown, Attachment::recorded_name);
        wanted(attachment.as_ref()).then_some((name, slot))
    });
    let mut targets: Vec<Target> = slots.collect();
    for staged in offload::half_made()? {
        let slot = Slot::new(staged.netns, staged.ifindex);
        let attachment = Attachment::of(staged).ok().flatten();
        if wanted(attachment.as_ref()) {
            let unknown = || format!("interface {}", slot.ifindex);
            let name = attachment.as_ref().map_or_else(unknown, Attachment::recorded_name);
            add(&mut targets, &name, slot);
        }
    }
    Ok(targets)
}

/// The journals that can be read; `nicctl doctor` tells of others.
fn journaled(journals: &Journals) -> Result<impl Iterator<Item = Journal>> {
    Ok(journals.all()?.into_iter().filter_map(|(_, journal)| journal.ok()))
}

/// Why not every journal could be read, where all of them are meant.
fn unread(args: &Args, journals: &Journals) -> Result<Option<Error>> {
    if !(args.all || args.everywhere) || args.keep_settings {
        return Ok(None);
    }
    Ok(journals.all()?.into_iter().find_map(|(_, journal)| journal.err()))
}

/// What became of one interface.
struct Outcome {
    name: String,
    ifindex: u32,
    detached: Detached,
}

/// Detaches from all that it can, whatever becomes of the others; with it comes the first failure.
fn detach(
    targets: Vec<Target>,
    args: &Args,
    journals: &Journals,
) -> Result<(Vec<Outcome>, Option<Error>)> {
    let nothing_here = offload::existing_root()?.is_none() && journals.all()?.is_empty();
    let lock = match args.dry_run || nothing_here {
        true => None,
        false => Some(Lock::take(target::say_waiting)?),
    };
    let wanted = match (args.keep_settings, args.gone) {
        (true, _) => Wanted::Keep,
        (false, true) => Wanted::GiveBackSeen,
        (false, false) => Wanted::GiveBack,
    };
    let (mut outcomes, mut failure) = (Vec::new(), None);
    for (name, slot) in targets {
        let unused = if args.force { Ok(()) } else { offload::refuse_if_used(&name, &slot) };
        let detached = unused.and_then(|()| match &lock {
            Some(lock) => transaction::detach(lock, &slot, wanted, journals),
            None => transaction::preview(&slot, wanted, journals),
        });
        match detached {
            Ok(detached) => {
                let error = detached.error();
                failure = failure.or(error);
                outcomes.push(Outcome { name, ifindex: slot.ifindex, detached });
            }
            Err(error) => {
                failure = failure.or(Some(error.while_doing(format!("detach from {name}"))));
            }
        }
    }
    Ok((outcomes, failure))
}

fn report(args: &Args, outcomes: Vec<Outcome>, out: &mut dyn Write) -> io::Result<()> {
    if args.json {
        let interfaces = outcomes.into_iter().map(Entry::from).collect();
        let document = Document { version: Version, dry_run: args.dry_run, interfaces };
        return json::write_pretty(out, &document);
    }
    if outcomes.is_empty() && args.interfaces.is_empty() {
        writeln!(out, "nothing is attached")?;
    }
    for Outcome { name, detached, .. } in outcomes {
        let what = match (detached.was_attached, args.dry_run) {
            (false, _) => "nothing was attached",
            (true, false) => "detached",
            (true, true) => "would detach",
        };
        writeln!(out, "{name}: {what}")?;
        match detached.settings {
            Some(SettingsLeft::GivenBack(restored)) => {
                text::write_restored(&restored, out, Style::for_stdout())?;
            }
            Some(SettingsLeft::Gone) => {
                writeln!(out, "{name}: the settings that nicctl changed are gone with it")?;
            }
            None => {}
        }
    }
    Ok(())
}

impl From<Outcome> for Entry {
    fn from(Outcome { name, ifindex, detached }: Outcome) -> Self {
        let given = match &detached.settings {
            Some(SettingsLeft::GivenBack(restored)) => restored.given_back.as_ref(),
            _ => None,
        };
        Self {
            name,
            ifindex,
            was_attached: detached.was_attached,
            given_back: given.iter().flat_map(|g| &g.changes).map(ChangeEntry::from).collect(),
            left: given.iter().flat_map(|g| &g.left).map(LeftEntry::from).collect(),
            settings_are_gone: matches!(detached.settings, Some(SettingsLeft::Gone)),
        }
    }
}
