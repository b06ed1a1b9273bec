//! Links of programs to an interface.

use std::{io, os::fd::AsFd};

use aya::programs::{SchedClassifier, Xdp, XdpMode as AyaMode, links::FdLink};
use nic_common::record::AttachRecord;

use crate::{
    error::{Error, Result},
    netlink::{
        self,
        link::{Links, XdpMode},
    },
    nic::Nic,
    offload::{
        bpffs, clsact,
        link::Link,
        object::{EGRESS, INGRESS, Object},
        pinned,
        slot::{self, Slot},
        sys::{self, Tcx},
    },
};

/// Attaches XDP through a link; if the kernel refuses, in its own words.
pub(super) fn link_xdp(program: &mut Xdp, nic: &Nic, mode: XdpMode) -> Result<FdLink> {
    let aya_mode = match mode {
        XdpMode::Native => AyaMode::Driver,
        XdpMode::Generic => AyaMode::Skb,
        XdpMode::Offload => AyaMode::Hardware,
    };
    let attached =
        program.attach_to_if_index(nic.ifindex(), aya_mode).and_then(|id| program.take_link(id));
    let action = || format!("{} XDP", mode.name());
    match attached {
        Ok(link) => FdLink::try_from(link).map_err(|error| pinned::aya_error(&action(), &error)),
        Err(error) => {
            // A link says only the errno; netlink says why.
            match reason(program, nic, mode) {
                Some(reason) => Err(reason.while_doing(action())),
                None => Err(pinned::aya_error(&action(), &error)),
            }
        }
    }
}

/// What the kernel says to the same wish by netlink.
fn reason(program: &Xdp, nic: &Nic, mode: XdpMode) -> Option<netlink::Error> {
    let fd = program.fd().ok()?;
    let mut links = Links::open().ok()?;
    match links.set_xdp(nic.ifindex(), Some(fd.as_fd()), mode.flag()) {
        Err(error) => Some(error),
        Ok(_) => {
            // It was only to be asked, not to be attached without a link.
            let _ = links.set_xdp(nic.ifindex(), None, mode.flag());
            None
        }
    }
}

pub(super) fn pin_link(link: FdLink, slot: &Slot, name: &str) -> Result<()> {
    let path = slot.pin(name);
    link.pin(&path)
        .map(|_| ())
        .map_err(|error| pinned::aya_error(&format!("pin {}", path.display()), &error))
}

/// Attaches both TC programs, or puts new ones into their links.
pub(super) fn attach_tc(
    object: &mut Object,
    nic: &Nic,
    slot: &Slot,
    record: &mut AttachRecord,
    force_clsact: bool,
) -> Result<()> {
    if force_clsact || record.has(AttachRecord::CLSACT) {
        return clsact::attach(object, nic, record);
    }
    let hooks =
        [(INGRESS, Tcx::Ingress, slot::INGRESS_LINK), (EGRESS, Tcx::Egress, slot::EGRESS_LINK)];
    for (name, hook, pin) in hooks {
        match attach_tcx(object.classifier(name)?, nic, hook, slot, pin) {
            Ok(()) => {}
            Err(TcxError::NotSupported) => return clsact::attach(object, nic, record),
            Err(TcxError::Failed(error)) => return Err(error.while_doing(format!("attach {name}"))),
        }
    }
    Ok(())
}

enum TcxError {
    NotSupported,
    Failed(Error),
}

fn attach_tcx(
    program: &mut SchedClassifier,
    nic: &Nic,
    hook: Tcx,
    slot: &Slot,
    pin: &str,
) -> Result<(), TcxError> {
    let program = program.fd();
    let program = program.map_err(|error| TcxError::Failed(pinned::aya_error("TCX", &error)))?;
    let failed = |error: &io::Error| TcxError::Failed(Error::io("TCX", error));
    if let Some(link) = Link::open_again(slot, pin).map_err(TcxError::Failed)? {
        return link.replace(program.as_fd()).map_err(|error| failed(&error));
    }
    // Before all others: a program that returns a verdict ends the chain.
    let link = match sys::create_tcx_link(program.as_fd(), nic.ifindex(), hook) {
        Ok(link) => link,
        // What the kernel says to an attach type that it does not know (before Linux 6.6).
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(TcxError::NotSupported);
        }
        Err(error) => return Err(failed(&error)),
    };
    let path = slot.pin(pin);
    sys::pin(link.as_fd(), &path)
        .map_err(|error| TcxError::Failed(bpffs::error(format!("pin {}", path.display()), &error)))
}
