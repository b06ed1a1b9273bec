//! Opening ports in a lab.

use std::rc::Rc;

use nic_common::policy::CopyPolicy;
use nic_user::{
    driver::{
        Mode, Options,
        buffers::Buffers,
        port::{Config, Port},
        receive::Building,
    },
    error::Result,
    lab::{Host, sockets::ToSockets},
};

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
    sockets.open(host, &config, buffers)
}
