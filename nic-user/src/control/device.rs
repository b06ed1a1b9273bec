//! What a NIC is to the control plane: something with settings, and with an identity.

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    netlink,
    nic::{
        identity::InterfaceId,
        setting::{Group, Settings, Value},
        surroundings::Surroundings,
    },
};

/// An interface whose settings can be read and written.
pub trait Device {
    /// Every setting that it has.
    ///
    /// # Errors
    ///
    /// The interface is gone ([`NotFound`](crate::error::Kind::NotFound)), or cannot be read.
    fn read(&mut self) -> Result<Settings>;

    /// The settings of one group.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn read_group(&mut self, group: Group) -> Result<Settings> {
        let settings = self.read()?;
        match settings.unread(group) {
            Some(why) => Err(Error::failed(format!("read {group}: {why}"))),
            None => Ok(settings.into_iter().filter(|(key, _)| key.group == group).collect()),
        }
    }

    /// Changes these settings of one group with one request, and no others. What the kernel
    /// remarked although it succeeded is returned.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    fn write(
        &mut self,
        group: Group,
        changes: &[(String, Value)],
    ) -> netlink::Result<Option<String>>;

    /// Which interface it is.
    fn identity(&self) -> Identity;

    /// What limits its settings besides its driver.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    fn surroundings(&self) -> Result<Surroundings> {
        Ok(Surroundings::default())
    }

    /// Speed of its link in Mbit/s, where it has one.
    fn speed(&self) -> Option<u32>;
}

/// Which interface it is, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// What no other interface has until the machine is started again.
    pub id: InterfaceId,
    /// `/proc/sys/kernel/random/boot_id`: settings do not outlive a boot.
    pub boot_id: String,
    /// Its name, which may change.
    pub name: String,
    /// Number of its network namespace (`SO_NETNS_COOKIE`), which may change.
    pub netns_cookie: u64,
    /// Its index there.
    pub ifindex: u32,
    /// Its hardware address as text, which may change; the permanent one, if it has one.
    pub mac: Option<String>,
    /// The driver's name, as `ethtool -i` shows it.
    pub driver: Option<String>,
    /// Where it is on its bus, as `ethtool -i` shows it.
    pub bus: Option<String>,
}
