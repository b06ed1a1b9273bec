//! Settings written as a profile: what `nicctl show --as-profile` prints.

use std::io::{self, Write};

use super::rules;
use crate::nic::setting::{Access, Group, Key, Settings, Value};

/// Writes a profile that makes `interface` what it is now: everything that can be set, and has an
/// effect. Interrupts and single NAPI instances are left out: they have other numbers at the next
/// boot.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_profile(interface: &str, settings: &Settings, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "description = {}", string(&format!("{interface} as it was")))?;
    for group in Group::ALL {
        let mut heading = Some(format!("\n[{group}]"));
        let of_group = settings.iter().filter(|(key, setting)| {
            key.group == group
                && setting.access == Access::ReadWrite
                // Something else keeps it off; off would take the request away.
                && setting.requested.is_none()
                && is_lasting(key)
                && !rules::is_without_effect(key, settings)
        });
        for (key, setting) in of_group {
            if let Some(heading) = heading.take() {
                writeln!(out, "{heading}")?;
            }
            writeln!(out, "{} = {}", name(&key.name), value(&setting.value))?;
        }
    }
    Ok(())
}

fn is_lasting(key: &Key) -> bool {
    match key.group {
        Group::Irq => false,
        Group::Napi => !key.name.contains('/'),
        _ => true,
    }
}

/// A key as TOML has it: bare, where that is possible.
fn name(name: &str) -> String {
    let is_bare = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { string(name) }
}

fn value(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Switch(on) => on.to_string(),
        Value::Text(text) => string(text),
    }
}

/// A basic string of TOML.
fn string(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        control::{
            fake::Fake,
            plan::{Context, Plan, Xdp, plan},
            profile_file,
        },
        nic::{setting::Setting, surroundings::Surroundings},
    };

    fn text(fake: &Fake) -> String {
        let mut out = Vec::new();
        write_profile("eth0", &fake.settings, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn planned(profile: &str, fake: &Fake) -> Plan {
        let desired = profile_file::parse("p", false, profile).unwrap().settings;
        let obtained = BTreeMap::new();
        let (identity, obtained) = (&fake.identity, &obtained);
        let context = Context {
            identity,
            xdp: Xdp::None,
            limits: &[],
            around: &Surroundings::default(),
            obtained,
        };
        plan(&desired, &fake.settings, &context).unwrap()
    }

    #[test]
    fn a_profile_of_what_is_changes_nothing_and_brings_it_back() {
        let fake = Fake::full();
        let profile = text(&fake);
        assert!(planned(&profile, &fake).is_empty());
        let mut other = fake.clone();
        for key in ["coalesce.adaptive-rx", "feature.rx-gro", "feature.rx-lro"] {
            let setting = other.settings.get_mut(&key.parse().unwrap()).unwrap();
            let Value::Switch(on) = setting.value else { panic!("{key}") };
            setting.value = (!on).into();
        }
        assert_eq!(planned(&profile, &other).changes().count(), 3);
    }

    #[test]
    fn what_adaptive_moderation_sets_is_left_out() {
        let profile = text(&Fake::full());
        assert!(profile.contains("\nadaptive-rx = true\n") && !profile.contains("rx-usecs"));
        assert!(!profile.contains("[irq]"));
    }

    #[test]
    fn names_and_values_of_drivers_are_quoted() {
        let mut fake = Fake::new(&[]);
        let flag = Key::new(Group::PrivateFlag, "odd \"flag\\\n.x");
        fake.settings.insert(flag, Setting::new(true));
        fake.settings.insert(Key::new(Group::Rss, "key"), Setting::new("a\u{7f}\"b\\"));
        let profile = text(&fake);
        let desired = profile_file::parse("p", false, &profile).unwrap().settings;
        assert!(desired.keys().eq(fake.settings.keys()), "{profile}");
        assert!(planned(&profile, &fake).is_empty());
    }
}
