//! Names and values of settings: everything that can be read of a NIC and written to it.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name;
use crate::error::{Error, Result};

/// Groups of settings that are read and written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Descriptor rings (`ethtool -g`).
    Ring,
    /// Queues in use (`ethtool -l`).
    Channels,
    /// Interrupt moderation (`ethtool -c`).
    Coalesce,
    /// Offloads (`ethtool -k`).
    Feature,
    /// Sizes up to which packets are copied instead of mapped (`ethtool --get-tunable`).
    Copybreak,
    /// Flags that only this driver has (`ethtool --show-priv-flags`).
    PrivateFlag,
    /// Flow control (`ethtool -a`).
    Pause,
    /// Spreading of flows over queues by the device (`ethtool -x`).
    Rss,
    /// MTU and sizes of offloaded packets (`ip -d link`).
    Link,
    /// Polling (`/sys/class/net/X/{gro_flush_timeout,napi_defer_hard_irqs,threaded}`).
    Napi,
    /// Spreading of received packets over CPUs by the kernel (`rps_cpus`).
    Rps,
    /// CPUs that send through each queue (`xps_cpus`).
    Xps,
    /// CPUs that serve each interrupt (`/proc/irq/N/smp_affinity_list`).
    Irq,
}

impl Group {
    /// Every group, in the order in which it is shown.
    pub const ALL: [Self; 13] = [
        Self::Ring,
        Self::Channels,
        Self::Coalesce,
        Self::Feature,
        Self::Copybreak,
        Self::PrivateFlag,
        Self::Pause,
        Self::Rss,
        Self::Link,
        Self::Napi,
        Self::Rps,
        Self::Xps,
        Self::Irq,
    ];

    /// Its name: `ring`, `private-flag`, ...
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Channels => "channels",
            Self::Coalesce => "coalesce",
            Self::Feature => "feature",
            Self::Copybreak => "copybreak",
            Self::PrivateFlag => "private-flag",
            Self::Pause => "pause",
            Self::Rss => "rss",
            Self::Link => "link",
            Self::Napi => "napi",
            Self::Rps => "rps",
            Self::Xps => "xps",
            Self::Irq => "irq",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Group {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|group| group.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let error = Error::usage(format!("there is no settings group {text:?}"));
            match name::nearest(text, names) {
                Some(nearest) => error.with_fix(format!("did you mean {nearest}?")),
                None => error.with_fix(format!("available: {}", names.join(", "))),
            }
        })
    }
}

/// One setting of an interface: a group, and the name that ethtool or ip has for it.
///
/// As text: `ring.rx`, `coalesce.rx-usecs`, `feature.rx-gro`, `link.mtu`, `irq.42`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Key {
    /// What it is read and written with.
    pub group: Group,
    /// Its name inside the group.
    pub name: String,
}

impl Key {
    /// The setting called `name` in `group`.
    pub fn new(group: Group, name: impl Into<String>) -> Self {
        Self { group, name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.group, self.name))
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('.') {
            Some((group, name)) if !name.is_empty() => Ok(Self::new(group.parse::<Group>()?, name)),
            _ => Err(Error::usage(format!("{text:?} is not a setting"))
                .with_fix("write GROUP.NAME, like ring.rx or link.mtu")),
        }
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

/// What a setting is set to.
///
/// As text, it is what ethtool and ip print: `256`, `on`, `toeplitz`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(untagged)]
pub enum Value {
    /// A count, a size in bytes or a time in the setting's own unit.
    Number(u64),
    /// On or off.
    Switch(bool),
    /// Anything else: a CPU mask or list, a hash function.
    Text(String),
}

impl Value {
    /// Between what a setting is and what was asked of it, in the text of the first.
    const REQUESTED: &str = " [requested ";

    /// What a setting is that was asked to be something else: `off [requested on]`.
    fn ungranted(is: &Self, requested: &Self) -> Self {
        Self::Text(format!("{is}{}{requested}]", Self::REQUESTED))
    }

    /// What is asked with `off [requested on]`: on.
    pub fn requested(&self) -> Option<bool> {
        let Self::Text(text) = self else { return None };
        match text.split_once(Self::REQUESTED)?.1 {
            "on]" => Some(true),
            "off]" => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Switch(on) => f.pad(if *on { "on" } else { "off" }),
            Self::Text(text) => f.pad(text),
        }
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(on: bool) -> Self {
        Self::Switch(on)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Who decides about a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The user.
    ReadWrite,
    /// Not the user.
    Fixed {
        /// Who does: `driver`, `kernel`, `host`, ...
        by: String,
    },
    /// It can be read, but there is no way to write it.
    ReadOnly,
}

/// One setting as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is set to.
    pub value: Value,
    /// What it was asked to be, where the device does not grant that, because of what it depends
    /// on. The kernel remembers it (`wanted_features`), and grants it as soon as it can.
    pub requested: Option<Value>,
    /// The least that the device takes, where it says.
    pub min: Option<u64>,
    /// The most that the device takes, where it says.
    pub max: Option<u64>,
    /// What it is when nobody has set it, where that is known.
    pub default: Option<Value>,
    /// Who decides about it.
    pub access: Access,
    /// What else to know about it.
    pub note: Option<String>,
}

impl Setting {
    /// What it is, as `ethtool -k` says it: `on`, or `off [requested on]`.
    ///
    /// Unlike the value alone, this tells a setting that was asked to be off from one that only
    /// something else keeps off.
    pub fn state(&self) -> Value {
        match &self.requested {
            Some(requested) => Value::ungranted(&self.value, requested),
            None => self.value.clone(),
        }
    }

    /// A setting that the user decides about, without known limits.
    pub fn new(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            requested: None,
            min: None,
            max: None,
            default: None,
            access: Access::ReadWrite,
            note: None,
        }
    }
}

/// Every setting that an interface has, as far as it could be read: a map of those, and with it
/// which groups could not be read, so that nobody takes theirs for absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    read: BTreeMap<Key, Setting>,
    unread: BTreeMap<Group, String>,
}

/// What is known of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// It is this.
    Is(&'a Setting),
    /// The interface has no such setting.
    Absent,
    /// Its group could not be read, and why.
    Unread(&'a str),
}

impl Settings {
    /// None at all.
    pub const fn new() -> Self {
        Self { read: BTreeMap::new(), unread: BTreeMap::new() }
    }

    /// What is known of the setting `key`.
    pub fn answer(&self, key: &Key) -> Answer<'_> {
        match (self.read.get(key), self.unread(key.group)) {
            (Some(setting), _) => Answer::Is(setting),
            (None, Some(why)) => Answer::Unread(why),
            (None, None) => Answer::Absent,
        }
    }

    /// Why a group could not be read; `None` if it could.
    pub fn unread(&self, group: Group) -> Option<&str> {
        self.unread.get(&group).map(String::as_str)
    }

    /// Notes that a group could not be read, and why.
    pub fn set_unread(&mut self, group: Group, why: impl Into<String>) {
        self.unread.insert(group, why.into());
    }
}

impl Deref for Settings {
    type Target = BTreeMap<Key, Setting>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.read
    }
}

impl FromIterator<(Key, Setting)> for Settings {
    fn from_iter<I: IntoIterator<Item = (Key, Setting)>>(settings: I) -> Self {
        Self { read: settings.into_iter().collect(), unread: BTreeMap::new() }
    }
}

impl<const N: usize> From<[(Key, Setting); N]> for Settings {
    fn from(settings: [(Key, Setting); N]) -> Self {
        settings.into_iter().collect()
    }
}

impl IntoIterator for Settings {
    type Item = (Key, Setting);
    type IntoIter = btree_map::IntoIter<Key, Setting>;

    fn into_iter(self) -> Self::IntoIter {
        self.read.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_group_is_read_as_it_is_written() {
        for group in Group::ALL {
            assert_eq!(group.to_string().parse::<Group>().unwrap(), group);
        }
        assert_eq!(format!("{:>5}|", Group::Irq), "  irq|");
    }

    #[test]
    fn the_nearest_group_is_suggested() {
        let error = "chanels".parse::<Group>().unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert_eq!(error.to_string(), "there is no settings group \"chanels\"");
        assert_eq!(error.fix(), Some("did you mean channels?"));
        let error = "nothing-like-it".parse::<Group>().unwrap_err();
        assert!(error.fix().is_some_and(|fix| fix.starts_with("available: ring, channels, ")));
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for text in ["ring.rx", "coalesce.rx-usecs", "napi.8193/gro-flush-timeout", "rps.rx-0"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        assert_eq!("irq.42".parse::<Key>().unwrap(), Key::new(Group::Irq, "42"));
        // Private flags are called as the driver likes.
        assert_eq!("private-flag.a.b".parse::<Key>().unwrap().name, "a.b");
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in ["", "ring", "ring.", ".rx", "ringg.rx"] {
            assert_eq!(text.parse::<Key>().unwrap_err().kind(), Kind::Usage, "{text}");
        }
    }

    #[test]
    fn values_are_shown_as_ethtool_and_ip_do() {
        let shown = [Value::from(256_u32), true.into(), false.into(), "toeplitz".into()]
            .map(|value| value.to_string());
        assert_eq!(shown, ["256", "on", "off", "toeplitz"]);
        assert_eq!(format!("{:>5}{:>5}", Value::from(7_u32), Value::from(true)), "    7   on");
    }

    #[test]
    fn what_is_only_requested_is_told_from_what_is() {
        let off = Setting::new(false);
        let ungranted = Setting { requested: Some(true.into()), ..off.clone() };
        assert_eq!(off.state(), Value::from(false));
        assert_eq!(ungranted.state(), "off [requested on]".into());
        assert_eq!(ungranted.state().requested(), Some(true));
        for other in [false.into(), "off".into(), "off [requested maybe]".into()] {
            assert_eq!(Value::requested(&other), None, "{other}");
        }
    }

    #[test]
    fn a_setting_of_a_group_that_could_not_be_read_is_not_absent() {
        let key = |text: &str| text.parse::<Key>().unwrap();
        let mut settings = Settings::from([(key("rps.rx-0"), Setting::new("1"))]);
        settings.set_unread(Group::Rps, "EIO");
        assert_eq!(settings.answer(&key("rps.rx-0")), Answer::Is(&Setting::new("1")));
        assert_eq!(settings.answer(&key("rps.rx-1")), Answer::Unread("EIO"));
        assert_eq!(settings.answer(&key("xps.tx-0")), Answer::Absent);
    }

    #[test]
    fn json_has_keys_as_text_and_values_as_they_are() {
        let values: BTreeMap<Key, Value> = [
            (Key::new(Group::Link, "mtu"), Value::from(1500_u32)),
            (Key::new(Group::Feature, "rx-gro"), true.into()),
            (Key::new(Group::Rps, "rx-0"), "3".into()),
        ]
        .into();
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(json, r#"{"feature.rx-gro":true,"link.mtu":1500,"rps.rx-0":"3"}"#);
        assert_eq!(serde_json::from_str::<BTreeMap<Key, Value>>(&json).unwrap(), values);
        assert!(serde_json::from_str::<Key>("\"nonsense\"").is_err());
    }
}
