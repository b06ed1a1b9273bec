//! A port at the second host of a lab, whose interface gives it what arrives.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::time::{Duration, Instant};

use nic_common::policy::CopyPolicy;
use nic_user::driver::{
    Mode, Options,
    buffers::{Buffers, Layout},
    packet::Packet,
    port::{Config, Port},
    receive::Building,
};
use nic_user::lab::{Lab, Shape, sockets::ToSockets};

/// Limit of any single wait.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Small enough to run dry.
pub const LAYOUT: Layout = Layout {
    frames: 256,
    frame_size: 2048,
    headroom: 0,
    copies: 256,
    copy_size: 256,
    tx_metadata: false,
};

/// Nothing is copied or split.
pub const WHOLE: Building = Building {
    policy: CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false },
    bounce_below: 0,
};

/// Small packets are copied, others split.
pub const SPLIT: Building = Building { policy: CopyPolicy::DEFAULT, bounce_below: 0 };

pub fn config(building: Building) -> Config {
    let options =
        Options { rx_size: 128, tx_size: 128, fill: 128, mode: Mode::Copy, ..Options::default() };
    Config { queues: vec![0], building, options }
}

pub struct Rig {
    pub port: Port,
    pub sockets: ToSockets,
    pub lab: Lab,
}

pub fn shape(queues: u32) -> Shape {
    Shape { queues, ..Shape::default() }
}

impl Rig {
    pub fn new(layout: Layout, config: &Config) -> Self {
        Self::of(shape(1), layout, config)
    }

    pub fn of(shape: Shape, layout: Layout, config: &Config) -> Self {
        let lab = Lab::new(shape).unwrap();
        let sockets = ToSockets::attach(lab.b()).unwrap();
        let buffers = Buffers::new(layout).unwrap();
        let port = sockets.open(lab.b(), config, &buffers).unwrap();
        Self { port, sockets, lab }
    }

    /// The next packets, at least `count`.
    pub fn receive(&mut self, count: usize) -> Vec<Packet> {
        receive(&mut self.port, count)
    }
}

/// The next packets of a port, at least `count`. What the kernel's neighbours tell each other is
/// left out.
pub fn receive(port: &mut Port, count: usize) -> Vec<Packet> {
    let mut packets = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while packets.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} packets arrived", packets.len());
        port.wait(Duration::from_millis(100)).unwrap();
        for queue in port.queues_mut() {
            queue.receive(64, |packet| {
                let is_multicast = packet.linear.first().is_none_or(|byte| byte & 1 == 1);
                if !is_multicast {
                    packets.push(packet);
                }
            });
        }
    }
    packets
}

impl Drop for Rig {
    fn drop(&mut self) {
        assert_every_frame_is_somewhere(self.port.buffers());
    }
}

#[track_caller]
pub fn assert_every_frame_is_somewhere(buffers: &Buffers) {
    for account in [buffers.frames().account(), buffers.copies().account()] {
        assert!(account.is_whole(), "{account:?}");
    }
}

/// With all ports closed and all packets dropped.
#[track_caller]
pub fn assert_every_frame_is_home(buffers: &Buffers) {
    for account in [buffers.frames().account(), buffers.copies().account()] {
        assert_eq!(account.free, account.total, "{account:?}");
    }
}
