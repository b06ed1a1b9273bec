//! Taking back what nobody confirmed.

use nic_common::policy::CopyPolicy;

use crate::{
    control::{
        Journals, KernelDevice, Pending, Programs, give_back::GivenBack, kernel_device::boot_id,
    },
    error::{Error, Result},
    nic::{
        Nic,
        census::{Census, Place, Presence},
        identity::{InterfaceId, InterfaceKey},
        mode::Mode,
    },
    offload::{self, Lock, ModeWanted, Options, Slot},
};

/// Takes back everything whose deadline is over: for each interface, its name and how that ended.
///
/// # Errors
///
/// It cannot be told what there is.
pub fn take_back_overdue(lock: &Lock, journals: &Journals) -> Result<Vec<(String, Result<()>)>> {
    let mut taken = Vec::new();
    for pending in journals.all_pending()? {
        match pending {
            Ok(pending) if pending.deadline.left()?.is_some() && pending.is_of(&boot_id()?) => {}
            Ok(pending) => {
                let result = take_back(lock, &pending, journals);
                taken.push((pending.identity.name.clone(), result));
            }
            Err(error) => taken.push(("unconfirmed changes".to_owned(), Err(error))),
        }
    }
    Ok(taken)
}

/// Makes an interface what it was before changes that wait to be confirmed.
///
/// # Errors
///
/// Something could not be given back: they go on waiting, and the next command tries again.
fn take_back(lock: &Lock, pending: &Pending, journals: &Journals) -> Result<()> {
    let identity = &pending.identity;
    if pending.is_of(&boot_id()?) {
        let key = InterfaceKey::Id(identity.id);
        match Census::of([key])?.presence(key, identity.netns_cookie) {
            Presence::There(place) => {
                place.netns.run(|| take_back_at(lock, &place, pending, journals))??;
            }
            Presence::Gone => {}
            Presence::Unseen => {
                let what = "its network namespace is not to be seen";
                return Err(Error::failed(what)
                    .with_fix(format!("run `nicctl restore {}` inside of it", identity.name)));
            }
            Presence::Unread(error) => return Err(error),
        }
    }
    journals.remove_pending(identity.id)
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
        error.while_doing(format_args!("take back what waits to be confirmed of {name}"))
    })?;
    Ok(true)
}

fn take_back_at(lock: &Lock, place: &Place, pending: &Pending, journals: &Journals) -> Result<()> {
    let nic = Nic::by_index(place.ifindex)?;
    take_back_programs(lock, &nic, pending.programs)?;
    let mut device = KernelDevice::new(Nic::by_index(place.ifindex)?)?;
    if device.id() != place.id {
        return Err(Error::not_found(format!("{} is gone", place.name)));
    }
    let given = pending.give_back(&mut device, journals)?;
    if given.is_complete() { Ok(()) } else { Err(incomplete(&place.name, &given)) }
}

fn take_back_programs(lock: &Lock, nic: &Nic, programs: Programs) -> Result<()> {
    match programs {
        Programs::Same => Ok(()),
        Programs::None => offload::detach(lock, &Slot::of(&nic.link)?).map(drop),
        Programs::Attached { mode, policy, pull, log } => {
            let options = Options {
                mode: ModeWanted::Only(Mode::of_flag(mode)),
                policy: &|_| CopyPolicy::from_word(policy),
                pull: Some(pull),
                log: Some(log),
                clsact: false,
                for_rings: false,
            };
            offload::attach(lock, nic, &options).map(drop)
        }
    }
}

fn incomplete(name: &str, given: &GivenBack) -> Error {
    let left: Vec<String> =
        given.left.iter().map(|left| format!("{} was {}", left.key, left.was)).collect();
    Error::failed(format!("not given back: {}", left.join(", ")))
        .with_fix(format!("nicctl restore {name}"))
}
