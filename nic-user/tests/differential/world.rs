//! A router between two hosts, what is sent to it, and what comes of that.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    net::UdpSocket,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    process::{Command, Stdio},
};

use nic_user::lab::Host;

use super::packets::{self, Options, Packet, Station};
use crate::{Forwarding, Three, attached::poll, ethtool};

pub type Mac = [u8; 6];
pub const NEAR: Mac = [2, 0, 0, 0, 1, 2];
const FAR: Mac = [2, 0, 0, 0, 2, 2];
pub const ROUTER: Mac = [2, 0, 0, 0, 1, 1];
/// Another one for the router's first interface.
pub const CHANGED: Mac = [2, 0, 0, 0, 1, 0x11];

/// The router's set-up. `nic-b` is towards the sender.
const SYSCTLS: [&str; 13] = [
    "ipv4/ip_forward=1",
    "ipv6/conf/all/forwarding=1",
    "ipv4/conf/all/rp_filter=1",
    "ipv4/conf/nic-b/rp_filter=1",
    "ipv4/conf/nic-c/rp_filter=1",
    "ipv4/icmp_ratelimit=0",
    "ipv4/icmp_ratemask=0",
    "ipv4/icmp_msgs_per_sec=1000000",
    "ipv4/icmp_msgs_burst=100000",
    "ipv6/icmp/ratelimit=0",
    "ipv6/icmp/ratemask=200",
    "ipv6/conf/nic-b/accept_dad=0",
    "ipv6/conf/nic-c/accept_dad=0",
];

const ADDRESSES: &str = "\
address add 10.1.0.1/24 broadcast + dev nic-b
address add 10.3.0.1/24 dev nic-b
-6 address add fd01::1/64 dev nic-b nodad
-6 address add fe80::1:1/64 dev nic-b nodad
address add 10.2.0.1/24 broadcast + dev nic-c
-6 address add fd02::1/64 dev nic-c nodad
-6 address add fe80::2:1/64 dev nic-c nodad
address add 10.1.0.77/32 dev lo
";

const ROUTES: &str = "\
nexthop add id 1 via 10.2.0.2 dev nic-c
-6 nexthop add id 2 via fd02::2 dev nic-c
nexthop add id 3 blackhole
nexthop add id 4 via 10.2.0.3 dev nic-c
nexthop add id 5 group 1/4
route add blackhole default table 66
route add default via 10.2.0.3 table 67
route add default via 10.1.0.50 table 68
route add 10.52.0.0/24 nhid 1
route add unreachable 10.53.0.0/24
route add prohibit 10.54.0.0/24
route add 10.55.0.0/24 via 10.2.0.2 mtu lock 1400
route add 10.56.0.0/24 via 10.1.0.2
route add 10.57.0.0/24 nexthop via 10.2.0.2 nexthop via 10.2.0.250
route add blackhole 10.58.0.0/24
route add local 10.60.0.0/24 dev lo
route add 10.61.0.0/24 via 10.2.0.3 mtu 1300
route add 10.62.0.0/24 nhid 5
route add default via 10.2.0.2
rule add from 10.1.0.66 lookup 66
rule add tos 0x10 lookup 66
-6 route add blackhole default table 66
-6 route add default via fd02::3 table 67
-6 route add default via fd01::50 table 68
-6 route add fd50::/64 encap seg6 mode encap segs fd02::2 dev nic-c
-6 route add unreachable fd51::/64
-6 route add fd52::/64 nhid 2
-6 route add fd53::/64 via fd02::2 mtu 1400
-6 route add fd54::/64 via fd01::2
-6 route add fd55::/64 nexthop via fd02::2 nexthop via fd02::250
-6 route add prohibit fd56::/64
-6 route add local fd60::/64 dev lo
-6 route add fd61::/64 from fd01::50 via fd02::3
-6 route add default via fd02::2
-6 rule add from fd01::66 lookup 66
";

/// Who is where. None of these are the hosts' own addresses, so that they say nothing. Answers to
/// somebody unknown would wait, and keep others from being sent.
const NEAR_HOSTS: [&str; 7] =
    ["10.1.0.2", "10.1.0.50", "10.1.0.66", "fd01::2", "fd01::50", "fd01::66", "fe80::1234"];
const FAR_HOSTS: [&str; 6] = ["10.2.0.2", "10.2.0.3", "10.2.0.9", "fd02::2", "fd02::3", "fd02::9"];

/// How the router forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel alone.
    Kernel,
    Rings,
    InKernel,
}

/// Where something came of a packet, and what. Numbers are those of packets.
pub type Outcomes = BTreeMap<u32, Vec<(Place, Vec<u8>)>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Sent on.
    Far,
    /// Sent back, or answered.
    Near,
    /// Given to a socket of the router's.
    Host,
}

pub struct World {
    three: Three,
    pub way: Way,
    near: Wire,
    far: Wire,
    host: UdpSocket,
    /// What the router's kernel gets of what is sent to it.
    seen: Wire,
    /// The address of the router's first interface.
    pub mac: Mac,
    // Last: it ends before the interfaces do.
    _forwarding: Option<Forwarding>,
}

impl World {
    /// `None` if there is no `ip`.
    pub fn new(way: Way) -> Option<Self> {
        let three = Three::with_queues(1);
        if !set_up(&three) {
            return None;
        }
        let (left, right) = (three.left(), three.right());
        let (near, far) = (Wire::of(left).unwrap(), Wire::of(right).unwrap());
        let seen = Wire::of(three.middle()).unwrap();
        let host = three.middle().run(|| UdpSocket::bind("[::]:9999")).unwrap().unwrap();
        host.set_nonblocking(true).unwrap();
        let forwarding = match way {
            Way::Kernel => None,
            Way::Rings => Some(Forwarding::start(three.middle(), &["--l3"])),
            Way::InKernel => Some(Forwarding::start(three.middle(), &["--l3", "--in-kernel"])),
        };
        Some(Self { three, way, near, far, host, seen, mac: ROUTER, _forwarding: forwarding })
    }

    /// Changes what the router is; which of these the kernel took.
    pub fn change(&mut self, commands: &[String]) -> Vec<bool> {
        commands.iter().map(|command| self.change_one(command)).collect()
    }

    fn change_one(&mut self, command: &str) -> bool {
        let middle = self.three.middle();
        if let Some(setting) = command.strip_prefix("sysctl ") {
            sysctl(middle, setting);
            return true;
        }
        if command == "restore" {
            let lines = [ADDRESSES, &all_neighbours(), ROUTES].concat();
            return batch(middle, &lines, Stop::Never);
        }
        let done = run_line(middle, command);
        if command.starts_with("link set nic-b address") {
            self.mac = if self.mac == ROUTER { CHANGED } else { ROUTER };
            // The kernel forgets them, permanent or not (`neigh_changeaddr`).
            batch(middle, &neighbours(&NEAR_HOSTS, "nic-b", NEAR), Stop::AtOnce);
        }
        done
    }

    /// Sends a frame.
    pub fn send_frame(&self, frame: &[u8]) -> bool {
        self.near.send(frame)
    }

    /// Sends a packet; false if the sender's interface cannot.
    pub fn send(&self, packet: &Packet, number: u32) -> bool {
        let to = match packet.station {
            Station::Router => self.mac,
            Station::Former if self.mac == ROUTER => CHANGED,
            Station::Former => ROUTER,
            Station::Other => [2, 0, 0, 0, 9, 9],
            Station::Broadcast => [0xff; 6],
            Station::Multicast => [0x33, 0x33, 0, 0, 0, 0xfb],
        };
        self.near.send(&packet.frame([to, NEAR], number))
    }

    /// Waits until the router is done with all that was sent before. A packet with options is the
    /// kernel's whichever way it takes, and comes after them; the second one after the work that is
    /// put off to the end of a batch.
    pub fn settle(&self, outcomes: &mut Outcomes) {
        let last =
            Packet { options: Options::First(&[1; 4]), ..Packet::between("10.1.0.2", "10.60.0.9") };
        for _ in 0..2 {
            assert!(self.send(&last, u32::MAX));
            let mut is_there = false;
            let all = poll(|| {
                self.seen.take(|frame| is_there |= packets::number(&frame) == Some(u32::MAX));
                is_there
            });
            assert!(all, "{:?}: the router takes nothing any more", self.way);
        }
        self.take(outcomes);
    }

    /// Takes what has arrived.
    pub fn take(&self, outcomes: &mut Outcomes) {
        self.far.take(|frame| arrived(outcomes, Place::Far, frame));
        self.near.take(|frame| arrived(outcomes, Place::Near, frame));
        let mut bytes = [0; 2048];
        while let Ok(len) = self.host.recv(&mut bytes) {
            let number = packets::number(&bytes[..len]);
            if let Some(number) = number.filter(|number| *number != u32::MAX) {
                add(outcomes, number, Place::Host, bytes[..len].to_vec());
            }
        }
    }
}

fn add(outcomes: &mut Outcomes, number: u32, place: Place, bytes: Vec<u8>) {
    let all = outcomes.entry(number).or_default();
    all.push((place, bytes));
    all.sort();
}

fn arrived(outcomes: &mut Outcomes, place: Place, mut frame: Vec<u8>) {
    let Some(number) = packets::number(&frame) else { return };
    if leave_out_what_differs(&mut frame) {
        add(outcomes, number, place, frame);
    }
}

/// False if the frame says only what depends on the time: that a neighbour does not answer, that
/// there is a shorter way, or, not more often than each second, no way at all (`ip_error`,
/// net/ipv4/route.c).
fn leave_out_what_differs(frame: &mut [u8]) -> bool {
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let answer = answer(frame);
    let ip = &mut frame[14..];
    let is_echo = ethertype == 0x0800 && ip[9] == 1 && icmp(ip)[0] == 0;
    match (ethertype, answer) {
        (_, Some((3, 0 | 1 | 13) | (5, _))) if ethertype == 0x0800 => return false,
        (_, Some((1, 3) | (137, _))) if ethertype == 0x86dd => return false,
        (0x0800, _) if is_echo || answer.is_some() => {
            // Answers are numbered as they come.
            ip[4..6].fill(0);
            ip[10..12].fill(0);
        }
        // Parts of answers have a random number.
        (0x86dd, _) if ip[6] == 44 && ip.len() >= 48 => ip[44..48].fill(0),
        // A tunnel's flow label is a hash with a secret of the namespace.
        (0x86dd, _) if ip[6] == 43 => ip[1..4].fill(0),
        _ => {}
    }
    true
}

/// Where something came of a packet, and the first bytes of it.
pub fn describe(outcomes: Option<&Vec<(Place, Vec<u8>)>>) -> String {
    let one = |(place, bytes): &(Place, Vec<u8>)| {
        let first: String = bytes.iter().take(80).map(|byte| format!("{byte:02x}")).collect();
        format!("{place:?} {} {first}", bytes.len())
    };
    outcomes.map_or("nothing".to_owned(), |all| all.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Type and code, if it is an ICMP error.
pub fn answer(frame: &[u8]) -> Option<(u8, u8)> {
    let ip = &frame[14..];
    match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0800 if ip[9] == 1 => {
            let icmp = icmp(ip);
            matches!(icmp[0], 3 | 5 | 11 | 12).then_some((icmp[0], icmp[1]))
        }
        0x86dd if ip[6] == 58 && (ip[40] < 5 || ip[40] == 137) => Some((ip[40], ip[41])),
        _ => None,
    }
}

/// What follows an IPv4 header.
fn icmp(ip: &[u8]) -> &[u8] {
    &ip[usize::from(ip[0] & 0xf) * 4..]
}

fn set_up(three: &Three) -> bool {
    let (left, middle, right) = (three.left(), three.middle(), three.right());
    let hosts = "address flush dev";
    if !batch(
        left,
        &format!("{hosts} nic-a\nlink set nic-a address 02:00:00:00:01:02\n"),
        Stop::AtOnce,
    ) {
        return false;
    }
    batch(
        right,
        &format!("{hosts} nic-b\nlink set nic-b address 02:00:00:00:02:02\n"),
        Stop::AtOnce,
    );
    SYSCTLS.iter().for_each(|setting| sysctl(middle, setting));
    let links = "\
        address flush dev nic-b\n\
        link set nic-b address 02:00:00:00:01:01\n\
        link set nic-c address 02:00:00:00:02:01\n";
    let set_up = [links, ADDRESSES, &all_neighbours(), ROUTES].concat();
    batch(middle, &set_up, Stop::AtOnce);
    // Packets are to come out as they went in.
    ethtool::set(middle, "rx-gro", false);
    true
}

fn all_neighbours() -> String {
    neighbours(&NEAR_HOSTS, "nic-b", NEAR) + &neighbours(&FAR_HOSTS, "nic-c", FAR)
}

/// Lines of `ip` by which they are known.
fn neighbours(addresses: &[&str], device: &str, mac: Mac) -> String {
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    let line = |address: &&str| {
        let family = if address.contains(':') { "-6 " } else { "" };
        format!("{family}neighbour replace {address} lladdr {mac} dev {device} nud permanent\n")
    };
    addresses.iter().map(line).collect()
}

fn sysctl(host: &Host, setting: &str) {
    let (name, value) = setting.split_once('=').unwrap();
    host.run(|| fs::write(format!("/proc/sys/net/{name}"), value))
        .unwrap()
        .unwrap_or_else(|error| panic!("{setting}: {error}"));
}

/// Runs a line of `ip`; whether the kernel took it.
fn run_line(host: &Host, line: &str) -> bool {
    let words = line.split_whitespace();
    let output = Command::new("ip").args(["-n", host.netns_name()]).args(words).output().unwrap();
    output.status.success()
}

/// Whether a line that the kernel refuses is the last one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It is, and must not be.
    AtOnce,
    Never,
}

/// Runs lines of `ip`, those that begin with `-6` last; false if there is none.
fn batch(host: &Host, lines: &str, stop: Stop) -> bool {
    let of_ipv6 = lines.lines().filter_map(|line| line.strip_prefix("-6 ")).collect::<Vec<_>>();
    let others = lines.lines().filter(|line| !line.starts_with("-6 ")).collect::<Vec<_>>();
    run_lines(host, &[], &others, stop) && run_lines(host, &["-6"], &of_ipv6, stop)
}

fn run_lines(host: &Host, family: &[&str], lines: &[&str], stop: Stop) -> bool {
    if lines.is_empty() {
        return true;
    }
    let mut command = Command::new("ip");
    command.args(family).args(["-n", host.netns_name(), "-batch", "-"]).stdin(Stdio::piped());
    if stop == Stop::Never {
        command.arg("-force").stderr(Stdio::null());
    }
    let Ok(mut child) = command.spawn() else {
        crate::common::say_skipped("there is no ip (iproute2)");
        return false;
    };
    child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let done = child.wait().unwrap().success();
    assert!(done || stop == Stop::Never, "{lines:?}");
    true
}

/// Sends and sees whole frames at a host's interface.
struct Wire(OwnedFd);

impl Wire {
    fn of(host: &Host) -> io::Result<Self> {
        const IGNORE_OUTGOING: libc::c_int = 23;
        let every = i32::from((libc::ETH_P_ALL as u16).to_be());
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket(2) reads no memory of ours.
        let fd = host.run(|| unsafe { libc::socket(libc::AF_PACKET, kind, every) }).unwrap();
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        for (level, option, value) in [
            (libc::SOL_PACKET, IGNORE_OUTGOING, 1),
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20),
        ] {
            let value: libc::c_int = value;
            // SAFETY: `value` outlives the call, and its true size is given.
            let set = unsafe {
                libc::setsockopt(
                    fd,
                    level,
                    option,
                    (&raw const value).cast(),
                    size_of_val(&value) as u32,
                )
            };
            assert_eq!(set, 0, "{}", io::Error::last_os_error());
        }
        // SAFETY: `sockaddr_ll` is plain data for which all zeroes are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every as u16;
        address.sll_ifindex = host.ifindex() as i32;
        // SAFETY: `address` outlives the call, and its true size is given.
        let bound =
            unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as u32) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(socket)) }
    }

    fn send(&self, frame: &[u8]) -> bool {
        let fd = self.0.as_raw_fd();
        poll(|| {
            // SAFETY: the pointer and length are those of `frame`, which outlives the call.
            let sent = unsafe { libc::send(fd, frame.as_ptr().cast(), frame.len(), 0) };
            let full = matches!(
                io::Error::last_os_error().raw_os_error(),
                Some(libc::ENOBUFS | libc::EAGAIN)
            );
            sent >= 0 || !full
        });
        // Frames that are too long or too short are refused, the same everywhere.
        frame.len() <= 1514
    }

    fn take(&self, mut frame: impl FnMut(Vec<u8>)) {
        let mut bytes = [0; 4096];
        loop {
            // SAFETY: the pointer and length are those of `bytes`, which outlives the call.
            let len = unsafe {
                libc::recv(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0)
            };
            match usize::try_from(len) {
                Ok(len) => frame(bytes[..len].to_vec()),
                Err(_) => return,
            }
        }
    }
}
