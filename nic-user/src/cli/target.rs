//! From names on the command line to interfaces.

use std::collections::BTreeSet;

use crate::{
    command_line::CommandLine,
    control::Journals,
    error::{Error, Kind, Result},
    nic::{self, InterfaceName, Nic, namespace::NetNs, resolve},
    offload::Slot,
    report::terminal::say,
    transaction::{self, Lock, Scope, Subject, TakenBack, subject},
};

/// Moves this process into the network namespace of that name.
pub(super) fn enter(netns: Option<&str>) -> Result<()> {
    netns.map_or(Ok(()), |name| NetNs::named(name)?.enter())
}

/// The interfaces that `names` stand for, each once: a bond, VLAN or team stands for the interfaces
/// below it. With a sentence about each such step.
pub(super) fn interfaces(names: &[String]) -> Result<(Vec<Nic>, Vec<String>)> {
    let (mut nics, mut notes) = (Vec::new(), Vec::new());
    for name in names {
        let nic = Nic::by_name(&InterfaceName::new(name)?)?;
        let resolved = resolve::resolve(&nic.link, &nic::links()?)?;
        notes.extend(resolved.steps.iter().map(ToString::to_string));
        if resolved.targets == [nic.ifindex()] {
            nics.push(nic);
            continue;
        }
        for ifindex in resolved.targets {
            nics.push(Nic::by_index(ifindex)?);
        }
    }
    Ok((each_once(nics, Nic::ifindex), notes))
}

/// Each of them once, whatever names it was given: the first of those with the same key.
pub(super) fn each_once<T, K: Ord>(
    all: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut known = BTreeSet::new();
    all.into_iter().filter(|one| known.insert(key(one))).collect()
}

/// The slots that `names` stand for: of interfaces in the current namespace, or of ones that had
/// the name when nicctl attached to them.
pub(super) fn slots(names: &[String]) -> Result<Vec<(String, Slot)>> {
    let mut slots = Vec::new();
    for name in names {
        match interfaces(std::slice::from_ref(name)) {
            Ok((nics, _)) => {
                for nic in nics {
                    slots.push((nic.name().to_owned(), Slot::of(&nic.link)?));
                }
            }
            Err(error) if error.kind() == Kind::NotFound => {
                let recorded = recorded(name)?;
                if recorded.is_empty() {
                    return Err(error);
                }
                let found = recorded.into_iter().filter_map(|subject| subject.slot);
                slots.extend(found.map(|slot| (name.clone(), slot)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(each_once(slots, |(_, slot)| slot.key))
}

/// Interfaces that are or were in the current namespace and had this name when nicctl attached to
/// them.
pub(super) fn recorded(name: &str) -> Result<Vec<Subject>> {
    let attached = subject::attached(Scope::Here)?.into_iter();
    Ok(attached.filter(|subject| subject.recorded_name == name).collect())
}

/// The error for an interface that nicctl is not attached to.
pub(super) fn not_attached(name: &str) -> Error {
    Error::not_found(format!("nicctl is not attached to {name}"))
        .with_fix(CommandLine::nicctl("attach").on(name))
}

/// Waits for the lock, then reverts what was not confirmed in time.
pub(super) fn lock(journals: &Journals) -> Result<Lock> {
    let lock = transaction::lock(journals, &say_waiting)?;
    for (name, taken_back) in transaction::take_back_overdue(&lock, journals)? {
        match taken_back {
            Ok(TakenBack::Gone) => {}
            Ok(TakenBack::Done(foreign)) => {
                say(format_args!("{name}: not confirmed in time: reverted"));
                for key in foreign {
                    say(format_args!(
                        "{name}: {key} has been changed by something else since, and is left alone"
                    ));
                }
            }
            Err(error) => say(format_args!(
                "{name}: not confirmed in time, and not reverted: {}",
                error.in_one_line()
            )),
        }
    }
    Ok(lock)
}

/// Tells that another nicctl holds the lock.
fn say_waiting(holder: Option<u32>) {
    match holder {
        Some(pid) => say(format_args!("waiting for another nicctl (process {pid})")),
        None => say("waiting for another nicctl"),
    }
}
