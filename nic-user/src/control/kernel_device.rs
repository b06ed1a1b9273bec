//! The real device: settings as the kernel has them.

use std::fs;

use super::device::{Device, Identity};
use crate::{
    error::{Error, Result},
    netlink,
    nic::{
        Nic,
        identity::InterfaceId,
        namespace,
        setting::{Group, Settings, Value},
        settings,
        surroundings::Surroundings,
        sysfs::Sysfs,
    },
};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// An interface of the current network namespace.
#[derive(Debug)]
pub struct KernelDevice {
    nic: Nic,
    identity: Identity,
}

impl KernelDevice {
    /// Takes an interface of the current network namespace.
    ///
    /// # Errors
    ///
    /// The namespace or this boot of the machine cannot be told from others.
    pub fn new(nic: Nic) -> Result<Self> {
        let boot_id = boot_id()?;
        let bus = nic.driver.as_ref().map(|driver| driver.bus_info.clone());
        let identity = Identity {
            id: InterfaceId::of(&nic.link)?,
            name: nic.name().to_owned(),
            ifindex: nic.ifindex(),
            mac: nic.link.permanent_mac.or(nic.link.mac).map(text),
            driver: nic.driver_name().map(str::to_owned),
            bus: bus.filter(|bus| !bus.is_empty()),
            boot_id,
            netns_cookie: namespace::current_cookie()?,
        };
        Ok(Self { nic, identity })
    }

    /// Which interface it is.
    pub const fn id(&self) -> InterfaceId {
        self.identity.id
    }

    /// The interface as it was when it was taken.
    pub const fn nic(&self) -> &Nic {
        &self.nic
    }
}

/// What tells this boot of the machine from others.
///
/// # Errors
///
/// There is no procfs.
pub fn boot_id() -> Result<String> {
    let id = fs::read_to_string(BOOT_ID)
        .map_err(|error| Error::io(format!("read {BOOT_ID}"), &error))?;
    Ok(id.trim_end().to_owned())
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl Device for KernelDevice {
    fn read(&mut self) -> Result<Settings> {
        settings::read(&self.nic)
    }

    fn read_group(&mut self, group: Group) -> Result<Settings> {
        settings::read_group(&self.nic, group)
    }

    fn write(
        &mut self,
        group: Group,
        changes: &[(String, Value)],
    ) -> netlink::Result<Option<String>> {
        settings::write(&self.nic, group, changes)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn surroundings(&self) -> Result<Surroundings> {
        Surroundings::of(&self.nic)
    }

    /// The kernel refuses to tell it, or says -1, while the link is down.
    fn speed(&self) -> Option<u32> {
        Sysfs::of(&self.nic.link).ok()?.read("speed").ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::InterfaceName;

    #[test]
    fn loopback_is_told_from_others() {
        let nic = Nic::by_name(&InterfaceName::new("lo").unwrap()).unwrap();
        let mut device = KernelDevice::new(nic).unwrap();
        let identity = device.identity();
        assert_eq!((identity.name.as_str(), identity.ifindex), ("lo", device.nic().ifindex()));
        assert_eq!(identity.boot_id.len(), 36);
        assert_ne!(identity.netns_cookie, 0);
        assert_eq!(device.speed(), None);
        let all = device.read().unwrap();
        let link = device.read_group(Group::Link).unwrap();
        assert!(!link.is_empty() && link.iter().all(|(key, setting)| all[key] == *setting));
    }
}
