//! A NIC in memory, with everything that real ones do to those who change them.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    device::{Device, Identity},
    plan, rules,
};
use crate::{
    error::{Error, Result},
    netlink,
    nic::setting::{Group, Key, Setting, Settings, Value},
};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The write is refused with this errno, and changes nothing.
    Errno(i32),
    /// The write is refused with this errno, after it has changed its first setting.
    Half(i32),
    /// The interface is gone from here on.
    Vanish,
    /// The process is killed before the write does anything.
    KillBefore,
    /// The process is killed when the write has had its effect.
    KillAfter,
}

/// What a driver does to a value that it accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quirk {
    /// Rounds up to a multiple.
    RoundUp(u64),
    /// Cuts without a word.
    Clamp(u64),
    /// Accepts, and does nothing.
    Ignore,
}

/// What is thrown instead of being killed.
#[derive(Debug)]
pub(crate) struct Killed;

/// A NIC in memory.
#[derive(Clone, Debug)]
pub(crate) struct Fake {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) quirks: BTreeMap<Key, Quirk>,
    /// What goes wrong at the n-th write, from 0.
    pub(crate) faults: BTreeMap<usize, Fault>,
    /// What goes wrong at every write of this group.
    pub(crate) refuses: BTreeMap<Group, i32>,
    /// Groups that cannot be read.
    pub(crate) unread: BTreeSet<Group>,
    /// What goes wrong at the n-th read, from 0; before and after are the same there.
    pub(crate) read_faults: BTreeMap<usize, Fault>,
    pub(crate) writes: Vec<(Group, Vec<(String, Value)>)>,
    pub(crate) reads: usize,
    /// Whether a user has set the table of flows (`IFF_RXFH_CONFIGURED`).
    pub(crate) table_is_set: bool,
    gone: bool,
}

impl Fake {
    pub(crate) fn new(settings: &[(&str, Setting)]) -> Self {
        let settings =
            settings.iter().map(|(key, setting)| (key.parse().unwrap(), setting.clone())).collect();
        let identity = Identity {
            id: crate::nic::identity::InterfaceId::fake(7001),
            name: "eth0".into(),
            ifindex: 3,
            mac: Some("02:00:00:00:00:01".into()),
            driver: Some("igb".into()),
            bus: Some("0000:01:00.0".into()),
            boot_id: "boot-1".into(),
            netns_cookie: 7,
        };
        Self {
            settings,
            identity,
            quirks: BTreeMap::new(),
            faults: BTreeMap::new(),
            refuses: BTreeMap::new(),
            unread: BTreeSet::new(),
            read_faults: BTreeMap::new(),
            writes: Vec::new(),
            reads: 0,
            table_is_set: false,
            gone: false,
        }
    }

    /// A NIC of which much can be changed.
    pub(crate) fn full() -> Self {
        let number = |value: u64, min, max| Setting {
            min: Some(min),
            max: Some(max),
            ..Setting::new(value)
        };
        Self::new(&[
            ("private-flag.legacy-rx", Setting::new(false)),
            ("channels.combined", number(4, 1, 8)),
            (
                "rss.indirection",
                Setting { default: Some("equal 4".into()), ..Setting::new("equal 4") },
            ),
            ("ring.rx", number(256, 64, 4096)),
            ("ring.tx", number(256, 64, 4096)),
            ("ring.tcp-data-split", Setting::new(false)),
            ("ring.hds-thresh", number(0, 0, 1024)),
            ("coalesce.adaptive-rx", Setting::new(true)),
            ("coalesce.rx-usecs", number(3, 0, 1000)),
            ("feature.rx-gro", Setting::new(false)),
            ("feature.rx-lro", Setting::new(true)),
            ("feature.tx-checksum-ip-generic", Setting::new(true)),
            ("feature.tx-scatter-gather", Setting::new(true)),
            ("feature.tx-tcp-segmentation", Setting::new(true)),
            ("feature.tx-tcp6-segmentation", Setting::new(true)),
            ("copybreak.rx", number(256, 0, 2048)),
            ("pause.rx", Setting::new(false)),
            ("link.mtu", number(1500, 68, 9000)),
            ("link.gso-max-size", number(65536, 0, 524_280)),
            ("link.gso-ipv4-max-size", number(65536, 0, 524_280)),
            ("link.gro-max-size", number(65536, 0, 524_280)),
            ("link.gro-ipv4-max-size", number(65536, 0, 524_280)),
            ("napi.gro-flush-timeout", Setting::new(0_u64)),
            ("rps.rx-0", Setting::new("00000000,00000000")),
            ("xps.tx-0", Setting::new("0f")),
            ("irq.42", Setting::new("0-3")),
        ])
    }

    pub(crate) fn value(&self, key: &str) -> Value {
        self.settings[&key.parse::<Key>().unwrap()].value.clone()
    }

    /// All values, to compare with.
    pub(crate) fn values(&self) -> BTreeMap<Key, Value> {
        self.settings.iter().map(|(key, setting)| (key.clone(), setting.value.clone())).collect()
    }

    pub(crate) fn quirk(mut self, key: &str, quirk: Quirk) -> Self {
        self.quirks.insert(key.parse().unwrap(), quirk);
        self
    }

    pub(crate) fn fault(mut self, write: usize, fault: Fault) -> Self {
        self.faults.insert(write, fault);
        self
    }

    /// From here on nothing goes wrong, and writes and reads are counted from 0: as seen by
    /// another process.
    pub(crate) fn new_process(&mut self) {
        self.faults.clear();
        self.read_faults.clear();
        self.writes.clear();
        self.reads = 0;
    }

    fn set(&mut self, group: Group, name: &str, value: &Value) -> netlink::Result<()> {
        let key = Key::new(group, name);
        let quirk = self.quirks.get(&key).copied();
        let einval = || netlink::Error::from_errno(libc::EINVAL);
        if group == Group::Channels {
            self.check_indirection(value)?;
        }
        let setting = self.settings.get_mut(&key).ok_or_else(einval)?;
        let value = match (value, quirk) {
            (_, Some(Quirk::Ignore)) => setting.value.clone(),
            (Value::Number(number), Some(Quirk::RoundUp(step))) => {
                number.next_multiple_of(step).into()
            }
            (Value::Number(number), Some(Quirk::Clamp(max))) => (*number).min(max).into(),
            (value, None) => value.clone(),
            (_, Some(_)) => return Err(einval()),
        };
        setting.requested = value.requested().map(Value::Switch);
        if setting.requested.is_some() {
            return Ok(());
        }
        setting.value = value.clone();
        self.disturb(&key, &value);
        Ok(())
    }

    fn readable(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.retain(|key, _| !self.unread.contains(&key.group));
        for group in &self.unread {
            settings.set_unread(*group, netlink::Error::from_errno(libc::ENOBUFS).to_string());
        }
        settings
    }

    /// As `ethnl_set_channels`: the table of flows may not name queues that go.
    fn check_indirection(&self, combined: &Value) -> netlink::Result<()> {
        let table = self.settings.get(&Key::new(Group::Rss, "indirection"));
        let used = table.and_then(|setting| match &setting.value {
            Value::Text(text) => text.strip_prefix("equal ")?.parse::<u64>().ok(),
            _ => None,
        });
        match (used, combined) {
            (Some(used), Value::Number(count)) if self.table_is_set && used > *count => {
                Err(netlink::Error::new(
                    libc::EINVAL,
                    "requested channel counts are too low for existing indirection table settings",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The driver spreads flows over its queues anew, unless a user has chosen how.
    fn spread(&mut self, key: &Key, value: &Value) {
        let table = Key::new(Group::Rss, "indirection");
        let default = match (key.group, key.name.as_str(), value) {
            (Group::Channels, "combined", queues) => Value::Text(format!("equal {queues}")),
            (Group::Rss, "indirection", _) => {
                self.table_is_set = !plan::is_default(value);
                let of_now = self.settings.get(&table).and_then(|table| table.default.clone());
                of_now.unwrap_or_else(|| value.clone())
            }
            _ => return,
        };
        if let Some(setting) = self.settings.get_mut(&table) {
            if !self.table_is_set {
                setting.value = default.clone();
            }
            setting.default = Some(default);
        }
    }

    /// As `netdev_fix_features`: what depends on others goes off and comes on with them.
    fn fix_features(&mut self) {
        let before = self.settings.clone();
        let features = before.iter().filter(|(key, _)| key.group == Group::Feature);
        let wanted: BTreeMap<&str, bool> = features
            .map(|(key, s)| (key.name.as_str(), s.requested.as_ref().unwrap_or(&s.value)))
            .map(|(name, value)| (name, *value == Value::Switch(true)))
            .collect();
        let lost = rules::fix(self.identity.driver.as_deref(), wanted.clone()).lost;
        for (name, on) in wanted {
            let Some(setting) = self.settings.get_mut(&Key::new(Group::Feature, name)) else {
                continue;
            };
            let is_lost = lost.contains_key(name);
            setting.value = (on && !is_lost).into();
            setting.requested = is_lost.then(|| true.into());
        }
    }

    /// What real ones change besides.
    fn disturb(&mut self, key: &Key, value: &Value) {
        self.spread(key, value);
        let mut set = |group, name: &str, value: Value| {
            if let Some(setting) = self.settings.get_mut(&Key::new(group, name)) {
                setting.value = value;
            }
        };
        match (key.group, key.name.as_str(), value) {
            (Group::Channels, ..) => set(Group::Xps, "tx-0", "00".into()),
            (Group::Coalesce, "adaptive-rx", _) => set(Group::Coalesce, "rx-usecs", 50_u64.into()),
            (Group::Link, "gso-max-size", Value::Number(..=65536)) => {
                set(Group::Link, "gso-ipv4-max-size", value.clone());
            }
            (Group::Link, "gro-max-size", Value::Number(..=65536)) => {
                set(Group::Link, "gro-ipv4-max-size", value.clone());
            }
            _ => {}
        }
    }
}

fn kill() -> ! {
    // No panic hook: it is meant.
    std::panic::resume_unwind(Box::new(Killed) as Box<dyn Any + Send>)
}

impl Device for Fake {
    fn read(&mut self) -> Result<Settings> {
        let read = self.reads;
        self.reads += 1;
        if self.gone {
            return Err(Error::not_found("no interface has the index 3"));
        }
        match self.read_faults.get(&read) {
            Some(Fault::KillBefore | Fault::KillAfter) => kill(),
            Some(Fault::Errno(errno) | Fault::Half(errno)) => {
                Err(netlink::Error::from_errno(*errno).while_doing("read eth0"))
            }
            Some(Fault::Vanish) => {
                self.gone = true;
                Err(Error::not_found("no interface has the index 3"))
            }
            None => Ok(self.readable()),
        }
    }

    fn write(
        &mut self,
        group: Group,
        changes: &[(String, Value)],
    ) -> netlink::Result<Option<String>> {
        let fault = self.faults.get(&self.writes.len()).cloned();
        self.writes.push((group, changes.to_vec()));
        match fault {
            Some(Fault::KillBefore) => kill(),
            Some(Fault::Vanish) => self.gone = true,
            Some(Fault::Errno(errno)) => return Err(netlink::Error::from_errno(errno)),
            _ => {}
        }
        if self.gone {
            return Err(netlink::Error::from_errno(libc::ENODEV));
        }
        if let Some(errno) = self.refuses.get(&group) {
            return Err(netlink::Error::from_errno(*errno));
        }
        // Settings of one request are seen together by the driver; alphabetical order here.
        let mut order: Vec<&(String, Value)> = changes.iter().collect();
        order.sort();
        for (done, (name, value)) in order.into_iter().enumerate() {
            match fault {
                Some(Fault::Half(errno)) if done > 0 => {
                    return Err(netlink::Error::from_errno(errno));
                }
                _ => self.set(group, name, value)?,
            }
        }
        if group == Group::Feature {
            self.fix_features();
        }
        match fault {
            Some(Fault::KillAfter) => kill(),
            Some(Fault::Half(errno)) => Err(netlink::Error::from_errno(errno)),
            _ => Ok(None),
        }
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn speed(&self) -> Option<u32> {
        Some(1000)
    }
}
