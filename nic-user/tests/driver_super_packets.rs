//! Super-packets through the rings of a real veth pair: segmented for sockets of the kernel, and
//! merged of what they send.

#[macro_use]
mod common;
mod port;

use std::{
    iter,
    net::{SocketAddr, UdpSocket},
    rc::Rc,
};

use nic_user::{
    driver::{
        gro::{Checksums, Counters, Gro, Limits, Received},
        queue::Refusal,
        segment::{Ids, SuperPacket},
    },
    lab::{
        Host,
        frames::Ends,
        traffic::IpVersion::{self, V4, V6},
    },
    netlink::ethtool::Ethtool,
};
use nix::sys::socket::{setsockopt, sockopt};
use port::{LAYOUT, PATIENCE, Rig, SPLIT, WHOLE, config};

/// Payload of a datagram but the last.
const SEGMENT: usize = 1000;
/// Payload of a super-packet: 45 datagrams and a shorter one.
const SUPER_PACKET: usize = 45_678;

fn payload(seed: usize) -> Vec<u8> {
    (0..SUPER_PACKET).map(|at| (at * 7 + seed * 13) as u8 ^ (at >> 8) as u8).collect()
}

/// Headers of a super-packet of UDP.
fn headers(ends: &Ends, ip: IpVersion, payload: &[u8]) -> Vec<u8> {
    let datagram = ends.udp(ip, payload);
    let mut frame = ends.ethernet(match ip {
        V4 => ends.ipv4(datagram),
        V6 => ends.ipv6(datagram),
    });
    frame.truncate(frame.len() - payload.len());
    frame
}

fn socket(host: &Host, ip: IpVersion) -> UdpSocket {
    let bind = || UdpSocket::bind(SocketAddr::new(ip.address(host), Ends::default().ports[1]));
    let socket = host.run(bind).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).unwrap();
    socket
}

#[test]
fn a_socket_receives_every_datagram_of_a_super_packet() {
    needs_root!();
    for ip in IpVersion::ALL {
        let mut rig = Rig::new(LAYOUT, &config(WHOLE));
        let (from, to) = (rig.lab.b(), rig.lab.a());
        let receiver = socket(to, ip);
        let ends = Ends::between(from, to);
        let buffers = Rc::clone(rig.port.buffers());
        let queue = &mut rig.port.queues_mut()[0];
        let payloads = [payload(1), payload(2), payload(3), payload(4)];
        let mut refused = 0;
        for payload in &payloads {
            let headers = headers(&ends, ip, payload);
            let parts = payload.chunks(700);
            let packet = SuperPacket::new(&headers, parts, SEGMENT, Ids::Increment).unwrap();
            let mut segments = packet.segments();
            // The ring is flushed only when it is full: segments go on where they stopped.
            while let Err(why) = queue.send_segments(&mut segments) {
                assert_eq!((why, queue.in_flight()), (Refusal::Full, 128));
                refused += 1;
                queue.flush().unwrap();
            }
            assert_eq!(segments.left(), 0);
        }
        queue.flush().unwrap();
        assert_eq!((refused, queue.in_flight()), (1, 0));
        assert_eq!(queue.statistics().unwrap().sent.frames, 4 * 46);
        let mut datagram = [0; 2000];
        for expected in payloads.iter().flat_map(|payload| payload.chunks(SEGMENT)) {
            let len = receiver.recv(&mut datagram).unwrap();
            assert!(&datagram[..len] == expected, "{len} bytes over {ip:?}");
        }
        receiver.set_nonblocking(true).unwrap();
        assert!(receiver.recv(&mut datagram).is_err(), "more than was sent");
        assert_eq!(buffers.frames().account().held, 0);
    }
}

#[test]
fn segments_longer_than_a_frame_are_refused() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let ends = Ends::between(rig.lab.b(), rig.lab.a());
    let queue = &mut rig.port.queues_mut()[0];
    for (size, result) in [(2048 - 42, Ok(())), (2048 - 41, Err(Refusal::TooLong))] {
        let payload = vec![0; size + 1];
        let headers = headers(&ends, V4, &payload);
        let packet = SuperPacket::new(&headers, iter::once(&payload[..]), size, Ids::Increment);
        let mut segments = packet.unwrap().segments();
        let before = queue.in_flight();
        assert_eq!(queue.send_segments(&mut segments), result);
        let sent = queue.in_flight() - before;
        assert_eq!((sent, segments.left()), if result.is_ok() { (2, 0) } else { (0, 2) });
    }
}

#[test]
fn without_a_free_frame_segments_wait() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let ends = Ends::between(rig.lab.b(), rig.lab.a());
    let buffers = Rc::clone(rig.port.buffers());
    let held: Vec<_> = iter::from_fn(|| buffers.frames().take()).collect();
    let queue = &mut rig.port.queues_mut()[0];
    let payload = payload(1);
    let headers = headers(&ends, V4, &payload);
    let packet = SuperPacket::new(&headers, iter::once(&payload[..]), SEGMENT, Ids::Increment);
    let mut segments = packet.unwrap().segments();
    assert_eq!(queue.send_segments(&mut segments), Err(Refusal::Full));
    assert_eq!((queue.in_flight(), segments.left()), (0, 46));
    drop(held);
    assert_eq!(queue.send_segments(&mut segments), Ok(()));
    assert_eq!((queue.in_flight(), segments.left()), (46, 0));
}

/// Whether the kernel finishes checksums before veth sees the packet.
fn finish_checksums(host: &Host, finished: bool) {
    let features = [("tx-checksum-ip-generic", !finished)];
    let set = || Ethtool::open().and_then(|mut it| it.set_features(host.ifindex(), &features));
    host.run(set).unwrap().unwrap();
}

/// Receives, by way of GRO, what a socket sends in super-packets, and compares it.
fn receive_stream(ip: IpVersion, checksums: Checksums, finished: bool) -> Counters {
    let mut rig = Rig::new(LAYOUT, &config(SPLIT));
    let (from, to) = (rig.lab.a(), rig.lab.b());
    let target = SocketAddr::new(ip.address(to), 9);
    from.links(|links| links.add_neighbour(from.ifindex(), target.ip(), to.mac())).unwrap();
    finish_checksums(from, finished);
    let sender = from.run(|| UdpSocket::bind((ip.address(from), 0))).unwrap().unwrap();
    setsockopt(&sender, sockopt::UdpGsoSegment, &(SEGMENT as i32)).unwrap();
    let mut gro = Gro::new(Limits::default()).with_checksums(checksums);
    for seed in 0..20 {
        let sent = payload(seed);
        sender.send_to(&sent, target).unwrap();
        let mut arrived = Vec::new();
        while arrived.len() < sent.len() {
            assert!(rig.port.wait(PATIENCE).unwrap(), "{} bytes arrived", arrived.len());
            let queue = &mut rig.port.queues_mut()[0];
            queue.receive_merged(64, &mut gro, |received| add_payload(&mut arrived, &received));
        }
        assert!(arrived == sent, "other bytes over {ip:?}");
    }
    gro.counters()
}

/// Appends the payload of what is UDP to our port.
fn add_payload(arrived: &mut Vec<u8>, received: &Received<'_>) {
    match received {
        Received::Merged(merged) => arrived.extend(merged.payload().flatten()),
        Received::Packet(packet) if packet.info.l4.number() == Some(17) => {
            arrived.extend(&packet.to_vec()[packet.info.header_len as usize..]);
        }
        Received::Packet(_) => {}
    }
}

#[test]
fn what_a_socket_sends_in_super_packets_comes_out_as_the_stream() {
    needs_root!();
    for ip in IpVersion::ALL {
        for (checksums, finished) in
            [(Checksums::Verified, true), (Checksums::Trusted, true), (Checksums::Trusted, false)]
        {
            let Counters { by_frags, merged, chained, .. } =
                receive_stream(ip, checksums, finished);
            assert!(merged > 0 && by_frags >= merged, "{checksums:?}, finished {finished}");
            assert_eq!(chained, 0);
        }
    }
}

#[test]
fn unfinished_checksums_are_not_right() {
    needs_root!();
    let Counters { by_frags, chained, alone, .. } = receive_stream(V4, Checksums::Verified, false);
    assert_eq!((by_frags, chained), (0, 0));
    assert!(alone >= 20 * 46);
}
