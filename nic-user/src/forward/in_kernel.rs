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
        link::XdpMode,
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

impl InKernel {
    /// Attaches to both interfaces, which must be free of other XDP programs.
    pub fn open(nics: [&Nic; 2], layer: Layer) -> Result<Self> {
        nics.into_iter().try_for_each(|nic| ethernet_address(&nic.link).map(drop))?;
        let routing = (layer == Layer::Packets).then(|| Routing::of(nics)).transpose()?;
        let mut programs = ForwardPrograms::attach(nics, layer == Layer::Packets)?;
        if let Some(routing) = &routing {
            programs.open_gates(routing.gates(programs.modes()))?;
        }
        let promiscuous = match layer {
            Layer::Frames => nics.into_iter().map(Promiscuous::new).collect::<Result<_>>()?,
            Layer::Packets => Vec::new(),
        };
        Ok(Self { programs, routing, _promiscuous: promiscuous })
    }

    /// Follows what changed.
    fn follow(&mut self) -> Result<()> {
        let Some(routing) = &mut self.routing else { return Ok(()) };
        if routing.look()? {
            self.programs.open_gates(routing.gates(self.programs.modes()))?;
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

    /// Which packets the programs may route that arrive at either interface: none if the other one
    /// takes none of them. Their lookup knows nothing of the MTU of a route, chooses one of several
    /// ways by addresses, and IPv6's passes over no route (`fib6_rule_suppress`, net/ipv6/fib6_rules.c,
    /// has nothing to look at).
    fn gates(&self, modes: [XdpMode; 2]) -> [Gate; 2] {
        let now = self.around.now();
        let longest = [0, 1].map(|family| {
            let Special { mtu, has_several_ways } = self.specials[family];
            let chooses = !has_several_ways || now.chooses_by_address[family];
            let passes_over = family == 1 && now.suppresses[family];
            if now.routes[family] && chooses && !passes_over { mtu.unwrap_or(u32::MAX) } else { 0 }
        });
        [0, 1].map(|from| {
            let takes = now.ends[1 - from].takes_redirects || modes[from] == XdpMode::Generic;
            let longest = if takes { longest } else { [0; 2] };
            Gate { mac: Gate::mac(&now.ends[from].mac), longest }
        })
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
    error.while_doing("look up routes")
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
        let [first, second] = self.programs.counters()?;
        let modes = self.programs.modes();
        Ok([(first, modes[0]), (second, modes[1])].map(|(it, mode)| Counts {
            packets: it.packets,
            bytes: it.bytes,
            forwarded: it.forwarded.saturating_sub(it.not_taken),
            passed: it.packets.saturating_sub(it.forwarded),
            dropped: Drops { not_taken: it.not_taken, ..Drops::default() },
            moved: it.moved,
            // Generic XDP leaves them to the device that sends them.
            unfinished: if mode == XdpMode::Native { it.unfinished } else { 0 },
        }))
    }

    fn ways(&self) -> [String; 2] {
        let modes = self.programs.modes();
        [0, 1].map(|from| {
            let unknown = match self.programs.counts_not_taken(from) {
                true => "",
                false => ", and whether the other interface accepted a frame is unknown",
            };
            format!("{} XDP{unknown}", modes[from].name())
        })
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
