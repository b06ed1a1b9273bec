//! The small maps of a slot, and errors of aya in our words.

use std::path::Path;

use aya::maps::{Array, Map, MapData};
use nic_common::{
    policy::{CopyPolicy, STEERING},
    record::AttachRecord,
};

use super::{
    bpffs,
    slot::{self, Slot},
    sys,
};
use crate::error::{Error, Kind, Result};

/// An error of aya with all its causes.
pub fn aya_error(action: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let mut message = format!("{action}: {error}");
    let mut kind = Kind::Failed;
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>()
            && matches!(io.raw_os_error(), Some(libc::EPERM | libc::EACCES))
        {
            kind = Kind::NotPermitted;
        }
        cause = error.source();
        if let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
        }
    }
    Error::new(kind, message)
}

/// The record in a slot, if this nicctl can read what it describes.
pub fn read_record(slot: &Slot) -> Result<AttachRecord> {
    let path = slot.pin(slot::RECORD);
    let other_version = || {
        Error::failed(format!(
            "interface {} was attached by another version of nicctl, whose counters this one \
             cannot read",
            slot.ifindex
        ))
        .with_fix("detach it and attach it again, or use that version")
    };
    let map = Map::Array(open_map(&path)?);
    let map: Array<MapData, AttachRecord> = map.try_into().map_err(|_| other_version())?;
    let record = map.get(&0, 0).map_err(|error| aya_error("read the record", &error))?;
    if record.layout == AttachRecord::LAYOUT { Ok(record) } else { Err(other_version()) }
}

/// The word of the copy policy, in its map.
pub struct PolicyWord(Array<MapData, u64>);

impl PolicyWord {
    /// In a slot.
    pub fn of(slot: &Slot) -> Result<Self> {
        let map = Map::Array(open_map(&slot.pin(slot::POLICY))?).try_into();
        map.map(Self).map_err(|error| aya_error("open the copy policy", &error))
    }

    fn get(&self) -> Result<u64> {
        self.0.get(&0, 0).map_err(|error| aya_error("read the copy policy", &error))
    }

    fn set(&mut self, word: u64) -> Result<()> {
        self.0.set(0, word, 0).map_err(|error| aya_error("write the copy policy", &error))
    }

    /// The copy policy.
    pub fn policy(&self) -> Result<CopyPolicy> {
        self.get().map(CopyPolicy::from_word)
    }

    /// Puts another copy policy in force. Only under the lock, if it is a slot's.
    pub fn set_policy(&mut self, policy: CopyPolicy) -> Result<()> {
        let steering = self.get()? & STEERING;
        self.set(policy.to_word() | steering)
    }

    /// Whether any queue has rules of steering.
    pub fn is_steering(&self) -> Result<bool> {
        self.get().map(|word| word & STEERING != 0)
    }

    /// Says whether any queue has. Only under the lock.
    pub fn set_steering(&mut self, on: bool) -> Result<()> {
        let policy = self.get()? & !STEERING;
        self.set(policy | if on { STEERING } else { 0 })
    }
}

/// Opens a map pinned at `path`.
pub fn open_map(path: &Path) -> Result<MapData> {
    let action = format!("open {}", path.display());
    let map = sys::open_pin(path).map_err(|error| bpffs::error(&action, &error))?;
    MapData::from_fd(map).map_err(|error| aya_error(&action, &error))
}
