//! AF_XDP rings on a card: a port gets exactly what it asked for, and the kernel the rest.

use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

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
    lab::{
        Host,
        frames::Ends,
        traffic::{self, IpVersion::V4},
    },
    nic::{InterfaceName, Nic},
};

use crate::{Guest, Outcome};

const PATIENCE: Duration = Duration::from_secs(20);
const TAKEN: u16 = 9;
const PASSED: u16 = 10;
const PACKETS: usize = 32;

/// What is sent to one port arrives in the rings, what is sent to another at a socket.
pub fn a_port_gets_what_it_asked_for(guest: &Guest) -> Outcome {
    let (from, to) = (guest.lab.a(), guest.lab.b());
    let name = InterfaceName::new(to.interface()).expect("a name");
    let nic = to.run(|| Nic::by_name(&name)).flatten_ok();
    let kernel = to.run(|| UdpSocket::bind((to.ipv4(), PASSED))).flatten_ok();
    kernel.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    let mut port = open(to, &nic);
    println!("{}: {}", guest.driver, port.queues()[0].access());
    let ends = Ends::between(from, to);
    let frame = |number: u16| {
        let ends = Ends { ports: [40_000, number], ..ends };
        ends.ethernet(ends.ipv4(ends.udp(V4, &[7; 1000])))
    };
    wait_until_it_receives(&mut port, from, &frame(TAKEN));
    for number in [TAKEN, PASSED] {
        let frames: Vec<_> = (0..PACKETS).map(|_| frame(number)).collect();
        traffic::send_frames(from, &frames).expect("sending");
    }
    let arrived = receive(&mut port, PACKETS);
    assert!(arrived.iter().all(|packet| *packet == frame(TAKEN)));
    for _ in 0..PACKETS {
        assert_eq!(kernel.recv(&mut [0; 2000]).expect("what is the kernel's"), 1000);
    }
    drop(port);
    // Then all of it is the kernel's.
    let socket = to.run(|| UdpSocket::bind((to.ipv4(), TAKEN))).flatten_ok();
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    traffic::send_frames(from, &[frame(TAKEN)]).expect("sending");
    assert_eq!(socket.recv(&mut [0; 2000]).expect("what was the port's"), 1000);
    Outcome::Passed
}

/// A card may start its queues anew for zero copy, and lose what comes meanwhile.
fn wait_until_it_receives(port: &mut Port, from: &Host, frame: &[u8]) {
    let deadline = Instant::now() + PATIENCE;
    let (mut sent, mut arrived) = (0, 0);
    while arrived == 0 {
        assert!(Instant::now() < deadline, "nothing of {sent} packets arrived");
        sent += traffic::send_frames(from, &[frame]).expect("sending");
        port.wait(Duration::from_millis(100)).expect("waiting");
        for queue in port.queues_mut() {
            queue.receive(64, |_| arrived += 1);
        }
    }
    // Whatever else of them is on its way comes before this has been quiet for a while.
    while port.wait(Duration::from_millis(500)).expect("waiting") {
        for queue in port.queues_mut() {
            queue.receive(64, |_| ());
        }
    }
}

fn open(host: &Host, nic: &Nic) -> Port {
    let policy = CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false };
    let config = Config {
        queues: (0..nic.rx_queues().max(1)).collect(),
        building: Building { policy, bounce_below: 0 },
        options: Options { fill: 256, ..Options::default() },
    };
    let rules = Rules::new(&[Rule::TAKE.protocol(protocol::UDP).port(TAKEN)]).expect("one rule");
    let interface =
        Interface { name: host.interface(), ifindex: host.ifindex(), netns: Some(host.netns()) };
    // With zero copy igb fills whole KiB of a frame only: one of 2048 bytes, less headroom, it would
    // take for 1024 (`igb_setup_srrctl`, drivers/net/ethernet/intel/igb/igb_main.c).
    let layout = Layout { frame_size: 4096, ..Layout::default() };
    let buffers = Buffers::new(layout).expect("memory");
    Port::steered(&interface, &config, &rules, &buffers).unwrap_or_else(|error| panic!("{error}"))
}

fn receive(port: &mut Port, count: usize) -> Vec<Vec<u8>> {
    let mut arrived = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while arrived.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} packets arrived", arrived.len());
        port.wait(Duration::from_millis(100)).expect("waiting");
        for queue in port.queues_mut() {
            queue.receive(64, |packet: Packet| arrived.push(packet.to_vec()));
        }
    }
    arrived
}

/// What must be there for a test to make sense.
trait FlattenOk<T> {
    fn flatten_ok(self) -> T;
}

impl<T, E: std::fmt::Display> FlattenOk<T> for nic_user::error::Result<Result<T, E>> {
    fn flatten_ok(self) -> T {
        let inner = self.unwrap_or_else(|error| panic!("{error}"));
        inner.unwrap_or_else(|error| panic!("{error}"))
    }
}
