//! Checksums that a program leaves to the port, at the kernel's sockets, which verify them.

#[macro_use]
mod common;
mod ethtool;
mod port;

use std::{
    iter,
    net::{TcpListener, UdpSocket},
    rc::Rc,
};

use nic_user::{
    driver::{
        buffers::{Buffers, Layout},
        checksum::Sum,
        packet::{Frag, Frags, Packet},
        queue::{Checksum, Checksummer, Refusal},
        segment::{Ids, SuperPacket},
    },
    lab::{
        Host,
        frames::{Ends, IpPayload},
        traffic::IpVersion,
    },
};
use port::{LAYOUT, PATIENCE, Rig, WHOLE, assert_every_frame_is_home, config};

const WITH_METADATA: Layout = Layout { tx_metadata: true, ..LAYOUT };
/// Where the ports of the frames lead.
const PORT: u16 = 9;
const ETHERNET_LEN: usize = 14;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// The kernel finishes checksums before the frame leaves: the other end would believe veth that it
/// can.
fn rig(layout: Layout) -> Rig {
    let rig = Rig::new(layout, &config(WHOLE));
    ethtool::set(rig.lab.b(), "tx-checksum-ip-generic", false);
    rig
}

fn transport_at(ip: IpVersion) -> usize {
    ETHERNET_LEN + if ip == IpVersion::V4 { 20 } else { 40 }
}

/// Leaves nothing of the checksum but the sum of the pseudo header, as whoever wants it filled in
/// does.
fn unfinished(
    mut frame: Vec<u8>,
    ip: IpVersion,
    protocol: u16,
    offset: u16,
) -> (Vec<u8>, Checksum) {
    let start = transport_at(ip);
    let addresses = if ip == IpVersion::V4 { start - 8..start } else { start - 32..start };
    let len = frame.len() - start;
    let sum = Sum::of(&frame[addresses]).with_u16(protocol).with_u16(len as u16);
    let at = start + usize::from(offset);
    frame[at..at + 2].copy_from_slice(&sum.unfinished());
    (frame, Checksum { start: start as u16, offset })
}

fn packet(ends: &Ends, ip: IpVersion, payload: IpPayload) -> Vec<u8> {
    ends.ethernet(match ip {
        IpVersion::V4 => ends.ipv4(payload),
        IpVersion::V6 => ends.ipv6(payload),
    })
}

fn datagram(ends: &Ends, ip: IpVersion, payload: &[u8]) -> (Vec<u8>, Checksum) {
    unfinished(packet(ends, ip, ends.udp(ip, payload)), ip, 17, 6)
}

fn frag(buffers: &Buffers, headroom: u32, bytes: &[u8]) -> Frag {
    let mut frag = Frag::empty(buffers.frames().take().unwrap(), headroom);
    assert!(frag.append(bytes));
    frag
}

fn receiver(host: &Host, ip: IpVersion) -> UdpSocket {
    let receiver = host.run(|| UdpSocket::bind((ip.address(host), PORT))).unwrap().unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    receiver
}

fn received(receiver: &UdpSocket) -> Vec<u8> {
    let mut payload = [0; 2000];
    let len = receiver.recv(&mut payload).unwrap();
    payload[..len].to_vec()
}

/// Sends datagrams in frames of `memory`, or of the port's own, and has a socket receive them.
fn send_datagrams(rig: &mut Rig, memory: Option<&Buffers>, headroom: u32) {
    let (from, to) = (rig.lab.b(), rig.lab.a());
    let ends = Ends::between(from, to);
    let own = Rc::clone(rig.port.buffers());
    let queue = &mut rig.port.queues_mut()[0];
    for ip in IpVersion::ALL {
        let receiver = receiver(to, ip);
        for len in [1, 18, 1001, 1452] {
            let payload = vec![len as u8; len];
            let (frame, checksum) = datagram(&ends, ip, &payload);
            // With another sum it does not arrive.
            let mut wrong = frame.clone();
            wrong[usize::from(checksum.start + checksum.offset)] ^= 1;
            for bytes in [wrong, frame] {
                let frag = frag(memory.unwrap_or(&own), headroom, &bytes);
                queue.send_with_checksum(frag, checksum).unwrap();
            }
            queue.flush().unwrap();
            assert!(received(&receiver) == payload, "{len} bytes over {ip:?}");
        }
    }
    assert_eq!((queue.in_flight(), queue.statistics().unwrap().kernel.tx_invalid), (0, 0));
}

#[test]
fn the_kernel_fills_in_checksums() {
    needs_root!();
    let mut rig = rig(WITH_METADATA);
    assert_eq!(rig.port.queues()[0].checksummer(), &Checksummer::Kernel);
    send_datagrams(&mut rig, None, 64);
    assert_eq!(rig.port.statistics().unwrap()[0].sent.copied, 0);
}

#[test]
fn what_has_no_room_for_metadata_gets_its_checksum_here() {
    needs_root!();
    send_datagrams(&mut rig(WITH_METADATA), None, 8);
    let mut without = rig(LAYOUT);
    let checksummer = without.port.queues()[0].checksummer().to_string();
    assert_eq!(checksummer, "software (the UMEM was created without TX metadata)");
    send_datagrams(&mut without, None, 0);
}

#[test]
fn a_frame_of_another_memory_gets_its_checksum_here() {
    needs_root!();
    let elsewhere = Buffers::new(LAYOUT).unwrap();
    send_datagrams(&mut rig(WITH_METADATA), Some(&elsewhere), 64);
    assert_every_frame_is_home(&elsewhere);
}

#[test]
fn a_listener_answers_a_syn_whose_checksum_was_filled_in() {
    needs_root!();
    for (layout, ip) in
        [WITH_METADATA, LAYOUT].into_iter().flat_map(|layout| IpVersion::ALL.map(|ip| (layout, ip)))
    {
        let mut rig = rig(layout);
        let (from, to) = (rig.lab.b(), rig.lab.a());
        let _listener = to.run(|| TcpListener::bind((ip.address(to), PORT))).unwrap().unwrap();
        let neighbour = (ip.address(from), from.mac());
        to.links(|links| links.add_neighbour(to.ifindex(), neighbour.0, neighbour.1)).unwrap();
        let ends = Ends::between(from, to);
        let flags = transport_at(ip) + 13;
        let mut syn = packet(&ends, ip, ends.tcp(ip, &[]));
        syn[flags] = SYN;
        let (syn, checksum) = unfinished(syn, ip, 6, 16);
        let frag = frag(rig.port.buffers(), 64, &syn);
        let queue = &mut rig.port.queues_mut()[0];
        queue.send_with_checksum(frag, checksum).unwrap();
        queue.flush().unwrap();
        let answer = rig.receive(1);
        assert_eq!(answer[0].linear[flags], SYN | ACK, "{ip:?}");
    }
}

#[test]
fn a_checksum_beyond_the_end_is_refused() {
    needs_root!();
    for layout in [WITH_METADATA, LAYOUT] {
        let mut rig = rig(layout);
        let frag = frag(rig.port.buffers(), 64, &[1; 60]);
        let queue = &mut rig.port.queues_mut()[0];
        let mut back = Some(frag);
        for (start, offset) in [(54, 5), (59, 0), (61, 0), (0, 59), (u16::MAX, u16::MAX)] {
            let checksum = Checksum { start, offset };
            let unsent = queue.send_with_checksum(back.take().unwrap(), checksum).unwrap_err();
            assert_eq!((unsent.why, &*unsent.what), (Refusal::NoChecksum, &[1; 60][..]));
            back = Some(unsent.what);
        }
    }
}

#[test]
fn where_there_is_metadata_the_rest_is_sent_too() {
    needs_root!();
    let mut rig = rig(WITH_METADATA);
    let (from, to) = (rig.lab.b(), rig.lab.a());
    let ends = Ends::between(from, to);
    let receiver = receiver(to, IpVersion::V4);
    let buffers = Rc::clone(rig.port.buffers());
    let queue = &mut rig.port.queues_mut()[0];
    let frame = |payload: &[u8]| {
        let ip = IpVersion::V4;
        packet(&ends, ip, ends.udp(ip, payload))
    };
    // Without headroom.
    queue.send_frame(frag(&buffers, 0, &frame(b"frame")), false).unwrap();
    queue.flush().unwrap();
    assert_eq!(received(&receiver), b"frame");
    // In parts.
    let parts = frame(b"in parts");
    let (first, second) = parts.split_at(42);
    let linear = frag(&buffers, 0, first);
    let frags: Frags = iter::once(frag(&buffers, 0, second)).collect();
    let info = nic_common::headers::HeaderInfo::of(&parts[..]);
    let verdict = nic_common::policy::Verdict::Split;
    queue.send(Packet { linear, frags, info, verdict }).unwrap();
    queue.flush().unwrap();
    assert_eq!(received(&receiver), b"in parts");
    // In segments.
    let payload = [7; 3000];
    let whole = frame(&payload);
    let headers = &whole[..42];
    let packet = SuperPacket::new(headers, iter::once(&payload[..]), 1000, Ids::Increment);
    queue.send_segments(&mut packet.unwrap().segments()).unwrap();
    queue.flush().unwrap();
    for _ in 0..3 {
        assert_eq!(received(&receiver), [7; 1000]);
    }
    assert_eq!(queue.statistics().unwrap().kernel.tx_invalid, 0);
}
