//! nicctl attached to a host of a lab, through the command itself, and what it then counts.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nic_user::lab::{Host, Lab};
use nic_user::netlink::link::LinkStats;
use nic_user::nic::{InterfaceName, Nic};
use nic_user::offload::Slot;
use serde_json::Value;

/// Limit of any single wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// `nicctl`, in whatever namespace this is.
pub fn nicctl<S: AsRef<str>>(args: &[S]) -> Output {
    command_of(args).output().unwrap()
}

/// `nicctl`, not run yet.
pub fn command_of<S: AsRef<str>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    command.args(args.iter().map(AsRef::as_ref));
    command
}

/// `nicctl VERB IFACE --netns HOST ARGS`.
pub fn on<'a>(host: &'a Host, verb: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [&[verb, host.interface(), "--netns", host.netns_name()], args].concat()
}

/// What `nicctl VERB IFACE --netns HOST ARGS` prints, which must go well.
#[track_caller]
pub fn run(host: &Host, verb: &str, args: &[&str]) -> String {
    succeeded(nicctl(&on(host, verb, args)))
}

/// The standard output of a command that went well.
#[track_caller]
pub fn succeeded(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Starts `nicctl VERB IFACE --netns HOST ARGS`, silently.
pub fn start(host: &Host, verb: &str, args: &[&str]) -> Child {
    let mut command = command_of(&on(host, verb, args));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Packets and bytes that an interface received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub packets: u64,
    pub bytes: u64,
}

/// An interface that nicctl is attached to until this is dropped.
pub struct Attached<'l> {
    pub host: &'l Host,
    /// What `attach --json` said of the interface.
    pub said: Value,
    /// What the kernel and nicctl had counted at one moment after attaching.
    before: (LinkStats, Received),
}

impl<'l> Attached<'l> {
    /// Attaches for the first time, in native mode if `args` name no other. Nothing may be on its way to `host`, except for the multicast
    /// listener reports that the kernel itself sends in the first seconds of an IPv6 address.
    #[track_caller]
    pub fn new(host: &'l Host, args: &[&str]) -> Self {
        let mode: &[&str] = if args.contains(&"--mode") { &[] } else { &["--mode", "native"] };
        let said = attach(host, &[args, mode].concat());
        assert_eq!(said["upgraded"], false, "{said}");
        let mut attached = Self { host, said, before: Default::default() };
        assert!(poll(|| {
            // A report may come between the two readings: both must be the same on both sides.
            let nicctl = attached.received();
            attached.before = (host.stats().unwrap(), attached.received());
            attached.before == (host.stats().unwrap(), nicctl)
        }));
        attached
    }

    /// Attaches again.
    #[track_caller]
    pub fn again(&self, args: &[&str]) -> Value {
        let said = attach(self.host, args);
        assert_eq!(said["upgraded"], true, "{said}");
        said
    }

    /// The interface's entry of `nicctl stats --json --histogram`.
    #[track_caller]
    pub fn stats(&self) -> Value {
        stats(self.host)
    }

    /// One counter of the totals.
    #[track_caller]
    pub fn total(&self, counter: &str) -> u64 {
        number(&self.stats()["total"], counter)
    }

    fn received(&self) -> Received {
        let rx = &self.stats()["total"]["rx"];
        Received { packets: number(rx, "/packets"), bytes: number(rx, "/bytes") }
    }

    /// Packets that nicctl counted before `by_kernel` began to count.
    pub const fn packets_before(&self) -> u64 {
        self.before.1.packets
    }

    /// What nicctl must have counted by now for the kernel to agree.
    pub fn by_kernel(&self) -> Received {
        let now = self.host.stats().unwrap();
        let (kernel, nicctl) = self.before;
        Received {
            packets: now.rx_packets - kernel.rx_packets + nicctl.packets,
            bytes: now.rx_bytes - kernel.rx_bytes + nicctl.bytes,
        }
    }

    /// The stats, once nicctl has counted every packet that the kernel has.
    #[track_caller]
    pub fn settled(&self) -> Value {
        let mut stats = self.stats();
        let settled = poll(|| {
            stats = self.stats();
            number(&stats["total"], "/rx/packets") == self.by_kernel().packets
        });
        let counted = &stats["total"]["rx"]["packets"];
        assert!(settled, "nicctl counted {counted}, the kernel {:?}", self.by_kernel());
        assert_adds_up(&stats);
        stats
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        nicctl(&on(self.host, "detach", &[]));
    }
}

#[track_caller]
fn attach(host: &Host, args: &[&str]) -> Value {
    let printed = run(host, "attach", &[args, &["--json"]].concat());
    let document: Value = serde_json::from_str(&printed).unwrap();
    document["interfaces"][0].clone()
}

#[track_caller]
pub fn stats(host: &Host) -> Value {
    let document: Value =
        serde_json::from_str(&run(host, "stats", &["--json", "--histogram"])).unwrap();
    document["interfaces"][0].clone()
}

#[track_caller]
pub fn number(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no number {pointer} in {value}"))
}

/// One counter of every queue.
#[track_caller]
pub fn per_queue(stats: &Value, pointer: &str) -> Vec<u64> {
    stats["queues"].as_array().unwrap().iter().map(|queue| number(queue, pointer)).collect()
}

/// Sum of a histogram.
#[track_caller]
pub fn in_bins(counted: &Value, pointer: &str) -> u64 {
    let bins = counted.pointer(pointer).and_then(Value::as_array).unwrap();
    bins.iter().map(|bin| number(bin, "/packets")).sum()
}

/// Whatever can be summed in two ways gives the same sum.
#[track_caller]
pub fn assert_adds_up(stats: &Value) {
    let total = &stats["total"];
    for side in ["rx", "ingress", "tx"] {
        for (name, value) in total[side].as_object().unwrap() {
            let (Some(sum), "packets" | "bytes" | "header_bytes" | "copy" | "split" | "whole") =
                (value.as_u64(), name.as_str())
            else {
                continue;
            };
            let queues = per_queue(stats, &format!("/{side}/{name}"));
            assert_eq!(queues.iter().sum::<u64>(), sum, "{side} {name}: {queues:?}");
        }
    }
    let rows = stats["queues"].as_array().unwrap().iter().chain([total]);
    for rx in rows.map(|row| &row["rx"]) {
        let packets = number(rx, "/packets");
        let verdicts = ["/copy", "/split", "/whole"].map(|verdict| number(rx, verdict));
        assert_eq!(verdicts.iter().sum::<u64>(), packets);
        assert_eq!(in_bins(rx, "/sizes"), packets);
        assert_eq!(in_bins(rx, "/header_lengths"), packets);
        let bytes = ["/copied_bytes", "/spared_bytes"].map(|part| number(rx, part));
        assert_eq!(bytes.iter().sum::<u64>(), number(rx, "/bytes"));
    }
}

/// Tries `done` until it is, or until the patience is over; whether it was.
pub fn poll(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// An interface of `host`, as the kernel and its driver describe it.
pub fn nic(host: &Host, name: &str) -> Nic {
    let name = InterfaceName::new(name).unwrap();
    host.run(|| Nic::by_name(&name)).unwrap().unwrap()
}

/// Both interfaces of a lab, as the kernel and the driver describe them.
pub fn both(lab: &Lab) -> [Nic; 2] {
    [lab.a(), lab.b()].map(|host| nic(host, host.interface()))
}

/// Renames the interface of `host`, which must be down for that.
pub fn rename(host: &Host, to: &str) {
    const SIOCSIFNAME: libc::Ioctl = 0x8923;
    let padded = |name: &str| {
        let mut padded = [0_u8; libc::IFNAMSIZ];
        padded.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        padded
    };
    // `struct ifreq`
    let mut request = [padded(host.interface()), padded(to), [0; libc::IFNAMSIZ]];
    host.links(|links| links.set_up(host.ifindex(), false)).unwrap();
    host.run(|| {
        // SAFETY: socket(2) reads no memory of ours.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: `fd` was just opened and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: `request` outlives the call and is no smaller than a `struct ifreq`.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCSIFNAME, &raw mut request) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    })
    .unwrap();
    host.links(|links| links.set_up(host.ifindex(), true)).unwrap();
}

/// Where what is attached to the host's interface has its pins.
pub fn slot(host: &Host) -> Slot {
    let link = host.link().unwrap();
    host.run(|| Slot::of(&link)).unwrap().unwrap()
}
