//! Forwarding by XDP programs, which never leave the kernel.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use nic_common::forward::Gate;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::{
    Counts, Drops, Forwarder, Layer,
    promiscuous::Promiscuous,
    surroundings::{Surroundings, ethernet_address},
};
use crate::{
    error::{Error, Result},
    netlink::{
        self,
        link::Links,
        route::{Routes, Special},
    },
    nic::Nic,
    offload::ForwardPrograms,
};

/// How often the stack is asked to confirm the neighbours that frames went to.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

/// The programs, attached for as long as this lives or the process does.
pub struct InKernel {
    programs: ForwardPrograms,
    outlets: [Outlet; 2],
    routing: Option<Routing>,
    _promiscuous: Vec<Promiscuous>,
}

/// What the programs cannot see for themselves.
struct Routing {
    around: Surroundings,
    routes: Routes,
    specials: [Special; 2],
    confirmed: Instant,
    /// Frames that had been forwarded by then.
    forwarded: u64,
}

/// An interface as frames leave by it.
struct Outlet {
    ifindex: u32,
    /// How many packets it had sent when it began, if it counts those that it is handed by XDP.
    sent: Option<u64>,
}

impl InKernel {
    /// Attaches to both interfaces, which must be free of other XDP programs.
    pub fn open(nics: [&Nic; 2], layer: Layer) -> Result<Self> {
        nics.into_iter().try_for_each(|nic| ethernet_address(&nic.link).map(drop))?;
        let routing = (layer == Layer::Packets).then(|| Routing::of(nics)).transpose()?;
        let mut programs = ForwardPrograms::attach(nics, layer == Layer::Packets)?;
        if let Some(routing) = &routing {
            programs.open_gates(routing.gates())?;
        }
        let promiscuous = match layer {
            Layer::Frames => nics.into_iter().map(Promiscuous::new).collect::<Result<_>>()?,
            Layer::Packets => Vec::new(),
        };
        let [first, second] = nics.map(Outlet::of);
        let outlets = [first?, second?];
        Ok(Self { programs, outlets, routing, _promiscuous: promiscuous })
    }

    /// Follows what changed.
    fn follow(&mut self) -> Result<()> {
        let Some(routing) = &mut self.routing else { return Ok(()) };
        if routing.look()? {
            self.programs.open_gates(routing.gates())?;
        }
        if routing.confirmed.elapsed() >= CONFIRM_INTERVAL {
            let forwarded = self.programs.counters()?.iter().map(|it| it.forwarded).sum();
            routing.confirm_neighbours(forwarded)?;
        }
        Ok(())
    }
}

impl Routing {
    fn of(nics: [&Nic; 2]) -> Result<Self> {
        let around = Surroundings::of(nics)?;
        let mut routes = Routes::open().map_err(in_asking)?;
        let specials = routes.specials().map_err(in_asking)?;
        Ok(Self { around, routes, specials, confirmed: Instant::now(), forwarded: 0 })
    }

    /// Looks for what has changed; whether anything has but neighbours.
    fn look(&mut self) -> Result<bool> {
        let changed = self.around.look()?;
        if changed.specials {
            self.specials = self.routes.specials().map_err(in_asking)?;
        }
        Ok(changed.any)
    }

    /// Which packets the programs may route that arrive at either interface. Their lookup knows
    /// nothing of the MTU of a route, and chooses one of several ways by addresses.
    fn gates(&self) -> [Gate; 2] {
        let now = self.around.now();
        let longest = [0, 1].map(|family| {
            let Special { mtu, has_several_ways } = self.specials[family];
            let chooses = !has_several_ways || now.chooses_by_address[family];
            if now.routes[family] && chooses { mtu.unwrap_or(u32::MAX) } else { 0 }
        });
        now.ends.each_ref().map(|end| Gate { mac: Gate::mac(&end.mac), longest })
    }

    /// What the stack sends it takes for a reason to confirm a neighbour; it sees nothing of what
    /// the programs send.
    fn confirm_neighbours(&mut self, forwarded: u64) -> Result<()> {
        self.confirmed = Instant::now();
        if self.forwarded == forwarded {
            return Ok(());
        }
        self.forwarded = forwarded;
        let ends = self.around.now().ends.each_ref().map(|end| end.ifindex);
        self.routes
            .confirm_neighbours(&ends)
            .map_err(|error| error.while_doing("confirm neighbours"))
    }
}

fn in_asking(error: netlink::Error) -> Error {
    error.while_doing("ask for routes")
}

impl Outlet {
    fn of(nic: &Nic) -> Result<Self> {
        let ifindex = nic.ifindex();
        let sent = counts_what_it_took(nic).then(|| packets_sent(ifindex)).transpose()?;
        Ok(Self { ifindex, sent })
    }

    /// How many of `handed` frames it took: no more than it sent.
    fn taken(&self, handed: u64) -> Result<u64> {
        match self.sent {
            Some(before) => Ok(handed.min(packets_sent(self.ifindex)?.saturating_sub(before))),
            None => Ok(handed),
        }
    }
}

/// Whether a driver counts a frame of XDP as sent if, and only if, it took it (`veth_get_stats64`,
/// drivers/net/veth.c). Of others it is not known.
fn counts_what_it_took(nic: &Nic) -> bool {
    nic.driver_name() == Some("veth")
}

fn packets_sent(ifindex: u32) -> Result<u64> {
    let stats = Links::open().and_then(|mut links| links.stats(ifindex));
    Ok(stats.map_err(|error| error.while_doing("read what was sent"))?.tx_packets)
}

impl Forwarder for InKernel {
    fn turn(&mut self, patience: Duration) -> Result<()> {
        match &self.routing {
            Some(routing) => wait(&routing.around, patience)?,
            None => std::thread::sleep(patience),
        }
        self.programs.check()?;
        self.follow()
    }

    fn counts(&self) -> Result<[Counts; 2]> {
        let counters = self.programs.counters()?;
        let mut all = [Counts::default(); 2];
        for (from, it) in counters.into_iter().enumerate() {
            let taken = self.outlets[1 - from].taken(it.forwarded)?;
            all[from] = Counts {
                packets: it.packets,
                bytes: it.bytes,
                forwarded: taken,
                passed: it.packets.saturating_sub(it.forwarded),
                dropped: Drops { not_taken: it.forwarded - taken, ..Drops::default() },
                moved: it.moved,
            };
        }
        Ok(all)
    }

    fn ways(&self) -> [String; 2] {
        self.programs.modes().map(|mode| format!("{} XDP", mode.name()))
    }
}

/// Waits until something changes, or for `patience`.
fn wait(around: &Surroundings, patience: Duration) -> Result<()> {
    let fd = PollFd::new(around.as_fd(), PollFlags::POLLIN);
    match poll(&mut [fd], PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(Error::io("wait for changes", &errno.into())),
    }
}
