//! The kernel's TCP at the other end: it gets what we segment, and we merge what it sends.

mod common;
mod port;
mod tap;
mod wire;

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::AsFd,
    process::Command,
    thread,
};

use nic_user::{
    driver::{
        buffers::Layout,
        gro::{Counters, Received},
        segment::{Ids, SuperPacket},
    },
    lab::{Host, Lab, Shape, traffic::IpVersion},
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use port::{Rig, SPLIT};
use tap::Tap;
use wire::{PortWire, TapWire, Wire};

/// Bytes sent in either direction.
const BYTES: usize = 3 << 20;
/// Payload of a super-packet.
const SUPER_PACKET: usize = 60_000;
/// Payload of a segment: what fits an MTU of 1500 with either IP.
const SEGMENT: usize = 1440;
const PORT: u16 = 5000;

/// Ours at the tap device.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

#[test]
fn a_socket_gets_what_is_segmented_and_what_it_sends_is_merged_over_ipv4() {
    needs_root!();
    let [kernel, ours] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(198, 51, 100, last)));
    exchange_over_tap(kernel, ours);
}

#[test]
fn a_socket_gets_what_is_segmented_and_what_it_sends_is_merged_over_ipv6() {
    needs_root!();
    let address = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, last));
    exchange_over_tap(address(1), address(2));
}

#[test]
fn the_same_through_the_rings_of_a_veth() {
    needs_root!();
    // Room for all that the kernel may send before it hears of us: nothing is to be lost.
    let layout = Layout { frames: 8192, ..Layout::default() };
    let mut config = port::config(SPLIT);
    config.options.rx_size = 4096;
    config.options.fill = 4096;
    for ip in IpVersion::ALL {
        let mut rig = Rig::new(layout, &config);
        let (kernel, ours) = (rig.lab.a(), rig.lab.b());
        let ips = [ours, kernel].map(|host| ip.address(host));
        kernel.links(|links| links.add_neighbour(kernel.ifindex(), ips[0], ours.mac())).unwrap();
        let ends = Addresses { macs: [ours.mac(), kernel.mac()], ips };
        exchange(PortWire::new(&mut rig.port), kernel, ends);
    }
}

fn exchange_over_tap(kernel: IpAddr, ours: IpAddr) {
    let lab = Lab::new(Shape::default()).unwrap();
    let tap = open_tap(lab.a(), kernel, ours);
    let link = lab.a().links(|links| links.by_index(tap.ifindex)).unwrap();
    let ends = Addresses { macs: [MAC, link.mac.unwrap()], ips: [ours, kernel] };
    exchange(TapWire::new(&tap), lab.a(), ends);
}

/// Sends bytes to a socket of the kernel, and then receives some from it.
fn exchange(wire: impl Wire, host: &Host, ends: Addresses) {
    let listen = || TcpListener::bind(SocketAddr::new(ends.ips[1], PORT));
    let listener = host.run(listen).unwrap().unwrap();
    let (to_kernel, from_kernel) = (bytes(1), bytes(2));
    let mut peer = Peer::connect(wire, ends);
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            let mut received = vec![0; BYTES];
            socket.read_exact(&mut received).unwrap();
            assert!(received == to_kernel, "the socket got other bytes");
            socket.write_all(&from_kernel).unwrap();
        });
        peer.send(&to_kernel);
        peer.receive_all();
        server.join().unwrap();
    });
    assert!(peer.received == from_kernel, "{} other bytes were received", peer.received.len());
    let Counters { by_frags, chained, merged, .. } = peer.wire.counters();
    assert!(merged > 0 && by_frags > merged && chained == 0);
    assert_eq!(checksum_errors(host), 0);
}

fn bytes(seed: u8) -> Vec<u8> {
    (0..BYTES as u32).map(|at| ((at * 31) >> 3) as u8 ^ seed).collect()
}

/// A tap device on which the kernel has one address and we the other.
fn open_tap(host: &Host, kernel: IpAddr, ours: IpAddr) -> Tap {
    let tap = Tap::new(host);
    fcntl(tap.file.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    host.links(|links| {
        links.set_no_link_local(tap.ifindex)?;
        links.set_up(tap.ifindex, true)?;
        links.add_address(tap.ifindex, kernel, if kernel.is_ipv4() { 24 } else { 64 })
    })
    .unwrap();
    let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
    let ip = Command::new("ip")
        .args(["-n", host.netns_name(), "neigh", "add", &ours.to_string(), "lladdr", &mac])
        .args(["dev", tap::NAME, "nud", "permanent"])
        .status()
        .unwrap();
    assert!(ip.success());
    tap
}

/// Segments that the kernel's TCP has refused for their checksum.
fn checksum_errors(host: &Host) -> u64 {
    let text = host.run(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    let mut tcp = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (tcp.next().unwrap(), tcp.next().unwrap());
    let mut fields = names.split(' ').zip(values.split(' '));
    fields.find(|(name, _)| *name == "InCsumErrors").unwrap().1.parse().unwrap()
}

/// Ours and the kernel's.
struct Addresses {
    macs: [[u8; 6]; 2],
    ips: [IpAddr; 2],
}

/// As much of TCP as it takes where nothing is lost.
struct Peer<W> {
    wire: W,
    ends: Addresses,
    /// The next byte that we send.
    next: u32,
    /// The next byte that the kernel expects.
    acknowledged: u32,
    /// Bytes beyond that which it takes.
    window: u32,
    /// The kernel's factor for windows, as a shift.
    window_shift: u32,
    /// The next byte that we expect.
    expected: u32,
    has_ended: bool,
    received: Vec<u8>,
}

/// A TCP packet that has arrived.
struct Segment {
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    payload: Vec<u8>,
}

impl<W: Wire> Peer<W> {
    fn connect(wire: W, ends: Addresses) -> Self {
        let mut peer = Self {
            wire,
            ends,
            // Sequence numbers wrap on the way.
            next: u32::MAX - 100_000,
            acknowledged: 0,
            window: 0,
            window_shift: 0,
            expected: 0,
            has_ended: false,
            received: Vec::new(),
        };
        peer.shake_hands();
        peer
    }

    fn shake_hands(&mut self) {
        // Maximum segment size and window scale.
        let [high, low] = (SEGMENT as u16).to_be_bytes();
        self.transmit(SYN, &[2, 4, high, low, 3, 3, 7, 1], &[]);
        self.next = self.next.wrapping_add(1);
        let answer = loop {
            if let Some(segment) = self.read_batch().into_iter().next() {
                break segment;
            }
        };
        assert_eq!((answer.flags, answer.acknowledged), (SYN | ACK, self.next));
        self.window_shift = window_shift(&answer.options);
        self.window = answer.window.into();
        self.acknowledged = answer.acknowledged;
        self.expected = answer.sequence.wrapping_add(1);
        self.transmit(ACK, &[], &[]);
    }

    /// Sends `bytes` in super-packets, and waits until the kernel has them all.
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() || self.in_flight() > 0 {
            let room = self.window.saturating_sub(self.in_flight()) as usize;
            let (now, later) = rest.split_at(rest.len().min(room).min(SUPER_PACKET));
            // No silly windows.
            if now.len() >= SEGMENT.min(rest.len()) && !now.is_empty() {
                self.transmit(ACK | PSH, &[], now);
                self.next = self.next.wrapping_add(now.len() as u32);
                rest = later;
            } else {
                self.take_batch();
            }
        }
    }

    fn receive_all(&mut self) {
        while !self.has_ended {
            self.take_batch();
        }
        self.transmit(FIN | ACK, &[], &[]);
    }

    fn in_flight(&self) -> u32 {
        self.next.wrapping_sub(self.acknowledged)
    }

    /// Takes what has arrived, and acknowledges it.
    fn take_batch(&mut self) {
        let before = self.expected;
        for segment in self.read_batch() {
            self.acknowledged = segment.acknowledged;
            self.window = u32::from(segment.window) << self.window_shift;
            if segment.sequence == self.expected {
                self.received.extend(&segment.payload);
                self.expected = self.expected.wrapping_add(segment.payload.len() as u32);
                if segment.flags & FIN != 0 {
                    self.expected = self.expected.wrapping_add(1);
                    self.has_ended = true;
                }
            }
        }
        if self.expected != before {
            self.transmit(ACK, &[], &[]);
        }
    }

    /// What has arrived, merged; waits for at least one frame.
    fn read_batch(&mut self) -> Vec<Segment> {
        let mut segments = Vec::new();
        self.wire.receive(|received| segments.extend(segment(&received)));
        segments
    }

    fn transmit(&mut self, flags: u8, options: &[u8], payload: &[u8]) {
        let headers = self.headers(flags, options, payload.len());
        let parts = std::iter::once(payload);
        let packet = SuperPacket::new(&headers, parts, SEGMENT, Ids::Increment).unwrap();
        self.wire.send(packet.segments());
    }

    fn headers(&self, flags: u8, options: &[u8], payload_len: usize) -> Vec<u8> {
        let mut tcp = [40_000_u16.to_be_bytes(), PORT.to_be_bytes()].concat();
        tcp.extend(self.next.to_be_bytes());
        tcp.extend(self.expected.to_be_bytes());
        tcp.extend([(((20 + options.len()) / 4) << 4) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(options);
        let len = tcp.len() + payload_len;
        let Addresses { macs: [our_mac, kernel_mac], ips: [ours, kernel] } = self.ends;
        let (ethertype, network) = match (ours, kernel) {
            (IpAddr::V4(ours), IpAddr::V4(kernel)) => {
                let mut header = vec![0x45, 0];
                header.extend((20 + len as u16).to_be_bytes());
                header.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
                header.extend([ours.octets(), kernel.octets()].concat());
                ([0x08, 0x00], header)
            }
            (IpAddr::V6(ours), IpAddr::V6(kernel)) => {
                let mut header = vec![0x60, 0, 0, 0];
                header.extend((len as u16).to_be_bytes());
                header.extend([6, 64]);
                header.extend([ours.octets(), kernel.octets()].concat());
                ([0x86, 0xdd], header)
            }
            _ => unreachable!(),
        };
        [&kernel_mac[..], &our_mac, &ethertype, &network, &tcp].concat()
    }
}

/// The TCP packet that leaves GRO; `None` for others.
fn segment(received: &Received<'_>) -> Option<Segment> {
    let (info, bytes): (_, Vec<u8>) = match received {
        Received::Packet(packet) => (packet.info, packet.to_vec()),
        Received::Merged(merged) => {
            let parts = std::iter::once(merged.headers()).chain(merged.payload());
            (merged.head.info, parts.flatten().copied().collect())
        }
    };
    if info.l4.number() != Some(6) {
        return None;
    }
    let (headers, payload) = bytes.split_at(info.header_len as usize);
    let tcp = &headers[info.l4_offset as usize..];
    let word = |at: usize| u32::from_be_bytes(*tcp[at..].first_chunk().unwrap());
    Some(Segment {
        sequence: word(4),
        acknowledged: word(8),
        flags: tcp[13],
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        options: tcp[20..].to_vec(),
        payload: payload.to_vec(),
    })
}

/// The shift in the window scale option.
fn window_shift(mut options: &[u8]) -> u32 {
    loop {
        options = match *options {
            [1, ref rest @ ..] => rest,
            [3, 3, shift, ..] => return shift.into(),
            [_, len, ..] => &options[len.into()..],
            _ => return 0,
        };
    }
}
