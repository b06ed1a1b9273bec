//! Giving settings back: the same for an apply that failed and for `nicctl restore`.
//!
//! It does not go by what was done, but by what is: everything that is not what it was is
//! written, until all is, or nothing helps. So it does not matter where an apply, or giving back
//! itself, was interrupted.

use std::collections::BTreeMap;

use super::{
    device::Device,
    plan::{self, Change},
    rules,
};
use crate::{
    error::{Error, Kind},
    nic::setting::{Answer, Group, Key, Settings, Value},
};

/// How often everything that is left is tried. The first time in reverse, as it was done; the
/// second in the order of doing, for what depends on each other the other way round; then twice
/// one by one, so that what cannot be given back does not keep what can.
const ROUNDS: usize = 4;

/// From this round on, settings are written one by one.
const ONE_BY_ONE: usize = 2;

/// A setting that could not be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub key: Key,
    /// What it is; `None` if that cannot be read.
    pub is: Option<Value>,
    /// What it was.
    pub was: Value,
    /// What the kernel says, if it refuses.
    pub error: Option<String>,
}

impl Left {
    fn unread(key: &Key, was: &Value, why: &str) -> Self {
        Self { key: key.clone(), is: None, was: was.clone(), error: Some(why.to_owned()) }
    }
}

/// What these settings were, for one sentence.
pub fn in_one_line(left: &[Left]) -> String {
    let left: Vec<String> =
        left.iter().map(|left| format!("{} was {}", left.key, left.was)).collect();
    left.join(", ")
}

/// What came of giving back.
#[derive(Debug, Default)]
pub struct GivenBack {
    /// What was changed, and to what.
    pub changes: Vec<Change>,
    /// What is not as it was.
    pub left: Vec<Left>,
    /// What no longer exists: a queue, an interrupt.
    pub gone: Vec<Key>,
    /// The interface itself is gone, and its settings with it.
    pub vanished: Option<Error>,
    /// Whether the kernel refused for lack of a privilege.
    pub not_permitted: bool,
}

impl GivenBack {
    /// Whether everything is as it was, as far as it still exists.
    pub const fn is_complete(&self) -> bool {
        self.left.is_empty() && self.vanished.is_none()
    }
}

/// Makes everything what it was.
pub fn give_back(device: &mut dyn Device, originals: &BTreeMap<Key, Value>) -> GivenBack {
    let mut run = Run {
        device,
        originals,
        first: BTreeMap::new(),
        errors: BTreeMap::new(),
        not_permitted: false,
    };
    let mut last = Err(Error::failed("not read"));
    for round in 0..=ROUNDS {
        last = run.device.read();
        match &last {
            Ok(current) => {
                let differing = differing(originals, current);
                for change in &differing {
                    run.first.entry(change.key.clone()).or_insert_with(|| change.clone());
                }
                let mut wishes = run.wishes(current);
                // Once is enough, if it was not refused.
                wishes.retain(|wish| round == 0 || run.errors.contains_key(&wish.key));
                let is_known = unread(originals, current).next().is_none();
                if is_known && differing.is_empty() && wishes.is_empty() || round == ROUNDS {
                    break;
                }
                run.write([differing, wishes].concat(), round);
            }
            Err(error) if error.kind() == Kind::NotFound => break,
            // It may be readable again: that is tried like everything else.
            Err(_) => {}
        }
    }
    run.outcome(last)
}

/// The changes that make `current` what it was.
pub(super) fn differing(originals: &BTreeMap<Key, Value>, current: &Settings) -> Vec<Change> {
    originals
        .iter()
        .filter_map(|(key, was)| {
            let setting = current.get(key)?;
            (!plan::is_now(key, setting, was)).then(|| change(key, &setting.state(), was))
        })
        .collect()
}

fn change(key: &Key, from: &Value, to: &Value) -> Change {
    let (key, from, to) = (key.clone(), from.clone(), to.clone());
    Change { key, from, to, asked: None, kept: false, best_effort: false }
}

/// What [`give_back`] would do, as far as that can be told without writing.
pub(super) fn preview(originals: &BTreeMap<Key, Value>, current: &Settings) -> GivenBack {
    GivenBack {
        changes: differing(originals, current),
        left: unread(originals, current).collect(),
        gone: gone(originals, current),
        vanished: None,
        not_permitted: false,
    }
}

/// What cannot be read now: it may be what it was, or not.
fn unread(originals: &BTreeMap<Key, Value>, current: &Settings) -> impl Iterator<Item = Left> {
    originals.iter().filter_map(|(key, was)| match current.answer(key) {
        Answer::Unread(why) => Some(Left::unread(key, was, why)),
        Answer::Is(_) | Answer::Absent => None,
    })
}

fn gone(originals: &BTreeMap<Key, Value>, current: &Settings) -> Vec<Key> {
    let is_gone = |key: &&Key| current.answer(key) == Answer::Absent;
    originals.keys().filter(is_gone).cloned().collect()
}

struct Run<'a> {
    device: &'a mut dyn Device,
    originals: &'a BTreeMap<Key, Value>,
    /// What each setting was when it was first found to differ.
    first: BTreeMap<Key, Change>,
    /// What the kernel last said about each.
    errors: BTreeMap<Key, String>,
    /// Whether it was a lack of privilege, of any.
    not_permitted: bool,
}

impl Run<'_> {
    /// What is as it was, and is written all the same, because the kernel remembers more of it than
    /// it tells: a wish for a feature that it could not grant (`wanted_features`, net/core/dev.c),
    /// and would grant later; that somebody chose the table of flows, which the driver then keeps.
    fn wishes(&self, current: &Settings) -> Vec<Change> {
        let is_same = |key: &Key, was: &Value| {
            current.get(key).is_some_and(|setting| plan::is_now(key, setting, was))
        };
        self.originals
            .iter()
            .filter(|(key, was)| key.group == Group::Feature || plan::is_default(was))
            .filter(|(key, was)| is_same(key, was))
            .map(|(key, was)| change(key, was, was))
            .collect()
    }

    fn write(&mut self, differing: Vec<Change>, round: usize) {
        let reverse = round.is_multiple_of(2);
        let fewer_queues = plan::gets_fewer_queues(&differing);
        // The reverse of the order in which the opposite was done.
        let stage = |change: &Change| {
            let to = if reverse { &change.from } else { &change.to };
            rules::stage_of(&change.key, to, fewer_queues != reverse)
        };
        let stages = plan::by_stage(differing, stage);
        let mut writes: Vec<Vec<Change>> = stages.into_values().collect();
        if reverse {
            writes.reverse();
        }
        if round >= ONE_BY_ONE {
            writes = writes.into_iter().flatten().map(|change| vec![change]).collect();
        }
        for changes in writes {
            self.write_together(&changes);
        }
    }

    fn write_together(&mut self, changes: &[Change]) {
        let Some(group) = changes.first().map(|change| change.key.group) else { return };
        let values: Vec<(String, Value)> =
            changes.iter().map(|change| (change.key.name.clone(), change.to.clone())).collect();
        let error = self.device.write(group, &values).err();
        self.not_permitted |=
            error.as_ref().is_some_and(|error| matches!(error.errno, libc::EPERM | libc::EACCES));
        for change in changes {
            match &error {
                Some(error) => self.errors.insert(change.key.clone(), error.to_string()),
                None => self.errors.remove(&change.key),
            };
        }
    }

    fn outcome(mut self, last: crate::error::Result<Settings>) -> GivenBack {
        let mut given = GivenBack { not_permitted: self.not_permitted, ..GivenBack::default() };
        match last {
            Err(error) if error.kind() == Kind::NotFound => given.vanished = Some(error),
            Err(error) => {
                let why = error.to_string();
                let left = |(key, was)| Left::unread(key, was, &why);
                given.left = self.originals.iter().map(left).collect();
            }
            Ok(current) => {
                given.gone = gone(self.originals, &current);
                given.left = differing(self.originals, &current)
                    .into_iter()
                    .map(|change| Left {
                        error: self.errors.remove(&change.key),
                        key: change.key,
                        is: Some(change.from),
                        was: change.to,
                    })
                    .chain(unread(self.originals, &current))
                    .collect();
                let is_left = |key: &Key| given.left.iter().any(|left| left.key == *key);
                given.changes =
                    self.first.into_values().filter(|change| !is_left(&change.key)).collect();
            }
        }
        given
    }
}
