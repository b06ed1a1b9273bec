//! Frames of every kind are counted as what they are.

mod attached;
mod common;
mod ethtool;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread;

use attached::{Attached, nicctl, number};
use nic_common::counters::{header_bin, header_bin_start, size_bin, size_bin_start};
use nic_common::headers::{Flags, HeaderInfo};
use nic_common::policy::{CopyPolicy, Verdict};
use nic_user::lab::bpf::insn::{EXIT, Helper, R1, R2, call, mov};
use nic_user::lab::bpf::{Hook, Link, Program, XDP_PASS};
use nic_user::lab::frames::{Ends, vlan};
use nic_user::lab::traffic::{self, IpVersion};
use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink::link::{Links, XdpMode};
use serde_json::Value;

/// What nicctl should have counted, by the native header walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Expected {
    counters: BTreeMap<&'static str, u64>,
    sizes: BTreeMap<u64, u64>,
    header_lengths: BTreeMap<u64, u64>,
}

impl Expected {
    fn of(frames: &[Vec<u8>], policy: CopyPolicy) -> Self {
        let mut expected = Self::default();
        for frame in frames {
            expected.add(frame, policy);
        }
        expected
    }

    fn add(&mut self, frame: &[u8], policy: CopyPolicy) {
        let info = HeaderInfo::of(frame);
        let len = frame.len() as u32;
        let verdict = policy.decide(len, &info);
        let has = |flags: Flags| u64::from(info.flags.any(flags));
        let is = |wanted: Verdict| u64::from(verdict == wanted);
        for (name, value) in [
            ("packets", 1),
            ("bytes", u64::from(len)),
            ("copy", is(Verdict::Copy)),
            ("split", is(Verdict::Split)),
            ("whole", is(Verdict::Whole)),
            ("malformed", has(Flags::MALFORMED)),
            ("unparsed", 0),
            ("fragments", has(Flags::FIRST_FRAGMENT.with(Flags::LATER_FRAGMENT))),
            ("vlan", has(Flags::VLAN)),
            ("tunnelled", has(Flags::TUNNEL)),
            ("no_metadata", 0),
            ("header_bytes", u64::from(info.header_len)),
            ("copied_bytes", u64::from(verdict.copied(len, info.header_len))),
        ] {
            *self.counters.entry(name).or_default() += value;
        }
        let size = size_bin_start(size_bin(len)).into();
        *self.sizes.entry(size).or_default() += 1;
        let header = header_bin_start(header_bin(info.header_len)).into();
        *self.header_lengths.entry(header).or_default() += 1;
    }

    /// The same, from what nicctl says.
    fn counted(rx: &Value) -> Self {
        let mut counted = Self::default();
        for name in Self::of(&[Vec::new()], CopyPolicy::DEFAULT).counters.into_keys() {
            counted.counters.insert(name, number(rx, &format!("/{name}")));
        }
        counted.sizes = bins(&rx["sizes"]);
        counted.header_lengths = bins(&rx["header_lengths"]);
        counted
    }
}

/// The bins that are not empty, by where they begin.
fn bins(histogram: &Value) -> BTreeMap<u64, u64> {
    let bins = histogram.as_array().unwrap().iter();
    bins.map(|bin| (number(bin, "/from"), number(bin, "/packets")))
        .filter(|&(_, packets)| packets > 0)
        .collect()
}

/// A lab in which the kernel sends nothing by itself any more, and frames that nobody answers.
struct Quiet {
    lab: Lab,
    ends: Ends,
}

impl Quiet {
    fn new(mtu: u32) -> Self {
        let lab = Lab::new(Shape { queues: 4, mtu }).unwrap();
        // Without IPv6 there are no multicast listener reports.
        for host in [lab.a(), lab.b()] {
            let path = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", host.interface());
            host.run(|| std::fs::write(path, "1")).unwrap().unwrap();
        }
        let mut ends = Ends::between(lab.a(), lab.b());
        ends.mac[1] = [0x02, 0, 0, 0, 0, 0x99];
        Self { lab, ends }
    }

    fn send(&self, frames: &[Vec<u8>]) {
        let sent = traffic::send_frames(self.lab.a(), frames).unwrap();
        assert_eq!(sent, frames.len() as u64);
    }

    /// One of each kind, from several ports.
    fn every_kind(&self) -> Vec<Vec<u8>> {
        (0..8)
            .map(|port| self.ends.from_port(40_000 + port))
            .flat_map(|ends| [ends.samples(), ends.malformed()].concat())
            .map(|sample| sample.frame)
            .collect()
    }
}

#[test]
fn every_kind_is_counted_as_what_it_is() {
    needs_root!();
    for (mtu, mode) in [(1500, "native"), (1500, "generic"), (9000, "native"), (9000, "generic")] {
        let quiet = Quiet::new(mtu);
        let attached = Attached::new(quiet.lab.b(), &["--mode", mode]);
        assert_eq!(attached.total("/rx/packets"), 0);
        let mut frames = quiet.every_kind();
        if mtu == 9000 {
            for payload in [1500, 4000, 8900] {
                let segment = |ip| quiet.ends.tcp(ip, &vec![0xa5; payload]);
                let ipv4 = quiet.ends.ipv4(segment(IpVersion::V4));
                let ipv6 = quiet.ends.ipv6(segment(IpVersion::V6));
                frames.push(quiet.ends.ethernet(ipv4));
                frames.push(quiet.ends.ethernet(vlan(7, ipv6)));
            }
        }
        quiet.send(&frames);
        let stats = attached.settled();
        let expected = Expected::of(&frames, CopyPolicy::DEFAULT);
        for name in ["vlan", "tunnelled", "fragments", "malformed"] {
            assert!(expected.counters[name] > 0, "{name}");
        }
        assert_eq!(Expected::counted(&stats["total"]["rx"]), expected, "{mode} {mtu}");
    }
}

#[test]
fn egress_counts_the_headers_of_every_kind() {
    needs_root!();
    let quiet = Quiet::new(1500);
    let attached = Attached::new(quiet.lab.a(), &[]);
    let frames = quiet.every_kind();
    quiet.send(&frames);
    let tx = &attached.settled()["total"]["tx"];
    let expected = Expected::of(&frames, CopyPolicy::DEFAULT).counters;
    for name in ["packets", "bytes", "header_bytes"] {
        assert_eq!(number(tx, &format!("/{name}")), expected[name], "{name}");
    }
}

#[test]
fn another_policy_holds_from_the_next_frame_on() {
    needs_root!();
    let quiet = Quiet::new(1500);
    let attached = Attached::new(quiet.lab.b(), &[]);
    let frames = quiet.every_kind();
    let mut expected = Expected::default();
    for (args, policy) in [
        (&["--rx-copybreak", "0"][..], CopyPolicy { rx_copybreak: 0, ..CopyPolicy::DEFAULT }),
        (&["--max-linear", "60"], CopyPolicy { rx_copybreak: 0, max_linear: 60, split: true }),
        (&["--split", "off"], CopyPolicy { rx_copybreak: 0, max_linear: 60, split: false }),
        (
            &["--rx-copybreak", "2048", "--split", "on"],
            CopyPolicy { rx_copybreak: 2048, max_linear: 60, split: true },
        ),
        // What is not named stays as it is.
        (&["--log"], CopyPolicy { rx_copybreak: 2048, max_linear: 60, split: true }),
    ] {
        attached.again(args);
        let said = &attached.stats()["policy"];
        assert_eq!(said["rx_copybreak"], policy.rx_copybreak, "{args:?}");
        assert_eq!(said["max_linear"], policy.max_linear, "{args:?}");
        assert_eq!(said["split"], policy.split, "{args:?}");
        quiet.send(&frames);
        frames.iter().for_each(|frame| expected.add(frame, policy));
        let stats = attached.settled();
        assert_eq!(Expected::counted(&stats["total"]["rx"]), expected, "{args:?}");
    }
}

/// Largest packet: what the kernel's BIG TCP commits measure with.
const BIG: u32 = 185_000;

/// Payload of a TCP segment at MTU 9000, with timestamps.
const fn segment(ip: IpVersion) -> u64 {
    let ip_header = match ip {
        IpVersion::V4 => 20,
        IpVersion::V6 => 40,
    };
    9000 - ip_header - 20 - 12
}

fn big_tcp_lab() -> Lab {
    let lab = Lab::new(Shape { queues: 4, mtu: 9000 }).unwrap();
    lab.set_max_packet_size(BIG).unwrap();
    lab
}

fn send_bulk(lab: &Lab, ip: IpVersion) {
    const BYTES: u64 = 32 << 20;
    assert_eq!(traffic::tcp(lab.a(), lab.b(), ip, 2, BYTES).unwrap(), 2 * BYTES);
}

/// Packets over 64 KiB, and segments by which the payload is divided as TCP does it.
#[track_caller]
fn assert_big_tcp_sent(tx: &Value, ip: IpVersion) {
    let [packets, super_packets, segments, bytes, header_bytes, over_64k] =
        ["packets", "gso_tcp_packets", "gso_tcp_segments", "bytes", "header_bytes", "over_64k"]
            .map(|name| number(tx, &format!("/{name}")));
    assert!(over_64k > 0 && over_64k <= super_packets, "{tx}");
    let payload = bytes - header_bytes;
    // Only the last segment of a super-packet may be short.
    assert!(payload <= (segments + packets - super_packets) * segment(ip), "{tx}");
    assert!(payload > (segments - super_packets) * segment(ip), "{tx}");
    assert_eq!(number(tx, "/gso_udp_packets"), 0);
}

#[test]
fn big_tcp_leaves_whole_where_only_the_sender_is_attached() {
    needs_root!();
    let quiet = Quiet::new(9000);
    let host = quiet.lab.a();
    quiet.lab.set_max_packet_size(BIG).unwrap();
    let attached = Attached::new(host, &[]);
    let before = host.stats().unwrap().tx_packets;
    send_bulk(&quiet.lab, IpVersion::V4);
    let tx = &attached.settled()["total"]["tx"];
    assert_big_tcp_sent(tx, IpVersion::V4);
    assert_eq!(number(tx, "/packets"), host.stats().unwrap().tx_packets - before);
}

#[test]
fn the_jumbo_option_of_big_tcp_is_no_header_on_the_wire() {
    needs_root!();
    // Ethernet, IPv6, TCP with timestamps; a SYN has more options.
    const HEADERS: u64 = 14 + 40 + 32;
    const MORE_IN_SYN: u64 = 8;
    let lab = big_tcp_lab();
    let attached = Attached::new(lab.a(), &["--mode", "tc"]);
    send_bulk(&lab, IpVersion::V6);
    let tx = &attached.stats()["total"]["tx"];
    assert_big_tcp_sent(tx, IpVersion::V6);
    let most = number(tx, "/packets") * HEADERS + 2 * MORE_IN_SYN;
    assert!(number(tx, "/header_bytes") <= most, "{tx}");
}

/// A VXLAN tunnel to this port between both ends of a lab; the addresses inside.
fn tunnel(lab: &Lab, port: &str) -> [Ipv4Addr; 2] {
    let inside = [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(198, 51, 100, 2)];
    let ends = [(lab.a(), lab.b()), (lab.b(), lab.a())];
    for ((here, there), address) in ends.into_iter().zip(inside) {
        let ip = |args: &[&str]| {
            let done = Command::new("ip").args(["-netns", here.netns_name()]).args(args).status();
            assert!(done.unwrap().success(), "ip {args:?}");
        };
        let remote = there.ipv4().to_string();
        let vxlan = ["vxlan", "id", "42", "remote", &remote, "dstport", port];
        ip(&[&["link", "add", "nic-tunnel", "type"], &vxlan[..]].concat());
        ip(&["address", "add", &format!("{address}/24"), "dev", "nic-tunnel"]);
        ip(&["link", "set", "nic-tunnel", "up"]);
    }
    inside
}

#[test]
fn what_is_segmented_in_a_tunnel_counts_as_what_it_is() {
    needs_root!();
    for kind in ["4789", "8472"] {
        let lab = Lab::new(Shape { queues: 1, mtu: 1500 }).unwrap();
        let (a, b) = (lab.a(), lab.b());
        let [from, to] = tunnel(&lab, kind);
        let attached = Attached::new(a, &["--mode", "tc"]);
        let count = |what: &str| attached.total(&format!("/tx/gso_{what}_packets"));

        let listener = b.run(|| TcpListener::bind((to, 0))).unwrap().unwrap();
        let target = listener.local_addr().unwrap();
        let mut sender = a.run(|| TcpStream::connect(target)).unwrap().unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let sending = thread::spawn(move || sender.write_all(&vec![0xa5; 8 << 20]).unwrap());
        receiver.read_exact(&mut vec![0; 8 << 20]).unwrap();
        sending.join().unwrap();
        assert!(count("tcp") > 0, "{kind:?}: {}", attached.stats());
        assert_eq!(count("udp"), 0, "{kind:?}: {}", attached.stats());

        let tcp = count("tcp");
        let sender = a.run(|| UdpSocket::bind((from, 0))).unwrap().unwrap();
        segment_by(&sender, 1000);
        sender.send_to(&[0; 10_000], (to, 9)).unwrap();
        assert_eq!((count("tcp"), count("udp")), (tcp, 1), "{kind:?}: {}", attached.stats());
    }
}

/// Sends a frame as a UDP super-packet, all of it linear: as the kernel's tunnels have their headers.
fn send_super_packet(host: &Host, frame: &[u8]) {
    const PACKET_VNET_HDR: libc::c_int = 15;
    const NEEDS_CSUM: u8 = 1;
    const GSO_UDP_L4: u8 = 5;
    let [hdr_len, gso_size, csum_start, csum_offset] = [frame.len() as u16, 1000, 14 + 20, 6];
    let numbers = [hdr_len, gso_size, csum_start, csum_offset].map(u16::to_le_bytes);
    let header = [&[NEEDS_CSUM, GSO_UDP_L4], numbers.as_flattened()].concat();
    let socket = host.run(packet_socket).unwrap();
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads one int, which outlives the call.
    let set = unsafe {
        let len = size_of_val(&on) as libc::socklen_t;
        let value = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, value, len)
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
    // SAFETY: `sockaddr_ll` is plain data for which all zeroes are valid.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    (to.sll_family, to.sll_ifindex) = (libc::AF_PACKET as u16, host.ifindex() as i32);
    to.sll_protocol = 0x0800_u16.to_be();
    let bytes = [&header, frame].concat();
    // SAFETY: pointers and lengths are those of what outlives the call.
    let sent = unsafe {
        let len = size_of_val(&to) as libc::socklen_t;
        let to = (&raw const to).cast();
        libc::sendto(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0, to, len)
    };
    assert_eq!(sent, bytes.len() as isize, "{}", io::Error::last_os_error());
}

fn packet_socket() -> OwnedFd {
    // SAFETY: socket(2) reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: `fd` was just opened and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[test]
fn every_udp_tunnel_is_looked_into() {
    needs_root!();
    const ETHERNET: usize = 0;
    const IP: usize = 14;
    let quiet = Quiet::new(1500);
    let host = quiet.lab.a();
    let attached = Attached::new(host, &["--mode", "tc"]);
    let frame = |ip: IpVersion, tcp: bool| {
        let ends = &quiet.ends;
        let payload = if tcp { ends.tcp(ip, &[0; 100]) } else { ends.udp(ip, &[0; 100]) };
        ends.ethernet(match ip {
            IpVersion::V4 => ends.ipv4(payload),
            IpVersion::V6 => ends.ipv6(payload),
        })
    };
    let tunnels: [(u16, &[u8], IpVersion, usize); 8] = [
        (4789, &[8, 0, 0, 0, 0, 0, 42, 0], IpVersion::V4, ETHERNET),
        (4790, &[0x0c, 0, 0, 1, 0, 0, 42, 0], IpVersion::V4, IP),
        (4790, &[0x0c, 0, 0, 2, 0, 0, 42, 0], IpVersion::V6, IP),
        (4790, &[0x0c, 0, 0, 3, 0, 0, 42, 0], IpVersion::V6, ETHERNET),
        (6081, &[0, 0, 0x65, 0x58, 0, 0, 42, 0], IpVersion::V4, ETHERNET),
        (6081, &[1, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 0], IpVersion::V6, ETHERNET),
        (2152, &[0x30, 255, 0, 140, 0, 0, 0, 42], IpVersion::V4, IP),
        (2152, &[0x32, 255, 0, 144, 0, 0, 0, 42, 0, 1, 0, 0], IpVersion::V6, IP),
    ];
    let count = || ["tcp", "udp"].map(|it| attached.total(&format!("/tx/gso_{it}_packets")));
    let mut expected = [0, 0];
    for (port, header, ip, start) in tunnels {
        for tcp in [true, false] {
            let mut payload = [header, &frame(ip, tcp)[start..]].concat();
            payload.resize(2500, 0);
            let mut outer = quiet.ends;
            outer.ports[1] = port;
            let udp = outer.udp(IpVersion::V4, &payload);
            send_super_packet(host, &outer.ethernet(outer.ipv4(udp)));
            expected[usize::from(!tcp)] += 1;
            assert_eq!(count(), expected, "{port} {header:?}");
        }
    }
    // What a program lets the kernel segment is not linear: the kernel makes datagrams of it,
    // whatever is in them.
    let sender = host.run(|| UdpSocket::bind((host.ipv4(), 0))).unwrap().unwrap();
    segment_by(&sender, 1000);
    let mut payload = [tunnels[0].1, &frame(IpVersion::V4, true)].concat();
    payload.resize(5000, 0);
    sender.send_to(&payload, (quiet.lab.b().ipv4(), 4789)).unwrap();
    expected[1] += 1;
    assert_eq!(count(), expected);
}

#[test]
fn big_tcp_is_segmented_for_native_xdp_and_merged_again_by_gro() {
    needs_root!();
    let lab = big_tcp_lab();
    // veth does without it, otherwise, even with XDP.
    ethtool::set(lab.b(), "rx-gro", true);
    let (a, b) = (Attached::new(lab.a(), &[]), Attached::new(lab.b(), &[]));
    let before = not_at_ingress(&b.settled());
    send_bulk(&lab, IpVersion::V6);
    let received = b.settled();
    assert_big_tcp_sent(&a.settled()["total"]["tx"], IpVersion::V6);
    let ingress = &received["total"]["ingress"];
    let largest = number(ingress, "/largest");
    assert!(largest > 65_536 && largest <= BIG.into(), "{ingress}");
    assert_eq!(not_at_ingress(&received), before, "{ingress}");
    assert!(number(ingress, "/paged_bytes") > number(ingress, "/linear_bytes"), "{ingress}");
    let linear =
        ["linear_bytes", "linear_payload_bytes"].map(|n| number(ingress, &format!("/{n}")));
    assert!(linear[1] < linear[0], "{ingress}");
}

#[test]
fn big_tcp_passes_generic_xdp_whole_and_none_is_dropped() {
    needs_root!();
    let lab = big_tcp_lab();
    let b = Attached::new(lab.b(), &["--mode", "generic"]);
    let before = not_at_ingress(&b.settled());
    let dropped_before = lab.a().stats().unwrap().tx_dropped;
    send_bulk(&lab, IpVersion::V6);
    let received = b.settled();
    let [rx, ingress] = ["rx", "ingress"].map(|side| &received["total"][side]);
    assert!(number(ingress, "/largest") > 65_536, "{ingress}");
    assert!(in_largest_bin(rx) > 0, "{rx}");
    // What generic XDP drops, for lack of memory to make it linear, has been counted before.
    assert_eq!(before, number(rx, "/packets") - number(ingress, "/packets"));
    assert_eq!(lab.a().stats().unwrap().tx_dropped, dropped_before);
}

/// A connection over which messages go one by one, each answered before the next.
struct Messages<'l> {
    receiver: &'l Host,
    ends: [TcpStream; 2],
}

impl<'l> Messages<'l> {
    fn new(lab: &'l Lab) -> Self {
        let (sender, receiver) =
            traffic::connect(lab.a(), lab.b(), IpVersion::V4, 1).unwrap().remove(0);
        sender.set_nodelay(true).unwrap();
        receiver.set_nodelay(true).unwrap();
        let messages = Self { receiver: lab.b(), ends: [sender, receiver] };
        // Until the congestion window holds the largest.
        (0..50).for_each(|_| messages.exchange(1 << 16));
        messages
    }

    fn exchange(&self, bytes: usize) {
        let [mut sender, mut receiver] = [&self.ends[0], &self.ends[1]];
        sender.write_all(&vec![0xa5; bytes]).unwrap();
        receiver.read_exact(&mut vec![0; bytes]).unwrap();
        receiver.write_all(&[0]).unwrap();
        sender.read_exact(&mut [0]).unwrap();
    }

    /// Packets that the stack gets for some messages of each length. It may be more for a while,
    /// when a timer of TCP or the scheduler comes between: then it is tried again, for as long as
    /// it is more than `expected`.
    fn packets(&self, expected: Option<&[u64]>) -> Vec<u64> {
        let counts = message_sizes().enumerate().map(|(at, bytes)| {
            let expected = expected.map(|counts| counts[at]);
            let tries = if expected.is_some() { 50 } else { 3 };
            let mut fewest = u64::MAX;
            for _ in 0..tries {
                let before = ip_packets(self.receiver);
                (0..2).for_each(|_| self.exchange(bytes));
                fewest = fewest.min(ip_packets(self.receiver) - before);
                if expected.is_some_and(|expected| fewest <= expected) {
                    break;
                }
            }
            fewest
        });
        counts.collect()
    }
}

/// IPv4 packets that a host's stack got, super-packets as one (`InReceives`).
fn ip_packets(host: &Host) -> u64 {
    let snmp = host.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).unwrap().unwrap();
    let values = snmp.lines().filter(|line| line.starts_with("Ip:")).nth(1).unwrap();
    values.split(' ').nth(3).unwrap().parse().unwrap()
}

/// Messages of up to 64 KiB whose last segments are of every length: alone, behind one, behind many.
fn message_sizes() -> impl Iterator<Item = usize> {
    const SEGMENT: usize = 1500 - 20 - 20 - 12;
    let tails = [0, 1, 20].map(|segments| (1..=SEGMENT).map(move |tail| segments * SEGMENT + tail));
    let doublings = (0..=16).map(|power| 1 << power);
    tails.into_iter().flatten().chain(doublings).chain((1..45).map(|n| n * SEGMENT + 100))
}

/// A lab whose second end merges what comes in segments.
fn gro_lab(sender_segments: bool) -> Lab {
    let lab = Lab::new(Shape { queues: 1, mtu: 1500 }).unwrap();
    // veth merges only for a sender that has none of these (`veth_skb_is_eligible_for_gro`).
    for kind in ["tcp", "tcp-ecn", "tcp-mangleid", "tcp6"] {
        ethtool::set(lab.a(), &format!("tx-{kind}-segmentation"), !sender_segments);
    }
    ethtool::set(lab.b(), "rx-gro", true);
    lab
}

/// Sets XDP as another program would, and takes it away again.
fn with_empty_program<T>(host: &Host, mode: XdpMode, work: impl FnOnce() -> T) -> T {
    let empty = Program::returning(Hook::Xdp, XDP_PASS).unwrap();
    let set = |program| {
        host.links(|links: &mut Links| links.set_xdp(host.ifindex(), program, mode.flag())).unwrap()
    };
    set(Some(empty.as_fd()));
    let done = work();
    set(None);
    done
}

#[test]
fn gro_merges_as_deep_as_with_nothing_attached() {
    needs_root!();
    for sender_segments in [true, false] {
        let lab = gro_lab(sender_segments);
        let messages = Messages::new(&lab);
        let alone = messages.packets(None);
        for (mode, xdp) in
            [("tc", None), ("native", Some(XdpMode::Native)), ("generic", Some(XdpMode::Generic))]
        {
            // Native XDP takes segmentation from a veth's peer; with generic XDP the kernel does
            // not merge (`netif_elide_gro`). Neither is what nicctl makes of it.
            let is_as_alone = xdp.is_none_or(|xdp| sender_segments == (xdp == XdpMode::Native));
            let expected = match xdp {
                Some(xdp) if !is_as_alone => {
                    with_empty_program(lab.b(), xdp, || messages.packets(None))
                }
                _ => alone.clone(),
            };
            let _attached = Attached::new(lab.b(), &["--mode", mode]);
            let packets = messages.packets(Some(&expected));
            let more: Vec<_> = message_sizes()
                .zip(expected.iter().zip(&packets))
                .filter(|(_, (expected, packets))| packets > expected)
                .collect();
            assert!(more.is_empty(), "{mode}, sender segments {sender_segments}: {more:?}");
        }
    }
}

/// Frames that XDP counted and TC ingress did not, alone or merged into others: those that came
/// before TC was attached.
fn not_at_ingress(stats: &Value) -> u64 {
    let [rx, ingress] = ["rx", "ingress"].map(|side| &stats["total"][side]);
    let merged = number(ingress, "/gro_segments") - number(ingress, "/gro_packets");
    number(rx, "/packets") - number(ingress, "/packets") - merged
}

/// Frames of 64 KiB and more.
fn in_largest_bin(rx: &Value) -> u64 {
    number(rx["sizes"].as_array().unwrap().last().unwrap(), "/packets")
}

/// Lets a socket send packets of many datagrams of `bytes` each (`UDP_SEGMENT`).
fn segment_by(socket: &UdpSocket, bytes: usize) {
    let bytes = bytes as libc::c_int;
    // SAFETY: the kernel reads one int, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

#[test]
fn udp_super_packets_are_told_from_tcp() {
    needs_root!();
    const SEGMENTS: u64 = 10;
    const SEGMENT: usize = 1000;
    let quiet = Quiet::new(1500);
    let (a, b) = (quiet.lab.a(), quiet.lab.b());
    let attached = Attached::new(a, &[]);
    let receiver = b.run(|| UdpSocket::bind((b.ipv4(), 0))).unwrap().unwrap();
    let sender = a.run(|| UdpSocket::bind((a.ipv4(), 0))).unwrap().unwrap();
    segment_by(&sender, SEGMENT);
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    for _ in 0..5 {
        sender.send(&[0; SEGMENT * SEGMENTS as usize]).unwrap();
    }
    let tx = &attached.settled()["total"]["tx"];
    assert_eq!(number(tx, "/gso_udp_packets"), 5, "{tx}");
    assert_eq!(number(tx, "/gso_udp_segments"), 5 * SEGMENTS, "{tx}");
    assert_eq!(number(tx, "/gso_tcp_packets"), 0, "{tx}");
}

#[test]
fn links_without_ethernet_headers_are_refused() {
    needs_root!();
    let lab = Lab::new(Shape { queues: 1, mtu: 1500 }).unwrap();
    let netns = lab.a().netns_name();
    let mut ip = Command::new("ip");
    ip.args(["-netns", netns, "tuntap", "add", "nic-tun", "mode", "tun"]);
    assert!(ip.status().unwrap().success());
    for mode in ["auto", "generic"] {
        let refused = nicctl(&["attach", "nic-tun", "--netns", netns, "--mode", mode]);
        assert_eq!(refused.status.code(), Some(1));
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("no Ethernet header (link type 65534)"), "{error}");
    }
    let attached = nicctl(&["attach", "lo", "--netns", netns]);
    assert!(attached.status.success(), "{attached:?}");
}

/// Sends a datagram whose payload stays in the pages of a pipe.
fn send_paged(socket: &UdpSocket, payload: &[u8]) {
    let (from, mut to) = io::pipe().unwrap();
    to.write_all(payload).unwrap();
    // SAFETY: no memory of ours is passed.
    let sent = unsafe {
        libc::splice(
            from.as_raw_fd(),
            std::ptr::null_mut(),
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            payload.len(),
            0,
        )
    };
    assert_eq!(sent, payload.len() as isize, "{}", io::Error::last_os_error());
}

/// What leaves `lo` of a host arrives at its interface instead, past XDP in the driver.
fn redirect_loopback(host: &Host) -> Link {
    const BPF_F_INGRESS: i32 = 1;
    let ifindex = host.ifindex() as i32;
    let redirect = [mov(R1, ifindex), mov(R2, BPF_F_INGRESS), call(Helper::Redirect), EXIT];
    let loopback = host.links(|links| links.by_name("lo")).unwrap().ifindex;
    Program::load(Hook::TcEgress, &redirect).unwrap().attach(host, loopback).unwrap()
}

#[test]
fn small_packets_in_pieces_are_pulled_together() {
    needs_root!();
    const HEADERS: u64 = 14 + 20 + 8;
    let quiet = Quiet::new(1500);
    let host = quiet.lab.b();
    let attached = Attached::new(host, &["--mode", "native"]);
    let _link = redirect_loopback(host);
    let socket = host.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    socket.connect("127.0.0.1:9").unwrap();
    let mut expected = [0; 4];
    for (args, pulls) in [(["--log"], 0), (["--pull"], 1)] {
        attached.again(&args);
        for payload in [1, 100, 214, 215, 1000] {
            send_paged(&socket, &vec![0xa5; payload as usize]);
            let small = HEADERS + payload <= 256;
            expected[0] += 1;
            expected[1] += HEADERS;
            expected[2] += payload;
            expected[3] += if small { pulls } else { 0 };
        }
        let ingress = &attached.stats()["total"]["ingress"];
        let counted = ["packets", "linear_bytes", "paged_bytes", "pulled"]
            .map(|name| number(ingress, &format!("/{name}")));
        assert_eq!(counted, expected, "{ingress}");
        assert_eq!(number(ingress, "/linear_payload_bytes"), 0, "{ingress}");
        assert_eq!(number(ingress, "/pull_failed"), 0, "{ingress}");
    }
}
