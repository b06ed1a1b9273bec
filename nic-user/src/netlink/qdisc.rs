//! Queueing disciplines (linux/pkt_sched.h); above all clsact, where TC programs are attached on
//! kernels without TCX.

use super::Result;
use super::attribute::Attributes;
use super::request::Request;
use super::socket::Socket;

const TC_H_CLSACT: u32 = 0xffff_fff1;
/// The handle that the kernel gives every clsact and ingress qdisc.
const HANDLE: u32 = 0xffff_0000;
/// Where filters of ingress and of egress hang.
const PARENTS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
const TCA_KIND: u16 = 1;
/// Fixed header of a queueing discipline, `struct tcmsg`.
const TCMSG_LEN: usize = 20;

/// Access to the clsact qdiscs of the network namespace in which it was opened.
pub struct Clsact {
    socket: Socket,
}

impl Clsact {
    /// Opens the access.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::open(libc::NETLINK_ROUTE)? })
    }

    /// Makes the qdisc; false if there was one already.
    pub fn add(&mut self, ifindex: u32) -> Result<bool> {
        let request = tcmsg(ifindex, HANDLE, TC_H_CLSACT).string(TCA_KIND, "clsact");
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        match self.socket.request(libc::RTM_NEWQDISC, flags, request.as_bytes()) {
            Ok(_) => Ok(true),
            Err(error) if error.errno == libc::EEXIST => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether any filter hangs on it.
    pub fn has_filters(&mut self, ifindex: u32) -> Result<bool> {
        for parent in PARENTS {
            let request = tcmsg(ifindex, 0, parent);
            if !self.socket.dump(libc::RTM_GETTFILTER, request.as_bytes())?.messages.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the qdisc, with everything that hangs on it; that there is none is fine.
    pub fn delete(&mut self, ifindex: u32) -> Result<()> {
        let request = tcmsg(ifindex, HANDLE, TC_H_CLSACT);
        match self.socket.request(libc::RTM_DELQDISC, 0, request.as_bytes()) {
            // EINVAL: the device once had an ingress qdisc, or nearly (`tc_get_qdisc`).
            Err(error) if !matches!(error.errno, libc::ENOENT | libc::EINVAL) => Err(error),
            _ => Ok(()),
        }
    }
}

/// The kinds of all queueing disciplines of an interface.
pub fn kinds(ifindex: u32) -> Result<Vec<String>> {
    let request = tcmsg(ifindex, 0, 0);
    let reply = Socket::open(libc::NETLINK_ROUTE)?.dump(libc::RTM_GETQDISC, request.as_bytes())?;
    let mut kinds = Vec::new();
    for message in &reply.messages {
        // The kernel lists those of every interface.
        if message.get(4..8) != Some(ifindex.to_ne_bytes().as_slice()) {
            continue;
        }
        for attribute in Attributes::new(message.get(TCMSG_LEN..).unwrap_or_default()) {
            let attribute = attribute?;
            if attribute.kind == TCA_KIND {
                let name = attribute.value.strip_suffix(&[0]).unwrap_or(attribute.value);
                kinds.push(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Ok(kinds)
}

/// A request with `struct tcmsg`.
fn tcmsg(ifindex: u32, handle: u32, parent: u32) -> Request {
    let mut header = [0; TCMSG_LEN];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    Request::with_header(&header)
}
