//! `nicctl detach`: undo everything that attach did.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::{name, target};
use crate::{
    control::{
        Journals,
        model::{ChangeEntry, ForeignEntry, LeftEntry},
        text,
    },
    error::{Error, Kind, Result},
    offload,
    report::{
        json::{self, Failure, Version},
        style::Style,
    },
    transaction::{
        self, Detached, Scope, SettingsLeft, Subject, Wanted,
        subject::{self, Found},
    },
};

/// Detach from interfaces: undo everything that attach did, and nothing else
///
/// Removes the programs, links, maps and pins that attach made, and the counters with them, then
/// restores the settings that attach changed for its profile or for XDP. Changes by `nicctl apply`
/// and `set` stay; `nicctl restore` reverts them. Settings that something else has changed since
/// are left alone and listed. Unconfirmed changes are reverted first. If a process receives from
/// AF_XDP rings, as `nicctl forward` does, detach refuses and names it. An interrupted attach or
/// detach is cleaned up as well. If there is nothing to undo, that is success.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl detach eth0
  nicctl detach eth0 --keep-settings
  nicctl detach --all --dry-run
  nicctl detach --gone")]
pub(super) struct Args {
    /// Interfaces to detach from
    #[arg(value_name = "IFACE", required_unless_present_any = ["all", "everywhere", "gone"],
        conflicts_with_all = ["all", "everywhere", "gone"], value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Detach from all interfaces of this network namespace (or that of --netns)
    #[arg(long)]
    all: bool,

    /// Detach from all interfaces of the machine, in every network namespace
    #[arg(long, conflicts_with_all = ["all", "netns"])]
    everywhere: bool,

    /// Remove what is left of interfaces that no longer exist, in every network namespace; includes
    /// those in a namespace that has no name, no process and no program of nicctl
    #[arg(long, conflicts_with_all = ["all", "everywhere", "netns"])]
    gone: bool,

    /// Leave settings as they are; `nicctl restore` can still restore them
    #[arg(long, conflicts_with = "gone")]
    keep_settings: bool,

    /// Restore settings even where something else has changed them since
    #[arg(long, conflicts_with_all = ["gone", "keep_settings"])]
    force: bool,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Show what would be done, without doing it
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
    /// Whether --dry-run left everything unchanged.
    dry_run: bool,
    /// One entry an interface.
    interfaces: Vec<Entry>,
    /// Interfaces that could not be detached from, and why.
    failures: Vec<Failure>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Name of the interface.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// Whether anything was attached.
    was_attached: bool,
    /// Whether unconfirmed changes were reverted first, or would be.
    unconfirmed_taken_back: bool,
    /// Settings that were restored, or would be.
    given_back: Vec<ChangeEntry>,
    /// Settings that could not be restored.
    left: Vec<LeftEntry>,
    /// Settings that something else has changed since, and that are left as they are.
    foreign: Vec<ForeignEntry>,
    /// Whether the settings belonged to an interface that no longer exists: only their journal is
    /// removed.
    settings_are_gone: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let journals = Journals::system();
    let scope = match (args.everywhere, args.all, args.gone) {
        (true, ..) => Some(Scope::Machine),
        (_, true, _) => Some(Scope::Here),
        (.., true) => Some(Scope::Gone),
        _ => None,
    };
    let Found { subjects, unread } = match scope {
        Some(scope) => subject::all(scope, &journals)?,
        None => Found { subjects: named(&args.interfaces, &journals)?, unread: Vec::new() },
    };
    // A journal that cannot be read is of none that is known to be gone.
    let unread = unread.into_iter().next().filter(|_| !args.keep_settings && !args.gone);
    let (detached, failures) = detach(subjects, args, &journals)?;
    let left = detached.iter().find_map(|outcome| outcome.detached.settings.as_ref()?.error());
    if args.json || !detached.is_empty() || failures.is_empty() {
        report(args, detached, &failures, out)?;
    }
    let first = failures.into_iter().next().map(|(_, error)| error);
    first.or(left).or(unread).map_or(Ok(()), |error| Err(error.into()))
}

/// These interfaces, and former ones of the same names.
fn named(names: &[String], journals: &Journals) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for name in names {
        let former = subject::former(name, journals)?;
        match target::interfaces(std::slice::from_ref(name)) {
            Ok((nics, _)) => {
                for nic in nics {
                    subjects.push(Subject::of(&nic, journals)?);
                }
            }
            Err(error) if error.kind() == Kind::NotFound => {
                let all = subject::all(Scope::Here, journals)?.subjects.into_iter();
                let renamed = all.filter(|subject| {
                    subject.recorded_name == *name && subject.presence.place().is_some()
                });
                let renamed: Vec<Subject> = renamed.collect();
                if renamed.is_empty() && former.is_empty() {
                    return Err(error);
                }
                subjects.extend(renamed);
            }
            Err(error) => return Err(error),
        }
        subjects.extend(former);
    }
    // One that is there is itself; of one that is gone, there may be pins and a journal.
    let which = |it: &Subject| {
        let place = it.presence.place().map(|place| place.id);
        let slot = it.slot.as_ref().map(|slot| slot.key);
        (place, slot, it.journal.as_ref().map(|noted| noted.key))
    };
    Ok(target::each_once(subjects, which))
}

/// What was done to one interface.
struct Outcome {
    name: String,
    ifindex: u32,
    detached: Detached,
}

/// The interfaces that could not be detached from, and why.
type Failures = Vec<(String, Error)>;

/// Detaches from every interface it can; returns the failures of the others beside the outcomes.
fn detach(
    subjects: Vec<Subject>,
    args: &Args,
    journals: &Journals,
) -> Result<(Vec<Outcome>, Failures)> {
    let lock = match args.dry_run {
        true => None,
        false => Some(target::lock(journals)?),
    };
    let wanted = match (args.keep_settings, args.gone) {
        (true, _) => Wanted::Keep,
        (false, true) => Wanted::Forget,
        (false, false) => Wanted::GiveBack { everything: false, force: args.force },
    };
    let (mut outcomes, mut failures) = (Vec::new(), Vec::new());
    for subject in subjects {
        let (name, ifindex) = (subject.name.clone(), subject.ifindex());
        let detached = refuse_if_used(&subject).and_then(|()| match &lock {
            Some(lock) => transaction::detach(lock, &subject, wanted, journals),
            None => transaction::preview(&subject, wanted, journals),
        });
        match detached {
            Ok(detached) => outcomes.push(Outcome { name, ifindex, detached }),
            Err(error) => {
                let error = error.while_doing(format_args!("detach from {name}"));
                failures.push((name, error));
            }
        }
    }
    Ok((outcomes, failures))
}

/// Refuses if a process receives from rings, because it would receive nothing more.
fn refuse_if_used(subject: &Subject) -> Result<()> {
    subject.slot.iter().try_for_each(|slot| offload::refuse_if_used(&subject.name, slot))
}

fn report(
    args: &Args,
    outcomes: Vec<Outcome>,
    failures: &[(String, Error)],
    out: &mut dyn Write,
) -> io::Result<()> {
    if args.json {
        let interfaces = outcomes.into_iter().map(Entry::from).collect();
        let failures = failures.iter().map(|(name, error)| Failure::of(name, error)).collect();
        let document = Document { version: Version, dry_run: args.dry_run, interfaces, failures };
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
        if detached.was_unconfirmed {
            let taken = if args.dry_run { "would be taken" } else { "were taken" };
            writeln!(out, "{name}: unconfirmed changes {taken} reverted")?;
        }
        match detached.settings {
            Some(SettingsLeft::GivenBack(restored)) => {
                text::write_restored(&restored, out, Style::for_stdout())?;
            }
            Some(SettingsLeft::Gone) => {
                writeln!(out, "{name}: gone, and with it the settings nicctl changed")?;
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
        let foreign = detached.settings.as_ref().and_then(SettingsLeft::restored);
        Self {
            name,
            ifindex,
            was_attached: detached.was_attached,
            unconfirmed_taken_back: detached.was_unconfirmed,
            given_back: given.iter().flat_map(|g| &g.changes).map(ChangeEntry::from).collect(),
            left: given.iter().flat_map(|g| &g.left).map(LeftEntry::from).collect(),
            foreign: foreign.iter().flat_map(|it| &it.foreign).map(ForeignEntry::from).collect(),
            settings_are_gone: matches!(detached.settings, Some(SettingsLeft::Gone)),
        }
    }
}
