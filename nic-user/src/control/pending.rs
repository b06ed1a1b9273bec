//! Changes that are given back at a deadline, unless somebody confirms them before.
//!
//! They are in a file beside the journal, on disk before anything is changed. So they are given
//! back by whoever comes first after the deadline, whatever became of the process that made them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{
    device::{Device, Identity},
    give_back::{GivenBack, give_back},
    journal::{self, Durability, Journal, Journals, Phase},
    kernel_device::boot_id,
    plan::Plan,
};
use crate::{
    error::{Error, Result},
    nic::{
        identity::{InterfaceId, InterfaceKey},
        setting::{Key, Value},
    },
};

/// Format of the file.
const VERSION: u32 = 1;

/// What the name of the file ends in.
const SUFFIX: &str = ".pending";

/// The most seconds that there can be to confirm a change: a day.
pub const LONGEST: u32 = 86400;

/// Until when somebody has to confirm: seconds since the machine was started, also those that it
/// slept (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Deadline(u64);

impl Deadline {
    /// So many seconds from now.
    ///
    /// # Errors
    ///
    /// The kernel does not tell the time.
    pub fn within(seconds: u32) -> Result<Self> {
        Ok(Self(now()?.saturating_add(seconds.into())))
    }

    /// Seconds that are left; `None` if it is over.
    ///
    /// # Errors
    ///
    /// The kernel does not tell the time.
    pub fn left(self) -> Result<Option<u64>> {
        Ok(self.0.checked_sub(now()?).filter(|&left| left > 0))
    }
}

fn now() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_err(|error| Error::io("read the clock", &error.into()))?;
    Ok(u64::try_from(now.tv_sec()).unwrap_or_default())
}

/// The programs that an interface had before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Programs {
    /// Those that it has.
    Same,
    /// None.
    None,
    /// Those of an attachment like this.
    Attached {
        /// XDP mode, as in [`AttachRecord`](nic_common::record::AttachRecord).
        mode: u32,
        /// The [copy policy](nic_common::policy::CopyPolicy::to_word).
        policy: u64,
        /// TC ingress pulled small packets together.
        pull: bool,
        /// Malformed frames were logged.
        log: bool,
    },
}

/// A bpffs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bpffs {
    /// Where it is, as whoever pinned something there saw it.
    pub path: PathBuf,
    /// The number of its device, by which it is known wherever it is seen.
    pub device: u64,
}

/// What one interface was before a change that waits to be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    version: u32,
    /// Which interface it is.
    pub identity: Identity,
    /// Until when it waits.
    pub deadline: Deadline,
    /// Its programs.
    pub programs: Programs,
    /// Which bpffs they are pinned in.
    pub bpffs: Bpffs,
    settings: BTreeMap<Key, Value>,
    /// Its journal.
    journal: Option<Journal>,
}

impl Pending {
    /// What an interface is before `plan`.
    ///
    /// # Errors
    ///
    /// Its journal cannot be read.
    pub fn before(
        plan: &Plan,
        (programs, bpffs): (Programs, Bpffs),
        deadline: Deadline,
        journals: &Journals,
    ) -> Result<Self> {
        let (identity, settings) = (plan.identity.clone(), plan.touched.clone());
        let journal = journals.find(&identity)?;
        Ok(Self { version: VERSION, identity, deadline, programs, bpffs, settings, journal })
    }

    /// Whether it is of the boot with this id; settings do not outlive one.
    pub fn is_of(&self, boot_id: &str) -> bool {
        self.identity.boot_id == boot_id
    }

    /// No change of this boot waits longer than one can be made to.
    fn check_deadline(self) -> Result<Result<Self, String>> {
        let is_too_far = self.deadline > Deadline::within(LONGEST)?;
        Ok(match is_too_far && self.is_of(&boot_id()?) {
            true => Err(format!("it is damaged: its deadline is more than {LONGEST} s away")),
            false => Ok(self),
        })
    }

    /// Makes the settings what they were, and the journal with them; but what somebody else has
    /// changed since stays, and in the journal. With what was given back come those settings.
    ///
    /// # Errors
    ///
    /// The interface or its journal cannot be read, or the journal not be written.
    pub fn give_back(
        &self,
        device: &mut dyn Device,
        journals: &Journals,
    ) -> Result<(GivenBack, Vec<Key>)> {
        let journal = journals.find(&self.identity)?;
        let current = device.read()?;
        let is_foreign = |key: &Key| {
            let kept = journal.as_ref().and_then(|journal| journal.settings.get(key));
            let setting = current.get(key);
            kept.zip(setting).is_some_and(|(kept, setting)| !kept.is_ours(key, setting))
        };
        let (foreign, ours): (Vec<_>, Vec<_>) =
            self.settings.clone().into_iter().partition(|(key, _)| is_foreign(key));
        let foreign: Vec<Key> = foreign.into_iter().map(|(key, _)| key).collect();
        let given = give_back(device, &ours.into_iter().collect());
        if given.is_complete() {
            self.give_back_journal(journal, &foreign, journals)?;
        }
        Ok((given, foreign))
    }

    /// What there was before, and of what there is, what is `kept`.
    fn give_back_journal(
        &self,
        journal: Option<Journal>,
        kept: &[Key],
        journals: &Journals,
    ) -> Result<()> {
        let Some(mut now) = journal else {
            return self.journal.iter().try_for_each(|it| journals.save(it, Durability::Lazy));
        };
        now.phase = Phase::Applied;
        now.settings.retain(|key, _| kept.contains(key));
        let mut before = self.journal.clone().unwrap_or_else(|| now.clone());
        before.settings.append(&mut now.settings);
        match before.settings.is_empty() {
            true => journals.remove(&before),
            false => journals.save(&before, Durability::Lazy),
        }
    }
}

/// What waits to be confirmed.
impl Journals {
    /// Of this interface.
    ///
    /// # Errors
    ///
    /// It cannot be read, is damaged, or was written by another version.
    pub fn pending(&self, interface: InterfaceId) -> Result<Option<Pending>> {
        load(&self.pending_file(interface))
    }

    /// Of all interfaces, and why it cannot be read.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn all_pending(&self) -> Result<Vec<Result<Pending>>> {
        let names = self.names()?.into_iter().filter(|name| name.ends_with(SUFFIX));
        Ok(names.filter_map(|name| load(&self.file(&name)).transpose()).collect())
    }

    /// The file of what waits of this interface. Without it, what is changed stays.
    pub fn pending_file(&self, interface: InterfaceId) -> PathBuf {
        self.file(&format!("{}{SUFFIX}", InterfaceKey::Id(interface)))
    }

    /// Writes it down.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn save_pending(&self, pending: &Pending) -> Result<()> {
        self.write(&self.pending_file(pending.identity.id), pending, Durability::Synced)
    }

    /// It waits no more.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn remove_pending(&self, interface: InterfaceId) -> Result<()> {
        self.remove_file(&self.pending_file(interface))
    }
}

fn load(path: &Path) -> Result<Option<Pending>> {
    let Some(bytes) = journal::read(path)? else { return Ok(None) };
    let read = serde_json::from_slice(&bytes).map_err(|error| format!("it is damaged: {error}"));
    let read = read.and_then(|pending: Pending| match pending.version {
        VERSION => Ok(pending),
        other => Err(format!("its format is version {other}; this nicctl supports {VERSION}")),
    });
    let read = match read {
        Ok(pending) => pending.check_deadline()?,
        Err(why) => Err(why),
    };
    read.map(Some).map_err(|why| {
        Error::failed(format!("read {}: {why}", path.display())).with_fix(format!(
            "the unconfirmed changes stay in place if you remove {}",
            path.display()
        ))
    })
}
