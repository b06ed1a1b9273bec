//! What users of AF_XDP rings need of an attachment: that it is there, that it knows their sockets,
//! and which frames go to them.
//!
//! A user holds a shared lock on the directory of pins for as long as it lives; the kernel lets go
//! of it however the process ends. So whoever comes or goes can tell whether there are others, and
//! clears away what killed ones left: rules that led nowhere, and an attachment made for them.

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        linux::fs::MetadataExt,
    },
    process,
};

use aya::maps::{Array, Map, MapData, XskMap};
use nic_common::{policy::CopyPolicy, record::AttachRecord, steer::Rules};

use super::{
    attach::{self, ModeWanted, Options},
    attachment::Attachment,
    detach,
    lock::Lock,
    pinned::{self, PolicyWord},
    privilege,
    slot::{self, Slot},
};
use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    locked,
    nic::{InterfaceName, Nic, mode::Mode},
};

/// The rings of one user at an interface. Dropping it gives their frames to the kernel again, and
/// detaches what was only attached for rings, if it is the last.
pub struct Rings {
    name: String,
    slot: Slot,
    presence: File,
    rules: Array<MapData, Rules>,
    sockets: XskMap<MapData>,
    policy: PolicyWord,
    queues: Vec<u32>,
}

impl Rings {
    /// Of an interface in the present network namespace; attaches to it if nothing is attached.
    pub fn open(name: &str) -> Result<Self> {
        let action = || format!("open rings of {name}");
        privilege::check(action())?;
        let nic = Nic::by_name(&InterfaceName::new(name)?)?;
        let lock = Lock::take(|_| {})?;
        Self::open_locked(&lock, &nic).map_err(|error| error.while_doing(action()))
    }

    fn open_locked(lock: &Lock, nic: &Nic) -> Result<Self> {
        let slot = Slot::of(&nic.link)?;
        let attachment = Attachment::of(slot.clone())?;
        if attachment.is_none_or(|attachment| attachment.xdp_program().is_none()) {
            attach_for_rings(lock, nic)?;
        }
        let presence = slot.open_directory()?;
        let alone = presence.try_lock().is_ok();
        if !alone {
            // Those who look whether there is anybody hold it for a moment only.
            presence.lock_shared().map_err(in_lock)?;
        }
        let rules = pinned::open_map(&slot, slot::STEER)?;
        let sockets = pinned::open_map(&slot, slot::SOCKETS)?;
        let mut rings = Self {
            name: nic.name().to_owned(),
            presence,
            rules: Map::Array(rules).try_into().map_err(|error| in_map(&error))?,
            sockets: Map::XskMap(sockets).try_into().map_err(|error| in_map(&error))?,
            policy: PolicyWord::of(&slot)?,
            slot,
            queues: Vec::new(),
        };
        if alone {
            rings.clear_all()?;
            rings.presence.lock_shared().map_err(in_lock)?;
        }
        Ok(rings)
    }

    /// From now on the frames of `queue` that `rules` take go to `socket`, which must be bound to
    /// that queue.
    pub fn register(&mut self, queue: u32, socket: BorrowedFd<'_>, rules: &Rules) -> Result<()> {
        let _lock = Lock::take(|_| {})?;
        let action = || format!("steer to queue {queue} of {}", self.name);
        let in_map = |error| pinned::aya_error(&action(), &error);
        // The socket comes last: as long as rules lead to none, frames are the kernel's.
        self.rules.set(queue, rules, 0).map_err(in_map)?;
        self.policy.set_steering(true)?;
        self.sockets.set(queue, socket.as_raw_fd(), 0).map_err(in_map)?;
        self.queues.push(queue);
        Ok(())
    }

    /// Whether the programs are still attached that these rings were opened at.
    pub fn are_attached(&self) -> bool {
        self.slot.is_at(&self.presence)
    }

    /// Removes the rules of queues that have nobody: only if there is no other user.
    fn clear_all(&mut self) -> Result<()> {
        self.policy.set_steering(false)?;
        (0..self.rules.len())
            .try_for_each(|queue| self.rules.set(queue, Rules::NONE, 0))
            .map_err(|error| in_map(&error))
    }

    fn close(&mut self) -> Result<()> {
        let lock = Lock::take(|_| {})?;
        for queue in std::mem::take(&mut self.queues) {
            // A socket that is closed already is no longer there.
            let _ = self.sockets.unset(queue);
            self.rules.set(queue, Rules::NONE, 0).map_err(|error| in_map(&error))?;
        }
        if self.presence.try_lock().is_err() {
            return Ok(());
        }
        self.clear_all()?;
        let record = match self.slot.is_at(&self.presence) {
            true => pinned::read_record_if_there(&self.slot)?,
            false => None,
        };
        match record {
            Some(record) if record.has(AttachRecord::FOR_RINGS) => {
                detach::detach(&lock, &self.slot).map(drop)
            }
            Some(record) if record.has(AttachRecord::XDP_FOR_RINGS) => self.leave_tc_alone(),
            _ => Ok(()),
        }
    }

    /// Takes away XDP, which was only added for rings.
    fn leave_tc_alone(&self) -> Result<()> {
        self.slot.detach_link(slot::XDP_LINK)?;
        pinned::change_record(&self.slot, |record| {
            record.mode = Mode::Tc.flag();
            record.options &= !(AttachRecord::XDP_FOR_RINGS | AttachRecord::FRAGS);
        })
    }
}

/// Refuses to go on if another process has rings at the interface called `name`, whose slot this is:
/// they would get nothing more, or have its queues.
pub fn refuse_if_used(name: &str, slot: &Slot) -> Result<()> {
    if !slot.exists()? {
        return Ok(());
    }
    let directory = slot.open_directory()?;
    match directory.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => refuse_others(name, &directory),
        Err(TryLockError::Error(error)) => Err(in_lock(error)),
    }
}

fn refuse_others(name: &str, directory: &File) -> Result<()> {
    let inode = directory.metadata().map_err(in_lock)?.st_ino();
    let holders = locked::holders(inode);
    let own = process::id();
    match holders.iter().find(|&&holder| holder != own) {
        None if holders.contains(&own) => Ok(()),
        other => Err(used(name, other.copied().filter(|&pid| pid != 0))),
    }
}

fn used(name: &str, pid: Option<u32>) -> Error {
    match pid {
        Some(pid) => {
            Error::failed(format!("process {pid}{} uses AF_XDP rings on {name}", command(pid)))
                .with_fix(format!(
                    "end it first: {}",
                    CommandLine::other(&["kill", "-INT"]).on(pid).quoted()
                ))
        }
        None => {
            Error::failed(format!("a process in another container uses AF_XDP rings on {name}"))
                .with_fix("end it first")
        }
    }
}

/// The name of a process, in brackets.
fn command(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim_end() {
        "" => String::new(),
        name => format!(" ({name})"),
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings")
            .field("name", &self.name)
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        // What could not be undone leads nowhere, and whoever opens rings next clears it away.
        let _ = self.close();
    }
}

fn attach_for_rings(lock: &Lock, nic: &Nic) -> Result<()> {
    let options = Options {
        mode: ModeWanted::Auto,
        policy: &|policy: CopyPolicy| policy,
        pull: None,
        log: None,
        clsact: false,
        for_rings: true,
    };
    attach::attach(lock, nic, &options).map(drop)
}

fn in_lock(error: io::Error) -> Error {
    Error::io("lock the directory of pins", &error)
}

fn in_map(error: &aya::maps::MapError) -> Error {
    pinned::aya_error("steer", error)
}
