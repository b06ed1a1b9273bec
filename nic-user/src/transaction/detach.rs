//! Detaching, and giving every setting back.

use crate::{
    control::{
        Identity, Journals, KernelDevice, Restored, journal::Journal, kernel_device::boot_id,
        restore,
    },
    error::{Error, Result},
    netlink::link::Links,
    nic::{Nic, namespace},
    offload::{self, Attachment, Lock, Slot},
};

/// What is to become of settings that nicctl changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// They are given back.
    GiveBack,
    /// They are given back; those in a network namespace that is not to be seen, and where nothing
    /// is attached, count as gone with it.
    GiveBackSeen,
    /// They stay, and can still be given back.
    Keep,
}

/// What detaching from one interface came to.
#[derive(Debug)]
pub struct Detached {
    /// Whether anything was attached.
    pub was_attached: bool,
    /// What became of its settings; `None` if nicctl had changed none, or they were to be kept.
    pub settings: Option<SettingsLeft>,
}

/// What became of settings that nicctl had changed.
#[derive(Debug)]
pub enum SettingsLeft {
    /// They were given back, as far as that went.
    GivenBack(Restored),
    /// The interface is no more, and its settings with it. The journal was removed.
    Gone,
}

impl Detached {
    /// The error that this amounts to: some settings could not be given back.
    pub fn error(&self) -> Option<Error> {
        match &self.settings {
            Some(SettingsLeft::GivenBack(restored)) => restored.error(),
            _ => None,
        }
    }
}

/// Removes what was attached to the interface of `slot`, and then does what is wanted with every
/// setting that nicctl changed on it. It does not matter where an attach or a detach was
/// interrupted.
///
/// # Errors
///
/// Something could not be removed; or the settings can not be given back from here.
pub fn detach(lock: &Lock, slot: &Slot, wanted: Wanted, journals: &Journals) -> Result<Detached> {
    let traces = Traces::of(slot);
    let was_attached = offload::detach(lock, slot)?;
    let settings = settings(slot, traces, wanted, journals, false)?;
    Ok(Detached { was_attached, settings })
}

/// Says what [`detach`] would do, and does nothing.
///
/// # Errors
///
/// As [`detach`].
pub fn preview(slot: &Slot, wanted: Wanted, journals: &Journals) -> Result<Detached> {
    let was_attached = slot.exists()? || slot.is_half_made();
    let settings = settings(slot, Traces::of(slot), wanted, journals, true)?;
    Ok(Detached { was_attached, settings })
}

/// Whether an interface is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    There,
    /// It is not, for certain.
    Gone,
    /// Its network namespace is not to be seen.
    Unknown,
    /// It could not be looked at.
    Unread,
}

/// Whether the interface of a journal is still there.
pub fn presence(journal: &Journal) -> Presence {
    if boot_id().is_ok_and(|boot| boot != journal.identity.boot_id) {
        return Presence::Gone;
    }
    let look = || Links::open().and_then(|mut links| links.by_index(journal.identity.ifindex));
    let namespace = match namespace::of_cookie(journal.identity.netns_cookie) {
        Ok(Some(namespace)) => namespace,
        Ok(None) => return Presence::Unknown,
        Err(_) => return Presence::Unread,
    };
    match namespace.run(look) {
        Ok(Ok(_)) => Presence::There,
        Ok(Err(error)) if error.is_gone() => Presence::Gone,
        _ => Presence::Unread,
    }
}

/// Whether the interface of a journal is no more, for certain.
pub fn is_gone(journal: &Journal) -> bool {
    presence(journal) == Presence::Gone
}

/// Whether the interface of a journal counts as gone with [`Wanted::GiveBackSeen`].
pub fn is_gone_or_unseen(journal: &Journal) -> bool {
    match presence(journal) {
        Presence::Gone => true,
        Presence::Unknown => Traces::of(&slot_of(journal)) != Traces::Attached,
        Presence::There | Presence::Unread => false,
    }
}

/// The journals of interfaces that were called `name`, in the network namespace with this cookie,
/// and are no more.
///
/// # Errors
///
/// The folder of journals cannot be read.
pub fn former(journals: &Journals, name: &str, netns_cookie: u64) -> Result<Vec<Journal>> {
    let readable = journals.all()?.into_iter().filter_map(|(_, journal)| journal.ok());
    let is_former = |journal: &Journal| {
        let Identity { name: former, netns_cookie: netns, .. } = &journal.identity;
        former == name && *netns == netns_cookie && is_gone(journal)
    };
    Ok(readable.filter(is_former).collect())
}

/// Where what is attached to the interface of a journal has its pins.
pub fn slot_of(journal: &Journal) -> Slot {
    Slot::new(journal.identity.netns_cookie, journal.identity.ifindex)
}

/// What is attached at a slot tells whether its interface is still there, also where its network
/// namespace is not to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traces {
    /// Nothing.
    None,
    /// Attached to an interface, or to what cannot be read.
    Attached,
    /// Attached to nothing any more.
    Stale,
}

impl Traces {
    fn of(slot: &Slot) -> Self {
        match Attachment::of(slot.clone()) {
            Ok(None) => Self::None,
            Ok(Some(attachment)) if attachment.is_stale() => Self::Stale,
            Ok(Some(_)) | Err(_) => Self::Attached,
        }
    }
}

fn settings(
    slot: &Slot,
    traces: Traces,
    wanted: Wanted,
    journals: &Journals,
    dry_run: bool,
) -> Result<Option<SettingsLeft>> {
    if wanted == Wanted::Keep {
        return Ok(None);
    }
    let Some(journal) = journals.at(slot.netns, slot.ifindex)? else { return Ok(None) };
    let gone = match (presence(&journal), traces) {
        (Presence::Gone, _) | (Presence::Unknown, Traces::Stale) => true,
        (Presence::Unknown, Traces::None) => wanted == Wanted::GiveBackSeen,
        (Presence::Unknown, Traces::Attached) | (Presence::There | Presence::Unread, _) => false,
    };
    if gone {
        if !dry_run {
            journals.remove(&journal.identity)?;
        }
        return Ok(Some(SettingsLeft::Gone));
    }
    let Some(namespace) = namespace::of_cookie(slot.netns)? else {
        let name = &journal.identity.name;
        return Err(Error::failed(format!(
            "give back the settings of {name}: its network namespace is not to be seen"
        ))
        .with_fix(format!(
            "if it is no more: nicctl detach --gone; else run `nicctl restore {name}` inside of it"
        )));
    };
    let restored = namespace.run(|| {
        let mut device = KernelDevice::new(Nic::by_index(slot.ifindex)?)?;
        match dry_run {
            true => restore::preview(&mut device, journals),
            false => restore::restore(&mut device, journals),
        }
    })??;
    Ok(Some(SettingsLeft::GivenBack(restored)))
}
