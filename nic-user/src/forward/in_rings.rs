//! Forwarding through AF_XDP rings, on one thread.

use std::{
    mem,
    time::{Duration, Instant},
};

use nic_common::{policy::CopyPolicy, steer::Rules};

use super::{
    Counts, Forwarder, Layer, Reason,
    promiscuous::Promiscuous,
    router::{Router, rules_for_routing},
    stations::Stations,
    surroundings::ethernet_address,
};
use crate::{
    driver::{
        Interface, Mode, Options,
        buffers::{Buffers, KERNEL_HEADROOM, Layout},
        packet::Packet,
        partial,
        port::{self, Config, Port},
        queue::{Queue, Refusal, Unsent},
        receive::Building,
    },
    error::{Error, Result},
    nic::Nic,
    offload::{self, Slot, ToStack},
};

/// Frames taken from a ring at once.
const BATCH: u32 = 64;
/// Batches before whoever runs this is asked whether to go on.
const BATCHES: u32 = 64;
/// Ethernet header and two VLAN tags.
const LINK_HEADER: u32 = 14 + 2 * 4;
/// Cards with zero copy may fill whole KiB only, of which frames of 2048 bytes leave one (igb).
const FRAME_SIZE: u32 = 4096;
/// Frames that wait to be filled, over all queues.
const FILL: u32 = 16_384;

/// The rings of both interfaces.
pub struct InRings {
    ends: [End; 2],
    work: Work,
    /// Why the kernel copies, where zero copy was tried first.
    no_zero_copy: Option<String>,
    checked: Instant,
    arrived: Vec<Packet>,
    _promiscuous: Vec<Promiscuous>,
}

/// What is done with what arrives.
enum Work {
    /// Frames go to the other interface, as they are.
    Frames(Stations),
    /// Packets are routed, or given back.
    Packets(Box<Router>, ToStack),
}

struct End {
    name: String,
    ifindex: u32,
    port: Port,
    counts: Counts,
}

/// How often it is looked whether the programs are still attached.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl InRings {
    /// Opens the rings of all queues of both interfaces, which are in the present network
    /// namespace. What is attached to them stays; if nothing is, it is attached for this time.
    pub fn open(nics: [&Nic; 2], layer: Layer) -> Result<Self> {
        for nic in nics {
            ethernet_address(&nic.link)?;
            offload::refuse_if_used(nic.name(), &Slot::of(&nic.link)?)?;
        }
        let (work, rules) = match layer {
            Layer::Frames => (Work::Frames(Stations::default()), Rules::ALL),
            Layer::Packets => {
                let mut router = Router::new(nics)?;
                let rules = rules_for_routing(&router.local_addresses()?);
                (Work::Packets(Box::new(router), ToStack::load()?), rules)
            }
        };
        // One memory has one mode: where only one of the drivers has zero copy, neither uses it.
        let (ends, no_zero_copy) = match open_both(nics, &rules, Mode::Auto) {
            Ok(ends) => (ends, None),
            Err(error) => (open_both(nics, &rules, Mode::Copy)?, Some(error.to_string())),
        };
        let promiscuous = match layer {
            Layer::Frames => nics.into_iter().map(Promiscuous::new).collect::<Result<_>>()?,
            Layer::Packets => Vec::new(),
        };
        let (arrived, checked) = (Vec::new(), Instant::now());
        Ok(Self { ends, work, no_zero_copy, checked, arrived, _promiscuous: promiscuous })
    }

    /// Forwards a batch from every queue of an interface; whether there was anything.
    fn pump(&mut self, from: usize) -> bool {
        let mut any = false;
        for at in 0..self.ends[from].port.queues().len() {
            let mut arrived = mem::take(&mut self.arrived);
            let queue = &mut self.ends[from].port.queues_mut()[at];
            queue.receive(BATCH, |packet| arrived.push(packet));
            if !arrived.is_empty() {
                any = true;
                arrived.drain(..).for_each(|packet| self.forward(packet, from, at));
                self.flush(at);
            }
            self.arrived = arrived;
        }
        any
    }

    fn forward(&mut self, mut packet: Packet, from: usize, queue: usize) {
        let len = packet.len() as u64;
        // Whoever gets it next expects that the device has done it.
        partial::fill_in(&mut packet);
        let counts = &mut self.ends[from].counts;
        counts.packets += 1;
        counts.bytes += len;
        let to = match &mut self.work {
            Work::Frames(stations) => {
                counts.moved += u64::from(stations.has_moved(&packet.linear, from));
                Ok(1 - from)
            }
            Work::Packets(router, _) => router.route(&mut packet, from),
        };
        let sent = match to {
            Ok(to) => send(queue_of(&mut self.ends[to].port, queue), packet),
            Err(_) if self.give_back(&packet, from, queue) => {
                self.ends[from].counts.passed += 1;
                return;
            }
            Err(reason) => Err(reason),
        };
        let counts = &mut self.ends[from].counts;
        match sent {
            Ok(()) => counts.forwarded += 1,
            Err(reason) => *reason(&mut counts.dropped) += 1,
        }
    }

    /// Gives a packet to the stack; whether it took it.
    fn give_back(&self, packet: &Packet, from: usize, queue: usize) -> bool {
        let Work::Packets(_, stack) = &self.work else { return false };
        let ifindex = self.ends[from].ifindex;
        if packet.frags.is_empty() {
            stack.hand(ifindex, queue as u32, &packet.linear)
        } else {
            stack.hand(ifindex, queue as u32, &packet.to_vec())
        }
    }

    /// Fails if the programs were detached meanwhile: nothing more arrives then.
    fn check(&mut self) -> Result<()> {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked = Instant::now();
        match self.ends.iter().find(|end| !end.port.is_steered()) {
            None => Ok(()),
            Some(End { name, .. }) => Err(Error::failed(format!(
                "the programs were detached from {name}, and its frames go to the kernel"
            ))
            .with_fix("start forward again")),
        }
    }

    /// Has both interfaces send. One that is down keeps what is in its ring.
    fn flush(&mut self, queue: usize) {
        for end in &mut self.ends {
            if let Some(queue) = queue_of(&mut end.port, queue) {
                let _ = queue.flush();
            }
        }
    }
}

/// The queue to send through what arrived at queue `number` of the other interface.
fn queue_of(port: &mut Port, number: usize) -> Option<&mut Queue> {
    let queues = port.queues_mut();
    let count = queues.len().max(1);
    queues.get_mut(number % count)
}

fn send(queue: Option<&mut Queue>, packet: Packet) -> Result<(), Reason> {
    let Some(queue) = queue else { return Err(|drops| &mut drops.no_room) };
    let sent = queue.send(packet).or_else(|Unsent { what, why }| match why {
        Refusal::Full => {
            // What cannot be sent now is dropped, whatever the reason.
            let _ = queue.flush();
            queue.send(what).map_err(|unsent| unsent.why)
        }
        why => Err(why),
    });
    sent.map_err(|why| -> Reason {
        match why {
            Refusal::TooLong => |drops| &mut drops.too_long,
            Refusal::Full | Refusal::NoChecksum => |drops| &mut drops.no_room,
        }
    })
}

fn open_both(nics: [&Nic; 2], rules: &Rules, mode: Mode) -> Result<[End; 2]> {
    let total: u32 = nics.iter().map(|nic| nic.rx_queues().max(1)).sum();
    let fill = (FILL / total).clamp(64, 1024);
    let longest = nics.iter().map(|nic| nic.mtu()).max().unwrap_or_default() + LINK_HEADER;
    let ring = fill.next_power_of_two();
    let options = Options {
        rx_size: ring,
        tx_size: ring,
        fill,
        mode,
        multi_buffer: longest > FRAME_SIZE - KERNEL_HEADROOM,
        busy_poll: None,
    };
    // As many as all rings hold.
    let frames = total * (fill + 2 * ring);
    let layout = Layout { frames, frame_size: FRAME_SIZE, copies: 1, ..Layout::default() };
    let buffers = Buffers::new(layout)?;
    let end = |nic: &Nic| -> Result<End> {
        let policy = CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false };
        let config = Config {
            queues: (0..nic.rx_queues().max(1)).collect(),
            building: Building { policy, bounce_below: 0 },
            options,
        };
        let interface = Interface { name: nic.name(), ifindex: nic.ifindex(), netns: None };
        let port = Port::steered(&interface, &config, rules, &buffers)?;
        let (name, ifindex) = (nic.name().to_owned(), nic.ifindex());
        Ok(End { name, ifindex, port, counts: Counts::default() })
    };
    let [first, second] = nics;
    Ok([end(first)?, end(second)?])
}

impl Forwarder for InRings {
    fn turn(&mut self, patience: Duration) -> Result<()> {
        self.check()?;
        let [first, second] = &self.ends;
        port::wait(&[&first.port, &second.port], patience)?;
        for _ in 0..BATCHES {
            if let Work::Packets(router, _) = &mut self.work {
                router.look_around()?;
            }
            let any = [0, 1].map(|from| self.pump(from));
            if any == [false, false] {
                break;
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<[Counts; 2]> {
        let [first, second] = &self.ends;
        Ok([first.counts()?, second.counts()?])
    }

    fn ways(&self) -> [String; 2] {
        self.ends.each_ref().map(|end| match end.port.queues().first() {
            Some(queue) => {
                let queues = count(end.port.queues());
                match &self.no_zero_copy {
                    Some(why) => format!("rings of {queues}, copy (on both: {why})"),
                    None => format!("rings of {queues}, {}", queue.access()),
                }
            }
            None => "no queues".to_owned(),
        })
    }
}

fn count(queues: &[Queue]) -> String {
    match queues.len() {
        1 => "1 queue".to_owned(),
        count => format!("{count} queues"),
    }
}

impl End {
    fn counts(&self) -> Result<Counts> {
        let mut counts = self.counts;
        for queue in self.port.statistics()? {
            counts.dropped.missed += queue.kernel.rx_dropped + queue.kernel.rx_ring_full;
        }
        Ok(counts)
    }
}
