//! nicctl on two cards joined by a cable: what it counts is what the kernel counts, and its end
//! leaves no trace.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nic_user::{
    error::{Error, Result},
    lab::{
        Host, Lab,
        frames::Ends,
        traffic::{self, IpVersion},
    },
    nic::{InterfaceName, Nic, drivers::KernelVersion},
};
use serde_json::Value;

use crate::{Guest, Outcome, nicctl, r8152};

const PATIENCE: Duration = Duration::from_secs(20);
const UPGRADES: usize = 3;

/// The two cards of a driver, as soon as they are there.
pub fn pair(driver: &str) -> Result<[u32; 2]> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let cards = Nic::all()?.into_iter().filter(|nic| nic.driver_name() == Some(driver));
        let cards: Vec<u32> = cards.map(|nic| nic.ifindex()).collect();
        match cards[..] {
            [a, b] => return Ok([a, b]),
            _ if Instant::now() < deadline => thread::yield_now(),
            _ => return Err(Error::failed(format!("{} cards of {driver}, not 2", cards.len()))),
        }
    }
}

pub fn native_counts_are_the_kernels(guest: &Guest) -> Outcome {
    if runs_natively(&guest.driver) {
        attach_count_detach(&guest.lab, "native");
    } else {
        refuses_native(&guest.lab);
    }
    Outcome::Passed
}

pub fn generic_counts_are_the_kernels(guest: &Guest) -> Outcome {
    attach_count_detach(&guest.lab, "generic");
    Outcome::Passed
}

/// Which drivers run XDP themselves, by the kernel's history.
fn runs_natively(driver: &str) -> bool {
    match driver {
        "veth" | "virtio_net" | "igb" => true,
        "vmxnet3" => kernel() >= KernelVersion(6, 6),
        "e1000e" | "r8152" => false,
        _ => panic!("what {driver} can is not known"),
    }
}

pub fn kernel() -> KernelVersion {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    release.parse().expect("a version")
}

fn refuses_native(lab: &Lab) {
    let a = lab.a();
    let output =
        nicctl::run(&["attach", a.interface(), "--netns", a.netns_name(), "--mode", "native"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("has no native XDP"), "{said}");
    assert!(said.contains("--mode generic"), "{said}");
    assert!(nicctl::attached().is_empty());
}

fn attach_count_detach(lab: &Lab, mode: &str) {
    let a = lab.a();
    let before = card(a);
    let counted = Counted::attach(lab, mode);
    let attached = nicctl::attached();
    let [entry] = &attached[..] else { panic!("not one attachment: {attached:?}") };
    assert_eq!((entry["name"].as_str(), entry["mode"].as_str()), (Some("nic-a"), Some(mode)));
    let tcx = kernel() >= KernelVersion(6, 6);
    assert_eq!(entry["tc"], if tcx { "tcx" } else { "clsact" });

    lab.b().wait_until_running().unwrap();
    counted.agrees_after(send_every_kind(lab));
    nicctl::json("detach", a.interface(), a, &[]);
    assert_eq!(card(a), before);
    wait_until_unloaded();
    assert!(nicctl::attached().is_empty());
    assert!(!fs::exists("/sys/fs/bpf/nicctl").unwrap(), "pins are left");
    // The card works as before.
    assert_eq!(traffic::udp(lab.b(), a, IpVersion::V4, 4, 100, 64).unwrap(), 100);
}

/// Sends to the first host, and lets it answer; returns how many frames it must get at least.
fn send_every_kind(lab: &Lab) -> u64 {
    let (a, b) = (lab.a(), lab.b());
    let samples = untagged(b, a);
    let frames: Vec<_> = samples.iter().cycle().take(1000).collect();
    let mut sent = traffic::send_frames(b, &frames).unwrap();
    for ip in IpVersion::ALL {
        sent += traffic::udp(b, a, ip, 4, 200, 64).unwrap();
        assert_eq!(traffic::tcp(b, a, ip, 4, 100_000).unwrap(), 400_000);
        assert_eq!(traffic::tcp(a, b, ip, 4, 100_000).unwrap(), 400_000);
    }
    sent
}

/// Frames of all kinds but those with a VLAN tag, which cards keep to themselves until somebody has
/// that VLAN.
fn untagged(from: &Host, to: &Host) -> Vec<Vec<u8>> {
    let is_tagged = |frame: &[u8]| matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
    let samples = Ends::between(from, to).samples().into_iter();
    samples.map(|sample| sample.frame).filter(|frame| !is_tagged(frame)).collect()
}

pub fn upgrade_under_traffic_loses_nothing(guest: &Guest) -> Outcome {
    let (a, b) = (guest.lab.a(), guest.lab.b());
    let mode = if runs_natively(&guest.driver) { "native" } else { "generic" };
    let counted = Counted::attach(&guest.lab, mode);
    b.wait_until_running().unwrap();
    let done = AtomicBool::new(false);
    let frames = untagged(b, a);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !done.load(Ordering::Relaxed) {
                sent += traffic::send_frames(b, &frames).unwrap();
            }
            sent
        });
        // The same again would change nothing.
        let policies = ["100", "200"].into_iter().cycle().take(UPGRADES);
        let upgrades = policies
            .map(|bytes| nicctl::json("attach", a.interface(), a, &["--rx-copybreak", bytes]));
        let upgrades: Vec<Value> = upgrades.collect();
        done.store(true, Ordering::Relaxed);
        assert!(upgrades.iter().all(|upgrade| upgrade["interfaces"][0]["upgraded"] == true));
        sender.join().unwrap()
    });
    counted.agrees_after(sent);
    nicctl::json("detach", a.interface(), a, &[]);
    Outcome::Passed
}

fn subtract(from: [u64; 2], what: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|side| from[side] - what[side])
}

/// A card as the kernel describes it. What attaching changes of it, detaching must give back.
fn card(host: &Host) -> Nic {
    let name = InterfaceName::new(host.interface()).unwrap();
    lasting(host.run(|| Nic::by_name(&name)).unwrap().unwrap())
}

/// What stays of a card whatever happens to it meanwhile.
pub fn lasting(mut nic: Nic) -> Nic {
    // The carrier may come back later.
    nic.link.running = true;
    // What a driver says that it can depends on whether it runs a program (vmxnet3).
    nic.xdp_features = None;
    nic
}

/// The kernel frees the programs of TC filters some time after the filters.
fn wait_until_unloaded() {
    let deadline = Instant::now() + PATIENCE;
    let is_ours = |name: &str| name.starts_with("nic_");
    while aya::programs::loaded_programs()
        .flatten()
        .any(|program| program.name_as_str().is_some_and(is_ours))
    {
        assert!(Instant::now() < deadline, "programs stay loaded");
        thread::yield_now();
    }
}

/// An attachment, and what the kernel had counted that it had not.
struct Counted<'h> {
    host: &'h Host,
    /// The other one.
    sender: &'h Host,
    driver: String,
    mode: String,
    before: [u64; 2],
    sent_before: u64,
}

impl<'h> Counted<'h> {
    /// To the first host.
    fn attach(lab: &'h Lab, mode: &str) -> Self {
        let (host, sender) = (lab.a(), lab.b());
        let start = Instant::now();
        let attached = nicctl::json("attach", host.interface(), host, &["--mode", mode]);
        let seconds = start.elapsed().as_secs_f32();
        let said = |what: &str| attached["interfaces"][0][what].as_str().unwrap_or_default();
        let mode = said("mode").to_owned();
        println!("attached in {seconds:.2} s, {mode} mode, {} build", said("build"));
        host.wait_until_running().unwrap();
        let driver = card(host).driver_name().unwrap_or_default().to_owned();
        let mut counted = Self { host, sender, driver, mode, before: [0; 2], sent_before: 0 };
        counted.before = counted.at_a_quiet_moment(subtract);
        counted.sent_before = sender.stats().unwrap().tx_packets;
        counted
    }

    /// Waits until nicctl and the kernel have counted the same, `sent` frames or more.
    fn agrees_after(&self, sent: u64) {
        let sent = match self.driver.as_str() {
            // It may drop frames before it sends them.
            r8152::DRIVER => self.sender.stats().unwrap().tx_packets - self.sent_before,
            _ => sent,
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (kernels, nicctls) = self.at_a_quiet_moment(|kernels, nicctls| (kernels, nicctls));
            let kernels = subtract(kernels, self.before);
            if nicctls == kernels && nicctls[0] >= sent {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{sent} sent; received and sent by the kernel's count {kernels:?}, by nicctl's \
                 {nicctls:?}"
            );
        }
    }

    /// Both counts at a moment when no packet came or went: hosts speak unasked now and then.
    fn at_a_quiet_moment<T>(&self, both: impl Fn([u64; 2], [u64; 2]) -> T) -> T {
        loop {
            let kernels = Self::kernels(self.host);
            let nicctls = self.nicctls();
            if Self::kernels(self.host) == kernels {
                return both(kernels, nicctls);
            }
        }
    }

    /// Packets received and sent by the kernel's count.
    fn kernels(host: &Host) -> [u64; 2] {
        let stats = host.stats().unwrap();
        [stats.rx_packets, stats.tx_packets]
    }

    fn nicctls(&self) -> [u64; 2] {
        let stats = nicctl::json("stats", self.host.interface(), self.host, &[]);
        let total = &stats["interfaces"][0]["total"];
        let number = |side: &str, what: &str| total[side][what].as_u64().expect("a number");
        let mut rx = number("rx", "packets");
        // GRO joins what a card gets before generic XDP sees it; a veth has no GRO then.
        if self.mode == "generic" && self.driver != "veth" {
            rx += number("ingress", "gro_segments") - number("ingress", "gro_packets");
        }
        let mut tx = number("tx", "packets");
        // igb counts what it cuts packets into; for virtio_net, without a host that could, and for
        // r8152, the stack cuts them behind TC egress. The others count packets as they get them.
        if matches!(self.driver.as_str(), "igb" | "virtio_net" | "r8152") {
            let cut = |segments, packets| number("tx", segments) - number("tx", packets);
            tx += cut("gso_tcp_segments", "gso_tcp_packets");
            tx += cut("gso_udp_segments", "gso_udp_packets");
        }
        [rx, tx]
    }
}
