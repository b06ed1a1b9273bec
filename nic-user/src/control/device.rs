//! What a NIC is to the control plane: something with settings, and with an identity.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    netlink,
    nic::{
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
    /// The interface is gone ([`NotFound`](crate::error::Kind::NotFound)), or can not be read.
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

    /// Whether an interface with this index is in the network namespace of this one.
    fn is_there(&self, ifindex: u32) -> bool;

    /// What limits its settings besides its driver.
    fn surroundings(&self) -> Surroundings {
        Surroundings::default()
    }

    /// Speed of its link in Mbit/s, where it has one.
    fn speed(&self) -> Option<u32>;
}

/// What tells one interface from another, also from one that had its name before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Its name, which may change.
    pub name: String,
    /// Its index, which no other interface of its network namespace gets.
    pub ifindex: u32,
    /// Its hardware address as text; the permanent one, if it has one.
    pub mac: Option<String>,
    /// The driver's name, as `ethtool -i` shows it.
    pub driver: Option<String>,
    /// Where it is on its bus, as `ethtool -i` shows it.
    pub bus: Option<String>,
    /// `/proc/sys/kernel/random/boot_id`: settings do not outlive a boot.
    pub boot_id: String,
    /// Number of its network namespace (`SO_NETNS_COOKIE`).
    pub netns_cookie: u64,
}

/// Why two identities are not the same interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The machine was started again.
    Boot,
    /// It is in another network namespace.
    Namespace,
    /// An interface with another index.
    Index {
        /// The index it had.
        was: u32,
        /// The index of the one there is now.
        is: u32,
    },
    /// Another hardware address.
    Mac,
    /// Another driver, or another place on the bus.
    Hardware,
}

impl Identity {
    /// What makes `now` another interface; a new name alone does not, nor does hardware that could
    /// not be asked at one of both times.
    pub fn difference(&self, now: &Self) -> Option<Difference> {
        if self.boot_id != now.boot_id {
            Some(Difference::Boot)
        } else if self.netns_cookie != now.netns_cookie {
            Some(Difference::Namespace)
        } else if self.ifindex != now.ifindex {
            Some(Difference::Index { was: self.ifindex, is: now.ifindex })
        } else if self.mac != now.mac {
            Some(Difference::Mac)
        } else if differ(&self.driver, &now.driver) || differ(&self.bus, &now.bus) {
            Some(Difference::Hardware)
        } else {
            None
        }
    }
}

impl Difference {
    /// Whether the settings of the other interface are gone with it, as far as can be seen from
    /// `device`.
    pub fn is_end_of_settings(self, device: &dyn Device) -> bool {
        match self {
            Self::Boot => true,
            Self::Index { was, .. } => !device.is_there(was),
            Self::Namespace | Self::Mac | Self::Hardware => false,
        }
    }
}

fn differ(was: &Option<String>, is: &Option<String>) -> bool {
    was.as_ref().zip(is.as_ref()).is_some_and(|(was, is)| was != is)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boot => f.write_str("the machine was started again since"),
            Self::Namespace => f.write_str("it was in another network namespace"),
            Self::Index { was, is } => {
                write!(f, "it was made anew since: it had index {was}, and now has {is}")
            }
            Self::Mac => f.write_str("it has another hardware address now"),
            Self::Hardware => f.write_str("it is another device now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_is_no_difference_and_everything_else_is() {
        let was = Identity {
            name: "eth0".into(),
            ifindex: 3,
            driver: Some("e1000e".into()),
            bus: Some("0000:02:00.0".into()),
            ..Identity::default()
        };
        let now = |change: fn(&mut Identity)| {
            let mut now = was.clone();
            change(&mut now);
            was.difference(&now)
        };
        assert_eq!(now(|id| id.name = "wan".into()), None);
        assert_eq!(now(|id| id.driver = None), None);
        assert_eq!(now(|id| id.boot_id = "b".into()), Some(Difference::Boot));
        assert_eq!(now(|id| id.netns_cookie = 9), Some(Difference::Namespace));
        assert_eq!(now(|id| id.ifindex = 4), Some(Difference::Index { was: 3, is: 4 }));
        assert_eq!(now(|id| id.mac = Some("02:00".into())), Some(Difference::Mac));
        assert_eq!(now(|id| id.driver = Some("igb".into())), Some(Difference::Hardware));
        assert_eq!(now(|id| id.bus = Some("0000:01:00.0".into())), Some(Difference::Hardware));
    }
}
