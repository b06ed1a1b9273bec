//! Everything at once for a long time: packets of all lengths both ways, held, dropped here and on
//! another thread, sent on; links that go down, ports that close and open again. Every second, and
//! in the end, every frame must be somewhere.

use std::{
    collections::VecDeque,
    rc::Rc,
    sync::mpsc::{self, SyncSender},
    thread,
    time::{Duration, Instant},
};

use nic_common::policy::CopyPolicy;
use nic_user::{
    driver::{
        buffers::{Buffers, Layout},
        packet::{Frag, Packet},
        port::Port,
        receive::Building,
    },
    error::{Error, Result},
    lab::{Host, Lab, Shape, frames::Ends, sockets::ToSockets, traffic::IpVersion::V4},
};

use super::ports::open;

const LAYOUT: Layout = Layout {
    frames: 1024,
    frame_size: 2048,
    headroom: 0,
    copies: 1024,
    copy_size: 256,
    tx_metadata: false,
};
const BUILDING: Building = Building { policy: CopyPolicy::DEFAULT, bounce_below: 512 };
/// Frames that wait at each port.
const FILL: u32 = 128;
/// Packets that are held at most.
const MAX_HELD: u64 = 900;

/// Numbers without order (splitmix64), the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// What happened.
#[derive(Debug, Default)]
pub struct Summary {
    pub received: u64,
    pub sent: u64,
    pub bounced: u64,
    pub link_flaps: u64,
    pub reopened: u64,
    pub checks: u64,
}

struct Soak<'l> {
    lab: &'l Lab,
    sockets: [ToSockets; 2],
    buffers: Rc<Buffers>,
    ports: [Option<Port>; 2],
    frame: Vec<u8>,
    held: VecDeque<Packet>,
    elsewhere: SyncSender<Packet>,
    numbers: Numbers,
    summary: Summary,
}

/// Runs for `duration`; an error if a frame was lost.
pub fn run(duration: Duration) -> Result<Summary> {
    let lab = Lab::new(Shape { queues: 1, mtu: 1500 })?;
    let (elsewhere, other_thread) = mpsc::sync_channel::<Packet>(64);
    thread::scope(|scope| {
        scope.spawn(move || other_thread.into_iter().for_each(drop));
        let mut soak = Soak::new(&lab, elsewhere)?;
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let second = Instant::now() + Duration::from_secs(1);
            while Instant::now() < second {
                soak.turn();
            }
            soak.disturb()?;
            soak.check()?;
        }
        soak.end()
    })
}

impl<'l> Soak<'l> {
    fn new(lab: &'l Lab, elsewhere: SyncSender<Packet>) -> Result<Self> {
        let ends = Ends::between(lab.a(), lab.b());
        let mut soak = Self {
            lab,
            sockets: [ToSockets::attach(lab.a())?, ToSockets::attach(lab.b())?],
            buffers: Buffers::new(LAYOUT)?,
            ports: [None, None],
            frame: ends.ethernet(ends.ipv4(ends.tcp(V4, &[0xa5; 1446]))),
            held: VecDeque::new(),
            elsewhere,
            numbers: Numbers(1),
            summary: Summary::default(),
        };
        soak.open(0)?;
        soak.open(1)?;
        Ok(soak)
    }

    const fn host(&self, side: usize) -> &'l Host {
        if side == 0 { self.lab.a() } else { self.lab.b() }
    }

    fn open(&mut self, side: usize) -> Result<()> {
        let port = open(self.host(side), &self.sockets[side], BUILDING, FILL, &self.buffers)?;
        self.ports[side] = Some(port);
        Ok(())
    }

    /// A burst out of a port, and what arrived at the other one.
    fn turn(&mut self) {
        let side = self.numbers.below(2) as usize;
        self.send(side);
        self.receive(1 - side);
    }

    fn send(&mut self, side: usize) {
        for _ in 0..self.numbers.below(64) {
            let len = 60 + self.numbers.below(1440) as usize;
            let Some(free) = self.buffers.frames().take() else { break };
            let mut frag = Frag::empty(free, 0);
            frag.append(&self.frame[..len]);
            self.put(side, frag);
        }
        self.flush(side);
    }

    fn put(&mut self, side: usize, frag: Frag) {
        let queue = self.ports[side].as_mut().and_then(|port| port.queues_mut().first_mut());
        if let Some(queue) = queue
            && queue.send_frame(frag, false).is_ok()
        {
            self.summary.sent += 1;
        }
    }

    /// A link that is down is none of its business.
    fn flush(&mut self, side: usize) {
        if let Some(port) = &mut self.ports[side] {
            port.queues_mut().iter_mut().for_each(|queue| drop(queue.flush()));
        }
    }

    fn receive(&mut self, side: usize) {
        let mut packets = Vec::new();
        if let Some(port) = &mut self.ports[side] {
            for queue in port.queues_mut() {
                queue.receive(64, |packet| packets.push(packet));
            }
        }
        self.summary.received += packets.len() as u64;
        for packet in packets {
            self.dispose(side, packet);
        }
        self.flush(side);
        while self.held.len() as u64 > self.numbers.below(MAX_HELD) {
            self.held.pop_front();
        }
    }

    fn dispose(&mut self, side: usize, packet: Packet) {
        match self.numbers.below(8) {
            0 | 1 => drop(packet),
            2 => drop(self.elsewhere.try_send(packet)),
            3 => {
                let port = self.ports[side].as_mut();
                if let Some(queue) = port.and_then(|port| port.queues_mut().first_mut()) {
                    // Given back, it is dropped.
                    let _ = queue.send(packet);
                }
            }
            _ => self.held.push_back(packet),
        }
    }

    /// Once a second, something goes wrong.
    fn disturb(&mut self) -> Result<()> {
        let side = self.numbers.below(2) as usize;
        let (host, ifindex) = (self.host(side), self.host(side).ifindex());
        match self.numbers.below(4) {
            0 => {
                host.links(|links| links.set_up(ifindex, false))?;
                self.send(side);
                host.links(|links| links.set_up(ifindex, true))?;
                self.summary.link_flaps += 1;
            }
            1 => {
                self.note(side);
                self.ports[side] = None;
                self.open(side)?;
                self.summary.reopened += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// What a port's queues counted, before it goes.
    fn note(&mut self, side: usize) {
        let statistics = self.ports[side].as_ref().and_then(|port| port.statistics().ok());
        let bounced = statistics.iter().flatten().map(|queue| queue.built.frag_alloc);
        self.summary.bounced += bounced.sum::<u64>();
    }

    fn check(&mut self) -> Result<()> {
        self.summary.checks += 1;
        for account in [self.buffers.frames().account(), self.buffers.copies().account()] {
            if !account.is_whole() {
                return Err(Error::failed(format!("a frame is lost: {account:?}")));
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Summary> {
        (0..2).for_each(|side| self.note(side));
        self.ports = [None, None];
        self.held.clear();
        drop(self.elsewhere);
        let deadline = Instant::now() + Duration::from_secs(10);
        let is_home = |buffers: &Buffers| {
            let accounts = [buffers.frames().account(), buffers.copies().account()];
            accounts.iter().all(|account| account.free == account.total)
        };
        while !is_home(&self.buffers) {
            if Instant::now() > deadline {
                let account = self.buffers.frames().account();
                return Err(Error::failed(format!("frames did not come back: {account:?}")));
            }
            thread::yield_now();
        }
        Ok(self.summary)
    }
}
