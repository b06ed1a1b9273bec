//! A host whose interface gives what arrives to AF_XDP sockets.

use std::{
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

use super::{
    Host,
    bpf::{
        Hook, Link, Program, XDP_PASS,
        insn::{EXIT, Helper, R1, R2, R3, Size, call, load, map, mov},
        map::Descriptors,
    },
};
use crate::{
    driver::{
        Interface,
        buffers::Buffers,
        port::{Config, Port},
    },
    error::Result,
};

/// Sends every frame on to the socket of its queue, and to the kernel where there is none, as long
/// as it exists.
pub struct ToSockets {
    sockets: Descriptors,
    _link: Link,
}

impl ToSockets {
    /// At the interface of a host.
    pub fn attach(host: &Host) -> Result<Self> {
        /// More than a lab's interface has.
        const QUEUES: u32 = 64;
        /// In `struct xdp_md` (linux/bpf.h).
        const RX_QUEUE_INDEX: i16 = 16;
        let sockets = Descriptors::of_sockets(QUEUES)?;
        let program: Vec<_> = [load(Size::Word, R2, R1, RX_QUEUE_INDEX)]
            .into_iter()
            .chain(map(R1, sockets.as_fd()))
            .chain([mov(R3, XDP_PASS), call(Helper::RedirectMap), EXIT])
            .collect();
        let program = Program::load(Hook::XdpFrags, &program)?;
        Ok(Self { _link: program.attach(host, host.ifindex())?, sockets })
    }

    /// Opens a port there, for the calling thread.
    pub fn open(&self, host: &Host, config: &Config, buffers: &Rc<Buffers>) -> Result<Port> {
        Port::open(&host.into(), config, buffers, |queue, socket| {
            self.sockets.insert(queue, socket)
        })
    }
}

/// The map of the sockets.
impl AsFd for ToSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }
}

impl<'h> From<&'h Host> for Interface<'h> {
    fn from(host: &'h Host) -> Self {
        Self { name: host.interface(), ifindex: host.ifindex(), netns: Some(host.netns()) }
    }
}
