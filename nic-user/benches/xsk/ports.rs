//! Opening ports in a lab.

use std::{os::fd::AsRawFd, rc::Rc};

use nic_common::policy::CopyPolicy;
use nic_user::{
    driver::{
        Interface, Mode, Options,
        buffers::Buffers,
        port::{Config, Port},
        receive::Building,
    },
    error::{Error, Result},
    lab::Host,
};

use super::generator::ToSockets;

/// Packets stay in their frames.
pub const WHOLE: CopyPolicy = CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false };

/// A port on the only queue of a host's interface, which gives it what arrives.
pub fn open(
    host: &Host,
    sockets: &ToSockets,
    building: Building,
    fill: u32,
    buffers: &Rc<Buffers>,
) -> Result<Port> {
    let options = Options { mode: Mode::Copy, fill, ..Options::default() };
    let config = Config { queues: vec![0], building, options };
    let interface =
        Interface { name: host.interface(), ifindex: host.ifindex(), netns: Some(host.netns()) };
    Port::open(&interface, &config, buffers, |queue, socket| {
        let inserted = sockets.insert(queue, socket.as_raw_fd());
        inserted.map_err(|error| Error::io("register a socket", &error))
    })
}
