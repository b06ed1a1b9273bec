//! `nicctl restore`: restore the settings from before nicctl's changes.

use std::io::{self, Write};

use super::{
    chosen::{Chosen, InterfacesArgs, Which},
    target,
};
use crate::{
    bench::cards,
    command_line::CommandLine,
    control::{
        self, Journals, KernelDevice, Restored, Undo, Whose,
        model::{Besides, RestoreDocument},
        text, undo,
    },
    error::{Error, Kind, Result},
    nic::{InterfaceName, Nic, identity::InterfaceId},
    report::{
        json::{self, Failure, ForEach},
        style::Style,
    },
    transaction::{
        self, Lock, Scope, SettingsLeft, Subject, Wanted,
        subject::{self, Found},
    },
};

/// Restore every setting that nicctl changed
///
/// Works from the record made before the first change, so it also helps after an interrupted apply
/// or restore. Settings that something else has changed since are left alone and listed. A
/// different interface that now has the same name is recognized and left alone. Unconfirmed changes
/// are reverted, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl restore eth0
  nicctl restore eth0 eth1 --dry-run
  nicctl restore --all
  nicctl restore eth0 --force")]
pub(super) struct Args {
    #[command(flatten)]
    interfaces: InterfacesArgs,

    /// Restore settings even where something else has changed them since
    #[arg(long)]
    force: bool,

    /// Show what would be restored, without doing it
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema restore`)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let chosen = args.interfaces.enter()?;
    let journals = &Journals::system();
    let lock = match args.dry_run {
        true => None,
        false => Some(target::lock(journals)?),
    };
    let restoring = Restoring { args, lock, journals };
    let outcomes = match &chosen.which {
        Which::One(name) => restoring.named(std::slice::from_ref(name)),
        Which::Several(names) => restoring.named(names),
        Which::All => restoring.all()?,
    };
    if let (Which::One(_), [(_, Err(error))]) = (&chosen.which, &outcomes[..]) {
        return Err(error.clone().into());
    }
    report(&chosen, &outcomes, args, out)?;
    let error = |(name, outcome): (String, Result<Outcome>)| match outcome {
        Ok(outcome) => outcome.restored?.error(),
        Err(error) => Some(error.while_doing(format_args!("restore {name}"))),
    };
    outcomes.into_iter().find_map(error).map_or(Ok(()), |error| Err(error.into()))
}

/// What was done to an interface.
struct Outcome {
    /// `None` if it no longer exists.
    restored: Option<Restored>,
    /// Whether its journal, or that of an earlier interface of the same name, is removed because
    /// the interface no longer exists.
    former_is_gone: bool,
    /// Whether unconfirmed changes were reverted, or would be.
    was_unconfirmed: bool,
}

struct Restoring<'a> {
    args: &'a Args,
    /// Held while anything changes.
    lock: Option<Lock>,
    journals: &'a Journals,
}

impl Restoring<'_> {
    fn named(&self, names: &[InterfaceName]) -> Vec<(String, Result<Outcome>)> {
        let found = names.iter().map(|name| (name.to_string(), self.find(name)));
        let which = |(name, nic): &(String, Result<Nic>)| match nic {
            Ok(nic) => Ok(nic.ifindex()),
            Err(_) => Err(name.clone()),
        };
        let found = target::each_once(found, which).into_iter();
        found.map(|(name, nic)| (name, nic.and_then(|nic| self.restore(nic)))).collect()
    }

    fn find(&self, name: &InterfaceName) -> Result<Nic> {
        if self.lock.is_some() {
            // It may be where a bench that was killed had taken it.
            cards::give_back_with(name.as_str())?;
        }
        Nic::by_name(name).map_err(|error| of_gone(error, name, self.journals))
    }

    fn restore(&self, nic: Nic) -> Result<Outcome> {
        let mut device = KernelDevice::new(nic)?;
        let was_unconfirmed = self.take_back(device.id())?;
        let restored = self.give_back(&mut device)?;
        let former = subject::former_settings(&restored.interface, self.journals)?;
        for one in &former {
            transaction::settings(one, Wanted::Forget, self.journals, self.lock.is_none())?;
        }
        let former_is_gone = !former.is_empty();
        Ok(Outcome { restored: Some(restored), former_is_gone, was_unconfirmed })
    }

    fn give_back(&self, device: &mut KernelDevice) -> Result<Restored> {
        let what = Undo { whose: Whose::Everybody, force: self.args.force };
        match &self.lock {
            Some(_) => control::undo(device, self.journals, what),
            None => undo::preview(device, self.journals, what),
        }
    }

    /// Reverts unconfirmed changes; returns whether there were any.
    fn take_back(&self, interface: InterfaceId) -> Result<bool> {
        match &self.lock {
            Some(lock) => transaction::take_back_of(lock, interface, self.journals),
            None => Ok(self.journals.pending(interface)?.is_some()),
        }
    }

    /// Every interface with changed settings or unconfirmed changes.
    fn all(&self) -> Result<Vec<(String, Result<Outcome>)>> {
        let Found { subjects, unread } = subject::all(Scope::Here, self.journals)?;
        let mut outcomes = Vec::new();
        for subject in subjects {
            let outcome = self.subject(&subject).transpose();
            outcomes.extend(outcome.map(|outcome| (subject.name, outcome)));
        }
        outcomes.extend(unread.into_iter().map(|error| ("an interface".to_owned(), Err(error))));
        Ok(outcomes)
    }

    fn subject(&self, subject: &Subject) -> Result<Option<Outcome>> {
        let place = subject.presence.place();
        let was_unconfirmed = place.map_or(Ok(false), |place| self.take_back(place.id))?;
        let wanted = Wanted::GiveBack { everything: true, force: self.args.force };
        let left = transaction::settings(subject, wanted, self.journals, self.lock.is_none())?;
        let (restored, former_is_gone) = match left {
            Some(SettingsLeft::GivenBack(restored)) => (Some(*restored), false),
            Some(SettingsLeft::Gone) => (None, true),
            None => (None, false),
        };
        let is_touched = restored.is_some() || former_is_gone || was_unconfirmed;
        Ok(is_touched.then_some(Outcome { restored, former_is_gone, was_unconfirmed }))
    }
}

/// Adds how to remove the journal of an interface that no longer exists.
fn of_gone(error: Error, name: &InterfaceName, journals: &Journals) -> Error {
    let is_former = error.kind() == Kind::NotFound
        && subject::former_settings(name.as_str(), journals).is_ok_and(|former| !former.is_empty());
    if !is_former {
        return error;
    }
    error.with_fix(format!(
        "its settings are gone with it; to remove their journal: {}",
        CommandLine::nicctl("detach").option("--gone").everywhere().quoted()
    ))
}

fn report(
    chosen: &Chosen,
    outcomes: &[(String, Result<Outcome>)],
    args: &Args,
    out: &mut dyn Write,
) -> io::Result<()> {
    if args.json {
        return json::write_pretty(out, &document(chosen, outcomes, args.dry_run));
    }
    if outcomes.is_empty() {
        writeln!(out, "no changes by nicctl")?;
    }
    for (name, outcome) in outcomes {
        let Ok(outcome) = outcome else { continue };
        if outcome.was_unconfirmed {
            let taken = if args.dry_run { "would be taken" } else { "were taken" };
            writeln!(out, "{name}: unconfirmed changes {taken} reverted")?;
        }
        if let Some(restored) = &outcome.restored {
            text::write_restored(restored, out, Style::for_stdout())?;
        }
        if outcome.former_is_gone {
            let removed = if args.dry_run { "would be removed" } else { "is removed" };
            writeln!(
                out,
                "{name}: a former interface of this name is gone; its journal {removed}"
            )?;
        }
    }
    Ok(())
}

fn document(
    chosen: &Chosen,
    outcomes: &[(String, Result<Outcome>)],
    dry_run: bool,
) -> ForEach<RestoreDocument> {
    let (mut documents, mut failures) = (Vec::new(), Vec::new());
    for (name, outcome) in outcomes {
        match outcome {
            Ok(Outcome { restored, former_is_gone, was_unconfirmed }) => {
                documents.push(RestoreDocument::new(
                    name,
                    restored.as_ref(),
                    Besides {
                        dry_run,
                        former_is_gone: *former_is_gone,
                        unconfirmed_taken_back: *was_unconfirmed,
                    },
                ));
            }
            Err(error) => failures.push(Failure::of(name, error)),
        }
    }
    chosen.document(documents, failures)
}
