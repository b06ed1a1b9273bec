//! Taking back what nobody confirmed.

use nic_common::policy::CopyPolicy;

use super::Lock;
use crate::{
    command_line::CommandLine,
    control::{
        Bpffs, Journals, KernelDevice, Pending, Programs,
        give_back::{self, GivenBack},
        kernel_device::boot_id,
    },
    error::{Error, Result},
    nic::{
        Nic,
        census::{Census, Place, Presence},
        identity::{InterfaceId, InterfaceKey},
        mode::Mode,
        setting::Key,
    },
    offload::{self, ModeWanted, Options, Slot},
};

/// What became of changes that nobody confirmed.
#[derive(Debug)]
pub enum TakenBack {
    /// Everything is as it was, but for these, which something else has changed since.
    Done(Vec<Key>),
    /// The interface, or the boot that it was of, is no more.
    Gone,
}

/// Takes back everything whose deadline is over: for each interface, its name and how that ended.
///
/// # Errors
///
/// It cannot be told what there is.
pub fn take_back_overdue(
    lock: &Lock,
    journals: &Journals,
) -> Result<Vec<(String, Result<TakenBack>)>> {
    let mut taken = Vec::new();
    for pending in journals.all_pending()? {
        match pending {
            Ok(pending) if pending.deadline.left()?.is_some() && pending.is_of(&boot_id()?) => {}
            Ok(pending) => {
                let result = take_back(lock, &pending, journals);
                taken.push((pending.identity.name.clone(), result));
            }
            // Whoever changes that interface is told, and whoever asks `nicctl doctor`.
            Err(_) => {}
        }
    }
    Ok(taken)
}

/// Makes an interface what it was before changes that wait to be confirmed.
///
/// # Errors
///
/// Something could not be given back: they go on waiting, and the next command tries again.
fn take_back(lock: &Lock, pending: &Pending, journals: &Journals) -> Result<TakenBack> {
    let identity = &pending.identity;
    let taken = match presence(pending)? {
        Presence::There(place) => {
            TakenBack::Done(place.netns.run(|| take_back_at(lock, &place, pending, journals))??)
        }
        Presence::Gone => TakenBack::Gone,
        Presence::Unseen => {
            let what = "its network namespace is not visible from here";
            return Err(Error::failed(what).with_fix(format!(
                "run {} inside it",
                CommandLine::nicctl("restore").on(&identity.name).everywhere().quoted()
            )));
        }
        Presence::Unread(error) => return Err(error),
    };
    journals.remove_pending(identity.id)?;
    Ok(taken)
}

fn presence(pending: &Pending) -> Result<Presence> {
    if !pending.is_of(&boot_id()?) {
        return Ok(Presence::Gone);
    }
    let key = InterfaceKey::Id(pending.identity.id);
    Ok(Census::of([key])?.presence(key, pending.identity.netns_cookie))
}

/// Takes back what waits to be confirmed of an interface; whether anything did.
///
/// # Errors
///
/// As [`take_back`].
pub fn take_back_of(lock: &Lock, interface: InterfaceId, journals: &Journals) -> Result<bool> {
    let Some(pending) = journals.pending(interface)? else { return Ok(false) };
    let name = &pending.identity.name;
    take_back(lock, &pending, journals).map_err(|error| {
        let error = error.while_doing(format_args!("revert the unconfirmed changes of {name}"));
        match (error.fix(), pending.deadline.left()) {
            (None, Ok(Some(_))) => error.with_fix(format!(
                "to keep it: {}",
                CommandLine::nicctl("confirm").on(name).quoted()
            )),
            (None, _) => error.with_fix(format!(
                "to keep it as it is, remove {}",
                journals.pending_file(interface).display()
            )),
            (Some(_), _) => error,
        }
    })?;
    Ok(true)
}

fn take_back_at(
    lock: &Lock,
    place: &Place,
    pending: &Pending,
    journals: &Journals,
) -> Result<Vec<Key>> {
    let nic = Nic::by_index(place.ifindex)?;
    take_back_programs(lock, &nic, pending)?;
    let mut device = KernelDevice::new(Nic::by_index(place.ifindex)?)?;
    if device.id() != place.id {
        return Err(Error::not_found(format!("{} is gone", place.name)));
    }
    let (given, foreign) = pending.give_back(&mut device, journals)?;
    if given.is_complete() { Ok(foreign) } else { Err(incomplete(&place.name, &given)) }
}

fn take_back_programs(lock: &Lock, nic: &Nic, pending: &Pending) -> Result<()> {
    if pending.programs == Programs::Same {
        return Ok(());
    }
    refuse_another_bpffs(nic.name(), &pending.bpffs)?;
    let slot = Slot::of(&nic.link)?;
    match pending.programs {
        Programs::Same => Ok(()),
        Programs::None => offload::detach(&lock.programs, &slot).map(drop),
        Programs::Attached { mode, policy, pull, log } => {
            let policy = CopyPolicy::from_word(policy);
            // What a mode cannot do that is asked for is refused: this is not asked for, it was.
            offload::set_policy(&lock.programs, &slot, policy)?;
            let options = Options {
                mode: ModeWanted::Only(Mode::of_flag(mode)),
                policy: &|_| policy,
                pull: Some(pull),
                log: Some(log),
                clsact: false,
                for_rings: false,
            };
            offload::attach(&lock.programs, nic, &options).map(drop)
        }
    }
}

/// What is pinned in another bpffs is not seen in this one.
fn refuse_another_bpffs(name: &str, bpffs: &Bpffs) -> Result<()> {
    let (here, device) = offload::bpffs_identity()?;
    if device == bpffs.device {
        return Ok(());
    }
    let path = bpffs.path.display();
    let what = format!("its programs are pinned in {path}, but this is {}", here.display());
    Err(Error::failed(what)
        .with_fix(CommandLine::nicctl("restore").on(name).in_bpffs(bpffs.path.clone())))
}

fn incomplete(name: &str, given: &GivenBack) -> Error {
    Error::failed(format!("not restored: {}", give_back::in_one_line(&given.left)))
        .with_fix(CommandLine::nicctl("restore").on(name))
}
