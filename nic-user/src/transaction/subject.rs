//! Interfaces that nicctl did something to, wherever they are by now.

use std::collections::BTreeMap;

use crate::{
    control::{Journals, journal::Noted, kernel_device::boot_id},
    error::{Error, Result},
    nic::{
        Nic,
        census::{Census, Place, Presence},
        identity::InterfaceKey,
        namespace,
    },
    offload::{self, Attachment, Slot},
};

/// An interface, and what nicctl has of it.
#[derive(Debug)]
pub struct Subject {
    /// Its name, or the last that is known.
    pub name: String,
    /// The name that it had when nicctl did something to it.
    pub recorded_name: String,
    /// Where it is.
    pub presence: Presence,
    /// Where what is attached to it has its pins, if anything can be.
    pub slot: Option<Slot>,
    /// What was changed on it, if anything was.
    pub journal: Option<Noted>,
    /// Number of the network namespace that it is in, or was.
    pub netns_cookie: u64,
}

impl Subject {
    /// An interface of the present network namespace.
    ///
    /// # Errors
    ///
    /// It cannot be told from others, or its journal cannot be read.
    pub fn of(nic: &Nic, journals: &Journals) -> Result<Self> {
        let keys = InterfaceKey::both(&nic.link)?;
        let netns_cookie = namespace::current_cookie()?;
        let place = Place::here(nic)?;
        let mut journal = None;
        for key in keys {
            journal = journal.or(journals.at(key)?);
        }
        Ok(Self {
            name: nic.name().to_owned(),
            recorded_name: nic.name().to_owned(),
            presence: Presence::There(place),
            slot: Some(Slot::of(&nic.link)?),
            journal,
            netns_cookie,
        })
    }

    /// Its index, or the last that is known.
    pub fn ifindex(&self) -> u32 {
        let place = self.presence.place().map(|place| place.ifindex);
        let slot = self.slot.as_ref().and_then(|slot| slot.ifindex);
        place.or(slot).unwrap_or_default()
    }

    /// Whether it is, or was, in the network namespace with this cookie.
    fn is_in(&self, netns_cookie: u64) -> bool {
        match &self.presence {
            Presence::There(place) => place.netns_name.is_none(),
            _ => self.netns_cookie == netns_cookie,
        }
    }

    /// Whether it no longer exists, or, without a program of nicctl's, in no network namespace that
    /// can be seen.
    fn is_gone(&self) -> bool {
        match self.presence {
            Presence::Gone => true,
            Presence::Unseen => self.slot.is_none(),
            Presence::There(_) | Presence::Unread(_) => false,
        }
    }
}

/// Which interfaces are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the present network namespace.
    Here,
    /// Those of the machine.
    Machine,
    /// Those that no longer exist.
    Gone,
}

/// What was found of interfaces that nicctl did something to.
#[derive(Debug)]
pub struct Found {
    /// The interfaces.
    pub subjects: Vec<Subject>,
    /// Why journals cannot be read, of interfaces that may be meant, too.
    pub unread: Vec<Error>,
}

/// All interfaces that nicctl did something to.
///
/// # Errors
///
/// The folders of pins or of journals cannot be read, or it cannot be told which network namespaces
/// there are. What of attachments is damaged is told by [`Attachment::of`].
pub fn all(scope: Scope, journals: &Journals) -> Result<Found> {
    let pins = pins()?;
    // Each is read once: what could not be read then must not be taken for absent later.
    let (mut noted, mut unread) = (Vec::new(), Vec::new());
    for (_, journal) in journals.all()? {
        match journal {
            Ok(journal) => noted.push(journal),
            Err(error) => unread.push(error),
        }
    }
    Ok(Found { subjects: within(scope, subjects(pins, noted)?)?, unread })
}

/// All interfaces that programs of nicctl are attached to, or were.
///
/// # Errors
///
/// As [`all`].
pub fn attached(scope: Scope) -> Result<Vec<Subject>> {
    within(scope, subjects(pins()?, Vec::new())?)
}

fn within(scope: Scope, subjects: Vec<Subject>) -> Result<Vec<Subject>> {
    let here = namespace::current_cookie()?;
    let is_meant = |subject: &Subject| match scope {
        Scope::Here => subject.is_in(here),
        Scope::Machine => true,
        Scope::Gone => subject.is_gone(),
    };
    Ok(subjects.into_iter().filter(is_meant).collect())
}

/// Interfaces that were called `name` when nicctl did something to them, in the present network
/// namespace, and are no more.
///
/// # Errors
///
/// As [`all`].
pub fn former(name: &str, journals: &Journals) -> Result<Vec<Subject>> {
    let here = namespace::current_cookie()?;
    let pins = pins()?.into_iter().filter(|pins| pins.name == name && pins.netns == here);
    let noted = noted(journals)?.filter(|noted| noted.name == name && noted.netns_cookie == here);
    let subjects = subjects(pins.collect(), noted.collect())?;
    Ok(subjects.into_iter().filter(Subject::is_gone).collect())
}

/// Interfaces of whose settings nicctl changed some, and otherwise as [`former`].
///
/// # Errors
///
/// The folder of journals cannot be read, or it cannot be told which network namespaces there are.
pub fn former_settings(name: &str, journals: &Journals) -> Result<Vec<Subject>> {
    let here = namespace::current_cookie()?;
    let noted = noted(journals)?.filter(|noted| noted.name == name && noted.netns_cookie == here);
    let subjects = subjects(Vec::new(), noted.collect())?;
    Ok(subjects.into_iter().filter(Subject::is_gone).collect())
}

/// The journals that can be read.
fn noted(journals: &Journals) -> Result<impl Iterator<Item = Noted>> {
    Ok(journals.all()?.into_iter().filter_map(|(_, noted)| noted.ok()))
}

/// A slot, and what is known of it.
struct Pins {
    slot: Slot,
    name: String,
    netns: u64,
    /// Whether its links are attached to nothing any more; `None` if it has none.
    links_are_gone: Option<bool>,
}

/// All slots, also half-made ones. What cannot be read may be attached.
fn pins() -> Result<Vec<Pins>> {
    let mut pins: BTreeMap<InterfaceKey, Pins> = BTreeMap::new();
    for slot in offload::half_made()?.into_iter().chain(Slot::all()?) {
        let attachment = Attachment::of(slot.clone()).ok().flatten();
        let record = attachment.as_ref().map(Attachment::record);
        let one = Pins {
            name: attachment
                .as_ref()
                .map_or_else(|| format!("interface {}", slot.key), Attachment::recorded_name),
            netns: record.map_or(0, |record| record.netns),
            links_are_gone: match &attachment {
                Some(attachment) => attachment.links_are_gone(),
                None => Some(false),
            },
            slot: slot.unstaged().at(attachment.as_ref().map(Attachment::ifindex)),
        };
        pins.insert(slot.key, one);
    }
    Ok(pins.into_values().collect())
}

/// Puts together what belongs to one interface.
fn subjects(pins: Vec<Pins>, noted: Vec<Noted>) -> Result<Vec<Subject>> {
    let boot = boot_id()?;
    let keys = pins.iter().map(|pins| pins.slot.key).chain(noted.iter().map(|noted| noted.key));
    let census = Census::of(keys)?;
    let mut subjects: Vec<Subject> = pins.into_iter().map(|it| of_pins(it, &census)).collect();
    for noted in noted {
        let presence = match noted.boot_id == boot {
            true => census.presence(noted.key, noted.netns_cookie),
            false => Presence::Gone,
        };
        let is_same = |subject: &&mut Subject| is_same(subject, noted.key, &presence);
        match subjects.iter_mut().find(is_same) {
            Some(subject) => subject.journal = Some(noted),
            None => subjects.push(of_journal(noted, presence)),
        }
    }
    Ok(subjects)
}

fn of_pins(pins: Pins, census: &Census) -> Subject {
    let presence = match census.presence(pins.slot.key, pins.netns) {
        // The kernel takes links away from an interface that goes, and from no other.
        Presence::Unseen | Presence::Unread(_) if pins.links_are_gone == Some(true) => {
            Presence::Gone
        }
        Presence::Gone if pins.links_are_gone == Some(false) => Presence::Unseen,
        presence => presence,
    };
    let place = presence.place();
    Subject {
        name: place.map_or_else(|| pins.name.clone(), |place| place.name.clone()),
        recorded_name: pins.name,
        slot: Some(pins.slot.at(place.map(|place| place.ifindex))),
        presence,
        journal: None,
        netns_cookie: pins.netns,
    }
}

fn of_journal(noted: Noted, presence: Presence) -> Subject {
    Subject {
        name: presence.place().map_or_else(|| noted.name.clone(), |place| place.name.clone()),
        recorded_name: noted.name.clone(),
        netns_cookie: noted.netns_cookie,
        presence,
        slot: None,
        journal: Some(noted),
    }
}

/// Whether the journal called `key`, of an interface that is where `presence` says, belongs to
/// `subject`.
fn is_same(subject: &Subject, key: InterfaceKey, presence: &Presence) -> bool {
    match (subject.presence.place(), presence.place()) {
        (Some(one), Some(other)) => one.id == other.id,
        _ => subject.slot.as_ref().is_some_and(|slot| slot.key == key),
    }
}
