//! Attachments with the names that people know them by.

use super::target;
use crate::{
    counters::Snapshot,
    error::{Error, Result},
    netlink::link::Links,
    nic::namespace::{self, NetNs},
    offload::{self, Attachment, Slot},
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

/// An attachment whose pins cannot be read.
pub(super) struct Unreadable {
    /// Index of the interface in its network namespace.
    pub(super) ifindex: u32,
    /// The name of the interface, or `interface 7` if that is not known.
    pub(super) name: String,
    /// The name of its network namespace, unless that is the present one.
    pub(super) netns: Option<String>,
    /// Why.
    pub(super) error: Error,
}

impl From<Unreadable> for Error {
    fn from(Unreadable { name, error, .. }: Unreadable) -> Self {
        error.while_doing(name)
    }
}

/// All attachments in the network namespace of this name, where this process is by now, or without
/// a name in every one; and those that cannot be read.
pub(super) fn all(netns: Option<&str>) -> Result<(Vec<Located>, Vec<Unreadable>)> {
    let here = namespace::current_cookie()?;
    let (mut located, mut unreadable) = (Vec::new(), Vec::new());
    let slots = Slot::all()?.into_iter().chain(at_work()?);
    for slot in slots.filter(|slot| netns.is_none() || slot.netns == here) {
        let ifindex = slot.ifindex;
        let (name, other) = locate(&slot, here)?;
        let netns = other.or_else(|| netns.map(str::to_owned));
        match Attachment::of(slot) {
            Ok(Some(attachment)) => {
                let name = name.unwrap_or_else(|| attachment.recorded_name());
                located.push(Located { attachment, name, netns });
            }
            Ok(None) => {}
            Err(error) => {
                let name = name.unwrap_or_else(|| format!("interface {ifindex}"));
                unreadable.push(Unreadable { ifindex, name, netns, error });
            }
        }
    }
    Ok((located, unreadable))
}

/// Slots that are half made or half removed while programs of theirs run.
fn at_work() -> Result<impl Iterator<Item = Slot>> {
    let runs = move |slot: &Slot| {
        let attachment = Attachment::of(slot.clone()).ok().flatten();
        attachment.is_some_and(|attachment| !attachment.is_stale())
    };
    Ok(offload::half_made()?.into_iter().filter(runs))
}

/// The attachments of these interfaces in the present namespace, which `--netns` called `netns`.
pub(super) fn named(names: &[String], netns: Option<&str>) -> Result<Vec<Located>> {
    target::slots(names, namespace::current_cookie()?)?
        .into_iter()
        .map(|(name, slot)| match Attachment::of(slot) {
            Ok(Some(attachment)) => {
                Ok(Located { attachment, name, netns: netns.map(str::to_owned) })
            }
            Ok(None) => Err(target::not_attached(&name, netns)),
            Err(error) => Err(error.while_doing(name)),
        })
        .collect()
}

/// The name of an interface now, and of its network namespace unless that is `here`. The first is
/// `None` if it is gone.
fn locate(slot: &Slot, here: u64) -> Result<(Option<String>, Option<String>)> {
    let name = || match Links::open().and_then(|mut links| links.by_index(slot.ifindex)) {
        Ok(link) => Ok(Some(link.name)),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) => Err(error.while_doing(format_args!("read interface {}", slot.ifindex))),
    };
    if slot.netns == here {
        return Ok((name()?, None));
    }
    let Some(netns) = namespace::name_of_cookie(slot.netns)? else {
        return Ok((None, Some(format!("cookie {}", slot.netns))));
    };
    Ok((NetNs::named(&netns)?.run(name)??, Some(netns)))
}

/// The counters of these interfaces, now; without names, of all there are, and the error of the
/// first that cannot be read.
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
        ifindex: attachment.slot().ifindex,
        netns,
        mode: attachment.state().to_owned(),
        policy,
        attached_at: attachment.attached_at(),
        taken_at: std::time::Instant::now(),
        rx: readings.rx,
        ingress: readings.ingress,
        tx: readings.tx,
    })
}
