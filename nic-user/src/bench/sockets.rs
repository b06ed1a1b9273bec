//! Our driver at an interface: the XDP program that gives it what arrives.

use std::{io, os::fd::AsFd, rc::Rc};

use super::bpf::{
    Hook, Link, Program, SocketMap,
    insn::{EXIT, R1, R2, R3, Size, call, load, map, mov},
};
use crate::{
    driver::{
        Interface,
        buffers::Buffers,
        port::{Config, Port},
    },
    error::{Error, Result},
    lab::Host,
};

const FUNC_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// In `struct xdp_md` (linux/bpf.h).
const RX_QUEUE_INDEX: i16 = 16;

/// Sends every frame on to the socket of its queue, and to the kernel where there is none.
pub struct Sockets {
    map: SocketMap,
    _link: Link,
}

impl Sockets {
    /// At the interface of a host that has so many queues.
    pub fn attach(host: &Host, queues: u32) -> Result<Self> {
        let fail = |error: io::Error| Error::io("send frames on to AF_XDP sockets", &error);
        let sockets = SocketMap::new(queues).map_err(fail)?;
        let queue = load(Size::Word, R2, R1, RX_QUEUE_INDEX);
        let redirect = [mov(R3, XDP_PASS), call(FUNC_REDIRECT_MAP), EXIT];
        let program: Vec<_> =
            [queue].into_iter().chain(map(R1, sockets.as_fd())).chain(redirect).collect();
        let program = Program::load(Hook::Xdp, &program).map_err(fail)?;
        Ok(Self { _link: program.attach(host, host.ifindex())?, map: sockets })
    }

    /// Opens a port there, for the calling thread.
    pub fn open(&self, host: &Host, config: &Config, buffers: &Rc<Buffers>) -> Result<Port> {
        let interface = Interface {
            name: host.interface(),
            ifindex: host.ifindex(),
            netns: Some(host.netns()),
        };
        Port::open(&interface, config, buffers, |queue, socket| {
            let inserted = self.map.insert(queue, socket);
            inserted.map_err(|error| Error::io("register a socket", &error))
        })
    }
}
