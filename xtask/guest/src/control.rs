//! Every setting of a card that can be changed is changed, read back, and restored.
//!
//! For each, a line is printed that becomes a cell of the table in docs/drivers.md.

use std::collections::{BTreeMap, BTreeSet};

use nic_user::{
    lab::Host,
    nic::{
        Nic,
        setting::{Access, Group, Key, Setting, Settings, Value},
        settings,
    },
};
use serde_json::Value as Json;

use crate::{Guest, Outcome, nicctl};

/// In front of what becomes a cell.
const RECORD: &str = "record: ";

pub fn every_setting_is_changed_and_restored(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let before = settings(host);
    let mut results: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, setting) in &before {
        let result = result(host, key, setting, &before);
        results.entry(without_numbers(key)).or_default().insert(result);
    }
    for (row, results) in results {
        let results: Vec<_> = results.into_iter().collect();
        println!("{RECORD}{row}\t{}", results.join("; "));
    }
    Outcome::Passed
}

/// Everything that the card has now.
pub fn settings(host: &Host) -> Settings {
    let read = || settings::read(&Nic::by_index(host.ifindex())?);
    host.run(read).unwrap().unwrap()
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
        nicctl::text(&["restore", host.interface(), "--netns", host.netns_name()]);
        assert_eq!(lasting(&settings(host)), lasting(before), "{key}={wish} was restored");
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
    let assignment = format!("{key}={wish}");
    let args = ["set", host.interface(), &assignment, "--netns", host.netns_name(), "--json"];
    let output = nicctl::run(&args);
    let error = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    let Ok(report) = serde_json::from_slice::<Json>(&output.stdout) else {
        panic!("{assignment} is not planned: {error}");
    };
    let changes = report["steps"].as_array().into_iter().flatten();
    let mut changes = changes.flat_map(|step| step["changes"].as_array().into_iter().flatten());
    let found = changes.find(|change| change["setting"] == key.to_string());
    let found = found.unwrap_or_else(|| panic!("{assignment} changes nothing: {report}"));
    if report["applied"] == false {
        assert_eq!(report["left"], Json::Array(Vec::new()), "{error}");
        return Err(errno(&error));
    }
    let got = if found["got"].is_null() { &found["to"] } else { &found["got"] };
    let now = settings(host).get(key).map(|setting| setting.value.to_string());
    assert_eq!(now, Some(shown(got)), "{assignment}");
    Ok(match found["outcome"].as_str() {
        Some("as-asked") => "set".to_owned(),
        Some("rounded") => format!("rounded: {} → {}", shown(&found["to"]), shown(got)),
        Some("clamped") => format!("cut: {} → {}", shown(&found["to"]), shown(got)),
        Some("no-effect") => "no effect".to_owned(),
        other => panic!("{assignment}: {other:?}"),
    })
}

/// A value of a report as a setting's is shown.
fn shown(value: &Json) -> String {
    match value {
        Json::Bool(on) => Value::from(*on).to_string(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The name of the error in `... (EINVAL: Invalid argument)`.
fn errno(error: &str) -> String {
    let mut words = error.split(|c: char| !c.is_ascii_alphanumeric());
    let name =
        words.find(|word| word.len() > 2 && word.starts_with('E') && *word == word.to_uppercase());
    name.unwrap_or_else(|| panic!("no error number: {error}")).to_owned()
}

/// The values, without what has another name after every reset of a card: interrupts and NAPI
/// instances go by their place among themselves.
pub fn lasting(settings: &Settings) -> BTreeMap<(Group, String, usize), &Value> {
    let mut numbered: Vec<_> = settings.iter().collect();
    numbered.sort_by_key(|(key, _)| (key.group, number(key)));
    let mut seen: BTreeMap<(Group, String), usize> = BTreeMap::new();
    numbered
        .into_iter()
        .map(|(key, setting)| {
            let name = if number(key).is_some() { without_numbers(key) } else { key.name.clone() };
            let place = seen.entry((key.group, name.clone())).or_default();
            *place += 1;
            ((key.group, name, *place), &setting.value)
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
