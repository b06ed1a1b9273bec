//! Interrupts: the CPUs that may serve each, as lists.

use super::{Named, unknown};
use crate::netlink;
use crate::netlink::netdev::Netdev;
use crate::nic::Nic;
use crate::nic::interrupts::{self, Interrupt};
use crate::nic::setting::{Access, Setting, Value};
use crate::nic::sysfs::{self, Sysfs};

pub(super) fn read(interrupts: &[Interrupt]) -> Named {
    interrupts.iter().map(|irq| (irq.number.to_string(), setting(irq))).collect()
}

fn setting(interrupt: &Interrupt) -> Setting {
    let access = match interrupt.writable {
        true => Access::ReadWrite,
        false => Access::Fixed { by: "kernel".to_owned() },
    };
    let note = (!interrupt.name.is_empty()).then(|| interrupt.name.clone());
    Setting { access, note, ..Setting::new(interrupt.affinity.as_str()) }
}

pub(super) fn write(nic: &Nic, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    let own = own(nic)?;
    for (name, cpus) in changes {
        // Those of other devices are none of our business.
        let number = name.parse().ok().filter(|number| own.contains(number));
        let file = interrupts::affinity_file(number.ok_or_else(|| unknown(name))?);
        let written = sysfs::write(&file, &cpus.to_string());
        written.map_err(|error| netlink::Error::from(error).at(name))?;
    }
    Ok(None)
}

/// The numbers of the interrupts of `nic`.
fn own(nic: &Nic) -> netlink::Result<Vec<u32>> {
    let napis = match Netdev::find()? {
        Some(mut netdev) => netdev.napis(nic.ifindex())?,
        None => Vec::new(),
    };
    let of_napis = napis.into_iter().filter_map(|napi| napi.irq);
    let interrupts = interrupts::read(&Sysfs::of(&nic.link)?.devices()?, of_napis)?;
    Ok(interrupts.into_iter().map(|interrupt| interrupt.number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_that_the_kernel_manages_is_fixed() {
        let interrupt = Interrupt {
            number: 40,
            name: "nvme0q1".to_owned(),
            affinity: "0-3".to_owned(),
            ..Interrupt::default()
        };
        let [(name, setting)] = &read(&[interrupt])[..] else { panic!() };
        assert_eq!((name.as_str(), &setting.value), ("40", &Value::from("0-3")));
        assert_eq!(setting.access, Access::Fixed { by: "kernel".to_owned() });
        assert_eq!(setting.note.as_deref(), Some("nvme0q1"));
    }

    #[test]
    fn interrupts_of_others_can_not_be_written() {
        let lo = Nic::by_name(&"lo".parse().unwrap()).unwrap();
        let error = write(&lo, &[("1".to_owned(), Value::from("0"))]).unwrap_err();
        assert!(matches!(error.errno, libc::EINVAL | libc::EPERM), "{error}");
    }
}
