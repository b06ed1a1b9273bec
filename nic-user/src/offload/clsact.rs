//! TC programs on kernels without TCX: filters of a clsact qdisc.
//!
//! Filters are not links: they outlive whoever made them. So the record says that they are there
//! before they are made.

use aya::programs::{
    SchedClassifier, TcAttachType,
    tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle},
};
use nic_common::record::AttachRecord;

use super::{
    object::{EGRESS, INGRESS, Object},
    pinned,
    slot::Slot,
};
use crate::{
    error::Result,
    netlink::{link::Links, qdisc::Clsact},
    nic::{
        Nic,
        namespace::{self, NetNs},
    },
};

/// In front of filters whose priority the kernel chose (from 49152 down).
const PRIORITY: u16 = 0x6e63;
/// What to do where the kernel does not know the qdisc.
const MISSING: &str = "before Linux 6.6 it takes the modules sch_ingress and cls_bpf: \
                       `modprobe -a sch_ingress cls_bpf`";
const HANDLE: TcHandle = TcHandle::new(0, 1);

const HOOKS: [(&str, TcAttachType); 2] =
    [(INGRESS, TcAttachType::Ingress), (EGRESS, TcAttachType::Egress)];

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
            if unknown { error.with_fix(MISSING) } else { error }
        };
        if !Clsact::open().map_err(failed)?.add(nic.ifindex()).map_err(failed)? {
            record.options &= !AttachRecord::OWN_QDISC;
            object.write_record(record)?;
        }
    }
    for (name, hook) in HOOKS {
        let program = object.classifier(name)?;
        let link = if replace {
            replace_filter(program, nic, hook)
        } else {
            add_filter(program, nic, hook)
        }
        .map_err(|error| pinned::aya_error(&action(&format!("attach {name}")), &*error))?;
        // Dropping it would remove the filter.
        std::mem::forget(link);
    }
    Ok(())
}

type AnyError = Box<dyn std::error::Error>;

fn add_filter(
    program: &mut SchedClassifier,
    nic: &Nic,
    hook: TcAttachType,
) -> Result<SchedClassifierLink, AnyError> {
    let options = NlOptions { priority: PRIORITY, handle: HANDLE, classid: None };
    let id = program.attach_with_options(nic.name(), hook, TcAttachOptions::Netlink(options))?;
    Ok(program.take_link(id)?)
}

fn replace_filter(
    program: &mut SchedClassifier,
    nic: &Nic,
    hook: TcAttachType,
) -> Result<SchedClassifierLink, AnyError> {
    let old = SchedClassifierLink::attached(nic.name(), hook, PRIORITY, HANDLE, None)?;
    let id = program.attach_to_link(old)?;
    Ok(program.take_link(id)?)
}

/// Removes the filters of a slot, and the qdisc if it was made for them and nothing else hangs on
/// it. Whatever is gone already is fine.
pub fn remove(slot: &Slot) -> Result<()> {
    let Ok(record) = pinned::read_record(slot) else { return Ok(()) };
    if !record.has(AttachRecord::CLSACT) {
        return Ok(());
    }
    if namespace::current_cookie()? == slot.netns {
        return remove_here(slot, &record);
    }
    match namespace::name_of_cookie(slot.netns)? {
        Some(name) => NetNs::named(&name)?.run(|| remove_here(slot, &record))?,
        // The namespace is gone, and its interfaces and filters with it.
        None => Ok(()),
    }
}

fn remove_here(slot: &Slot, record: &AttachRecord) -> Result<()> {
    let link = match Links::open().and_then(|mut links| links.by_index(slot.ifindex)) {
        Ok(link) => link,
        Err(error) if error.is_gone() => return Ok(()),
        Err(error) => return Err(error.while_doing("remove filters of a clsact qdisc")),
    };
    for (_, hook) in HOOKS {
        if let Ok(filter) = SchedClassifierLink::attached(&link.name, hook, PRIORITY, HANDLE, None)
        {
            // Gone already, or gone now.
            let _ = aya::programs::Link::detach(filter);
        }
    }
    if record.has(AttachRecord::OWN_QDISC) {
        let failed = |error: crate::netlink::Error| {
            error.while_doing(format!("remove clsact qdisc of {}", link.name))
        };
        let mut clsact = Clsact::open().map_err(failed)?;
        if !clsact.has_filters(slot.ifindex).map_err(failed)? {
            clsact.delete(slot.ifindex).map_err(failed)?;
        }
    }
    Ok(())
}
