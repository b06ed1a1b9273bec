//! Record and counters of another release, carried over to the layout of this one.
//!
//! Nothing is lost or counted twice, wherever it ends, and whoever reads meanwhile finds all: the
//! map that programs count in goes on under another name, changing places in one step with a new
//! one, and what is read is the sum of both. Only what no program counts in any more is copied.

use std::{fs, io};

use aya::programs::loaded_programs;
use nic_common::{
    counters::{IngressCounters, RxCounters, TxCounters},
    record::AttachRecord,
};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::{
    error::{Error, Result},
    offload::{
        bpffs,
        layout::Counted,
        pinned::{self, CounterPins, aya_error},
        slot::{self, Slot},
    },
};

/// Where a new map is until it takes the place of the old one.
pub fn new(pin: &str) -> String {
    format!("{pin}_new")
}

/// The maps of a slot whose layout is another release's. What an interrupted change of them left is
/// removed.
pub(super) fn changed(slot: &Slot) -> Result<Vec<&'static str>> {
    others(slot)?.into_iter().map(|pin| remove_leftover(slot, pin).map(|()| pin)).collect()
}

/// The maps of a slot whose layout is another release's.
pub(super) fn others(slot: &Slot) -> Result<Vec<&'static str>> {
    let (_, is_ours) = pinned::read_record_and_layout(slot)?;
    let changed = [
        (slot::RX, is_other::<RxCounters>(slot, slot::RX, is_ours)?),
        (slot::INGRESS, is_other::<IngressCounters>(slot, slot::INGRESS, is_ours)?),
        (slot::TX, is_other::<TxCounters>(slot, slot::TX, is_ours)?),
        (slot::RECORD, !is_ours),
    ];
    Ok(changed.into_iter().filter_map(|(pin, is_other)| is_other.then_some(pin)).collect())
}

/// Counters that somebody removed begin anew.
fn is_other<C: Counted>(slot: &Slot, pin: &str, is_ours: bool) -> Result<bool> {
    let pins = CounterPins::<C>::open_if_there(slot, pin, is_ours)?;
    Ok(pins.is_some_and(|pins| !pins.now.is_ours()))
}

/// What an upgrade that was killed left: the loader would take it for the map that is to be made.
fn remove_leftover(slot: &Slot, pin: &str) -> Result<()> {
    let path = slot.pin(&new(pin));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(bpffs::error(format!("remove {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

/// Puts the new maps, which are beside the old ones, into their places. The record comes last: it
/// says that the layout is ours.
pub(super) fn carry(slot: &Slot, changed: &[&str], record: &AttachRecord) -> Result<()> {
    for pin in changed {
        match *pin {
            slot::RX => carry_counters::<RxCounters>(slot, pin)?,
            slot::INGRESS => carry_counters::<IngressCounters>(slot, pin)?,
            slot::TX => carry_counters::<TxCounters>(slot, pin)?,
            _ => carry_record(slot, record)?,
        }
    }
    Ok(())
}

fn carry_record(slot: &Slot, record: &AttachRecord) -> Result<()> {
    let new = new(slot::RECORD);
    let record = AttachRecord { layout: AttachRecord::LAYOUT, ..*record };
    pinned::open_record(slot, &new)?.write(&record)?;
    rename(slot, &new, slot::RECORD, RenameFlags::empty())
}

fn carry_counters<C: Counted>(slot: &Slot, pin: &str) -> Result<()> {
    let (new_name, before_name) = (new(pin), pinned::before(pin));
    let new = pinned::open_counters::<C>(slot, &new_name, true)?;
    let CounterPins { now, before } = CounterPins::<C>::open(slot, pin, false)?;
    let failed = |error| Error::io(format!("read {}", slot.pin(pin).display()), &error);
    if let Some(before) = before {
        if is_counted_in(before.id())? {
            // An upgrade was killed before it had put its programs in: nothing counts in `now`.
            if is_counted_in(now.id())? {
                return Err(
                    Error::failed("programs of two releases are counting").with_fix("try again")
                );
            }
            new.write(&now.read().map_err(failed)?)?;
            return rename(slot, &new_name, pin, RenameFlags::empty());
        }
        new.write(&before.read().map_err(failed)?)?;
    }
    rename(slot, &new_name, &before_name, RenameFlags::empty())?;
    rename(slot, &before_name, pin, RenameFlags::RENAME_EXCHANGE)
}

/// Whether any program uses a map.
fn is_counted_in(map: u32) -> Result<bool> {
    let failed = |error| aya_error("look for programs that count", &error);
    for program in loaded_programs() {
        let maps = program.and_then(|program| program.map_ids()).map_err(failed)?;
        if maps.is_some_and(|maps| maps.contains(&map)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn rename(slot: &Slot, from: &str, to: &str, flags: RenameFlags) -> Result<()> {
    let (from, to) = (slot.pin(from), slot.pin(to));
    renameat2(AT_FDCWD, &from, AT_FDCWD, &to, flags).map_err(|errno| {
        bpffs::error(format!("rename {}", from.display()), &io::Error::from(errno))
    })
}
