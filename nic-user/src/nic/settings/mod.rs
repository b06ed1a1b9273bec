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
use super::{Nic, current, interrupts};
use crate::error::{Error, Result};
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool::channels::Channel;
use crate::netlink::ethtool::coalesce::Coalesce;
use crate::netlink::ethtool::pause::Pause;
use crate::netlink::ethtool::rings::Ring;
use crate::netlink::ethtool_ioctl::rules::Rule;
use crate::netlink::ethtool_ioctl::{DriverInfo, EthtoolIoctl};
use crate::netlink::link::LinkInfo;
use crate::netlink::netdev::Netdev;
use crate::netlink::netdev::napi::Napi;
use crate::netlink::netdev::page_pool::PagePool;
use crate::netlink::netdev::queue::{Queue, QueueId};
use crate::netlink::{self, IfSupported};

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

/// Those of them that are only in the ioctl.
const BY_IOCTL: [Group; 2] = [Group::Copybreak, Group::Rss];

/// Groups that are read from sysfs and procfs.
const BY_SYSFS: [Group; 4] = [Group::Napi, Group::Rps, Group::Xps, Group::Irq];

/// Those of them that go by the NAPI instances.
const BY_NAPI: [Group; 2] = [Group::Napi, Group::Irq];

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
/// If the interface is gone. Groups that cannot be read of one that is there are noted as
/// [unread](Settings::unread).
pub fn read(nic: &Nic) -> Result<Settings> {
    survey_of(nic, None).map(|survey| survey.settings)
}

/// The settings of one group that `nic` has now.
///
/// # Errors
///
/// If the interface is gone, or the group cannot be read.
pub fn read_group(nic: &Nic, group: Group) -> Result<Settings> {
    let settings = survey_of(nic, Some(group))?.settings;
    match settings.unread(group) {
        Some(why) => Err(Error::failed(format!("read {group} of {}: {why}", nic.name()))),
        None => Ok(settings),
    }
}

fn survey_of(nic: &Nic, only: Option<Group>) -> Result<Survey> {
    let survey =
        Survey { link: current(&nic.link)?, driver: nic.driver.clone(), ..Survey::default() };
    Reader { only, survey }.read(&EthtoolIoctl::open())
}

/// Everything about the interface that `link` was just read of: see [`read`].
pub fn survey(link: LinkInfo) -> Result<Survey> {
    let ioctl = EthtoolIoctl::open();
    let driver = match &ioctl {
        Ok(ioctl) => ioctl.driver(&link.name),
        Err(error) => Err(error.clone()),
    };
    let mut reader = Reader { only: None, survey: Survey { link, ..Survey::default() } };
    // Without a driver, much is missing, but not everything.
    reader.survey.driver = reader.supported("driver", driver.map(Some))?;
    reader.read(&ioctl)
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
            self.sysfs()?;
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
        let mut netlink = match Ethtool::find() {
            Ok(netlink) => netlink,
            Err(error) => return self.unread(&BY_ETHTOOL, &error),
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
            Err(error) => return self.unread(&BY_IOCTL, error),
        };
        self.add(Group::Copybreak, || copybreak::read(ioctl, &name, driver.as_deref()))?;
        self.add(Group::Rss, || rss::read(ioctl, netlink.as_mut(), &name, ifindex))?;
        if self.only.is_none() {
            self.survey.rules = self.supported("flow rules", ioctl.rules(&name))?;
        }
        Ok(())
    }

    fn sysfs(&mut self) -> Result<()> {
        let sysfs = match Sysfs::of(&self.survey.link) {
            Ok(sysfs) => sysfs,
            Err(error) => return self.unread(&BY_SYSFS, &error.into()),
        };
        self.add(Group::Rps, || steering::read(&sysfs, Group::Rps))?;
        self.add(Group::Xps, || steering::read(&sysfs, Group::Xps))?;
        if !self.wants(&BY_NAPI) {
            return Ok(());
        }
        // Older kernels have less of this family, or none of it.
        let ifindex = self.survey.link.ifindex;
        let read = Netdev::find().and_then(|netdev| {
            let Some(mut netdev) = netdev else { return Ok((None, Vec::new())) };
            let napis = netdev.napis(ifindex)?;
            Ok((Some(netdev), napis))
        });
        let (netdev, napis) = match read {
            Ok(read) => read,
            Err(error) => return self.unread(&BY_NAPI, &error),
        };
        self.add(Group::Napi, || napi::read(&sysfs, &napis))?;
        if self.wants(&[Group::Irq]) {
            self.interrupts(&sysfs, netdev, &napis)?;
        }
        Ok(())
    }

    /// Reads interrupts, and unless only they are wanted, what has to do with them.
    fn interrupts(&mut self, sysfs: &Sysfs, netdev: Option<Netdev>, napis: &[Napi]) -> Result<()> {
        let of_napis = napis.iter().filter_map(|napi| napi.irq);
        let read = sysfs.devices().and_then(|devices| {
            let interrupts = interrupts::read(&devices, of_napis)?;
            Ok((devices, interrupts))
        });
        let (devices, interrupts) = match read {
            Ok(read) => read,
            Err(error) => return self.unread(&[Group::Irq], &error.into()),
        };
        self.add(Group::Irq, || Ok(irq::read(&interrupts)))?;
        if self.only.is_some() {
            return Ok(());
        }
        let node = interrupts::node(&devices).map_err(netlink::Error::from);
        self.survey.node = self.supported("NUMA node", node)?;
        let queues = self.netdev(netdev)?;
        let name = &self.survey.link.name;
        let paths = topology::paths(name, sysfs, &queues, napis, &interrupts);
        self.survey.queues = self.supported("queues", paths.map_err(netlink::Error::from))?;
        Ok(())
    }

    /// Reads page pools, and returns the queues that the kernel lists.
    fn netdev(&mut self, netdev: Option<Netdev>) -> Result<Queues> {
        let Some(mut netdev) = netdev else { return Ok(Queues::new()) };
        let ifindex = self.survey.link.ifindex;
        self.survey.page_pools = self.supported("page pools", netdev.page_pools(ifindex))?;
        self.supported("queues", netdev.queues(ifindex))
    }

    fn add(&mut self, group: Group, read: impl FnOnce() -> netlink::Result<Named>) -> Result<()> {
        if !self.wants(&[group]) {
            return Ok(());
        }
        match read().if_supported() {
            Ok(named) => {
                let keyed = |(name, setting)| (Key { group, name }, setting);
                self.survey.settings.extend(named.unwrap_or_default().into_iter().map(keyed));
                Ok(())
            }
            Err(error) => self.unread(&[group], &error),
        }
    }

    /// Notes that groups could not be read.
    fn unread(&mut self, groups: &[Group], error: &netlink::Error) -> Result<()> {
        for &group in groups {
            if self.wants(&[group]) {
                self.survey.settings.set_unread(group, error.to_string());
                self.note(group.name(), error)?;
            }
        }
        Ok(())
    }

    /// What was read that is no setting; nothing where the driver or the kernel has no such thing.
    /// With any other refusal, a note.
    fn supported<T: Default>(&mut self, what: &str, read: netlink::Result<T>) -> Result<T> {
        match read.if_supported() {
            Ok(read) => Ok(read.unwrap_or_default()),
            Err(error) => self.note(what, &error).map(|()| T::default()),
        }
    }

    fn note(&mut self, what: &str, error: &netlink::Error) -> Result<()> {
        // The driver of a device in reset answers so, too.
        if error.errno == libc::ENODEV {
            current(&self.survey.link)?;
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
