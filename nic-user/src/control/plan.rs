//! From wishes to steps: desired − current, in the order of what depends on what, within the
//! device's limits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{
    device::Identity,
    journal::Obtained,
    names,
    rules::{self, Interruption, State},
    wanted::{self, Desired, Origin, Request, Wanted},
};
use crate::{
    error::{Error, Kind, Result},
    netlink::ethtool::channels::ChannelCounts,
    nic::{
        Nic,
        setting::{Access, Group, Key, Setting, Settings, Value},
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
}

impl Plan {
    /// Whether there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// A plan that leaves everything as it is.
    pub const fn nothing(identity: Identity) -> Self {
        Self { identity, steps: Vec::new(), notes: Vec::new(), touched: BTreeMap::new() }
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
/// Everything that is wanted and can not be, with the way out: unknown or absent settings, values
/// of the wrong kind or out of limits, what is fixed, contradictions. Nothing was changed.
pub fn plan(desired: &Desired, current: &Settings, context: &Context<'_>) -> Result<Plan> {
    let mut planner = Planner::new(current, context);
    planner.decide_all(desired);
    planner.find_contradictions(desired);
    planner.warn();
    planner.finish()
}

/// Whether both values are the same for this setting; sets of CPUs have several spellings.
pub fn same(key: &Key, one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Switch(_), Value::Text(_)) | (Value::Text(_), Value::Switch(_)) => {
            one.to_string() == other.to_string()
        }
        (Value::Text(one), Value::Text(other)) => match key.group {
            Group::Rps | Group::Xps => mask(one) == mask(other),
            Group::Irq if cpu_list(one).is_some() => cpu_list(one) == cpu_list(other),
            _ => one == other,
        },
        _ => one == other,
    }
}

/// The table of flows that the driver makes by itself, and makes anew with other queues; once a user
/// has set another, only this lets the driver do so again (`netif_is_rxfh_configured`,
/// net/ethtool/ioctl.c).
const DEFAULT: &str = "default";

/// Whether a setting is `value` now.
pub fn is_now(key: &Key, setting: &Setting, value: &Value) -> bool {
    same(key, &setting.value, value)
        || is_default(value) && setting.default.as_ref() == Some(&setting.value)
}

/// Whether it is the driver's choice.
pub fn is_default(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text == DEFAULT)
}

/// What brings back what a setting is now.
fn original(key: &Key, setting: &Setting) -> Value {
    let is_default = setting.default.as_ref() == Some(&setting.value);
    if can_be_default(key) && is_default { DEFAULT.into() } else { setting.value.clone() }
}

/// Whether it can be left to the driver, which is more than to be what the driver would choose.
fn can_be_default(key: &Key) -> bool {
    key.group == Group::Rss
}

/// A CPU mask without commas and leading zeros: groups of 32 bits after the first may be short.
fn mask(text: &str) -> String {
    let digits: String =
        text.trim().to_lowercase().split(',').map(|group| format!("{group:0>8}")).collect();
    digits.trim_start_matches('0').to_owned()
}

/// The ranges of a CPU list (`0-3,8`), joined where they touch.
fn cpu_list(text: &str) -> Option<Vec<(u32, u32)>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    let mut ranges = text.split(',').map(range).collect::<Option<Vec<(u32, u32)>>>()?;
    ranges.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    Some(joined)
}

/// Why a wish can not come true.
struct Refusal {
    kind: Kind,
    what: String,
    fix: Option<String>,
}

impl Refusal {
    fn new(kind: Kind, what: impl fmt::Display) -> Self {
        Self { kind, what: what.to_string(), fix: None }
    }

    fn with_fix(mut self, fix: impl fmt::Display) -> Self {
        self.fix = Some(fix.to_string());
        self
    }
}

/// What becomes of one wish.
enum Verdict {
    /// It becomes this; `asked` is how that was said.
    Value { to: Value, asked: Option<String> },
    /// It stays as it is, wished or not.
    Keep,
    /// It is left out, and that is told.
    Skip(String),
    /// It can not be.
    Refuse(Refusal),
}

struct Planner<'a> {
    current: &'a Settings,
    context: &'a Context<'a>,
    /// What was wished and can be, also where it is so already.
    wanted: BTreeMap<&'a Key, Value>,
    changes: BTreeMap<Key, Change>,
    notes: Vec<String>,
    refusals: Vec<Refusal>,
}

impl<'a> Planner<'a> {
    const fn new(current: &'a Settings, context: &'a Context<'a>) -> Self {
        Self {
            current,
            context,
            wanted: BTreeMap::new(),
            changes: BTreeMap::new(),
            notes: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn name(&self) -> &'a str {
        &self.context.identity.name
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn decide_all(&mut self, desired: &'a Desired) {
        // Of the features that one of ethtool's names stands for, those that can be changed are.
        let mut found = BTreeSet::new();
        let mut refused: BTreeMap<&str, (&Request, Verdict)> = BTreeMap::new();
        for (key, request) in desired {
            let verdict = self.decide(key, request);
            match (request.alias, &verdict) {
                (Some(alias), Verdict::Refuse(_)) => {
                    refused.insert(alias, (request, verdict));
                }
                (Some(alias), Verdict::Skip(_)) => {
                    refused.entry(alias).or_insert((request, verdict));
                }
                (alias, _) => {
                    found.extend(alias);
                    self.follow(key, request, verdict);
                }
            }
        }
        for (alias, (request, verdict)) in refused {
            if !found.contains(alias) {
                self.leave_out(request, verdict);
            }
        }
    }

    fn follow(&mut self, key: &'a Key, request: &Request, verdict: Verdict) {
        match verdict {
            Verdict::Keep => {}
            Verdict::Value { to, asked } => {
                self.change(key, &to, asked, request.origin.is_best_effort());
                self.wanted.insert(key, to);
            }
            Verdict::Skip(_) | Verdict::Refuse(_) => self.leave_out(request, verdict),
        }
    }

    fn leave_out(&mut self, request: &Request, verdict: Verdict) {
        match verdict {
            Verdict::Skip(what) => self.note(format!("left out: {what}")),
            Verdict::Refuse(refusal) if request.origin.is_best_effort() => {
                self.note(format!("left out: {}", refusal.what));
            }
            Verdict::Refuse(mut refusal) => {
                if let Origin::Profile { .. } = request.origin {
                    refusal.what = format!("{} ({})", refusal.what, request.origin);
                }
                self.refusals.push(refusal);
            }
            Verdict::Keep | Verdict::Value { .. } => {}
        }
    }

    fn change(&mut self, key: &Key, to: &Value, asked: Option<String>, best_effort: bool) {
        let Some(setting) = self.current.get(key) else { return };
        if is_now(key, setting, to) {
            return;
        }
        if let Some(Obtained { asked: before, got }) = self.context.obtained.get(key)
            && same(key, before, to)
            && same(key, got, &setting.value)
        {
            let note = format!("{key} is {got}: that is what the driver made of {before} before");
            return self.note(note);
        }
        let (key, from) = (key.clone(), setting.value.clone());
        let change = Change { key, from, to: to.clone(), asked, kept: false, best_effort };
        self.changes.insert(change.key.clone(), change);
    }

    fn decide(&self, key: &Key, request: &Request) -> Verdict {
        if request.wanted == Wanted::Keep {
            return Verdict::Keep;
        }
        let Some(setting) = self.current.get(key) else {
            return self.absent(key, request);
        };
        match self.value(key, setting, request) {
            Ok((to, asked)) => match self.obstacle(key, setting, &to) {
                Some(refusal) => Verdict::Refuse(refusal),
                None => Verdict::Value { to, asked },
            },
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    /// What becomes of a wish for a setting that the device does not have.
    fn absent(&self, key: &Key, request: &Request) -> Verdict {
        let names = self.current.keys().filter(|known| known.group == key.group);
        let names: Vec<&str> = names.map(|known| known.name.as_str()).collect();
        if key.group == Group::Feature && !names::is_possible(key) {
            let what = format!("{} has no feature called {:?}", self.name(), key.name);
            let refusal = Refusal::new(Kind::Usage, what);
            return Verdict::Refuse(match names::suggestion(key.group, &key.name, names) {
                Some(nearest) => refusal.with_fix(format_args!("did you mean {nearest}?")),
                None => refusal.with_fix("`ethtool -k` lists the features"),
            });
        }
        if matches!(request.origin, Origin::Profile { .. }) {
            return Verdict::Skip(format!("{} has no {key}", self.name()));
        }
        let refusal = Refusal::new(Kind::Failed, format_args!("{} has no {key}", self.name()));
        let nearest = names::suggestion(key.group, &key.name, names.iter().copied())
            .filter(|nearest| names.contains(nearest));
        Verdict::Refuse(match nearest {
            Some(nearest) => {
                refusal.with_fix(format_args!("did you mean {}.{nearest}?", key.group))
            }
            None if names.is_empty() => refusal.with_fix(format_args!(
                "leave it out: the driver has no settings of the group {}",
                key.group
            )),
            None => refusal.with_fix(format_args!("it has: {}", names.join(", "))),
        })
    }

    /// The value that a wish means on this device.
    fn value(
        &self,
        key: &Key,
        setting: &Setting,
        request: &Request,
    ) -> Result<(Value, Option<String>), Refusal> {
        let unknown = |limit| {
            Refusal::new(Kind::Failed, format_args!("the {limit} of {key} is not known"))
                .with_fix("give a number")
        };
        let asked = request.wanted.to_string();
        match &request.wanted {
            Wanted::Keep => Ok((setting.value.clone(), None)),
            Wanted::Max => {
                let max = self.max(key, setting).ok_or_else(|| unknown("maximum"))?;
                Ok((Value::Number(max), Some(asked)))
            }
            Wanted::Min => {
                Ok((Value::Number(setting.min.ok_or_else(|| unknown("minimum"))?), Some(asked)))
            }
            Wanted::Percent(percent) => {
                let max = self.max(key, setting).ok_or_else(|| unknown("maximum"))?;
                let part = u128::from(max) * u128::from(*percent) / 100;
                let part = u64::try_from(part).unwrap_or(max);
                Ok((Value::Number(part.max(setting.min.unwrap_or(0))), Some(asked)))
            }
            Wanted::Value(value) => {
                let value = fit(key, value, setting)?;
                self.within_limits(key, setting, value, request)
            }
        }
    }

    /// The most that the device takes, with the XDP program that is there or will be.
    fn max(&self, key: &Key, setting: &Setting) -> Option<u64> {
        let limit = self.limit_of_xdp(key).unwrap_or(u64::MAX);
        setting.max.map(|max| max.min(limit))
    }

    fn limit_of_xdp(&self, key: &Key) -> Option<u64> {
        self.context.limits.iter().find(|(of, _)| of == key).map(|(_, limit)| *limit)
    }

    fn within_limits(
        &self,
        key: &Key,
        setting: &Setting,
        value: Value,
        request: &Request,
    ) -> Result<(Value, Option<String>), Refusal> {
        let Value::Number(number) = value else { return Ok((value, None)) };
        let name = self.name();
        match (setting.min, setting.max) {
            (_, Some(max)) if number > max && request.origin.is_best_effort() => {
                Ok((Value::Number(max), Some(format!("{number}, of which {name} takes {max}"))))
            }
            (_, Some(max)) if number > max => Err(Refusal::new(
                Kind::Usage,
                format_args!("{key} {number} is more than {name} takes: {max} at most"),
            )
            .with_fix(format_args!("{key}={max}, or {key}=max"))),
            (Some(min), _) if number < min => Err(Refusal::new(
                Kind::Usage,
                format_args!("{key} {number} is less than {name} takes: {min} at least"),
            )
            .with_fix(format_args!("{key}={min}, or {key}=min"))),
            _ => self.within_limit_of_xdp(key, number, request),
        }
    }

    fn within_limit_of_xdp(
        &self,
        key: &Key,
        number: u64,
        request: &Request,
    ) -> Result<(Value, Option<String>), Refusal> {
        match self.limit_of_xdp(key).filter(|limit| number > *limit) {
            None => Ok((Value::Number(number), None)),
            Some(limit) if request.origin.is_best_effort() => {
                let asked = format!("{number}, of which native XDP takes {limit}");
                Ok((Value::Number(limit), Some(asked)))
            }
            Some(limit) => Err(Refusal::new(
                Kind::Failed,
                format_args!("{key} {number} is more than native XDP takes: {limit} at most"),
            )
            .with_fix(format_args!("{key}={limit}, or attach with --mode generic"))),
        }
    }

    /// What keeps a setting from becoming `to`, apart from the value itself.
    fn obstacle(&self, key: &Key, setting: &Setting, to: &Value) -> Option<Refusal> {
        if is_now(key, setting, to) {
            return None;
        }
        match &setting.access {
            Access::ReadWrite => self.xdp_obstacle(key, to),
            Access::ReadOnly => Some(
                Refusal::new(Kind::Failed, format_args!("{key} can be read, but not set"))
                    .with_fix("leave it out"),
            ),
            Access::Fixed { by } => {
                let what = format!("{key} is fixed by the {by}: it is {}", setting.value);
                let refusal = Refusal::new(Kind::Failed, what);
                Some(match by.as_str() {
                    "host" => refusal.with_fix("leave it out, or change it on the host's side"),
                    "module parameter" => {
                        refusal.with_fix("leave it out, or load the driver with another one")
                    }
                    _ => refusal.with_fix("leave it out"),
                })
            }
        }
    }

    fn xdp_obstacle(&self, key: &Key, to: &Value) -> Option<Refusal> {
        if self.context.xdp == Xdp::None || !State::On.is(to) {
            return None;
        }
        if rules::is_off_with_xdp(key) {
            let what = format!("XDP does not run with {key} on");
            return Some(
                Refusal::new(Kind::Failed, what).with_fix("leave it off, or detach first"),
            );
        }
        // net/ethtool/rings.c ethnl_set_rings, net/core/dev.c dev_xdp_install.
        let splits = key.group == Group::Ring && key.name == names::TCP_DATA_SPLIT;
        (splits && self.context.xdp == Xdp::SingleBuffer).then(|| {
            let what = format!("{key} can not be on with an XDP program that reads single buffers");
            Refusal::new(Kind::Failed, what)
                .with_fix("leave it out, or detach and attach with it, if the driver takes frags")
        })
    }

    fn find_contradictions(&mut self, desired: &Desired) {
        let origin = |key: &Key| desired.get(key).map(|request| request.origin.to_string());
        for rule in rules::CONTRADICTIONS {
            let these: Vec<(Key, Value)> = self.wishes(rule.these, rule.are);
            for (key, value) in these {
                for (other, being) in self.wishes(rule.with, rule.being) {
                    // What is so already may be so.
                    if !self.changes.contains_key(&key) && !self.changes.contains_key(&other) {
                        continue;
                    }
                    let where_ = |key| origin(key).unwrap_or_default();
                    let what = format!(
                        "{key} {value} ({}) contradicts {other} {being} ({})",
                        where_(&key),
                        where_(&other)
                    );
                    let fix =
                        format!("leave one of them out: in a profile, {} = \"keep\"", other.name);
                    self.refusals.push(Refusal::new(Kind::Usage, what).with_fix(fix));
                }
                if self.changes.contains_key(&key) {
                    self.note_against_current(&key, rule);
                }
            }
        }
    }

    /// The wishes among `names` that are so.
    fn wishes(&self, names: rules::Names, state: State) -> Vec<(Key, Value)> {
        self.wanted
            .iter()
            .filter(|(key, value)| names.has(key) && state.is(value))
            .map(|(key, value)| ((*key).clone(), value.clone()))
            .collect()
    }

    fn note_against_current(&mut self, key: &Key, rule: &rules::Contradiction) {
        let against: Vec<String> = self
            .current
            .iter()
            .filter(|(other, setting)| {
                rule.with.has(other)
                    && rule.being.is(&setting.value)
                    && !self.wanted.contains_key(other)
            })
            .map(|(other, setting)| format!("{other} is {}", setting.value))
            .collect();
        for against in against {
            self.note(format!("{key} has no effect while {against}"));
        }
    }

    fn warn(&mut self) {
        let warnings: Vec<String> = self
            .changes
            .values()
            .flat_map(|change| {
                let fits = |row: &&rules::Warning| row.of.has(&change.key) && row.to.is(&change.to);
                rules::WARNINGS
                    .iter()
                    .filter(fits)
                    .map(|row| format!("{} {}: {}", change.key, change.to, row.what))
            })
            .collect();
        for warning in warnings {
            self.note(warning);
        }
    }

    fn finish(mut self) -> Result<Plan> {
        if !self.refusals.is_empty() {
            return Err(refused(self.name(), &self.refusals));
        }
        self.keep_what_is_overwritten();
        let identity = self.context.identity.clone();
        let touched = touched(&self.changes, self.current);
        let fewer_queues = gets_fewer_queues(self.changes.values());
        let stages = by_stage(self.changes.into_values(), |key| rules::stage_of(key, fewer_queues));
        let driver = identity.driver.as_deref();
        let steps = stages
            .into_values()
            .filter_map(|changes| {
                let group = changes.first()?.key.group;
                let interrupts =
                    changes.iter().filter_map(|c| rules::interruption(driver, &c.key)).max();
                Some(Step { group, changes, interrupts })
            })
            .collect();
        Ok(Plan { identity, steps, notes: self.notes, touched })
    }

    /// Writes again what another change overwrites: what was wished and is so already, and what
    /// is known to be overwritten although nobody wishes it changed.
    fn keep_what_is_overwritten(&mut self) {
        let kept: Vec<Change> = self
            .current
            .iter()
            .filter(|(key, setting)| {
                setting.access == Access::ReadWrite && !self.changes.contains_key(key)
            })
            .filter_map(|(key, setting)| {
                let by = self.changes.values().find(|change| self.overwrites(change, key))?;
                Some(Change {
                    key: key.clone(),
                    from: setting.value.clone(),
                    to: setting.value.clone(),
                    asked: Some(format!("kept: {} may change it", by.key)),
                    kept: true,
                    best_effort: by.best_effort,
                })
            })
            .collect();
        self.changes.extend(kept.into_iter().map(|change| (change.key.clone(), change)));
    }

    /// Whether `change` may change `key`, which is to stay as it is.
    fn overwrites(&self, change: &Change, key: &Key) -> bool {
        let disturbs = |row: &rules::Disturbance| row.of.has(&change.key) && row.disturbs.has(key);
        rules::overwritten_by(&change.key, &change.to).as_ref() == Some(key)
            || self.wanted.contains_key(key) && rules::DISTURBANCES.iter().any(disturbs)
    }
}

/// The value as the device has it: what is text there may be written as a number or a switch.
fn fit(key: &Key, value: &Value, setting: &Setting) -> Result<Value, Refusal> {
    match (value, &setting.value) {
        (Value::Text(text), Value::Text(_)) if text == DEFAULT && !can_be_default(key) => {
            Ok(setting.default.clone().unwrap_or_else(|| value.clone()))
        }
        // `threaded` is on, off or busy-poll.
        (Value::Text(_), Value::Switch(_)) if key.group == Group::Napi => Ok(value.clone()),
        (Value::Number(_), Value::Number(_))
        | (Value::Switch(_), Value::Switch(_))
        | (Value::Text(_), Value::Text(_)) => Ok(value.clone()),
        (_, Value::Text(_)) => Ok(Value::Text(value.to_string())),
        (_, Value::Number(_)) => {
            Err(Refusal::new(Kind::Usage, format_args!("{key} takes a number, not {value}")))
        }
        (_, Value::Switch(_)) => {
            Err(Refusal::new(Kind::Usage, format_args!("{key} takes on or off, not {value}")))
        }
    }
}

/// What everything is now that these changes change, or may change besides.
fn touched(changes: &BTreeMap<Key, Change>, current: &Settings) -> BTreeMap<Key, Value> {
    let disturbed: Vec<rules::Names> = rules::DISTURBANCES
        .iter()
        .filter(|row| changes.keys().any(|key| row.of.has(key)))
        .map(|row| row.disturbs)
        .collect();
    let is_touched = |key: &Key, setting: &Setting| {
        changes.contains_key(key)
            || setting.access == Access::ReadWrite && disturbed.iter().any(|names| names.has(key))
    };
    current
        .iter()
        // What is only requested follows from others. To wish it again changes nothing, and to
        // give it back would take the wish away.
        .filter(|(key, setting)| is_touched(key, setting) && !setting.is_only_requested())
        .map(|(key, setting)| (key.clone(), original(key, setting)))
        .collect()
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
    stage: impl Fn(&Key) -> usize,
) -> BTreeMap<usize, Vec<Change>> {
    let mut stages: BTreeMap<usize, Vec<Change>> = BTreeMap::new();
    for change in changes {
        stages.entry(stage(&change.key)).or_default().push(change);
    }
    stages
}

/// One error for all refusals; what makes no sense on any device outweighs what this one refuses.
fn refused(name: &str, refusals: &[Refusal]) -> Error {
    let usage = refusals.iter().any(|refusal| refusal.kind == Kind::Usage);
    let kind = if usage { Kind::Usage } else { Kind::Failed };
    if let [refusal] = refusals {
        let error = Error::new(kind, format!("plan for {name}: {}", refusal.what));
        return match &refusal.fix {
            Some(fix) => error.with_fix(fix),
            None => error,
        };
    }
    let mut message = format!("plan for {name}: {} wishes are refused", refusals.len());
    let mut seen = BTreeSet::new();
    for refusal in refusals.iter().filter(|refusal| seen.insert(&refusal.what)) {
        message.push_str(&format!("\n  {}", refusal.what));
        if let Some(fix) = &refusal.fix {
            message.push_str(&format!("\n    fix: {fix}"));
        }
    }
    Error::new(kind, message)
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
                    .with_fix("leave it out"));
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

/// Reads `GROUP.NAME=VALUE` arguments over the wishes of a profile.
///
/// # Errors
///
/// As [`wanted::from_arguments`].
pub fn with_arguments(mut desired: Desired, arguments: &[String]) -> Result<Desired> {
    desired.extend(wanted::from_arguments(arguments)?);
    Ok(desired)
}

#[cfg(test)]
mod tests;
