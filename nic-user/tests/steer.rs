//! Steering: exactly what was asked for goes to the rings, and everything else to the kernel.

mod attached;
mod common;
mod port;

use std::net::{IpAddr, UdpSocket};

use attached::{Attached, nicctl, number, on, per_queue, poll, run, stats};
use nic_common::{
    headers::{ethertype, protocol},
    metadata::Metadata,
    steer::{Rule, Rules},
};
use nic_user::{
    driver::{buffers::Buffers, packet::Packet, port::Port},
    lab::{
        Host, Lab,
        frames::{Ends, vlan},
        traffic::{self, IpVersion::V4, IpVersion::V6},
    },
    offload::Rings,
};
use port::{LAYOUT, PATIENCE, WHOLE, assert_every_frame_is_home, config, shape};

fn rules(rules: &[Rule]) -> Rules {
    Rules::new(rules).unwrap()
}

fn steered(host: &Host, queues: &[u32], rules: &Rules) -> Port {
    let mut config = config(WHOLE);
    config.queues = queues.to_vec();
    config.options.fill = 32;
    let buffers = Buffers::new(LAYOUT).unwrap();
    Port::steered(&host.into(), &config, rules, &buffers).unwrap()
}

fn is_attached(host: &Host) -> bool {
    nicctl(&on(host, "stats", &["--json"])).status.success()
}

fn bytes(packets: Vec<Packet>) -> Vec<Vec<u8>> {
    packets.iter().map(Packet::to_vec).collect()
}

/// A UDP socket at `host`, and sending `payload` to it.
fn socket(host: &Host, port: u16) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind((host.ipv4(), port))).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[track_caller]
fn assert_receives(socket: &UdpSocket, payload: &[u8]) {
    let mut buffer = [0; 2000];
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], payload);
}

#[test]
fn exactly_what_was_asked_for_goes_to_the_rings() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let (from, to) = (lab.a(), lab.b());
    let attached = Attached::new(to, &[]);
    let mut port = steered(to, &[0], &rules(&[Rule::TAKE.protocol(protocol::UDP).port(9)]));
    let ends = Ends::between(from, to);
    let taken = [
        ends.ethernet(ends.ipv4(ends.udp(V4, &[1; 100]))),
        ends.ethernet(ends.ipv6(ends.udp(V6, &[2; 1000]))),
    ];
    let cut = ends.ethernet(ends.ipv4(ends.udp(V4, &[3; 100])))[..60].to_vec();
    let passed = [
        ends.ethernet(ends.ipv4(ends.tcp(V4, &[4; 100]))),
        ends.ethernet(vlan(5, ends.ipv4(ends.udp(V4, &[5; 100])))),
        cut,
    ];
    // XDP and what TC sees of it; a packet may pass between the reading of both.
    let unseen = || {
        let stats = attached.stats();
        let [packets, ingress] =
            ["/total/rx/packets", "/total/ingress/packets"].map(|it| number(&stats, it));
        packets.checked_sub(ingress)
    };
    assert!(poll(|| unseen().is_some()));
    let before = unseen().unwrap_or_default();
    for _ in 0..10 {
        traffic::send_frames(from, &taken).unwrap();
        traffic::send_frames(from, &passed).unwrap();
    }
    let received = bytes(port::receive(&mut port, 20));
    assert_eq!(received, taken.iter().cycle().take(20).cloned().collect::<Vec<_>>());
    // The kernel does not count what went to the rings as received, nor does TC see it.
    let settled = || {
        let stats = attached.stats();
        let [packets, redirected] =
            ["/total/rx/packets", "/total/rx/redirected"].map(|it| number(&stats, it));
        let ingress = number(&stats, "/total/ingress/packets");
        (redirected, packets.saturating_sub(redirected + ingress))
    };
    assert!(poll(|| settled() == (20, before)), "{:?}, {before} before", settled());
    drop(port);
    // Somebody attached, and nobody detached.
    assert!(is_attached(to));
}

#[test]
fn what_is_redirected_and_what_is_passed_add_up_at_every_queue() {
    needs_root!();
    let lab = Lab::new(shape(4)).unwrap();
    let (from, to) = (lab.a(), lab.b());
    let attached = Attached::new(to, &[]);
    // Two queues of four, each with its own port and rules.
    let mut first = steered(to, &[0], &rules(&[Rule::TAKE.protocol(protocol::UDP)]));
    let mut second = steered(to, &[2], &rules(&[Rule::TAKE.protocol(protocol::TCP)]));
    let ends = Ends::between(from, to);
    let flow = |port: u16| {
        let ends = ends.from_port(40_000 + port);
        let udp = ends.ethernet(ends.ipv4(ends.udp(V4, &[0; 100])));
        [udp, ends.ethernet(ends.ipv4(ends.tcp(V4, &[0; 100])))]
    };
    let sent: Vec<_> = (0..64).flat_map(flow).collect();
    let earlier = attached.stats();
    traffic::send_frames(from, &sent).unwrap();
    let wanted = number(&earlier, "/total/rx/packets") + sent.len() as u64;
    assert!(poll(|| attached.total("/rx/packets") >= wanted));
    let now = attached.stats();
    let redirected = per_queue(&now, "/rx/redirected");
    assert!(redirected[0] > 0 && redirected[2] > 0, "{redirected:?}");
    assert_eq!((redirected[1], redirected[3]), (0, 0));
    let count = |port: &mut Port, protocol: u8, expected: u64| {
        let packets = port::receive(port, expected as usize);
        assert_eq!(packets.len() as u64, expected);
        assert!(packets.iter().all(|packet| packet.info.l4.raw() == protocol));
    };
    count(&mut first, protocol::UDP, redirected[0]);
    count(&mut second, protocol::TCP, redirected[2]);
}

#[test]
fn metadata_lies_in_front_of_what_arrives() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let mut port = steered(lab.b(), &[0], &rules(&[Rule::TAKE.protocol(protocol::UDP)]));
    let ends = Ends::between(lab.a(), lab.b());
    traffic::send_frames(lab.a(), &[ends.ethernet(ends.ipv4(ends.udp(V4, &[7; 1000])))]).unwrap();
    let mut packet = port::receive(&mut port, 1).swap_remove(0);
    assert!(packet.linear.push_front(Metadata::SIZE as u32));
    let (first, rest) = packet.linear.split_first_chunk().unwrap();
    let words = [first, rest.first_chunk().unwrap()].map(|word| u64::from_ne_bytes(*word));
    let metadata = Metadata::from_words(words).unwrap();
    assert_eq!(metadata.headers, packet.info);
    assert_eq!(metadata.headers.header_len, 42);
}

#[test]
fn a_closed_port_gives_its_frames_to_the_kernel_again() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let (from, to) = (lab.a(), lab.b());
    let kernel = socket(to, 9);
    let ends = Ends::between(from, to);
    let frame = [ends.ethernet(ends.ipv4(ends.udp(V4, b"whose?")))];
    let mut port = steered(to, &[0], &rules(&[Rule::TAKE.port(9)]));
    assert!(is_attached(to));
    traffic::send_frames(from, &frame).unwrap();
    assert_eq!(bytes(port::receive(&mut port, 1)), frame);
    let buffers = std::rc::Rc::clone(port.buffers());
    // Another user of the same interface does not keep this one's rules alive.
    let other = to.run(|| Rings::open(to.interface())).unwrap().unwrap();
    drop(port);
    assert_every_frame_is_home(&buffers);
    traffic::send_frames(from, &frame).unwrap();
    assert_receives(&kernel, b"whose?");
    assert!(is_attached(to));
    // With the last user, what was attached for them is gone.
    drop(other);
    assert!(!is_attached(to));
    traffic::send_frames(from, &frame).unwrap();
    assert_receives(&kernel, b"whose?");
}

#[test]
fn attaching_again_keeps_rules_and_sockets() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let (from, to) = (lab.a(), lab.b());
    let mut port = steered(to, &[0], &rules(&[Rule::TAKE.port(9)]));
    let ends = Ends::between(from, to);
    let frame = [ends.ethernet(ends.ipv4(ends.udp(V4, b"still mine")))];
    run(to, "attach", &["--rx-copybreak", "100"]);
    traffic::send_frames(from, &frame).unwrap();
    assert_eq!(bytes(port::receive(&mut port, 1)), frame);
    // It is wanted for itself now.
    drop(port);
    assert!(is_attached(to));
    assert_eq!(stats(to)["policy"]["rx_copybreak"], 100);
    run(to, "detach", &[]);
}

#[test]
fn an_address_prefix_and_the_first_match_decide() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let (from, to) = (lab.a(), lab.b());
    let pass = Rule::PASS.to(IpAddr::V4(to.ipv4()), 32).unwrap();
    let take = Rule::TAKE.to(IpAddr::V4(to.ipv4()), 24).unwrap();
    let kernel = socket(to, 9);
    let ends = Ends::between(from, to);
    let to_host = ends.ethernet(ends.ipv4(ends.udp(V4, b"to the host")));
    let mut elsewhere = to_host.clone();
    elsewhere[33] = 77;
    let mut port = steered(to, &[0], &rules(&[pass, take, Rule::TAKE.ethertype(ethertype::ARP)]));
    traffic::send_frames(from, &[to_host, elsewhere.clone()]).unwrap();
    assert_receives(&kernel, b"to the host");
    assert_eq!(bytes(port::receive(&mut port, 1)), [elsewhere]);
}
