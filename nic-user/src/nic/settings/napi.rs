//! Polling: of all NAPI instances of a device through sysfs, of single ones through netlink.

use super::{Named, unknown, wrong_type};
use crate::netlink;
use crate::netlink::netdev::Netdev;
use crate::netlink::netdev::napi::{Napi, NapiParameter};
use crate::nic::Nic;
use crate::nic::setting::{Setting, Value};
use crate::nic::sysfs::Sysfs;

/// What `threaded` is called besides on and off, in the order of the kernel's numbers.
const BUSY_POLL: &str = "busy-poll";

/// Largest count of empty polls (`S32_MAX`).
const MAX_DEFER_HARD_IRQS: u64 = i32::MAX as u64;

/// The files of the settings that are the whole device's.
const FILES: [(NapiParameter, &str); 3] = [
    (NapiParameter::GroFlushTimeout, "gro_flush_timeout"),
    (NapiParameter::DeferHardIrqs, "napi_defer_hard_irqs"),
    (NapiParameter::Threaded, "threaded"),
];

pub(super) fn read(sysfs: &Sysfs, napis: &[Napi]) -> netlink::Result<Named> {
    let mut named: Named = napis.iter().flat_map(of_one).collect();
    for (parameter, file) in FILES {
        if let Some(text) = sysfs.read_if_there(file)? {
            let value = text.parse().map_err(|_| netlink::Error::malformed(file))?;
            named.push((parameter.name().to_owned(), setting(parameter, value)));
        }
    }
    Ok(named)
}

/// What one instance has, named `N/gro-flush-timeout` with its id.
fn of_one(napi: &Napi) -> impl Iterator<Item = (String, Setting)> {
    napi.parameters.iter().map(|(&parameter, &value)| {
        (format!("{}/{}", napi.id, parameter.name()), setting(parameter, value))
    })
}

/// All of them are off by default.
fn setting(parameter: NapiParameter, value: u64) -> Setting {
    match parameter {
        NapiParameter::Threaded => Setting {
            default: Some(false.into()),
            ..Setting::new(match value {
                0 => Value::from(false),
                1 => true.into(),
                2 => BUSY_POLL.into(),
                other => other.into(),
            })
        },
        _ => Setting {
            max: (parameter == NapiParameter::DeferHardIrqs).then_some(MAX_DEFER_HARD_IRQS),
            default: Some(0_u64.into()),
            ..Setting::new(value)
        },
    }
}

pub(super) fn write(nic: &Nic, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    let mut remarks = Vec::new();
    for (name, value) in changes {
        match name.split_once('/') {
            None => write_device(nic, name, value)?,
            Some((id, of_one)) => {
                let id = id.parse().map_err(|_| unknown(name))?;
                let change = [change(of_one, value)?];
                let written = Netdev::open()?.set_napi(id, &change);
                remarks.extend(written.map_err(|error| error.at(name))?);
            }
        }
    }
    Ok((!remarks.is_empty()).then(|| remarks.join("; ")))
}

fn write_device(nic: &Nic, name: &str, value: &Value) -> netlink::Result<()> {
    let file = FILES.into_iter().find(|(known, _)| known.name() == name);
    let (_, file) = file.ok_or_else(|| unknown(name))?;
    let (_, number) = change(name, value)?;
    let written = Sysfs::of(&nic.link).and_then(|sysfs| sysfs.write(file, &number.to_string()));
    written.map_err(|error| netlink::Error::from(error).at(name))
}

/// The setting called `name`, and the kernel's number for the value to write to it.
fn change(name: &str, value: &Value) -> netlink::Result<(NapiParameter, u64)> {
    let parameter = NapiParameter::ALL.into_iter().find(|parameter| parameter.name() == name);
    let parameter = parameter.ok_or_else(|| unknown(name))?;
    let number = match (parameter, value) {
        (NapiParameter::Threaded, Value::Switch(on)) => (*on).into(),
        (NapiParameter::Threaded, Value::Text(text)) if text == BUSY_POLL => 2,
        (NapiParameter::Threaded, _) => {
            return Err(wrong_type(name, value, "on, off or busy-poll"));
        }
        (_, Value::Number(number)) => *number,
        _ => return Err(wrong_type(name, value, "a number")),
    };
    Ok((parameter, number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_instance_has_what_its_kernel_tells() {
        let parameters = [
            (NapiParameter::DeferHardIrqs, 2),
            (NapiParameter::GroFlushTimeout, 20_000),
            (NapiParameter::Threaded, 2),
        ];
        let napi = Napi { id: 8193, parameters: parameters.into(), ..Napi::default() };
        let settings: BTreeMap<_, _> = of_one(&napi).collect();
        assert_eq!(settings["8193/gro-flush-timeout"].value, Value::from(20_000_u64));
        assert_eq!(settings["8193/defer-hard-irqs"].max, Some(2_147_483_647));
        assert_eq!(settings["8193/threaded"].value, Value::from("busy-poll"));
        assert_eq!(settings.len(), 3);
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        for (parameter, number) in [
            (NapiParameter::Threaded, 0),
            (NapiParameter::Threaded, 1),
            (NapiParameter::Threaded, 2),
            (NapiParameter::DeferHardIrqs, 2),
            (NapiParameter::IrqSuspendTimeout, 1 << 40),
        ] {
            let value = setting(parameter, number).value;
            assert_eq!(change(parameter.name(), &value), Ok((parameter, number)));
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for (name, value) in [
            ("threaded", Value::from(1_u64)),
            ("threaded", "maybe".into()),
            ("gro-flush-timeout", true.into()),
            ("weight", 64_u64.into()),
        ] {
            assert_eq!(change(name, &value).unwrap_err().errno, libc::EINVAL);
        }
    }
}
