//! What is pinned in a slot, and errors of aya in our words.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{Array, Map, MapData};
use nic_common::{
    policy::{CopyPolicy, STEERING},
    record::AttachRecord,
};

use super::{
    bpffs,
    layout::Counted,
    map::{self, CounterMap, Map as VerifiedMap, RecordMap, Spec},
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

/// The word of the copy policy, in its map.
pub struct PolicyWord(Array<MapData, u64>);

impl PolicyWord {
    /// In a slot.
    pub fn of(slot: &Slot) -> Result<Self> {
        let map = Map::Array(open_map(slot, slot::POLICY)?).try_into();
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

/// Opens what is pinned in a slot; `None` if there is nothing.
fn open(slot: &Slot, pin: &str) -> Result<Option<OwnedFd>> {
    let path = slot.pin(pin);
    match sys::open_pin(&path) {
        Ok(fd) => Ok(Some(fd)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(bpffs::error(format!("open {}", path.display()), &error)),
    }
}

/// What is pinned in a slot, made into something by `make`.
fn open_as<T>(
    slot: &Slot,
    pin: &str,
    make: impl FnOnce(OwnedFd) -> Result<T>,
) -> Result<Option<T>> {
    let Some(fd) = open(slot, pin)? else { return Ok(None) };
    make(fd).map(Some).map_err(|error| unfit(slot, pin, error))
}

/// An error about what is pinned, with its path and a way out.
fn unfit(slot: &Slot, pin: &str, error: Error) -> Error {
    let fix = error.fix().map_or_else(|| UNFIT.to_owned(), str::to_owned);
    error.while_doing(slot.pin(pin).display()).with_fix(fix)
}

const UNFIT: &str = "another program put it there: detach and attach again";

fn missing(slot: &Slot, pin: &str) -> Error {
    let error = io::Error::from_raw_os_error(libc::ENOENT);
    bpffs::error(format!("open {}", slot.pin(pin).display()), &error)
}

/// A map of a slot, if it is there.
pub fn open_map_if_there(slot: &Slot, pin: &str) -> Result<Option<VerifiedMap>> {
    open_as(slot, pin, |fd| VerifiedMap::new(fd, &Spec::of(pin)))
}

/// A map of a slot.
pub fn open_map(slot: &Slot, pin: &str) -> Result<MapData> {
    let map = open_map_if_there(slot, pin)?.ok_or_else(|| missing(slot, pin))?;
    map.into_aya().map_err(|error| unfit(slot, pin, error))
}

/// Looks at all maps of a slot that are there, so that whoever opens them by these names after that
/// gets what is expected. Only under the lock.
pub fn check_maps(slot: &Slot) -> Result<()> {
    let pins = slot::MAPS.iter();
    pins.copied().try_for_each(|pin| open_map_if_there(slot, pin).map(drop))
}

/// The map of the record in a slot.
pub fn open_record(slot: &Slot, pin: &str) -> Result<RecordMap> {
    open_as(slot, pin, RecordMap::new)?.ok_or_else(|| missing(slot, pin))
}

/// The record in a slot, and whether the layout of what it describes is ours.
pub fn read_record_and_layout(slot: &Slot) -> Result<(AttachRecord, bool)> {
    open_record(slot, slot::RECORD)?.read().map_err(|error| unfit(slot, slot::RECORD, error))
}

/// The record in a slot, if there is one.
pub fn read_record_if_there(slot: &Slot) -> Result<Option<AttachRecord>> {
    let Some(record) = open_as(slot, slot::RECORD, RecordMap::new)? else { return Ok(None) };
    let read = record.read().map_err(|error| unfit(slot, slot::RECORD, error));
    read.map(|(record, _)| Some(record))
}

/// Changes the record in a slot, whose layout must be ours. Only under the lock.
pub fn change_record(slot: &Slot, change: impl FnOnce(&mut AttachRecord)) -> Result<()> {
    let map = open_record(slot, slot::RECORD)?;
    let (mut record, _) = map.read().map_err(|error| unfit(slot, slot::RECORD, error))?;
    change(&mut record);
    map.write(&record).map_err(|error| unfit(slot, slot::RECORD, error))
}

/// The id of what is pinned in a slot, if that is a map.
pub fn map_id(slot: &Slot, pin: &str) -> Result<Option<u32>> {
    let Some(fd) = open(slot, pin)? else { return Ok(None) };
    map::id_of(fd.as_fd())
        .map_err(|error| Error::io(format!("look at {}", slot.pin(pin).display()), &error))
}

/// The counters under one name of a slot.
pub fn open_counters<C: Counted>(slot: &Slot, pin: &str, is_ours: bool) -> Result<CounterMap<C>> {
    let counters = open_as(slot, pin, |fd| CounterMap::new(fd, is_ours))?;
    counters.ok_or_else(|| missing(slot, pin))
}

/// Where counters lie that were counted before their layout changed.
pub fn before(pin: &str) -> String {
    format!("{pin}_before")
}

/// Counters of one hook: those of today, and those that programs of another release have counted,
/// or still count.
#[derive(Debug)]
pub struct CounterPins<C> {
    /// Of today.
    pub now: CounterMap<C>,
    /// From before.
    pub before: Option<CounterMap<C>>,
}

impl<C: Counted> CounterPins<C> {
    /// Opens those of a slot.
    pub fn open(slot: &Slot, pin: &str, is_ours: bool) -> Result<Self> {
        Self::open_if_there(slot, pin, is_ours)?.ok_or_else(|| missing(slot, pin))
    }

    /// Opens those of a slot, if they are there.
    pub fn open_if_there(slot: &Slot, pin: &str, is_ours: bool) -> Result<Option<Self>> {
        loop {
            let now = open_as(slot, pin, |fd| CounterMap::new(fd, is_ours))?;
            let Some(now) = now else { return Ok(None) };
            let name = before(pin);
            let before = open_as(slot, &name, |fd| CounterMap::new(fd, false))?;
            // Else they changed places between the two.
            if before.as_ref().is_none_or(|before: &CounterMap<C>| before.id() != now.id()) {
                return Ok(Some(Self { now, before }));
            }
        }
    }

    /// All that was counted, by queue.
    pub fn read(&self) -> io::Result<Vec<C>> {
        let mut counted = self.now.read()?;
        if let Some(before) = &self.before {
            let before = before.read()?;
            counted.resize(counted.len().max(before.len()), C::ZERO);
            counted.iter_mut().zip(&before).for_each(|(to, from)| to.add(from));
        }
        Ok(counted)
    }
}
