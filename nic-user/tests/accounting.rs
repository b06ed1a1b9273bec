//! Every frame is counted, once, on its queue: whatever the build and mode, also while programs
//! are replaced.

mod attached;
mod common;
mod ethtool;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use attached::{Attached, number, per_queue, poll};
use nic_user::lab::frames::Ends;
use nic_user::lab::generator::Generator;
use nic_user::lab::traffic::{self, IpVersion};
use nic_user::lab::{Host, Lab, Shape};
use nic_user::offload::Attachment;
use serde_json::Value;

/// A build of the XDP program and the mode it runs in.
#[derive(Clone, Copy, Debug)]
struct Variant {
    mode: &'static str,
    build: &'static str,
    mtu: u32,
}

const VARIANTS: [Variant; 4] = [
    Variant { mode: "native", build: "single-buffer", mtu: 1500 },
    Variant { mode: "generic", build: "single-buffer", mtu: 1500 },
    Variant { mode: "native", build: "frags", mtu: 9000 },
    Variant { mode: "generic", build: "frags", mtu: 9000 },
];

impl Variant {
    fn lab(self) -> Lab {
        Lab::new(Shape { queues: 4, mtu: self.mtu }).unwrap()
    }

    #[track_caller]
    fn attach(self, host: &Host) -> Attached<'_> {
        let attached = Attached::new(host, &["--mode", self.mode]);
        assert_eq!(attached.said["mode"], self.mode);
        assert_eq!(attached.said["build"], self.build);
        attached
    }
}

#[test]
fn a_million_frames_are_a_million() {
    needs_root!();
    const EACH: u32 = 250_000;
    for variant in VARIANTS {
        let lab = variant.lab();
        // Lets veth take frames that are redirected to it, as native XDP on it does.
        ethtool::set(lab.b(), "rx-gro", true);
        let attached = variant.attach(lab.b());
        // To somebody else, so that the stack lets go of them at once.
        let mut ends = Ends::between(lab.a(), lab.b());
        ends.mac[1] = [0x02, 0, 0, 0, 0, 0x99];
        let dropped_before = lab.a().stats().unwrap().tx_dropped;
        // Each in a bin of its own, in which no frame is that the kernel sends by itself.
        let frames = [
            ends.ethernet(ends.ipv4(ends.udp(IpVersion::V4, &[0; 18]))),
            ends.ethernet(ends.ipv6(ends.udp(IpVersion::V6, &[0; 300]))),
            ends.ethernet(ends.ipv4(ends.tcp(IpVersion::V4, &[0; 1000]))),
            ends.ethernet(ends.ipv6(ends.tcp(IpVersion::V6, &[0; 1400]))),
        ];
        for frame in &frames {
            let generator = Generator::new(lab.a(), frame.clone()).unwrap();
            lab.a().run(|| generator.send(EACH)).unwrap().unwrap();
        }
        let stats = attached.settled();
        let rx = &stats["total"]["rx"];
        let arrived = frames.each_ref().map(|frame| in_bin(rx, frame.len() as u64));
        let bytes = std::iter::zip(arrived, &frames).map(|(n, frame)| n * frame.len() as u64);
        let (arrived, bytes) = (arrived.iter().sum::<u64>(), bytes.sum::<u64>());
        // veth drops when a queue is full, and says so.
        let dropped = lab.a().stats().unwrap().tx_dropped - dropped_before;
        assert_eq!(arrived + dropped, u64::from(EACH) * 4, "{variant:?}");
        let reports = number(rx, "/packets") - arrived;
        assert_eq!(number(rx, "/bytes") - bytes, reports * LISTENER_REPORT_LEN, "{variant:?}");
        assert!(arrived > 0);
    }
}

/// A multicast listener report (MLDv2) about one group, as a frame.
const LISTENER_REPORT_LEN: u64 = 90;

/// Frames in the bin of the size histogram in which `len` is.
fn in_bin(rx: &Value, len: u64) -> u64 {
    let bins = rx["sizes"].as_array().unwrap();
    let bin = bins.iter().find(|bin| bin["to"].as_u64().is_none_or(|to| len <= to)).unwrap();
    number(bin, "/packets")
}

#[test]
fn udp_is_counted_queue_by_queue_on_both_ends() {
    needs_root!();
    for variant in VARIANTS {
        let lab = variant.lab();
        let (a, b) = (variant.attach(lab.a()), variant.attach(lab.b()));
        let before = settled_both(&a, &b);
        both_ways(&lab, |from, to, ip| {
            assert_eq!(traffic::udp(from, to, ip, 32, 3000, 100).unwrap(), 3000);
            assert_eq!(traffic::udp(from, to, ip, 32, 300, 1400).unwrap(), 300);
        });
        let after = settled_both(&a, &b);
        for [from, to] in [[0, 1], [1, 0]] {
            let sent = since([&before[from], &after[from]].map(|s| frames_sent(s, variant)));
            let received = since([&before[to], &after[to]].map(frames_received));
            assert_eq!(as_received(sent.clone(), variant), received, "{variant:?} from {from}");
            assert!(sent.iter().all(|&frames| frames > 0), "{variant:?} {sent:?}");
        }
    }
}

#[test]
fn tcp_is_counted_queue_by_queue_on_both_ends() {
    needs_root!();
    for variant in VARIANTS {
        let lab = variant.lab();
        let (a, b) = (variant.attach(lab.a()), variant.attach(lab.b()));
        let before = settled_both(&a, &b);
        let dropped_before = [lab.a(), lab.b()].map(|host| host.stats().unwrap().tx_dropped);
        both_ways(&lab, |from, to, ip| {
            assert_eq!(traffic::tcp(from, to, ip, 16, 1 << 20).unwrap(), 16 << 20);
        });
        let after = settled_both(&a, &b);
        for [from, to] in [[0, 1], [1, 0]] {
            let sent = since([&before[from], &after[from]].map(|s| frames_sent(s, variant)));
            let received = since([&before[to], &after[to]].map(frames_received));
            // veth drops when a queue of it is full, and TCP sends again.
            let host = [lab.a(), lab.b()][from];
            let dropped = host.stats().unwrap().tx_dropped - dropped_before[from];
            let [total_sent, total_received] = [&sent, &received].map(|q| q.iter().sum::<u64>());
            assert_eq!(total_sent, total_received + dropped, "{variant:?}: {sent:?} {received:?}");
            assert_stack_gets_what_xdp_saw([&before[to], &after[to]], variant);
            let none_is_new = std::iter::zip(as_received(sent.clone(), variant), &received)
                .all(|(sent, &received)| received <= sent);
            assert!(none_is_new, "{variant:?}: {sent:?} {received:?}");
            assert!(sent.iter().all(|&frames| frames > 0), "{variant:?} {sent:?}");
        }
        for attached in [&a, &b] {
            assert_bytes_agree(attached, variant);
        }
    }
}

/// TC ingress counts the same packets and bytes as XDP: veth starts without GRO, and in generic
/// mode XDP comes behind it.
fn assert_stack_gets_what_xdp_saw(stats: [&Value; 2], variant: Variant) {
    for counter in ["packets", "bytes"] {
        let [rx, ingress] = ["rx", "ingress"].map(|hook| {
            let [before, now] = stats.map(|s| number(&s["total"], &format!("/{hook}/{counter}")));
            now - before
        });
        assert_eq!(ingress, rx, "{variant:?} {counter}");
    }
}

/// Bytes are those that the kernel counted: veth leaves the Ethernet header out where NAPI takes
/// the packet, as it does with native XDP (`veth_xdp_rcv`).
fn assert_bytes_agree(attached: &Attached<'_>, variant: Variant) {
    const ETHERNET_LEN: u64 = 14;
    let stats = attached.settled();
    let kernel = attached.by_kernel();
    let left_out = match variant.mode {
        "native" => (kernel.packets - attached.packets_before()) * ETHERNET_LEN,
        _ => 0,
    };
    assert_eq!(number(&stats["total"], "/rx/bytes"), kernel.bytes + left_out, "{variant:?}");
}

/// Frames that each receive queue should have, by what was sent on each transmit queue.
///
/// The stack of the receiver sees veth's transmit queue where a receive queue would be recorded,
/// which is stored plus one (`netif_get_rxqueue`); native XDP is told the queue by veth itself.
fn as_received(sent: Vec<u64>, variant: Variant) -> Vec<u64> {
    if variant.mode == "native" {
        return sent;
    }
    let mut received = vec![0; sent.len()];
    for (queue, frames) in sent.into_iter().enumerate() {
        received[queue.saturating_sub(1)] += frames;
    }
    received
}

fn both_ways(lab: &Lab, send: impl Fn(&Host, &Host, IpVersion)) {
    for ip in IpVersion::ALL {
        send(lab.a(), lab.b(), ip);
        send(lab.b(), lab.a(), ip);
    }
}

/// The counters of both ends at one moment at which nothing is on its way.
fn settled_both(a: &Attached<'_>, b: &Attached<'_>) -> [Value; 2] {
    let mut both = [a.settled(), b.settled()];
    assert!(poll(|| {
        let before = std::mem::replace(&mut both, [a.settled(), b.settled()]);
        both == before
    }));
    both
}

fn since([before, now]: [Vec<u64>; 2]) -> Vec<u64> {
    std::iter::zip(before, now).map(|(before, now)| now - before).collect()
}

fn frames_received(stats: &Value) -> Vec<u64> {
    per_queue(stats, "/rx/packets")
}

/// Frames that the interface has sent by the egress counters of each queue. XDP in the receiver's
/// driver gets the segments of a super-packet one by one, in the stack the super-packet.
fn frames_sent(stats: &Value, variant: Variant) -> Vec<u64> {
    let counters = |name: &str| per_queue(stats, &format!("/tx/{name}"));
    let packets = counters("packets");
    if variant.mode == "generic" {
        return packets;
    }
    let super_packets = [counters("gso_tcp_packets"), counters("gso_udp_packets")];
    let segments = [counters("gso_tcp_segments"), counters("gso_udp_segments")];
    (0..packets.len())
        .map(|queue| {
            let sum = |of: &[Vec<u64>; 2]| of[0][queue] + of[1][queue];
            packets[queue] - sum(&super_packets) + sum(&segments)
        })
        .collect()
}

#[test]
fn nothing_goes_uncounted_while_programs_are_replaced() {
    needs_root!();
    const TIMES: usize = 50;
    for variant in VARIANTS {
        let lab = variant.lab();
        let attached = variant.attach(lab.b());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let traffic = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(
                        traffic::tcp(lab.a(), lab.b(), IpVersion::V6, 8, 1 << 18).unwrap(),
                        8 << 18
                    );
                    assert_eq!(
                        traffic::udp(lab.a(), lab.b(), IpVersion::V4, 8, 400, 64).unwrap(),
                        400
                    );
                }
            });
            let reader = scope.spawn(|| watch_counters(lab.b(), &done));
            let at_end = AtEnd(&done);
            for _ in 0..TIMES / 2 {
                ["--log=on", "--log=off"].iter().for_each(|log| drop(attached.again(&[log])));
            }
            drop(at_end);
            traffic.join().unwrap();
            assert!(reader.join().unwrap() > TIMES);
        });
        let stats = attached.settled();
        assert!(number(&stats["total"], "/rx/packets") > 400);
    }
}

/// Sets a flag when it is dropped, also by a panic.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the counters again and again until `done`; none may ever be less than before. Returns how
/// often they were read.
fn watch_counters(host: &Host, done: &AtomicBool) -> usize {
    let slot = attached::slot(host);
    let mut readings = 0;
    let mut before = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let now = Attachment::of(slot.clone()).unwrap().unwrap().read().unwrap();
        let now: Vec<u64> = [
            now.rx.iter().flat_map(|rx| [rx.packets(), rx.bytes, rx.header_bytes]).collect(),
            now.ingress.iter().flat_map(|ingress| [ingress.packets, ingress.bytes]).collect(),
            now.tx.iter().flat_map(|tx| [tx.packets, tx.bytes]).collect::<Vec<_>>(),
        ]
        .concat();
        for (index, (before, now)) in std::iter::zip(&before, &now).enumerate() {
            assert!(before <= now, "counter {index} went from {before} to {now}");
        }
        before = now;
        readings += 1;
    }
    readings
}
