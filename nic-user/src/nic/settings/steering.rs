//! RPS and XPS: the CPUs that each queue's packets are given to, as masks.

use super::{Named, unknown};
use crate::netlink;
use crate::nic::Nic;
use crate::nic::cpus::CpuSet;
use crate::nic::setting::{Group, Setting, Value};
use crate::nic::sysfs::Sysfs;

/// The prefix of a group's queues, and their file.
const fn layout(group: Group) -> (&'static str, &'static str) {
    match group {
        Group::Xps => ("tx-", "xps_cpus"),
        _ => ("rx-", "rps_cpus"),
    }
}

/// A device with one transmit queue has no XPS.
pub(super) fn read(sysfs: &Sysfs, group: Group) -> netlink::Result<Named> {
    let (prefix, file) = layout(group);
    let mut named = Named::new();
    for name in sysfs.list("queues")?.into_iter().filter(|name| name.starts_with(prefix)) {
        if let Some(mask) = sysfs.read_if_there(path(&name, file))? {
            // Drivers set XPS as they like.
            let default = (group == Group::Rps).then(|| CpuSet::default().mask_like(&mask).into());
            named.push((name, Setting { default, ..Setting::new(mask) }));
        }
    }
    Ok(named)
}

pub(super) fn write(
    nic: &Nic,
    group: Group,
    changes: &[(String, Value)],
) -> netlink::Result<Option<String>> {
    let (prefix, file) = layout(group);
    let sysfs = Sysfs::of(&nic.link)?;
    for (name, mask) in changes {
        let number = name.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok());
        if number.is_none() {
            return Err(unknown(name));
        }
        let written = sysfs.write(path(name, file), &mask.to_string());
        written.map_err(|error| netlink::Error::from(error).at(name))?;
    }
    Ok(None)
}

fn path(queue: &str, file: &str) -> String {
    format!("queues/{queue}/{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queues_can_be_written() {
        let lo = Nic::by_name(&"lo".parse().unwrap()).unwrap();
        for name in ["rx-", "tx-0", "rx-../../mtu", "mtu"] {
            let change = [(name.to_owned(), Value::from("0"))];
            let error = write(&lo, Group::Rps, &change).unwrap_err();
            // Without CAP_SYS_ADMIN, loopback's directory cannot be told from others'.
            assert!(matches!(error.errno, libc::EINVAL | libc::EPERM), "{error}");
        }
    }
}
