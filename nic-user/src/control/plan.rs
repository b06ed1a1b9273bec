//! From requests to steps: desired − current, in the order of what depends on what, within the
//! device's limits.

mod compare;
mod planner;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::compare::{is_default, is_now, same};
use self::planner::Planner;
use super::{
    device::Identity,
    journal::Obtained,
    names,
    rules::{self, Interruption, State},
    wanted::{Desired, Wanted},
};
use crate::{
    error::{Error, Result},
    netlink::ethtool::channels::ChannelCounts,
    nic::{
        Nic, cpus,
        setting::{Group, Key, Settings, Value},
        surroundings::Surroundings,
    },
};

/// The XDP program that is on the interface, or is about to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Xdp {
    /// None.
    #[default]
    None,
    /// One that reads single buffers.
    SingleBuffer,
    /// One that reads several buffers (`xdp.frags`).
    Frags,
}

/// What a plan depends on besides settings.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The interface.
    pub identity: &'a Identity,
    /// The XDP program that the settings have to do with.
    pub xdp: Xdp,
    /// The most that settings may be with that program.
    pub limits: &'a [(Key, u64)],
    /// What limits its settings besides its driver.
    pub around: &'a Surroundings,
    /// What the device made of what it was asked before.
    pub obtained: &'a BTreeMap<Key, Obtained>,
}

/// One setting that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// What it was.
    pub from: Value,
    /// What it is to be.
    pub to: Value,
    /// How that was said, if not by the value itself: `max`, `50%`.
    pub asked: Option<String>,
    /// Whether it is written only to keep it, because another change overwrites it.
    pub kept: bool,
    /// Whether it may be left out where the device does not have it.
    pub best_effort: bool,
}

/// What is written with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The group.
    pub group: Group,
    /// The settings, all of this group.
    pub changes: Vec<Change>,
    /// What it interrupts, as far as that is known.
    pub interrupts: Option<Interruption>,
}

/// What is to be done to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The interface.
    pub identity: Identity,
    /// What is written, in this order.
    pub steps: Vec<Step>,
    /// What to know about it: what is left out and why, what has no effect, what to be careful of.
    pub notes: Vec<String>,
    /// What everything is now that the steps change, or may change besides.
    pub touched: BTreeMap<Key, Value>,
    /// What was asked of all interfaces by name, and this one cannot have.
    pub left_out: BTreeSet<String>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A plan that leaves everything as it is.
    pub const fn nothing(identity: Identity) -> Self {
        Self {
            identity,
            steps: Vec::new(),
            notes: Vec::new(),
            touched: BTreeMap::new(),
            left_out: BTreeSet::new(),
        }
    }

    /// The interface as it will be, as far as XDP has to do with it.
    pub fn applied_to(&self, nic: &Nic) -> Nic {
        let mut nic = nic.clone();
        for Change { key, to, .. } in self.changes() {
            match (key.group, key.name.as_str(), to) {
                (Group::Link, "mtu", Value::Number(mtu)) => nic.link.mtu = saturated(*mtu),
                (Group::Ring, names::TCP_DATA_SPLIT, _) => nic.splits_headers = State::On.is(to),
                (Group::Feature, name, Value::Switch(on)) => {
                    if let Some(feature) = nic.features.get_mut(name) {
                        (feature.active, feature.wanted) = (*on, *on);
                    }
                }
                (Group::Channels, name, Value::Number(count)) => {
                    if let Some(channels) = &mut nic.channels {
                        set_channels(&mut channels.current, name, saturated(*count));
                    }
                }
                _ => {}
            }
        }
        nic
    }

    /// All changes, in their order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().flat_map(|step| &step.changes)
    }
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn set_channels(counts: &mut ChannelCounts, name: &str, count: u32) {
    match name {
        "rx" => counts.rx = count,
        "tx" => counts.tx = count,
        "other" => counts.other = count,
        "combined" => counts.combined = count,
        _ => {}
    }
}

/// Plans how to get from `current` to `desired`.
///
/// # Errors
///
/// Everything that is wanted and cannot be, with the way out: unknown or absent settings, values
/// of the wrong kind or out of limits, what is fixed, contradictions. Nothing was changed.
pub fn plan(desired: &Desired, current: &Settings, context: &Context<'_>) -> Result<Plan> {
    let desired = &for_each_queue(desired, current);
    check_read(desired, current, &context.identity.name)?;
    let mut planner = Planner::new(current, context);
    planner.decide_all(desired);
    planner.check_queues();
    planner.check_napis();
    planner.check_mtu();
    planner.check_features(desired);
    planner.find_contradictions(desired);
    planner.warn();
    planner.finish(desired)
}

/// Puts every queue or interrupt in the place of `rx-*`, unless it is asked for by its own name.
fn for_each_queue(desired: &Desired, current: &Settings) -> Desired {
    let mut each = Desired::new();
    for (key, request) in desired {
        let has_cpus = cpus::notation(key.group).is_some();
        let prefix = key.name.strip_suffix('*').filter(|_| has_cpus);
        let is_meant = |known: &&Key| {
            known.group == key.group && prefix.is_some_and(|prefix| known.name.starts_with(prefix))
        };
        let mut meant = current.keys().filter(is_meant).peekable();
        if meant.peek().is_none() {
            each.insert(key.clone(), request.clone());
        }
        for key in meant.filter(|key| !desired.contains_key(key)) {
            each.insert(key.clone(), request.clone());
        }
    }
    each
}

/// Refuses to plan without knowing what is wanted, or may be changed besides: what cannot be read
/// cannot be given back.
fn check_read(desired: &Desired, current: &Settings, name: &str) -> Result<()> {
    let disturbed = |key: &Key| {
        let rows = rules::DISTURBANCES.iter();
        rows.filter(|row| row.of.has(key)).map(|row| row.disturbs.group).collect::<Vec<_>>()
    };
    let wanted = desired.iter().filter(|(_, request)| request.wanted != Wanted::Keep);
    for group in wanted.flat_map(|(key, _)| [vec![key.group], disturbed(key)].concat()) {
        if let Some(why) = current.unread(group) {
            return Err(Error::failed(format!("read {group} of {name}: {why}"))
                .with_fix("nothing was changed; try again"));
        }
    }
    Ok(())
}

/// Whether there are fewer receive queues after these changes.
pub(super) fn gets_fewer_queues<'a>(changes: impl IntoIterator<Item = &'a Change>) -> bool {
    let number = |value: &Value| match value {
        Value::Number(number) => i128::from(*number),
        _ => 0,
    };
    let difference: i128 = changes
        .into_iter()
        .filter(|change| change.key.group == Group::Channels)
        .filter(|change| matches!(change.key.name.as_str(), "rx" | "combined"))
        .map(|change| number(&change.to) - number(&change.from))
        .sum();
    difference < 0
}

pub(super) fn by_stage(
    changes: impl IntoIterator<Item = Change>,
    stage: impl Fn(&Change) -> usize,
) -> BTreeMap<usize, Vec<Change>> {
    let mut stages: BTreeMap<usize, Vec<Change>> = BTreeMap::new();
    for change in changes {
        stages.entry(stage(&change)).or_default().push(change);
    }
    stages
}

/// Takes what XDP needs together with what a user wants; both wanting the opposite is refused.
///
/// # Errors
///
/// A wish of the user that XDP does not run with.
pub fn with_needs_of_xdp(mut desired: Desired, needs: Desired) -> Result<Desired> {
    for (key, need) in needs {
        match desired.get(&key) {
            // What XDP needs of channels is a limit, and the plan knows it.
            Some(wish) if key.group == Group::Channels && wish.wanted != Wanted::Keep => {}
            Some(wish) if wish.wanted != need.wanted && wish.wanted != Wanted::Keep => {
                if !wish.origin.is_best_effort() {
                    return Err(Error::failed(format!(
                        "{key} {} ({}), but XDP needs it {}",
                        wish.wanted, wish.origin, need.wanted
                    ))
                    .with_fix("omit it"));
                }
                desired.insert(key, need);
            }
            _ => {
                desired.insert(key, need);
            }
        }
    }
    Ok(desired)
}
