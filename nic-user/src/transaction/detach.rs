//! Detaching, and giving every setting back.

use crate::{
    control::{
        Journals, KernelDevice, Restored, journal::Journal, kernel_device::boot_id, restore,
    },
    error::{Error, Result},
    netlink::link::Links,
    nic::{Nic, namespace},
    offload::{self, Attachment, Lock, Slot},
};

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

/// Removes what was attached to the interface of `slot`, and then, unless they are to be kept,
/// gives every setting back that nicctl changed on it. It does not matter where an attach or a
/// detach was interrupted.
///
/// # Errors
///
/// Something could not be removed; or the settings can not be given back from here.
pub fn detach(
    lock: &Lock,
    slot: &Slot,
    keep_settings: bool,
    journals: &Journals,
) -> Result<Detached> {
    let stale = is_stale(slot);
    let was_attached = offload::detach(lock, slot)?;
    let settings = if keep_settings { None } else { settings(slot, stale, journals, false)? };
    Ok(Detached { was_attached, settings })
}

/// Says what [`detach`] would do, and does nothing.
///
/// # Errors
///
/// As [`detach`].
pub fn preview(slot: &Slot, keep_settings: bool, journals: &Journals) -> Result<Detached> {
    let was_attached = slot.exists()?;
    let settings =
        if keep_settings { None } else { settings(slot, is_stale(slot), journals, true)? };
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
}

/// Whether the interface of a journal is still there.
pub fn presence(journal: &Journal) -> Presence {
    if boot_id().is_ok_and(|boot| boot != journal.identity.boot_id) {
        return Presence::Gone;
    }
    let look = || Links::open().and_then(|mut links| links.by_index(journal.identity.ifindex));
    let namespace = namespace::of_cookie(journal.identity.netns_cookie);
    match namespace.and_then(|namespace| namespace.run(look).ok()) {
        Some(Ok(_)) => Presence::There,
        Some(Err(error)) if error.errno == libc::ENODEV => Presence::Gone,
        _ => Presence::Unknown,
    }
}

/// Whether the interface of a journal is no more, for certain.
pub fn is_gone(journal: &Journal) -> bool {
    presence(journal) == Presence::Gone
}

/// Whether what was attached is attached to nothing any more.
fn is_stale(slot: &Slot) -> bool {
    let attachment = Attachment::of(slot.clone()).ok().flatten();
    attachment.is_some_and(|attachment| attachment.is_stale())
}

fn settings(
    slot: &Slot,
    stale: bool,
    journals: &Journals,
    dry_run: bool,
) -> Result<Option<SettingsLeft>> {
    let Some(journal) = journals.at(slot.netns, slot.ifindex)? else { return Ok(None) };
    // Where the namespace is not to be seen, links that lost their interface tell that it is gone.
    let gone = match presence(&journal) {
        Presence::Gone => true,
        Presence::Unknown => stale,
        Presence::There => false,
    };
    if gone {
        if !dry_run {
            journals.remove(&journal.identity)?;
        }
        return Ok(Some(SettingsLeft::Gone));
    }
    let Some(namespace) = namespace::of_cookie(slot.netns) else {
        let name = &journal.identity.name;
        return Err(Error::failed(format!(
            "give back the settings of {name}: its network namespace is not to be seen"
        ))
        .with_fix(format!("run `nicctl restore {name}` inside of it")));
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
