//! Copybreaks: what the kernel says of tunable ones, and what is known of the others.

use std::fs;

use super::{Named, unknown};
use crate::netlink;
use crate::nic::Nic;
use crate::nic::copybreak::{Copybreak, facts};
use crate::nic::setting::{Access, Setting, Value};

pub(super) fn read(nic: &Nic) -> netlink::Result<Named> {
    Ok(known(nic.driver_name().unwrap_or_default()).into_iter().collect())
}

/// The receive copybreak of a driver that has none to tune.
fn known(driver: &str) -> Option<(String, Setting)> {
    let facts = facts(driver)?;
    let (value, by) = match facts.rx {
        Copybreak::Tunable { default, .. } | Copybreak::Fixed(default) => (default, "driver"),
        Copybreak::ModuleParameter { module, parameter, default } => {
            (parameter_value(module, parameter).unwrap_or(default), "module parameter")
        }
        Copybreak::None => return None,
    };
    let note = (!facts.note.is_empty()).then(|| facts.note.to_owned());
    let access = Access::Fixed { by: by.to_owned() };
    Some(("rx".to_owned(), Setting { access, note, ..Setting::new(value) }))
}

fn parameter_value(module: &str, parameter: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/module/{module}/parameters/{parameter}")).ok()?;
    text.trim_end().parse().ok()
}

pub(super) fn write(_nic: &Nic, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    match changes.first() {
        Some((name, _)) => Err(unknown(name)),
        None => Ok(None),
    }
}
