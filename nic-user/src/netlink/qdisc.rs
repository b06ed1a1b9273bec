//! Queueing disciplines (linux/pkt_sched.h); above all clsact, where TC programs are attached on
//! kernels without TCX.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::Result;
use super::attribute::Attributes;
use super::request::Request;
use super::socket::{Reply, Socket};

const TC_H_CLSACT: u32 = 0xffff_fff1;
/// The handle that the kernel gives every clsact and ingress qdisc.
const HANDLE: u32 = 0xffff_0000;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's return value is the verdict.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// Fixed header of a queueing discipline, `struct tcmsg`.
const TCMSG_LEN: usize = 20;

/// Where filters hang: `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`, and egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Hook {
    /// What arrives.
    Ingress = 0xffff_fff2,
    /// What leaves.
    Egress = 0xffff_fff3,
}

/// One filter for packets of every protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Where it hangs.
    pub hook: Hook,
    /// Those with lower ones come first.
    pub priority: u16,
    /// Its number.
    pub handle: u32,
}

impl Filter {
    fn request(self, ifindex: u32) -> Request {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let info = u32::from(self.priority) << 16 | u32::from(protocol);
        with_info(ifindex, self.handle, self.hook as u32, info).string(TCA_KIND, "bpf")
    }
}

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
        for hook in [Hook::Ingress, Hook::Egress] {
            let request = tcmsg(ifindex, 0, hook as u32);
            if !self.socket.dump(libc::RTM_GETTFILTER, request.as_bytes())?.messages.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Hangs a program on it, or with `replace` puts it into the filter that there is.
    pub fn set_filter(
        &mut self,
        ifindex: u32,
        filter: Filter,
        (name, program): (&str, BorrowedFd<'_>),
        replace: bool,
    ) -> Result<()> {
        let request = filter.request(ifindex).nest(TCA_OPTIONS, |options| {
            options
                .u32(TCA_BPF_FD, program.as_raw_fd() as u32)
                .string(TCA_BPF_NAME, name)
                .u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT)
        });
        let flags = if replace { 0 } else { libc::NLM_F_CREATE | libc::NLM_F_EXCL };
        self.socket.request(libc::RTM_NEWTFILTER, flags, request.as_bytes()).map(drop)
    }

    /// Whether there is this filter.
    pub fn has_filter(&mut self, ifindex: u32, filter: Filter) -> Result<bool> {
        let request = filter.request(ifindex);
        is_there(self.socket.request(libc::RTM_GETTFILTER, 0, request.as_bytes()))
    }

    /// Removes a filter; whether there was one.
    pub fn delete_filter(&mut self, ifindex: u32, filter: Filter) -> Result<bool> {
        let request = filter.request(ifindex);
        is_there(self.socket.request(libc::RTM_DELTFILTER, 0, request.as_bytes()))
    }

    /// Removes the qdisc, with everything that hangs on it; that there is none is fine.
    pub fn delete(&mut self, ifindex: u32) -> Result<()> {
        let request = tcmsg(ifindex, HANDLE, TC_H_CLSACT);
        // EINVAL: the device once had an ingress qdisc, or nearly (`tc_get_qdisc`).
        is_there(self.socket.request(libc::RTM_DELQDISC, 0, request.as_bytes())).map(drop)
    }
}

/// Whether there was what a request was about. EINVAL: not even the qdisc that it hangs on
/// (`__tcf_qdisc_find`).
fn is_there(reply: Result<Reply>) -> Result<bool> {
    match reply {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.errno, libc::ENOENT | libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
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
    with_info(ifindex, handle, parent, 0)
}

fn with_info(ifindex: u32, handle: u32, parent: u32, info: u32) -> Request {
    let mut header = [0; TCMSG_LEN];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header[16..20].copy_from_slice(&info.to_ne_bytes());
    Request::with_header(&header)
}
