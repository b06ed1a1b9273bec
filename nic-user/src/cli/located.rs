//! Attachments with the names people know them by.

use super::target;
use crate::{
    counters::Snapshot,
    error::{Error, Result},
    nic::{census::Presence, namespace},
    offload::{Attachment, Slot},
    transaction::{Scope, Subject, subject},
};

/// An attachment and its interface.
pub(super) struct Located {
    /// What is attached.
    pub(super) attachment: Attachment,
    /// The current name of the interface, or its last known one.
    pub(super) name: String,
    /// The name of its network namespace, unless it is the current one.
    pub(super) netns: Option<String>,
}

/// An attachment whose pins cannot be read.
pub(super) struct Unreadable {
    /// Index of the interface in its network namespace.
    pub(super) ifindex: u32,
    /// The name of the interface, or `interface 7` if that is not known.
    pub(super) name: String,
    /// The name of its network namespace, unless it is the current one.
    pub(super) netns: Option<String>,
    /// Why.
    pub(super) error: Error,
}

impl From<Unreadable> for Error {
    fn from(Unreadable { name, error, .. }: Unreadable) -> Self {
        error.while_doing(name)
    }
}

/// All attachments in the named network namespace, which this process has entered, or without a
/// name in every namespace; and those that cannot be read.
pub(super) fn all(netns: Option<&str>) -> Result<(Vec<Located>, Vec<Unreadable>)> {
    of(subject::attached(scope(netns))?, netns)
}

/// Where to look: in the named network namespace, which this process has entered, or everywhere.
pub(super) const fn scope(netns: Option<&str>) -> Scope {
    if netns.is_some() { Scope::Here } else { Scope::Machine }
}

/// What is attached to these interfaces.
pub(super) fn of(
    subjects: Vec<Subject>,
    netns: Option<&str>,
) -> Result<(Vec<Located>, Vec<Unreadable>)> {
    let here = namespace::current_cookie()?;
    let (mut located, mut unreadable) = (Vec::new(), Vec::new());
    for subject in subjects {
        let netns = netns_of(&subject, here, netns);
        let ifindex = subject.ifindex();
        let Subject { name, slot: Some(slot), .. } = subject else { continue };
        match read(slot) {
            Ok(Some(attachment)) => located.push(Located { attachment, name, netns }),
            Ok(None) => {}
            Err(error) => unreadable.push(Unreadable { ifindex, name, netns, error }),
        }
    }
    Ok((located, unreadable))
}

/// The attachment pinned there, or one half made or half removed whose programs still run.
fn read(slot: Slot) -> Result<Option<Attachment>> {
    if slot.exists()? {
        return Attachment::of(slot);
    }
    let at_work = Attachment::of(slot.staging()).ok().flatten();
    Ok(at_work.filter(|attachment| !attachment.is_stale()))
}

/// The name of an interface's network namespace, unless it is the current one: the one with this
/// cookie, which `--netns` called `named`.
pub(super) fn netns_of(subject: &Subject, here: u64, named: Option<&str>) -> Option<String> {
    let other = match &subject.presence {
        Presence::There(place) => place.netns_name.clone(),
        _ if subject.netns_cookie == here => None,
        _ => Some(format!("cookie {}", subject.netns_cookie)),
    };
    other.or_else(|| named.map(str::to_owned))
}

/// The attachments of these interfaces in the current namespace, which `--netns` called `netns`.
pub(super) fn named(names: &[String], netns: Option<&str>) -> Result<Vec<Located>> {
    target::slots(names)?
        .into_iter()
        .map(|(name, slot)| match Attachment::of(slot) {
            Ok(Some(attachment)) => {
                Ok(Located { attachment, name, netns: netns.map(str::to_owned) })
            }
            Ok(None) => Err(target::not_attached(&name)),
            Err(error) => Err(error.while_doing(name)),
        })
        .collect()
}

/// The current counters of these interfaces; without names, of all attachments, with the error of
/// the first that cannot be read.
pub(super) fn snapshots(
    names: &[String],
    netns: Option<&str>,
) -> Result<(Vec<Snapshot>, Option<Error>)> {
    if !names.is_empty() {
        let snapshots = named(names, netns)?.into_iter().map(snapshot).collect::<Result<_>>()?;
        return Ok((snapshots, None));
    }
    let (located, unreadable) = all(netns)?;
    let mut first = unreadable.into_iter().next().map(Error::from);
    let mut snapshots = Vec::new();
    for located in located {
        let slot = located.attachment.slot().clone();
        match snapshot(located) {
            Ok(snapshot) => snapshots.push(snapshot),
            // It is being detached.
            Err(_) if !slot.exists()? => {}
            Err(error) => first = first.or(Some(error)),
        }
    }
    match first {
        Some(error) if snapshots.is_empty() => Err(error),
        first => Ok((snapshots, first)),
    }
}

fn snapshot(located: Located) -> Result<Snapshot> {
    let Located { attachment, name, netns } = located;
    let readings = attachment.read()?;
    let policy = attachment.policy().map_err(|error| error.while_doing(&name))?;
    Ok(Snapshot {
        name,
        ifindex: attachment.ifindex(),
        netns,
        mode: attachment.state().to_owned(),
        not_at_xdp: attachment.not_at_xdp(),
        tx_queue_guess: attachment.tx_queue_guess(),
        policy,
        attached_at: attachment.attached_at(),
        taken_at: std::time::Instant::now(),
        rx: readings.rx,
        ingress: readings.ingress,
        tx: readings.tx,
    })
}
