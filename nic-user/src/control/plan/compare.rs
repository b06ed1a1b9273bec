//! When two values of a setting are the same.

use crate::nic::{
    cpus,
    setting::{Group, Key, Setting, Value},
};

/// Whether both values are the same for this setting; sets of CPUs have several spellings.
pub fn same(key: &Key, one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Switch(_), Value::Text(_)) | (Value::Text(_), Value::Switch(_)) => {
            one.to_string() == other.to_string()
        }
        (Value::Text(one), Value::Text(other)) => match cpus::notation(key.group) {
            Some(notation) => {
                one == other
                    || cpus::Choice::parse(one, notation)
                        .is_some_and(|set| cpus::Choice::parse(other, notation) == Some(set))
            }
            None => one == other,
        },
        _ => one == other,
    }
}

/// The table of flows that the driver makes by itself, and makes anew with other queues; once a user
/// has set another, only this lets the driver do so again (`netif_is_rxfh_configured`,
/// net/ethtool/ioctl.c).
pub(super) const DEFAULT: &str = "default";

/// Whether a setting is `value` now, and was not asked to be something else.
pub fn is_now(key: &Key, setting: &Setting, value: &Value) -> bool {
    if let Some(requested) = value.requested() {
        // Where it was granted since, it is what was asked.
        return *setting.requested.as_ref().unwrap_or(&setting.value) == Value::Switch(requested);
    }
    setting.requested.is_none() && same(key, &setting.value, value)
        || is_default(value) && setting.default.as_ref() == Some(&setting.value)
}

/// Whether it is the driver's choice.
pub fn is_default(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text == DEFAULT)
}

/// What brings back what a setting is now.
pub(super) fn original(key: &Key, setting: &Setting) -> Value {
    let is_default = setting.default.as_ref() == Some(&setting.value);
    if can_be_default(key) && is_default { DEFAULT.into() } else { setting.state() }
}

/// Whether it can be left to the driver, which is more than to be what the driver would choose.
pub(super) fn can_be_default(key: &Key) -> bool {
    key.group == Group::Rss
}
