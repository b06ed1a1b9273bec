//! Attachments with the names that people know them by.

use super::target;
use crate::{
    counters::Snapshot,
    error::{Kind, Result},
    netlink::link::Links,
    nic::namespace,
    offload::{Attachment, Slot},
};

/// An attachment, and where it is.
pub(super) struct Located {
    /// What is attached.
    pub(super) attachment: Attachment,
    /// The name of the interface now, or its last known one.
    pub(super) name: String,
    /// The name of its network namespace, unless that is the present one.
    pub(super) netns: Option<String>,
}

/// The attachments of these interfaces; without names, all in the present namespace, or in every
/// one.
pub(super) fn attachments(names: &[String], every_namespace: bool) -> Result<Vec<Located>> {
    let here = namespace::current_cookie()?;
    if names.is_empty() {
        let slots = Slot::all()?.into_iter();
        return slots
            .filter(|slot| every_namespace || slot.netns == here)
            .filter_map(|slot| Attachment::of(slot).transpose())
            .map(|attachment| Ok(locate(attachment?, here)))
            .collect();
    }
    target::slots(names, here)?
        .into_iter()
        .map(|(name, slot)| match Attachment::of(slot)? {
            Some(attachment) => Ok(Located { attachment, name, netns: None }),
            None => Err(target::not_attached(&name)),
        })
        .collect()
}

fn locate(attachment: Attachment, here: u64) -> Located {
    let slot = attachment.slot();
    let (name, netns) = if slot.netns == here {
        (Links::open().and_then(|mut links| links.by_index(slot.ifindex)).ok(), None)
    } else {
        let name = namespace::name_of_cookie(slot.netns);
        (None, Some(name.unwrap_or_else(|| format!("cookie {}", slot.netns))))
    };
    let name = name.map_or_else(|| attachment.recorded_name(), |link| link.name);
    Located { attachment, name, netns }
}

/// The counters of these interfaces, now. With no names, an interface that is detached in this
/// moment is left out.
pub(super) fn snapshots(names: &[String], every_namespace: bool) -> Result<Vec<Snapshot>> {
    let mut snapshots = Vec::new();
    for located in attachments(names, every_namespace)? {
        match snapshot(located) {
            Err(error) if names.is_empty() && error.kind() == Kind::NotFound => {}
            snapshot => snapshots.push(snapshot?),
        }
    }
    Ok(snapshots)
}

fn snapshot(located: Located) -> Result<Snapshot> {
    let Located { attachment, name, netns } = located;
    let readings = attachment.read()?;
    Ok(Snapshot {
        name,
        ifindex: attachment.slot().ifindex,
        netns,
        mode: attachment.mode().name().to_owned(),
        policy: attachment.policy()?,
        attached_at: attachment.attached_at(),
        taken_at: std::time::Instant::now(),
        rx: readings.rx,
        ingress: readings.ingress,
        tx: readings.tx,
    })
}
