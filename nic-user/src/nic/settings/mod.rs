//! Everything that an interface has, read in one pass over the kernel; and each group of it
//! written.

mod copybreak;
mod ethtool;
mod features;
mod irq;
mod link;
mod napi;
mod rss;
mod steering;

use std::collections::BTreeMap;

use super::setting::{Group, Key, Setting, Settings, Value};
use super::sysfs::Sysfs;
use super::topology::{self, QueuePath};
use super::{Nic, interrupts};
use crate::error::{Error, Result};
use crate::netlink;
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool::channels::Channel;
use crate::netlink::ethtool::coalesce::Coalesce;
use crate::netlink::ethtool::pause::Pause;
use crate::netlink::ethtool::rings::Ring;
use crate::netlink::ethtool_ioctl::rules::Rule;
use crate::netlink::ethtool_ioctl::{DriverInfo, EthtoolIoctl};
use crate::netlink::link::{LinkInfo, Links};
use crate::netlink::netdev::Netdev;
use crate::netlink::netdev::napi::Napi;
use crate::netlink::netdev::page_pool::PagePool;
use crate::netlink::netdev::queue::{Queue, QueueId};

/// Groups that are read through netlink's ethtool family or the ioctl.
const BY_ETHTOOL: [Group; 8] = [
    Group::Ring,
    Group::Channels,
    Group::Coalesce,
    Group::Feature,
    Group::Copybreak,
    Group::PrivateFlag,
    Group::Pause,
    Group::Rss,
];

/// Groups that are read from sysfs and procfs.
const BY_SYSFS: [Group; 4] = [Group::Napi, Group::Rps, Group::Xps, Group::Irq];

/// The queues that the kernel lists.
type Queues = BTreeMap<QueueId, Queue>;

/// The settings of one group by their name inside it.
type Named = Vec<(String, Setting)>;

/// An interface as it is: its settings, and how its queues reach CPUs.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// What rtnetlink says.
    pub link: LinkInfo,
    /// What the driver says of itself; `None` if it does not say.
    pub driver: Option<DriverInfo>,
    /// Every setting that it has.
    pub settings: Settings,
    /// Its queues in use, with what serves each.
    pub queues: Vec<QueuePath>,
    /// Its page pools. Since Linux 6.8.
    pub page_pools: Vec<PagePool>,
    /// Rules that send flows to queues (`ethtool -n`).
    pub rules: Vec<Rule>,
    /// The NUMA node of its device.
    pub node: Option<u32>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
}

/// Every setting that `nic` has now.
///
/// # Errors
///
/// If the interface is gone. What the kernel does not tell of one that is there is left out.
pub fn read(nic: &Nic) -> Result<Settings> {
    survey_of(nic, None).map(|survey| survey.settings)
}

/// The settings of one group that `nic` has now.
///
/// # Errors
///
/// If the interface is gone, or the group can not be read.
pub fn read_group(nic: &Nic, group: Group) -> Result<Settings> {
    let survey = survey_of(nic, Some(group))?;
    match survey.notes.first() {
        Some(note) => Err(Error::failed(format!("read {}: {note}", nic.name()))),
        None => Ok(survey.settings),
    }
}

fn survey_of(nic: &Nic, only: Option<Group>) -> Result<Survey> {
    let survey =
        Survey { link: current_link(&nic.link)?, driver: nic.driver.clone(), ..Survey::default() };
    Reader { only, survey }.read(&EthtoolIoctl::open())
}

/// Everything about the interface that `link` was just read of: see [`read`].
pub fn survey(link: LinkInfo) -> Result<Survey> {
    let ioctl = EthtoolIoctl::open();
    // Without a driver, much is missing, but not everything.
    let driver = ioctl.as_ref().ok().and_then(|ioctl| ioctl.driver(&link.name).ok());
    Reader { only: None, survey: Survey { link, driver, ..Survey::default() } }.read(&ioctl)
}

/// The link as it is now.
fn current_link(link: &LinkInfo) -> Result<LinkInfo> {
    let current = Links::open().and_then(|mut links| links.by_index(link.ifindex));
    current.map_err(|error| match error.errno {
        libc::ENODEV => Error::not_found(format!("{} is gone", link.name)),
        _ => error.while_doing(format_args!("read {}", link.name)),
    })
}

/// Changes settings of one group, and no others. Returns what the kernel remarked although it
/// obeyed.
///
/// A driver may round or limit a value without a word: read it back.
///
/// # Errors
///
/// The kernel's refusal. Of groups that the kernel takes one by one, as CPU masks, those before
/// the refused one are written.
pub fn write(
    nic: &Nic,
    group: Group,
    changes: &[(String, Value)],
) -> netlink::Result<Option<String>> {
    match group {
        Group::Ring => ethtool::write::<Ring>(nic.ifindex(), changes),
        Group::Channels => ethtool::write::<Channel>(nic.ifindex(), changes),
        Group::Coalesce => ethtool::write::<Coalesce>(nic.ifindex(), changes),
        Group::Pause => ethtool::write::<Pause>(nic.ifindex(), changes),
        Group::Feature => features::write(nic.ifindex(), changes),
        Group::PrivateFlag => ethtool::write_private_flags(nic.ifindex(), changes),
        Group::Copybreak => copybreak::write(nic.name(), changes),
        Group::Rss => rss::write(nic.name(), changes),
        Group::Link => link::write(nic.ifindex(), changes),
        Group::Napi => napi::write(nic, changes),
        Group::Rps | Group::Xps => steering::write(nic, group, changes),
        Group::Irq => irq::write(nic, changes),
    }
}

struct Reader {
    /// The only group to read; without, everything is.
    only: Option<Group>,
    survey: Survey,
}

impl Reader {
    fn read(mut self, ioctl: &netlink::Result<EthtoolIoctl>) -> Result<Survey> {
        let link = link::read(&self.survey.link);
        self.add(Group::Link, || Ok(link))?;
        if self.wants(&BY_ETHTOOL) {
            self.ethtool(ioctl)?;
        }
        if self.wants(&BY_SYSFS) {
            let napis = self.netdev()?;
            self.sysfs(&napis.0, &napis.1)?;
        }
        Ok(self.survey)
    }

    fn wants(&self, groups: &[Group]) -> bool {
        self.only.is_none_or(|only| groups.contains(&only))
    }

    /// Before Linux 5.6, there is only the ioctl.
    fn ethtool(&mut self, ioctl: &netlink::Result<EthtoolIoctl>) -> Result<()> {
        let LinkInfo { name, ifindex, .. } = self.survey.link.clone();
        let driver = self.survey.driver.as_ref().map(|driver| driver.driver.clone());
        let mut netlink = match Ethtool::open() {
            Ok(netlink) => Some(netlink),
            Err(error) => self.note("ethtool", &error).map(|()| None)?,
        };
        if let Some(ethtool) = &mut netlink {
            let of_driver = driver.as_deref();
            self.add(Group::Ring, || ethtool::read_rings(ethtool, ifindex, of_driver))?;
            self.add(Group::Channels, || ethtool::read::<Channel>(ethtool, ifindex))?;
            self.add(Group::Coalesce, || ethtool::read::<Coalesce>(ethtool, ifindex))?;
            self.add(Group::Pause, || ethtool::read::<Pause>(ethtool, ifindex))?;
            self.add(Group::Feature, || features::read(ethtool, ifindex))?;
            self.add(Group::PrivateFlag, || ethtool::read_private_flags(ethtool, ifindex))?;
        }
        let ioctl = match ioctl {
            Ok(ioctl) => ioctl,
            Err(error) => return self.note("ethtool", error),
        };
        self.add(Group::Copybreak, || copybreak::read(ioctl, &name, driver.as_deref()))?;
        self.add(Group::Rss, || rss::read(ioctl, netlink.as_mut(), &name, ifindex))?;
        if self.only.is_none() {
            self.survey.rules = self.supported("flow rules", ioctl.rules(&name))?;
        }
        Ok(())
    }

    fn netdev(&mut self) -> Result<(Queues, Vec<Napi>)> {
        // Older kernels have less of this family, or none of it.
        let Ok(mut netdev) = Netdev::open() else {
            return Ok(Default::default());
        };
        let ifindex = self.survey.link.ifindex;
        let napis = self.supported("NAPIs", netdev.napis(ifindex))?;
        if self.only.is_some() {
            return Ok((Queues::new(), napis));
        }
        self.survey.page_pools = self.supported("page pools", netdev.page_pools(ifindex))?;
        Ok((self.supported("queues", netdev.queues(ifindex))?, napis))
    }

    fn sysfs(&mut self, queues: &Queues, napis: &[Napi]) -> Result<()> {
        let sysfs = match Sysfs::of(&self.survey.link) {
            Ok(sysfs) => sysfs,
            Err(error) => return self.note("sysfs", &error.into()),
        };
        self.add(Group::Napi, || Ok(napi::read(&sysfs, napis)))?;
        self.add(Group::Rps, || Ok(steering::read(&sysfs, Group::Rps)))?;
        self.add(Group::Xps, || Ok(steering::read(&sysfs, Group::Xps)))?;
        if self.wants(&[Group::Irq]) {
            let devices = sysfs.devices();
            let interrupts = interrupts::read(&devices, napis.iter().filter_map(|napi| napi.irq));
            self.add(Group::Irq, || Ok(irq::read(&interrupts)))?;
            self.survey.node = interrupts::node(&devices);
            let name = &self.survey.link.name;
            self.survey.queues = topology::paths(name, &sysfs, queues, napis, &interrupts);
        }
        Ok(())
    }

    fn add(&mut self, group: Group, read: impl FnOnce() -> netlink::Result<Named>) -> Result<()> {
        if self.wants(&[group]) {
            for (name, setting) in self.supported(group.name(), read())? {
                self.survey.settings.insert(Key { group, name }, setting);
            }
        }
        Ok(())
    }

    /// What was read; nothing where the driver or the kernel has no such thing. With any other
    /// refusal, a note.
    fn supported<T: Default>(&mut self, what: &str, read: netlink::Result<T>) -> Result<T> {
        match read {
            Ok(read) => Ok(read),
            Err(error) if error.is_unsupported() => Ok(T::default()),
            Err(error) => self.note(what, &error).map(|()| T::default()),
        }
    }

    fn note(&mut self, what: &str, error: &netlink::Error) -> Result<()> {
        // The driver of a device in reset answers so, too.
        if error.errno == libc::ENODEV {
            current_link(&self.survey.link)?;
        }
        self.survey.notes.push(format!("{what}: {error}"));
        Ok(())
    }
}

/// The value to write to the setting `name`, a number of 32 bits.
fn number(name: &str, value: &Value) -> netlink::Result<u32> {
    match value {
        Value::Number(number) => u32::try_from(*number)
            .map_err(|_| netlink::Error::new(libc::ERANGE, "more than 4294967295").at(name)),
        _ => Err(wrong_type(name, value, "a number")),
    }
}

/// The value to write to the setting `name`, on or off.
fn switch(name: &str, value: &Value) -> netlink::Result<bool> {
    match value {
        Value::Switch(on) => Ok(*on),
        _ => Err(wrong_type(name, value, "on or off")),
    }
}

fn wrong_type(name: &str, value: &Value, expected: &str) -> netlink::Error {
    netlink::Error::new(libc::EINVAL, format!("{value} is not {expected}")).at(name)
}

fn unknown(name: &str) -> netlink::Error {
    netlink::Error::new(libc::EINVAL, "there is no such setting").at(name)
}

/// A setting that the user decides about, with this upper limit.
fn up_to(max: Option<u64>, value: impl Into<Value>) -> Setting {
    Setting { max, ..Setting::new(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::nic::InterfaceName;

    #[test]
    fn loopback_has_a_link_and_features() {
        let nic = Nic::by_name(&InterfaceName::new("lo").unwrap()).unwrap();
        let settings = read(&nic).unwrap();
        let mtu = settings.get(&Key::new(Group::Link, "mtu")).unwrap();
        assert_eq!(mtu.value, Value::from(nic.mtu()));
        assert!(settings.contains_key(&Key::new(Group::Feature, "loopback")));
        assert!(!settings.keys().any(|key| matches!(key.group, Group::Ring | Group::Irq)));
    }

    #[test]
    fn an_interface_that_is_gone_is_not_found() {
        let mut nic = Nic::default();
        nic.link.ifindex = u32::MAX / 2;
        nic.link.name = "nic-none".to_owned();
        assert_eq!(read(&nic).unwrap_err().kind(), Kind::NotFound);
    }

    #[test]
    fn values_of_the_wrong_type_are_refused_by_name() {
        let refusal = |error: netlink::Error| error.to_string();
        assert_eq!(
            refusal(number("mtu", &Value::from(true)).unwrap_err()),
            "mtu: on is not a number (EINVAL: Invalid argument)"
        );
        assert_eq!(number("mtu", &Value::from(1_u64 << 32)).unwrap_err().errno, libc::ERANGE);
        assert_eq!(
            refusal(switch("rx-gro", &Value::from(2_u32)).unwrap_err()),
            "rx-gro: 2 is not on or off (EINVAL: Invalid argument)"
        );
    }
}
