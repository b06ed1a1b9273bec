//! Answers UDP to one port, without the kernel's stack: `udp_echo IFACE PORT`.
//!
//! Only packets to this port come here; everything else stays with the kernel. Checksums must be
//! complete: a veth at the other end leaves them to others, unless `ethtool -K veth0 tx off`.
//!
//! Ctrl-C ends it between two packets. The programs that were attached for it stay then, and pass
//! everything to the kernel, until the next port is closed or `nicctl detach`.

use std::{env, error::Error, time::Duration};

use nic_common::{
    headers::protocol,
    policy::CopyPolicy,
    steer::{Rule, Rules},
};
use nic_user::{
    driver::{
        Interface, Options,
        buffers::{Buffers, Layout},
        packet::Packet,
        port::{Config, Port},
        receive::Building,
    },
    nic::{InterfaceName, Nic},
};

fn main() -> Result<(), Box<dyn Error>> {
    let [name, number] = arguments().ok_or("usage: udp_echo IFACE PORT")?;
    let nic = Nic::by_name(&InterfaceName::new(&name)?)?;
    let interface = Interface { name: nic.name(), ifindex: nic.ifindex(), netns: None };
    let rule = Rule::TAKE.protocol(protocol::UDP).port(number.parse()?);
    let rules = Rules::new(&[rule]).ok_or("too many rules")?;
    let config = Config {
        queues: (0..nic.rx_queues()).collect(),
        // Whole, so that the answer is written where the question is.
        building: Building {
            policy: CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false },
            bounce_below: 0,
        },
        options: Options { fill: 512, ..Options::default() },
    };
    let frames = 2048 * nic.rx_queues();
    let buffers = Buffers::new(Layout { frames, ..Layout::default() })?;
    let mut port = Port::steered(&interface, &config, &rules, &buffers)?;
    println!("answering at {name}, UDP port {number}: {}", port.queues()[0].access());
    let mut arrived = Vec::new();
    loop {
        port.wait(Duration::from_secs(1))?;
        for queue in port.queues_mut() {
            queue.receive(64, |packet| arrived.push(packet));
            for mut packet in arrived.drain(..) {
                turn_around(&mut packet);
                // With a full ring the answer is lost, as UDP may be.
                let _ = queue.send(packet);
            }
            queue.flush()?;
        }
    }
}

fn arguments() -> Option<[String; 2]> {
    env::args().skip(1).collect::<Vec<_>>().try_into().ok()
}

/// Exchanges source and destination: of Ethernet, IP and UDP. Checksums stay as they are.
fn turn_around(packet: &mut Packet) {
    let (l3, l4) = (packet.info.l3_offset as usize, packet.info.l4_offset as usize);
    let (addresses, len) = match packet.linear[l3] >> 4 {
        4 => (l3 + 12, 4),
        _ => (l3 + 8, 16),
    };
    for (at, len) in [(0, 6), (addresses, len), (l4, 2)] {
        let (source, destination) = packet.linear[at..at + 2 * len].split_at_mut(len);
        source.swap_with_slice(destination);
    }
}
