//! TC programs on kernels without TCX: filters of a clsact qdisc.
//!
//! Filters are not links: they outlive whoever made them. So the record says that they are there
//! before they are made.

use std::os::fd::AsFd;

use nic_common::record::AttachRecord;

use super::{
    object::{EGRESS, INGRESS, Object},
    pinned,
    slot::Slot,
};
use crate::{
    command_line::CommandLine,
    error::Result,
    netlink::{
        link::Links,
        qdisc::{Clsact, Filter, Hook},
    },
    nic::{
        Nic,
        census::{Census, Presence},
    },
};

/// In front of filters whose priority the kernel chose (from 49152 down).
const PRIORITY: u16 = 0x6e63;
const HANDLE: u32 = 1;

const FILTERS: [(&str, Filter); 2] = [
    (INGRESS, Filter { hook: Hook::Ingress, priority: PRIORITY, handle: HANDLE }),
    (EGRESS, Filter { hook: Hook::Egress, priority: PRIORITY, handle: HANDLE }),
];

/// What to do where the kernel does not know the qdisc.
fn load_modules() -> String {
    format!(
        "before Linux 6.6 this needs the modules sch_ingress and cls_bpf: {}",
        CommandLine::other(&["modprobe", "-a", "sch_ingress", "cls_bpf"]).quoted()
    )
}

/// Makes the qdisc if there is none, and both filters; or puts new programs into them.
pub fn attach(object: &mut Object, nic: &Nic, record: &mut AttachRecord) -> Result<()> {
    let action = |what: &str| format!("{} on {}", what, nic.name());
    let replace = record.has(AttachRecord::CLSACT);
    if !replace {
        record.options |= AttachRecord::CLSACT | AttachRecord::OWN_QDISC;
        object.write_record(record)?;
        let failed = |error: crate::netlink::Error| {
            let unknown = error.errno == libc::ENOENT;
            let error = error.while_doing(action("make clsact qdisc"));
            if unknown { error.with_fix(load_modules()) } else { error }
        };
        if !Clsact::open().map_err(failed)?.add(nic.ifindex()).map_err(failed)? {
            record.options &= !AttachRecord::OWN_QDISC;
            object.write_record(record)?;
        }
    }
    for (name, filter) in FILTERS {
        let program = object.classifier(name)?.fd();
        let program =
            program.map_err(|error| pinned::aya_error(&format!("load {name}"), &error))?;
        let set = Clsact::open().and_then(|mut clsact| {
            clsact.set_filter(nic.ifindex(), filter, (name, program.as_fd()), replace)
        });
        set.map_err(|error| error.while_doing(action(&format!("attach {name}"))))?;
    }
    Ok(())
}

/// Whether both filters are there.
///
/// # Errors
///
/// They cannot be looked for.
pub fn is_attached(nic: &Nic) -> Result<bool> {
    let is_there = |(_, filter)| {
        Clsact::open()
            .and_then(|mut clsact| clsact.has_filter(nic.ifindex(), filter))
            .map_err(|error| error.while_doing(format!("look for filters of {}", nic.name())))
    };
    let [ingress, egress] = FILTERS.map(is_there);
    Ok(ingress? && egress?)
}

/// Removes the filters of a slot, and the qdisc if it was made for them and nothing else hangs on
/// it. Whatever is gone already is fine.
///
/// # Errors
///
/// They cannot be removed; or the record cannot be read, and filters are there.
pub fn remove(slot: &Slot) -> Result<()> {
    let options = match pinned::read_record_if_there(slot) {
        // It is written before there are any.
        Ok(None) => return Ok(()),
        Ok(Some(record)) if !record.has(AttachRecord::CLSACT) => return Ok(()),
        Ok(Some(record)) => Ok(record),
        Err(error) => Err(error),
    };
    let last_seen_in = options.as_ref().map_or(0, |record| record.netns);
    match Census::of([slot.key])?.presence(slot.key, last_seen_in) {
        Presence::There(place) => place.netns.run(|| remove_from(place.ifindex, options))?,
        // The interface is gone, and its filters with it.
        Presence::Gone | Presence::Unseen => Ok(()),
        Presence::Unread(error) => Err(error),
    }
}

fn remove_from(ifindex: u32, record: Result<AttachRecord>) -> Result<()> {
    let link = match Links::open().and_then(|mut links| links.by_index(ifindex)) {
        Ok(link) => link,
        Err(error) if error.is_gone() => return Ok(()),
        Err(error) => return Err(error.while_doing("remove filters of a clsact qdisc")),
    };
    let failed = |error: crate::netlink::Error| {
        error.while_doing(format!("remove filters of the clsact qdisc of {}", link.name))
    };
    let mut clsact = Clsact::open().map_err(failed)?;
    let record = match record {
        Ok(record) => record,
        Err(error) => {
            let there = |(_, filter)| clsact.has_filter(ifindex, filter);
            let there = FILTERS.map(there).into_iter().collect::<Result<Vec<_>, _>>();
            return match there.map_err(failed)?.contains(&true) {
                true => Err(error.with_fix(format!(
                    "{}, unless other tools have filters there; then try again",
                    CommandLine::networking(&["tc", "qdisc", "del", "dev", &link.name, "clsact"])
                        .quoted()
                ))),
                false => Ok(()),
            };
        }
    };
    for (_, filter) in FILTERS {
        clsact.delete_filter(ifindex, filter).map_err(failed)?;
    }
    if record.has(AttachRecord::OWN_QDISC) && !clsact.has_filters(ifindex).map_err(failed)? {
        clsact.delete(ifindex).map_err(failed)?;
    }
    Ok(())
}
