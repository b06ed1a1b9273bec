//! Detaching, and giving settings back.

use super::{Lock, confirm::take_back_of, subject::Subject};
use crate::{
    command_line::CommandLine,
    control::{Journals, KernelDevice, Owner, Restored, Undo, Whose, journal::Noted, undo},
    error::{Error, Result},
    nic::{
        Nic,
        census::{Place, Presence},
    },
    offload,
};

/// What is to become of settings that nicctl changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those that attaching changed are given back; or all, if `everything`. What somebody else has
    /// changed since is given back with `force` only.
    GiveBack {
        /// Also what was set and applied.
        everything: bool,
        /// Also what something else has changed since.
        force: bool,
    },
    /// They are of interfaces that no longer exist: only what is left of them is cleared away.
    Forget,
    /// They stay, and can still be given back.
    Keep,
}

/// What detaching from one interface came to.
#[derive(Debug)]
pub struct Detached {
    /// Whether anything was attached.
    pub was_attached: bool,
    /// Whether changes of it waited to be confirmed, and were taken back first.
    pub was_unconfirmed: bool,
    /// What became of its settings; `None` if nicctl had changed none, or they were to be kept.
    pub settings: Option<SettingsLeft>,
}

/// What became of settings that nicctl had changed.
#[derive(Debug)]
pub enum SettingsLeft {
    /// They were given back, as far as that went.
    GivenBack(Box<Restored>),
    /// The interface is no more, and its settings with it. The journal was removed.
    Gone,
}

impl SettingsLeft {
    /// What was given back.
    pub const fn restored(&self) -> Option<&Restored> {
        match self {
            Self::GivenBack(restored) => Some(restored),
            Self::Gone => None,
        }
    }

    /// The error that this amounts to: some settings could not be given back.
    pub fn error(&self) -> Option<Error> {
        self.restored()?.error()
    }
}

/// Removes what was attached to an interface, and then does what is wanted with its settings. It
/// does not matter where an attach or a detach was interrupted.
///
/// # Errors
///
/// Something could not be removed; or the settings cannot be given back from here.
pub fn detach(
    lock: &Lock,
    subject: &Subject,
    wanted: Wanted,
    journals: &Journals,
) -> Result<Detached> {
    check_privilege(subject, wanted, journals)?;
    let was_attached = is_attached(subject)?;
    let was_unconfirmed = match subject.presence.place() {
        Some(place) => take_back_of(lock, place.id, journals)?,
        None => false,
    };
    if let Some(slot) = &subject.slot {
        offload::detach(&lock.programs, slot)?;
    }
    let settings = settings(subject, wanted, journals, false)?;
    Ok(Detached { was_attached, was_unconfirmed, settings })
}

/// Says what [`detach`] would do, and does nothing.
///
/// # Errors
///
/// As [`detach`].
pub fn preview(subject: &Subject, wanted: Wanted, journals: &Journals) -> Result<Detached> {
    let was_attached = is_attached(subject)?;
    let was_unconfirmed = is_unconfirmed(subject, journals)?;
    let settings = settings(subject, wanted, journals, true)?;
    Ok(Detached { was_attached, was_unconfirmed, settings })
}

/// Programs go before settings: nothing is done where those could not be given back.
fn check_privilege(subject: &Subject, wanted: Wanted, journals: &Journals) -> Result<()> {
    let changes_settings = || match (&subject.presence, &subject.journal, undo_of(wanted)) {
        (Presence::There(_), Some(noted), Some(undo)) => is_meant(undo, noted),
        _ => false,
    };
    if !changes_settings() && !is_unconfirmed(subject, journals)? {
        return Ok(());
    }
    offload::check_settings(format_args!("restore the settings of {}", subject.name))
}

fn is_unconfirmed(subject: &Subject, journals: &Journals) -> Result<bool> {
    let Some(place) = subject.presence.place() else { return Ok(false) };
    Ok(journals.pending(place.id)?.is_some())
}

/// What is to be undone; `None` if nothing is.
const fn undo_of(wanted: Wanted) -> Option<Undo<'static>> {
    match wanted {
        Wanted::Keep => None,
        Wanted::GiveBack { everything, force } => {
            let whose = if everything { Whose::Everybody } else { Whose::Of(&Owner::Attach) };
            Some(Undo { whose, force })
        }
        Wanted::Forget => Some(Undo { whose: Whose::Everybody, force: false }),
    }
}

fn is_meant(undo: Undo<'_>, noted: &Noted) -> bool {
    match undo.whose {
        Whose::Everybody => true,
        Whose::Of(owner) => noted.owners.contains(owner),
    }
}

fn is_attached(subject: &Subject) -> Result<bool> {
    match &subject.slot {
        Some(slot) => Ok(slot.exists()? || slot.is_half_made()?),
        None => Ok(false),
    }
}

/// Does what is wanted with the settings of an interface, or says what would be done.
///
/// # Errors
///
/// They cannot be given back from here.
pub fn settings(
    subject: &Subject,
    wanted: Wanted,
    journals: &Journals,
    dry_run: bool,
) -> Result<Option<SettingsLeft>> {
    let Some(noted) = &subject.journal else { return Ok(None) };
    let Some(undo) = undo_of(wanted) else { return Ok(None) };
    match &subject.presence {
        Presence::Gone => forget(noted, journals, dry_run),
        _ if !is_meant(undo, noted) => Ok(None),
        Presence::There(place) => {
            let restored = place.netns.run(|| give_back(place, undo, journals, dry_run))??;
            Ok(restored.given_back.is_some().then_some(SettingsLeft::GivenBack(Box::new(restored))))
        }
        Presence::Unseen if wanted == Wanted::Forget => forget(noted, journals, dry_run),
        Presence::Unseen => Err(unseen(&subject.name)),
        Presence::Unread(error) => {
            Err(error.clone().while_doing(format_args!("look for {}", subject.name)))
        }
    }
}

fn give_back(
    place: &Place,
    what: Undo<'_>,
    journals: &Journals,
    dry_run: bool,
) -> Result<Restored> {
    let mut device = KernelDevice::new(Nic::by_index(place.ifindex)?)?;
    if device.id() != place.id {
        return Err(Error::not_found(format!("{} is gone", place.name)));
    }
    match dry_run {
        true => undo::preview(&mut device, journals, what),
        false => undo::undo(&mut device, journals, what),
    }
}

fn forget(noted: &Noted, journals: &Journals, dry_run: bool) -> Result<Option<SettingsLeft>> {
    if !dry_run {
        journals.forget(noted.key)?;
    }
    Ok(Some(SettingsLeft::Gone))
}

fn unseen(name: &str) -> Error {
    Error::failed(format!(
        "restore the settings of {name}: its network namespace is not visible from here"
    ))
    .with_fix(format!(
        "if it is gone: {}; else run {} inside it",
        CommandLine::nicctl("detach").option("--gone").everywhere().quoted(),
        CommandLine::nicctl("restore").on(name).everywhere().quoted()
    ))
}
