//! `nicctl forward`: between two hosts that are joined by nothing else.

mod attached;
mod common;
mod differential;
mod ethtool;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    os::fd::AsFd,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use attached::{nicctl, number, poll};
use nic_user::{
    lab::{
        Host, Lab, Shape,
        frames::Ends,
        traffic::{self, IpVersion, IpVersion::V4},
    },
    nic::{InterfaceName, Nic},
    offload::Slot,
};
use nix::{
    sys::{
        signal::{Signal, kill},
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto,
            socket,
        },
    },
    unistd::Pid,
};
use serde_json::Value;

/// Limit of any single wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Two hosts, and a third one between them, with one interface to either.
struct Three {
    first: Lab,
    second: Lab,
}

impl Three {
    fn new() -> Self {
        Self::with_queues(2)
    }

    fn with_queues(queues: u32) -> Self {
        let shape = Shape { queues, mtu: 1500 };
        let (first, second) = (Lab::new(shape).unwrap(), Lab::new(shape).unwrap());
        let three = Self { first, second };
        let (from, to) = (three.second.a(), three.middle().netns().as_fd());
        from.links(|links| links.move_as(from.ifindex(), to, "nic-c")).unwrap();
        let up = |links: &mut nic_user::netlink::link::Links| {
            let ifindex = links.by_name("nic-c")?.ifindex;
            links.set_up(ifindex, true)
        };
        three.middle().links(up).unwrap();
        for host in [three.left(), three.right()] {
            // Nobody fills in what they leave to the card, and redirects to them take GRO.
            ethtool::set(host, "tx-checksum-ip-generic", false);
            ethtool::set(host, "rx-gro", true);
            host.wait_until_running().unwrap();
        }
        three
    }

    fn left(&self) -> &Host {
        self.first.a()
    }

    fn middle(&self) -> &Host {
        self.first.b()
    }

    fn right(&self) -> &Host {
        self.second.b()
    }

    /// Makes the host in the middle a router, and the others use it; false if there is no `ip`.
    fn route(&self) -> bool {
        let routes = [(self.left(), "nic-a", 1, 2), (self.right(), "nic-b", 2, 1)];
        let on = |file: &str| fs::write(format!("/proc/sys/net/{file}"), "1").unwrap();
        self.middle().run(|| ["ipv4/ip_forward", "ipv6/conf/all/forwarding"].map(on)).unwrap();
        let mut done = ip(self.middle(), "addr flush dev nic-b");
        for (host, interface, number, far) in routes {
            let near = if number == 1 { "nic-b" } else { "nic-c" };
            done &= ip(host, &format!("addr add 10.7.{number}.1/24 dev {interface}"))
                && ip(host, &format!("addr add fd07:{number}::1/64 dev {interface} nodad"))
                && ip(
                    host,
                    &format!(
                        "route add 192.0.2.{far}/32 via 10.7.{number}.254 src 192.0.2.{number}"
                    ),
                )
                && ip(
                    host,
                    &format!(
                        "route add 2001:db8::{far}/128 via fd07:{number}::254 src 2001:db8::{number}"
                    ),
                );
            let middle = self.middle();
            done = done
                && ip(middle, &format!("addr add 10.7.{number}.254/24 dev {near}"))
                && ip(middle, &format!("addr add fd07:{number}::254/64 dev {near} nodad"))
                && ip(middle, &format!("route add 192.0.2.{number}/32 dev {near}"))
                && ip(middle, &format!("route add 2001:db8::{number}/128 dev {near}"));
        }
        done
    }

    fn is_attached(&self) -> bool {
        let list = nicctl(&["list", "--json", "--netns", self.middle().netns_name()]);
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        !list["interfaces"].as_array().unwrap().is_empty()
    }
}

fn ip(host: &Host, arguments: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["-n", host.netns_name()]).args(arguments.split(' '));
    let Ok(output) = command.output() else {
        common::say_skipped("there is no ip (iproute2)");
        return false;
    };
    assert!(output.status.success(), "ip {arguments}: {output:?}");
    true
}

/// `nicctl forward` at work.
struct Forwarding {
    child: Child,
    documents: BufReader<ChildStdout>,
}

impl Forwarding {
    fn start(host: &Host, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nicctl"))
            .args(["forward", "nic-b", "nic-c", "--json", "--netns", host.netns_name()])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let documents = BufReader::new(child.stdout.take().unwrap());
        let mut forwarding = Self { child, documents };
        forwarding.document().expect("nicctl ended before it began");
        forwarding
    }

    fn document(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.documents.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits until it says something that contains `words`.
    fn heard(&mut self, words: &str) {
        let mut lines = BufReader::new(self.child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains(words) {
            said += &lines.next().unwrap_or_else(|| panic!("not {words}: {said}")).unwrap();
        }
    }

    /// Ends it as Ctrl-C does; what it counted.
    fn end(mut self) -> [Value; 2] {
        self.signal(Signal::SIGINT);
        let mut last = None;
        while let Some(document) = self.document() {
            last = Some(document);
        }
        assert!(self.child.wait().unwrap().success());
        let directions = last.unwrap()["directions"].take();
        [directions[0].clone(), directions[1].clone()]
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every frame was forwarded, passed or dropped, once.
#[track_caller]
fn assert_adds_up(direction: &Value) {
    let dropped = direction["dropped"].as_object().unwrap();
    let dropped: u64 = dropped
        .iter()
        // These were never taken from a ring.
        .filter(|(reason, _)| *reason != "missed")
        .map(|(_, count)| count.as_u64().unwrap())
        .sum();
    let [packets, forwarded, passed] =
        ["/packets", "/forwarded", "/passed"].map(|it| number(direction, it));
    assert_eq!(packets, forwarded + passed + dropped, "{direction}");
}

const BYTES: u64 = 2_000_000;

/// TCP and UDP of both versions, in both directions, and what was counted of them.
fn talk(three: &Three, forwarding: Forwarding) -> [Value; 2] {
    for (from, to) in [(three.left(), three.right()), (three.right(), three.left())] {
        for ip in IpVersion::ALL {
            assert_eq!(traffic::tcp(from, to, ip, 4, BYTES).unwrap(), 4 * BYTES);
            assert_eq!(traffic::udp(from, to, ip, 4, 500, 1000).unwrap(), 500);
        }
    }
    let directions = forwarding.end();
    for direction in &directions {
        assert!(number(direction, "/forwarded") > 500, "{direction}");
        assert_adds_up(direction);
    }
    directions
}

/// Whether `address` answers to a ping.
fn ping(from: &Host, to: &Host) -> bool {
    let [a, b, c, d] = to.ipv4().octets();
    from.run(|| {
        let icmp =
            socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_NONBLOCK, SockProtocol::Icmp)
                .unwrap();
        // Echo request 1 of nobody: type 8, checksum, sequence number.
        let request = [8, 0, 0xf7, 0xfe, 0, 0, 0, 1];
        let address = SockaddrIn::new(a, b, c, d, 0);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&icmp);
        sendto(fd, &request, &address, MsgFlags::empty()).unwrap();
        poll(|| {
            let mut reply = [0; 100];
            // An echo reply behind an IPv4 header.
            recv(fd, &mut reply, MsgFlags::empty()).is_ok_and(|len| len >= 28 && reply[20] == 0)
        })
    })
    .unwrap()
}

#[test]
fn frames_are_forwarded_through_rings() {
    needs_root!();
    let three = Three::new();
    let forwarding = Forwarding::start(three.middle(), &["--interval", "0.1"]);
    assert!(ping(three.left(), three.right()));
    assert!(three.is_attached());
    let directions = talk(&three, forwarding);
    assert!(directions[0]["way"].as_str().unwrap().contains("copy"), "{}", directions[0]);
    assert!(!three.is_attached());
}

#[test]
fn frames_are_forwarded_in_the_kernel() {
    needs_root!();
    let three = Three::new();
    let forwarding = Forwarding::start(three.middle(), &["--in-kernel"]);
    assert!(ping(three.left(), three.right()));
    for direction in talk(&three, forwarding) {
        assert_eq!(direction["way"], "native XDP");
        assert_eq!(direction["passed"], 0);
    }
}

#[test]
fn packets_are_routed_through_rings() {
    needs_root!();
    let three = Three::new();
    if !three.route() {
        return;
    }
    let forwarding = Forwarding::start(three.middle(), &["--l3"]);
    // Without a neighbour it is the kernel that looks for it, and keeps the packet.
    assert!(ping(three.left(), three.right()));
    // What is for the router itself, its kernel answers.
    assert!(ip(three.left(), "route add 10.7.2.254/32 via 10.7.1.254"));
    let socket = three.middle().run(|| UdpSocket::bind("10.7.2.254:9")).unwrap().unwrap();
    let sender = three.left().run(|| UdpSocket::bind("10.7.1.1:0")).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    sender.send_to(b"router", "10.7.2.254:9").unwrap();
    assert_eq!(socket.recv(&mut [0; 10]).unwrap(), 6);
    talk(&three, forwarding);
    assert!(!three.is_attached());
}

#[test]
fn packets_are_routed_in_the_kernel() {
    needs_root!();
    let three = Three::new();
    if !three.route() {
        return;
    }
    let forwarding = Forwarding::start(three.middle(), &["--l3", "--in-kernel"]);
    assert!(ping(three.left(), three.right()));
    talk(&three, forwarding);
}

#[test]
fn checksums_that_were_left_to_the_device_are_filled_in_by_rings_and_by_the_kernel() {
    needs_root!();
    for args in [&[][..], &["--l3"], &["--l3", "--in-kernel"]] {
        let in_kernel = args.contains(&"--in-kernel");
        let three = Three::new();
        if args.contains(&"--l3") && !three.route() {
            return;
        }
        for host in [three.left(), three.right()] {
            ethtool::set(host, "tx-checksum-ip-generic", true);
        }
        let forwarding = Forwarding::start(three.middle(), args);
        for ip in IpVersion::ALL {
            assert_eq!(traffic::tcp(three.left(), three.right(), ip, 4, BYTES).unwrap(), 4 * BYTES);
        }
        let [from_left, _] = forwarding.end();
        assert_adds_up(&from_left);
        let by = if in_kernel { "/passed" } else { "/forwarded" };
        assert!(number(&from_left, by) > 500, "{args:?}: {from_left}");
    }
}

#[test]
fn checksums_that_are_missing_are_told_with_what_helps() {
    needs_root!();
    let three = Three::new();
    ethtool::set(three.left(), "tx-checksum-ip-generic", true);
    let mut forwarding = Forwarding::start(three.middle(), &["--in-kernel"]);
    assert!(ping(three.left(), three.right()));
    traffic::udp(three.left(), three.right(), V4, 1, 50, 100).unwrap();
    let netns = three.middle().netns_name();
    forwarding.heard(&format!("nicctl forward nic-b nic-c --netns {netns}"));
}

/// Interfaces of the same indices in another network namespace, as containers have them.
#[test]
fn what_a_driver_elsewhere_does_not_take_is_not_counted() {
    needs_root!();
    let (here, elsewhere) = (Three::new(), Three::new());
    let index = |three: &Three| three.middle().ifindex();
    assert_eq!(index(&here), index(&elsewhere));
    ethtool::set(elsewhere.right(), "rx-gro", false);
    let [ours, theirs] =
        [&here, &elsewhere].map(|three| Forwarding::start(three.middle(), &["--in-kernel"]));
    let ends = Ends::between(elsewhere.left(), elsewhere.right());
    let frames = vec![ends.ethernet(ends.ipv4(ends.udp(V4, b"lost"))); 300];
    traffic::send_frames(elsewhere.left(), &frames).unwrap();
    let [from_left, _] = theirs.end();
    assert!(number(&from_left, "/dropped/not_taken") >= 300, "{from_left}");
    for direction in ours.end() {
        assert_eq!(direction["dropped"]["not_taken"], 0, "{direction}");
    }
}

#[test]
fn what_a_driver_does_not_take_is_not_forwarded() {
    needs_root!();
    let three = Three::new();
    // A veth without NAPI takes no redirects.
    ethtool::set(three.right(), "rx-gro", false);
    let forwarding = Forwarding::start(three.middle(), &["--in-kernel"]);
    let ends = Ends::between(three.left(), three.right());
    let frames = vec![ends.ethernet(ends.ipv4(ends.udp(V4, b"lost"))); 300];
    traffic::send_frames(three.left(), &frames).unwrap();
    let [from_left, _] = forwarding.end();
    assert_adds_up(&from_left);
    assert_eq!(from_left["forwarded"], 0, "{from_left}");
    assert!(number(&from_left, "/dropped/not_taken") >= 300, "{from_left}");
    // It is said, and what is routed goes by the kernel.
    let mut forwarding = Forwarding::start(three.middle(), &["--in-kernel"]);
    traffic::send_frames(three.left(), &frames).unwrap();
    forwarding.heard("nic-c rejects frames from XDP");
    drop(forwarding);
    if three.route() {
        let forwarding = Forwarding::start(three.middle(), &["--l3", "--in-kernel"]);
        assert_eq!(traffic::tcp(three.left(), three.right(), V4, 1, BYTES).unwrap(), BYTES);
        let [from_left, _] = forwarding.end();
        assert_eq!([&from_left["forwarded"], &from_left["dropped"]["not_taken"]], [0, 0]);
    }
}

#[test]
fn whoever_would_take_the_packets_away_is_told_who_has_them() {
    needs_root!();
    let three = Three::new();
    let forwarding = Forwarding::start(three.middle(), &[]);
    let netns = three.middle().netns_name();
    let holder = format!("process {} (nicctl) uses AF_XDP rings on nic-b", forwarding.child.id());
    let way_out = format!("kill -INT {}", forwarding.child.id());
    for args in [
        &["detach", "nic-b"][..],
        &["detach", "nic-b", "--dry-run"],
        &["forward", "nic-b", "nic-c"],
        &["forward", "nic-c", "nic-b", "--l3"],
        &["forward", "nic-b", "nic-c", "--in-kernel"],
    ] {
        let output = nicctl(&[args, &["--netns", netns]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {error}");
        let is_told = error.contains(&holder) || args[1] == "nic-c" && error.contains("on nic-c");
        assert!(is_told && error.contains(&way_out), "{args:?}: {error}");
    }
    talk(&three, forwarding);
    assert!(!three.is_attached());
}

#[test]
fn a_forwarder_whose_programs_are_taken_away_says_so_and_ends() {
    needs_root!();
    let three = Three::new();
    let mut forwarding = Forwarding::start(three.middle(), &[]);
    let slot = three.middle().run(|| {
        let nic = Nic::by_name(&InterfaceName::new("nic-c").unwrap()).unwrap();
        Slot::of(&nic.link).unwrap()
    });
    fs::remove_dir_all(slot.unwrap().pin("")).unwrap();
    forwarding.heard("the programs were detached from nic-c, ");
    assert_eq!(forwarding.child.wait().unwrap().code(), Some(1));
}

#[test]
fn interfaces_without_ethernet_are_refused() {
    needs_root!();
    let three = Three::new();
    if !ip(three.middle(), "tuntap add dev nic-tun mode tun") {
        return;
    }
    assert!(ip(three.middle(), "link set nic-tun up"));
    for args in [&[][..], &["--l3"], &["--in-kernel"], &["--l3", "--in-kernel"]] {
        let netns = ["forward", "nic-b", "nic-tun", "--netns", three.middle().netns_name()];
        let output = nicctl(&[&netns, args].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("nic-tun: its frames have no Ethernet header"), "{error}");
    }
    assert!(!three.is_attached());
}

#[test]
fn a_killed_forwarder_leaves_nothing_that_steals() {
    needs_root!();
    let three = Three::new();
    let mut forwarding = Forwarding::start(three.middle(), &[]);
    forwarding.signal(Signal::SIGKILL);
    forwarding.child.wait().unwrap();
    // The kernel of the host in the middle has its packets again, programs or not.
    assert_eq!(traffic::udp(three.left(), three.middle(), V4, 4, 500, 100).unwrap(), 500);
    assert!(three.is_attached());
    // The next one goes on from there, and clears up.
    let forwarding = Forwarding::start(three.middle(), &[]);
    let (left, right) = (three.left(), three.right());
    let receiver = right.run(|| UdpSocket::bind((right.ipv4(), 9))).unwrap().unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let ends = Ends::between(left, right);
    let frame = ends.ethernet(ends.ipv4(ends.udp(V4, b"on")));
    traffic::send_frames(left, &[frame]).unwrap();
    assert_eq!(receiver.recv(&mut [0; 10]).unwrap(), 2);
    forwarding.end();
    assert!(!three.is_attached());
    // In the kernel, programs go with the process.
    let mut forwarding = Forwarding::start(three.middle(), &["--in-kernel"]);
    forwarding.signal(Signal::SIGKILL);
    forwarding.child.wait().unwrap();
    assert_eq!(traffic::udp(three.left(), three.middle(), V4, 4, 500, 100).unwrap(), 500);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_way_out() {
    needs_root!();
    let three = Three::new();
    let netns = three.middle().netns_name();
    let refused = |args: &[&str]| {
        let output = nicctl(&[&["forward", "--netns", netns], args].concat());
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["nic-b", "nic-b"]).contains("cannot forward from nic-b to itself"));
    assert!(refused(&["nic-b", "nic-x"]).contains("nic-x"));
    attached::run(three.middle(), "attach", &["--mode", "native"]);
    let error = refused(&["nic-b", "nic-c", "--in-kernel"]);
    assert!(error.contains("nic-b has an XDP program already"), "{error}");
    assert!(error.contains("nicctl detach nic-b"), "{error}");
    attached::run(three.middle(), "detach", &[]);
}

#[test]
fn packets_are_treated_as_the_kernel_would() {
    needs_root!();
    let Some(mut worlds) = differential::Worlds::new() else { return };
    differential::known(&mut worlds);
    differential::learnt(&mut worlds);
    differential::compare(&mut worlds);
    let differential::Worlds { situations, changes, repeated, .. } = worlds;
    println!(
        "{situations} packets, {changes} changes: all as by the kernel, {repeated} sent again"
    );
}
