//! Frames of every kind are counted as what they are.

mod attached;
mod common;

use std::collections::BTreeMap;

use attached::{Attached, number};
use nic_common::counters::{header_bin, header_bin_start, size_bin, size_bin_start};
use nic_common::headers::{Flags, HeaderInfo};
use nic_common::policy::{CopyPolicy, Verdict};
use nic_user::lab::frames::{Ends, vlan};
use nic_user::lab::traffic::{self, IpVersion};
use nic_user::lab::{Lab, Shape};
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
        (&[], CopyPolicy { rx_copybreak: 2048, max_linear: 60, split: true }),
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
