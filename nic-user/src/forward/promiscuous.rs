//! Interfaces that take frames for all stations.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::{
    error::{Error, Result},
    nic::Nic,
};

/// Keeps an interface promiscuous. The kernel counts such wishes, and forgets this one when the
/// process ends.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Makes an interface of the present network namespace promiscuous.
    pub fn new(nic: &Nic) -> Result<Self> {
        let socket = join(nic.ifindex())
            .map_err(|error| Error::io(format_args!("make {} promiscuous", nic.name()), &error))?;
        Ok(Self { _socket: socket })
    }
}

/// A packet socket that receives nothing (protocol 0), with a membership (packet(7)).
fn join(ifindex: u32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let membership = libc::packet_mreq {
        mr_ifindex: ifindex as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: `membership` outlives the call, and its true size is given.
    let joined = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    };
    if joined < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}
