//! The first format: one file a place, which does not tell whose a setting is.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, de::IgnoredAny};

use super::{Noted, Obtained, Phase};
use crate::{
    control::{
        device,
        kept::{Kept, Owner},
    },
    nic::{
        identity::InterfaceKey,
        setting::{Key, Value},
    },
};

pub const VERSION: u32 = 1;

/// A journal as releases wrote it that named it by network namespace and index.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    #[serde(rename = "version")]
    _version: u32,
    written_by: String,
    identity: Identity,
    phase: Phase,
    originals: BTreeMap<Key, Value>,
    obtained: BTreeMap<Key, Obtained>,
    #[serde(rename = "steps")]
    _steps: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    name: String,
    ifindex: u32,
    mac: Option<String>,
    driver: Option<String>,
    bus: Option<String>,
    boot_id: String,
    netns_cookie: u64,
}

impl Identity {
    /// Whether it is about this interface. A new address and the same hardware are of the same one;
    /// another address without hardware may be of one made anew.
    fn is(&self, interface: &device::Identity) -> bool {
        let is_there = self.boot_id == interface.boot_id
            && self.netns_cookie == interface.netns_cookie
            && self.ifindex == interface.ifindex;
        let same_hardware = self.bus.is_some() && self.bus == interface.bus;
        is_there && self.driver == interface.driver && (self.mac == interface.mac || same_hardware)
    }
}

impl Journal {
    /// The same in the format of today, if it is about `interface`. Detaching gave everything back,
    /// so all of it counts as done by attaching.
    pub fn of(self, interface: &device::Identity, path: &Path) -> Option<super::Journal> {
        if !self.identity.is(interface) {
            return None;
        }
        let kept = |(key, original)| (key, Kept::changed_by(Owner::Attach, original));
        Some(super::Journal {
            version: super::VERSION,
            written_by: self.written_by,
            identity: interface.clone(),
            phase: self.phase,
            settings: self.originals.into_iter().map(kept).collect(),
            obtained: self.obtained,
            former: Some(path.to_owned()),
        })
    }

    pub fn noted(self, key: InterfaceKey) -> Noted {
        Noted {
            key,
            name: self.identity.name,
            netns_cookie: self.identity.netns_cookie,
            boot_id: self.identity.boot_id,
            phase: self.phase,
            settings: self.originals.len(),
            owners: BTreeSet::from([Owner::Attach]),
        }
    }
}
