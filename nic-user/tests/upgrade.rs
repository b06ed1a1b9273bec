//! From one release of nicctl to another whose maps are laid out otherwise, and back.

mod attached;
mod common;

use std::{
    env,
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use attached::{number, poll, succeeded};
use nic_user::lab::{
    Host, Lab, Shape,
    traffic::{self, IpVersion},
};
use serde_json::Value;

/// What `cargo xtask test` builds for this.
const OTHER: &str = "NICCTL_OTHER_RELEASE";

/// A release of nicctl.
struct Release(String);

impl Release {
    fn run(&self, host: &Host, verb: &str, args: &[&str]) -> Output {
        let mut command = Command::new(&self.0);
        command.args([verb, host.interface(), "--netns", host.netns_name()]).args(args);
        command.output().unwrap()
    }

    #[track_caller]
    fn document(&self, host: &Host, verb: &str, args: &[&str]) -> Value {
        let printed = succeeded(self.run(host, verb, &[args, &["--json"]].concat()));
        serde_json::from_str(&printed).unwrap()
    }

    #[track_caller]
    fn attach(&self, host: &Host) -> Value {
        self.document(host, "attach", &["--mode", "native"])["interfaces"][0].take()
    }

    /// Packets and bytes that were received and sent, at XDP and at TC.
    #[track_caller]
    fn counted(&self, host: &Host) -> [u64; 6] {
        let total = &self.document(host, "stats", &[])["interfaces"][0]["total"];
        ["rx", "ingress", "tx"]
            .iter()
            .flat_map(|side| {
                ["packets", "bytes"].map(|what| number(total, &format!("/{side}/{what}")))
            })
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    }
}

/// The release that is tested, and the other one.
fn releases() -> Option<[Release; 2]> {
    let this = env!("CARGO_BIN_EXE_nicctl").to_owned();
    match env::var(OTHER) {
        Ok(other) => Some([Release(this), Release(other)]),
        Err(_) => {
            common::say_skipped("there is no other release: `cargo xtask test` builds one");
            None
        }
    }
}

#[test]
fn counters_go_over_to_another_layout_and_back_and_miss_nothing() {
    needs_root!();
    let Some([this, other]) = releases() else { return };
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let first = other.attach(host);
    assert_eq!((&first["upgraded"], &first["changed"]), (&false.into(), &true.into()));
    let at = |release: &Release| {
        release.document(host, "stats", &[])["interfaces"][0]["attached_at"].take()
    };
    let attached_at = at(&other);
    let settled = |release: &Release| {
        let mut counted = release.counted(host);
        assert!(poll(|| std::mem::replace(&mut counted, release.counted(host)) == counted));
        (counted, host.stats().unwrap().rx_packets)
    };
    let (before, by_kernel_before) = settled(&other);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                traffic::udp(lab.a(), host, IpVersion::V4, 4, 400, 64).unwrap();
                traffic::tcp(host, lab.a(), IpVersion::V6, 2, 1 << 16).unwrap();
            }
        });
        let at_end = attached::AtEnd(&done);
        for release in [&this, &other, &this, &other, &this] {
            assert_eq!(release.attach(host)["upgraded"], true);
            // The same once more changes nothing.
            assert_eq!(release.attach(host)["changed"], false);
            assert_eq!(at(release), attached_at);
        }
        drop(at_end);
        traffic.join().unwrap();
    });
    let (after, by_kernel) = settled(&this);
    assert_eq!(after[0] - before[0], by_kernel - by_kernel_before);
    assert!(after[0] > 400, "{after:?}");
    // What either says of the same counters is the same.
    other.attach(host);
    assert_eq!(other.counted(host), after);
    assert_eq!(this.document(host, "detach", &[])["interfaces"][0]["was_attached"], true);
}

#[test]
fn what_one_release_set_the_other_gives_back() {
    needs_root!();
    let Some(releases) = releases() else { return };
    let [this, other] = &releases;
    for [first, second] in [[this, other], [other, this]] {
        let lab = Lab::new(Shape::default()).unwrap();
        let host = lab.b();
        let settings = || first.document(host, "show", &[])["settings"].take();
        let before = settings();
        first.document(host, "attach", &["--profile", "big-tcp"]);
        second.document(host, "set", &["link.mtu=1400"]);
        second.document(host, "detach", &[]);
        assert_eq!(host.link().unwrap().mtu, 1400);
        first.document(host, "restore", &[]);
        assert_eq!(settings(), before);
    }
}
