//! When two values of a setting are the same.

use crate::nic::setting::{Group, Key, Setting, Value};

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
pub(super) const DEFAULT: &str = "default";

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
pub(super) fn original(key: &Key, setting: &Setting) -> Value {
    let is_default = setting.default.as_ref() == Some(&setting.value);
    if can_be_default(key) && is_default { DEFAULT.into() } else { setting.value.clone() }
}

/// Whether it can be left to the driver, which is more than to be what the driver would choose.
pub(super) fn can_be_default(key: &Key) -> bool {
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
