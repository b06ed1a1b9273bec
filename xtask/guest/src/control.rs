//! Every setting of a card that can be changed is changed, read back, and restored.
//!
//! For each, a line is printed that becomes a cell of the table in docs/drivers.md.

use std::collections::{BTreeMap, BTreeSet};

use nic_user::{
    control::{apply, plan},
    lab::Host,
    nic::setting::{Access, Group, Key, Setting, Settings, Value},
};

use crate::{
    Guest, Outcome,
    changes::{self, Fault},
};

/// In front of what becomes a cell.
const RECORD: &str = "record: ";

pub fn every_setting_is_changed_and_restored(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let before = changes::settings(host);
    let mut results: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (place, key) in places(&before) {
        let result = match number(key) {
            None => result(host, key, &before[key], &before),
            Some(_) => {
                let now = changes::settings(host);
                let key = places(&now)[&place];
                result(host, key, &now[key], &before)
            }
        };
        results.entry(without_numbers(key)).or_default().insert(result);
    }
    for (row, results) in results {
        let results: Vec<_> = results.into_iter().collect();
        println!("{RECORD}{row}\t{}", results.join("; "));
    }
    Outcome::Passed
}

/// What comes of changing a setting, in a few words.
fn result(host: &Host, key: &Key, setting: &Setting, before: &Settings) -> String {
    match &setting.access {
        Access::Fixed { .. } => return "fixed".to_owned(),
        Access::ReadOnly => return "read only".to_owned(),
        Access::ReadWrite => {}
    }
    let mut refused = Vec::new();
    for wish in wishes(key, setting) {
        let outcome = change(host, key, &wish);
        changes::restore(host);
        assert_eq!(lasting(&changes::settings(host)), lasting(before), "{key}={wish} was restored");
        match outcome {
            Ok(outcome) if refused.is_empty() => return outcome,
            Ok(outcome) => return format!("{outcome}, but {}", refused.join(", ")),
            Err(error) => refused.push(format!("{wish}: {error}")),
        }
    }
    match refused.is_empty() {
        true => "not tried".to_owned(),
        false => refused.join(", "),
    }
}

/// Other values than it has, the next for when one is refused.
fn wishes(key: &Key, setting: &Setting) -> Vec<String> {
    let text = |text: &str| vec![text.to_owned()];
    match &setting.value {
        Value::Switch(on) => text(if *on { "off" } else { "on" }),
        Value::Number(number) => numbers(key, *number, setting),
        Value::Text(value) => match (key.group, key.name.as_str()) {
            (Group::Rps | Group::Xps, _) => text("1"),
            (Group::Irq, _) => text(if value == "0" { "1" } else { "0" }),
            (Group::Ring, _) => text(if value == "on" { "off" } else { "on" }),
            (Group::Rss, "indirection") if value == "equal 1" => Vec::new(),
            (Group::Rss, "indirection") => text("equal 1"),
            (Group::Rss, "key") => vec![value.chars().rev().collect()],
            (Group::Rss, "function") => text(if value == "xor" { "toeplitz" } else { "xor" }),
            (Group::Rss, _) => text(if value == "sd" { "sdfn" } else { "sd" }),
            _ => Vec::new(),
        },
    }
}

fn numbers(key: &Key, number: u64, setting: &Setting) -> Vec<String> {
    // What a ring of descriptors is made of is seldom a hundred.
    const ODD: u64 = 100;
    let odd = (key.group == Group::Ring && number != ODD).then(|| ODD.to_string());
    let other = match setting.max {
        Some(max) if number == max => (max / 2).max(1).to_string(),
        Some(_) => "max".to_owned(),
        None => (number * 2 + 100).to_string(),
    };
    let least = (setting.max.is_none()).then(|| if number == 0 { "1" } else { "0" }.to_owned());
    let wishes = odd.into_iter().chain([other]).chain(least);
    wishes.filter(|wish| *wish != number.to_string()).collect()
}

/// Makes the change, or is told why not.
fn change(host: &Host, key: &Key, wish: &str) -> Result<String, String> {
    let set = changes::set(host, &[format!("{key}={wish}")], Fault::None);
    let Ok((report, _)) = set else { return Err("refused by plan".to_owned()) };
    if let Some(failure) = report.failure {
        assert_eq!(report.left, [], "{failure}");
        return Err(errno(&failure.to_string()));
    }
    let mut all = report.steps.iter().flat_map(|step| step.step.changes.iter().zip(&step.outcomes));
    let found = all.find(|(change, _)| change.key == *key);
    let (change, outcome) = found.unwrap_or_else(|| panic!("{key}={wish} changes nothing"));
    let asked = &change.to;
    let (got, result) = match outcome {
        apply::Outcome::AsAsked => (asked, "set".to_owned()),
        apply::Outcome::Rounded(got) => (got, format!("rounded: {asked} → {got}")),
        apply::Outcome::Clamped(got) => (got, format!("cut: {asked} → {got}")),
        apply::Outcome::NoEffect => (&change.from, "no effect".to_owned()),
        other => panic!("{key}={wish}: {other:?}"),
    };
    let now = changes::settings(host);
    assert!(plan::same(key, &now[key].value, got), "{key}={wish}: {:?}", now[key]);
    Ok(result)
}

/// The name of the error in `... (EINVAL: Invalid argument)`.
fn errno(error: &str) -> String {
    let is_name = |word: &&str| {
        word.len() > 2
            && word.starts_with('E')
            && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    };
    let name = error.split(|c: char| !c.is_ascii_alphanumeric()).find(is_name);
    name.unwrap_or_else(|| panic!("no error number: {error}")).to_owned()
}

/// The values, by what lasts of their names.
pub fn lasting(settings: &Settings) -> BTreeMap<Place, &Value> {
    places(settings).into_iter().map(|(place, key)| (place, &settings[key].value)).collect()
}

/// Group, name, and place among those of this name.
pub type Place = (Group, String, usize);

/// Interrupts and NAPI instances have other numbers whenever a card was reset: they go by their
/// place among themselves.
fn places(settings: &Settings) -> BTreeMap<Place, &Key> {
    let mut keys: Vec<_> = settings.keys().collect();
    keys.sort_by_key(|key| (key.group, number(key)));
    let mut seen: BTreeMap<(Group, String), usize> = BTreeMap::new();
    keys.into_iter()
        .map(|key| {
            let name = if number(key).is_some() { without_numbers(key) } else { key.name.clone() };
            let place = seen.entry((key.group, name.clone())).or_default();
            *place += 1;
            ((key.group, name, *place), key)
        })
        .collect()
}

/// The number that an interrupt or a NAPI instance goes by.
fn number(key: &Key) -> Option<u64> {
    match key.group {
        Group::Irq => key.name.parse().ok(),
        Group::Napi => key.name.split_once('/')?.0.parse().ok(),
        _ => None,
    }
}

/// Queues, interrupts and NAPI instances of a card are all alike.
fn without_numbers(key: &Key) -> String {
    let name = match key.group {
        Group::Rps | Group::Xps => {
            key.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned() + "N"
        }
        Group::Irq => "N".to_owned(),
        Group::Napi => match key.name.split_once('/') {
            Some((_, name)) => format!("N/{name}"),
            None => key.name.clone(),
        },
        _ => key.name.clone(),
    };
    format!("{}.{name}", key.group)
}
