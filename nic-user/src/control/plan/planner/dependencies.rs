//! Features that need others: looked for in all that is wanted, changed or not.

use std::collections::{BTreeMap, BTreeSet};

use super::{Planner, verdict::Refusal};
use crate::{
    control::{
        rules::{Being, Dependency, Fixed, fix},
        wanted::{Desired, Request},
    },
    error::Kind,
    nic::setting::{Access, Group, Key, Settings, Value},
};

impl<'a> Planner<'a> {
    /// Refuses features that the kernel would not leave on, and tells what goes off with others.
    pub fn check_features(&mut self, desired: &Desired) {
        while self.drop_what_may_be_left_out(desired) {}
        let fixed = self.fixed();
        let mut told = BTreeSet::new();
        for (&name, &rule) in &fixed.lost {
            let key = Key::new(Group::Feature, name);
            match desired.get(&key).filter(|_| self.wanted.contains_key(&key)) {
                Some(request) => {
                    let refusal = self.refusal(&key, request, &fixed, rule, desired);
                    let about = (request.name(&key), refusal.fix.clone());
                    if told.insert(about) {
                        self.refusals.push(refusal);
                    }
                }
                None => self.note_side_effect(&key, rule),
            }
        }
        self.refuse_what_is_requested_already(desired, &fixed);
    }

    fn note_side_effect(&mut self, key: &Key, rule: &Dependency) {
        let is_on = self.current.get(key).is_some_and(|s| s.value == Value::Switch(true));
        if is_on {
            self.note(format!("this also turns {key} off: it needs {}", needs(rule)));
        }
    }

    /// What the kernel makes of the features as they are wanted, and of those that nobody names.
    fn fixed(&self) -> Fixed<'a> {
        let current: &'a Settings = self.current;
        let of_group = current.iter().filter(|(key, _)| key.group == Group::Feature);
        let wanted: BTreeMap<&'a str, bool> = of_group
            .filter_map(|(key, setting)| {
                let requested = setting.requested.as_ref().unwrap_or(&setting.value);
                match self.wanted.get(key).unwrap_or(requested) {
                    Value::Switch(on) => Some((key.name.as_str(), *on)),
                    _ => None,
                }
            })
            .collect();
        fix(self.context.identity.driver.as_deref(), wanted)
    }

    /// Drops one of the features that the kernel would not leave on, that only were wanted where
    /// they can be had: of a built-in profile, or one of several that one name stands for. Whether
    /// there was any.
    fn drop_what_may_be_left_out(&mut self, desired: &Desired) -> bool {
        let fixed = self.fixed();
        let is_granted = |key: &Key| {
            self.wanted.get(key) == Some(&Value::Switch(true))
                && !fixed.lost.contains_key(key.name.as_str())
        };
        let found = fixed.lost.iter().find_map(|(&name, &rule)| {
            let key = Key::new(Group::Feature, name);
            self.wanted.get(&key)?;
            let request = desired.get(&key)?;
            let alias_is_granted = request.alias.is_some()
                && self.asked_against(&fixed, rule, desired).is_none()
                && desired.iter().any(|(k, r)| r.alias == request.alias && is_granted(k));
            (request.origin.is_best_effort() || alias_is_granted).then_some((key, request, rule))
        });
        let Some((key, request, rule)) = found else { return false };
        let note = format!("skipped: {key} needs {}", needs(rule));
        let tell = request.origin.is_best_effort();
        self.wanted.remove(&key);
        self.changes.remove(&key);
        if tell {
            self.note(note);
        }
        true
    }

    /// What was asked to be what the rule does not go with.
    fn asked_against<'d>(
        &self,
        fixed: &Fixed<'_>,
        rule: &'static Dependency,
        desired: &'d Desired,
    ) -> Option<(Key, &'d Request)> {
        let roots = fixed.ways_out(rule).into_iter().flatten();
        roots.map(|(name, _)| Key::new(Group::Feature, name)).find_map(|key| {
            self.wanted.get(&key)?;
            desired.get(&key).map(|request| (key, request))
        })
    }

    fn refusal(
        &self,
        key: &Key,
        request: &Request,
        fixed: &Fixed<'_>,
        rule: &'static Dependency,
        desired: &Desired,
    ) -> Refusal {
        let needs = format!("{} needs {}", key.name, needs(rule));
        let asked = format!("{} on ({})", request.name(key), request.origin);
        if let Some((other, against)) = self.asked_against(fixed, rule, desired) {
            let what = format!(
                "{asked} contradicts {} {} ({}): {needs}",
                against.name(&other),
                against.wanted,
                against.origin
            );
            let name = against.name(&other);
            let name = name.split_once('.').map_or(name.as_str(), |(_, name)| name);
            return Refusal::new(Kind::Usage, what)
                .with_fix(format_args!("omit one of them: in a profile, {name} = \"keep\""));
        }
        let already = match self.current.get(key).map(|s| s.requested.is_some()) {
            Some(true) => "is already requested, and ",
            _ => "",
        };
        let ways = fixed.ways_out(rule);
        let can_be = |way: &&Vec<Being>| way.iter().all(|being| self.can_be(being));
        let refusal = |what| Refusal::new(Kind::Failed, what);
        match ways.iter().find(can_be) {
            Some(way) => {
                let being = |(name, on): &Being| format!("{name} is {}", Value::from(!on));
                let is: Vec<String> = way.iter().map(being).collect();
                let add = |(name, on): &Being| format!("feature.{name}={}", Value::from(*on));
                let add: Vec<String> = way.iter().map(add).collect();
                refusal(format!(
                    "{asked} {already}cannot take effect: {needs}, and {}",
                    is.join(" and ")
                ))
                .with_fix(format_args!("add {}", add.join(" ")))
            }
            None => refusal(format!(
                "{asked} {already}cannot take effect: {needs}, which the driver fixes"
            ))
            .with_fix("omit it"),
        }
    }

    fn can_be(&self, (name, _): &Being) -> bool {
        let setting = self.current.get(&Key::new(Group::Feature, *name));
        setting.is_some_and(|setting| setting.access == Access::ReadWrite)
    }

    /// What is requested already, and stays off by what is not known here, does not come on by
    /// being requested again.
    fn refuse_what_is_requested_already(&mut self, desired: &Desired, fixed: &Fixed<'_>) {
        let is_futile = |key: &Key| {
            let setting = self.current.get(key);
            let wanted = self.wanted.get(key);
            !fixed.lost.contains_key(key.name.as_str())
                && setting.is_some_and(|s| s.requested.is_some() && s.requested.as_ref() == wanted)
        };
        if !self.changes.keys().all(is_futile) {
            return;
        }
        let futile: Vec<Key> = self.changes.keys().cloned().collect();
        for key in futile {
            let Some(request) = desired.get(&key) else { continue };
            let what = format!(
                "{} {} is already requested, but the device keeps it {}",
                request.name(&key),
                request.wanted,
                self.current.get(&key).map_or(Value::from(false), |s| s.value.clone())
            );
            self.changes.remove(&key);
            if request.origin.is_best_effort() {
                self.note(format!("skipped: {what}"));
            } else {
                let fix = format!(
                    "it depends on the driver: {} shows what else is off",
                    self.show(Group::Feature).quoted()
                );
                self.refusals.push(Refusal::new(Kind::Failed, what).with_fix(fix));
            }
        }
    }
}

/// `tx-checksum-ip-generic on, or tx-checksum-ipv4 on`.
fn needs(rule: &Dependency) -> String {
    let way = |way: &&[Being]| {
        let being = |(name, on): &Being| format!("{name} {}", Value::from(*on));
        way.iter().map(being).collect::<Vec<_>>().join(" and ")
    };
    rule.needs.iter().map(way).collect::<Vec<_>>().join(", or ")
}
