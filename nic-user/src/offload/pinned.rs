//! The small maps of a slot, and errors of aya in our words.

use std::path::Path;

use aya::maps::{Array, Map, MapData};
use nic_common::{policy::CopyPolicy, record::AttachRecord};

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

/// The copy policy in a slot.
pub fn read_policy(slot: &Slot) -> Result<CopyPolicy> {
    let action = "read the copy policy";
    let map = Map::Array(open_map(&slot.pin(slot::POLICY))?);
    let map: Array<MapData, u64> = map.try_into().map_err(|error| aya_error(action, &error))?;
    map.get(&0, 0).map(CopyPolicy::from_word).map_err(|error| aya_error(action, &error))
}

/// Writes the copy policy into its map.
pub fn set_policy(map: MapData, policy: CopyPolicy) -> Result<()> {
    let action = "write the copy policy";
    let mut map: Array<MapData, u64> =
        Map::Array(map).try_into().map_err(|error| aya_error(action, &error))?;
    map.set(0, policy.to_word(), 0).map_err(|error| aya_error(action, &error))
}

/// Opens a map pinned at `path`.
pub fn open_map(path: &Path) -> Result<MapData> {
    let action = format!("open {}", path.display());
    let map = sys::open_pin(path).map_err(|error| bpffs::error(&action, &error))?;
    MapData::from_fd(map).map_err(|error| aya_error(&action, &error))
}
