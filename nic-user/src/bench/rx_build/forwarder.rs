//! The forwarder of `nicctl forward --l3`.

use std::{io, time::Duration};

use crate::{
    bench::round::Over,
    error::Result,
    forward::{Forwarder, InRings, Layer},
    lab::Host,
    netlink::link_edit::VethEnd,
    nic::{InterfaceName, Nic},
    offload::Rings,
};

/// It takes two interfaces; frames leave by the one that they came in by.
const SPARE: [&str; 2] = ["nic-spare", "nic-spare-end"];
/// How soon it sees that the round is over.
const GLANCE: Duration = Duration::from_millis(20);

/// Prepared, so that it is quick to begin.
pub struct OurForwarder {
    /// As long as they are open, programs stay attached.
    _rings: Vec<Rings>,
}

impl OurForwarder {
    /// At the interface of a host, which gets another one.
    pub fn new(host: &Host) -> Result<Self> {
        host.links(|links| {
            let [name, peer] = SPARE;
            let end = VethEnd { name, queues: 1, mtu: 1500, netns: None };
            links.add_veth(end, VethEnd { name: peer, ..end })?;
            let spare = links.by_name(name)?.ifindex;
            links.set_no_link_local(spare)?;
            links.set_up(spare, true)
        })?;
        let [spare, _] = SPARE;
        let open = || [host.interface(), spare].map(Rings::open).into_iter().collect();
        let rings: Result<_> = host.run(open)?;
        Ok(Self { _rings: rings? })
    }

    /// Forwards until the round is over. The thread stays in the host.
    pub fn run(&self, host: &Host, over: &Over) -> io::Result<()> {
        host.netns().enter().map_err(io::Error::other)?;
        forward([host.interface(), SPARE[0]], over).map_err(io::Error::other)
    }
}

fn forward(names: [&str; 2], over: &Over) -> Result<()> {
    let [first, second] =
        names.map(|name| InterfaceName::new(name).and_then(|name| Nic::by_name(&name)));
    let mut forwarder = InRings::open([&first?, &second?], Layer::Packets)?;
    while !over.is_over() {
        forwarder.turn(GLANCE)?;
    }
    Ok(())
}
