//! Every setting of a card that can be changed is changed, read back, and restored.

use nic_user::lab::Host;
use serde_json::{Map, Value};

use crate::{Guest, Outcome, nicctl};

pub fn every_setting_is_changed_and_restored(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let before = settings(host);
    for (key, setting) in &before {
        let Some(wish) = wish(key, setting) else { continue };
        println!("{} {}", guest.driver, change(host, key, setting, &wish));
        nicctl::text(&["restore", host.interface(), "--netns", host.netns_name()]);
        assert_same(&settings(host), &before, key);
    }
    Outcome::Passed
}

/// What lasts, by `GROUP.NAME`: interrupts and NAPI instances have other numbers when a card was
/// reset.
fn settings(host: &Host) -> Map<String, Value> {
    let document = nicctl::json("show", host.interface(), host, &[]);
    let groups = document["settings"].as_object().expect("groups");
    let mut settings = Map::new();
    for (group, named) in groups.iter().filter(|(group, _)| *group != "irq") {
        let named = named.as_object().expect("settings").iter();
        for (name, setting) in named.filter(|(name, _)| !name.contains('/')) {
            settings.insert(format!("{group}.{name}"), setting.clone());
        }
    }
    settings
}

fn assert_same(now: &Map<String, Value>, before: &Map<String, Value>, key: &str) {
    for (name, setting) in before {
        assert_eq!(now.get(name), Some(setting), "{name}, after {key} was restored");
    }
    assert_eq!(now.len(), before.len(), "after {key} was restored");
}

/// Another value than it has.
fn wish(key: &str, setting: &Value) -> Option<String> {
    if setting["fixed_by"].is_string() || setting["read_only"] == true {
        return None;
    }
    match &setting["value"] {
        Value::Bool(on) => Some(if *on { "off" } else { "on" }.to_owned()),
        Value::Number(number) => {
            let number = number.as_u64()?;
            Some(match setting["max"].as_u64() {
                Some(max) if number == max => (max / 2).to_string(),
                Some(_) => "max".to_owned(),
                None => (number * 2 + 100).to_string(),
            })
        }
        Value::String(_) if key.starts_with("rps") || key.starts_with("xps") => {
            Some("1".to_owned())
        }
        Value::String(text) if key == "ring.tcp-data-split" => {
            Some(if text == "on" { "off" } else { "on" }.to_owned())
        }
        _ => None,
    }
}

/// Makes the change, or is told why not; then nothing may have changed.
fn change(host: &Host, key: &str, setting: &Value, wish: &str) -> String {
    let before = &setting["value"];
    let assignment = format!("{key}={wish}");
    let args = ["set", host.interface(), &assignment, "--netns", host.netns_name(), "--json"];
    let output = nicctl::run(&args);
    let error = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        return format!("{key} {before} -> {wish}: not planned: {error}");
    };
    let changes = report["steps"].as_array().into_iter().flatten();
    let mut changes = changes.flat_map(|step| step["changes"].as_array().into_iter().flatten());
    let found = changes.find(|change| change["setting"] == key);
    let Some(found) = found else { return format!("{key} {before} -> {wish}: nothing to do") };
    if report["applied"] == false {
        assert_eq!(report["left"], Value::Array(Vec::new()), "{error}");
        return format!("{key} {before} -> {wish}: refused: {error}");
    }
    let now = settings(host).get(key).map(|setting| setting["value"].clone());
    let got = if found["got"].is_null() { &found["to"] } else { &found["got"] };
    assert_eq!(now.as_ref(), Some(got), "{key}");
    format!("{key} {before} -> {wish}: {} {got}", found["outcome"])
}
