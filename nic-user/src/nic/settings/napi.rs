//! Polling: of all NAPI instances of a device through sysfs, of single ones through netlink.

use super::{Named, number, unknown, wrong_type};
use crate::netlink;
use crate::netlink::netdev::Netdev;
use crate::netlink::queues::{Napi, NapiChange, Threaded};
use crate::nic::Nic;
use crate::nic::setting::{Setting, Value};
use crate::nic::sysfs::Sysfs;

const GRO_FLUSH_TIMEOUT: &str = "gro-flush-timeout";
const DEFER_HARD_IRQS: &str = "defer-hard-irqs";
const IRQ_SUSPEND_TIMEOUT: &str = "irq-suspend-timeout";
const THREADED: &str = "threaded";

const BUSY_POLL: &str = "busy-poll";

/// Largest count of empty polls (`S32_MAX`).
const MAX_DEFER_HARD_IRQS: u64 = i32::MAX as u64;

/// The files of the device-wide settings.
const FILES: [(&str, &str); 3] = [
    (GRO_FLUSH_TIMEOUT, "gro_flush_timeout"),
    (DEFER_HARD_IRQS, "napi_defer_hard_irqs"),
    (THREADED, "threaded"),
];

pub(super) fn read(sysfs: &Sysfs, napis: &[Napi]) -> Named {
    let device = |(name, file): (&str, &str)| {
        let text = sysfs.read(file).ok()?;
        Some((name.to_owned(), setting(name, text.parse().ok()?)?))
    };
    FILES.into_iter().filter_map(device).chain(napis.iter().flat_map(of_one)).collect()
}

/// What one instance has, named `N/gro-flush-timeout` with its id.
fn of_one(napi: &Napi) -> Vec<(String, Setting)> {
    [
        (GRO_FLUSH_TIMEOUT, napi.gro_flush_timeout),
        (DEFER_HARD_IRQS, napi.defer_hard_irqs),
        (IRQ_SUSPEND_TIMEOUT, napi.irq_suspend_timeout),
        (THREADED, napi.threaded.map(|threaded| threaded.number().into())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((format!("{}/{name}", napi.id), setting(name, value?)?)))
    .collect()
}

/// All of them are off by default.
fn setting(name: &str, number: u64) -> Option<Setting> {
    Some(match name {
        THREADED => Setting {
            default: Some(false.into()),
            ..Setting::new(match Threaded::from_number(number)? {
                Threaded::Off => Value::from(false),
                Threaded::On => true.into(),
                Threaded::BusyPoll => BUSY_POLL.into(),
            })
        },
        _ => Setting {
            max: (name == DEFER_HARD_IRQS).then_some(MAX_DEFER_HARD_IRQS),
            default: Some(0_u64.into()),
            ..Setting::new(number)
        },
    })
}

pub(super) fn write(nic: &Nic, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    let mut remarks = Vec::new();
    for (name, value) in changes {
        match name.split_once('/') {
            None => write_device(nic, name, value)?,
            Some((napi, of_napi)) => {
                let napi = napi.parse().map_err(|_| unknown(name))?;
                let change = [change(of_napi, value)?];
                let written = Netdev::open()?.set_napi(napi, &change);
                remarks.extend(written.map_err(|error| error.at(name))?);
            }
        }
    }
    Ok((!remarks.is_empty()).then(|| remarks.join("; ")))
}

fn write_device(nic: &Nic, name: &str, value: &Value) -> netlink::Result<()> {
    let file = FILES.into_iter().find(|(known, _)| *known == name);
    let (_, file) = file.ok_or_else(|| unknown(name))?;
    let text = match name {
        THREADED => threaded(name, value)?.number().to_string(),
        _ => count(name, value)?.to_string(),
    };
    let write = |text: &str| Sysfs::of(&nic.link)?.write(file, text);
    write(&text).map_err(|error| netlink::Error::from(error).at(name))
}

fn change(name: &str, value: &Value) -> netlink::Result<NapiChange> {
    Ok(match name {
        GRO_FLUSH_TIMEOUT => NapiChange::GroFlushTimeout(count(name, value)?),
        DEFER_HARD_IRQS => NapiChange::DeferHardIrqs(number(name, value)?),
        IRQ_SUSPEND_TIMEOUT => NapiChange::IrqSuspendTimeout(count(name, value)?),
        THREADED => NapiChange::Threaded(threaded(name, value)?),
        _ => return Err(unknown(name)),
    })
}

fn count(name: &str, value: &Value) -> netlink::Result<u64> {
    match value {
        Value::Number(number) => Ok(*number),
        _ => Err(wrong_type(name, value, "a number")),
    }
}

fn threaded(name: &str, value: &Value) -> netlink::Result<Threaded> {
    match value {
        Value::Switch(false) => Ok(Threaded::Off),
        Value::Switch(true) => Ok(Threaded::On),
        Value::Text(text) if text == BUSY_POLL => Ok(Threaded::BusyPoll),
        _ => Err(wrong_type(name, value, "on, off or busy-poll")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_instance_has_what_its_kernel_tells() {
        let napi = Napi {
            id: 8193,
            defer_hard_irqs: Some(2),
            gro_flush_timeout: Some(20_000),
            threaded: Some(Threaded::BusyPoll),
            ..Napi::default()
        };
        let settings: BTreeMap<_, _> = of_one(&napi).into_iter().collect();
        assert_eq!(settings["8193/gro-flush-timeout"].value, Value::from(20_000_u64));
        assert_eq!(settings["8193/defer-hard-irqs"].max, Some(2_147_483_647));
        assert_eq!(settings["8193/threaded"].value, Value::from("busy-poll"));
        assert_eq!(settings.len(), 3);
    }

    #[test]
    fn values_become_changes() {
        assert_eq!(
            change(GRO_FLUSH_TIMEOUT, &Value::from(1_u64 << 40)),
            Ok(NapiChange::GroFlushTimeout(1 << 40))
        );
        assert_eq!(
            change(THREADED, &Value::from("busy-poll")),
            Ok(NapiChange::Threaded(Threaded::BusyPoll))
        );
        for (name, value) in [
            (THREADED, Value::from(1_u64)),
            (THREADED, "maybe".into()),
            (GRO_FLUSH_TIMEOUT, true.into()),
            ("weight", 64_u64.into()),
        ] {
            assert_eq!(change(name, &value).unwrap_err().errno, libc::EINVAL);
        }
    }
}
