//! What becomes of each wish, and of all together.

mod dependencies;
mod queues;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use self::verdict::{Refusal, Verdict};
use super::{
    Change, Context, Plan, Step, by_stage,
    compare::{is_now, original, same},
    gets_fewer_queues,
};
use crate::{
    command_line::CommandLine,
    control::{
        journal::Obtained,
        rules::{self, State},
        wanted::{Desired, Origin, Request, Wanted},
    },
    error::{Error, Kind, Result},
    nic::setting::{Access, Group, Key, Setting, Settings, Value},
};

pub(super) struct Planner<'a> {
    current: &'a Settings,
    context: &'a Context<'a>,
    /// What was wished and can be, also where it is so already.
    wanted: BTreeMap<&'a Key, Value>,
    changes: BTreeMap<Key, Change>,
    notes: Vec<String>,
    refusals: Vec<Refusal>,
}

impl<'a> Planner<'a> {
    pub const fn new(current: &'a Settings, context: &'a Context<'a>) -> Self {
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

    /// The command that shows its settings of a group.
    fn show(&self, group: Group) -> CommandLine {
        CommandLine::nicctl("show").on(self.name()).with("--group", group)
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub fn decide_all(&mut self, desired: &'a Desired) {
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
            Verdict::Skip(what) => self.note(format!("skipped: {what}")),
            Verdict::Refuse(refusal) if request.origin.is_best_effort() => {
                self.note(format!("skipped: {}", refusal.what));
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
            let note = format!("{key} is {got}: the driver made {got} of {before} before");
            return self.note(note);
        }
        let (key, from) = (key.clone(), setting.state());
        let change = Change { key, from, to: to.clone(), asked, kept: false, best_effort };
        self.changes.insert(change.key.clone(), change);
    }

    pub fn find_contradictions(&mut self, desired: &Desired) {
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
                    let fix = format!("omit one of them: in a profile, {} = \"keep\"", other.name);
                    self.refusals.push(Refusal::new(Kind::Usage, what).with_fix(fix));
                }
                if self.changes.contains_key(&key) {
                    self.note_against_current(&key, rule);
                }
            }
        }
    }

    /// The requests among `names` that are so.
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

    pub fn warn(&mut self) {
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

    pub fn finish(mut self, desired: &Desired) -> Result<Plan> {
        if !self.refusals.is_empty() {
            return Err(refused(self.name(), &self.refusals));
        }
        let left_out = self.left_out(desired);
        self.keep_what_is_overwritten();
        let identity = self.context.identity.clone();
        let touched = touched(&self.changes, self.current);
        let fewer_queues = gets_fewer_queues(self.changes.values());
        let stages = by_stage(self.changes.into_values(), |change| {
            rules::stage_of(&change.key, &change.to, fewer_queues)
        });
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
        Ok(Plan { identity, steps, notes: self.notes, touched, left_out })
    }

    fn left_out(&self, desired: &Desired) -> BTreeSet<String> {
        let names = |is_meant: &dyn Fn(&Key, &Request) -> bool| -> BTreeSet<String> {
            let meant = desired.iter().filter(|(key, request)| is_meant(key, request));
            meant.map(|(key, request)| request.name(key)).collect()
        };
        let asked = names(&|_, request| {
            request.origin == Origin::CommandLineForAll && request.wanted != Wanted::Keep
        });
        &asked - &names(&|key, _| self.wanted.contains_key(key))
    }

    /// Writes again what another change overwrites: what was wished and is so already, and what
    /// is known to be overwritten although nobody asked for it to change.
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
                    from: setting.state(),
                    to: setting.state(),
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
        .filter(|(key, setting)| is_touched(key, setting))
        .map(|(key, setting)| (key.clone(), original(key, setting)))
        .collect()
}

/// One error for all refusals; what is invalid on any device outweighs what this one refuses.
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
    let mut message = format!("plan for {name}: {} settings are refused", refusals.len());
    let mut seen = BTreeSet::new();
    for refusal in refusals.iter().filter(|refusal| seen.insert(&refusal.what)) {
        message.push_str(&format!("\n  {}", refusal.what));
        if let Some(fix) = &refusal.fix {
            message.push_str(&format!("\n    fix: {fix}"));
        }
    }
    Error::new(kind, message)
}
