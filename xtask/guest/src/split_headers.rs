//! Headers in buffers of their own (tcp-data-split), which programs that read single buffers do not
//! go with.

use std::{
    os::fd::{AsFd, BorrowedFd},
    process::Output,
};

use nic_user::{
    lab::{
        Host,
        bpf::{Hook, Program, XDP_PASS},
    },
    netlink::{self, link::XdpMode},
};

use crate::{Guest, Outcome, changes, nicctl};

const SPLIT: &str = "ring.tcp-data-split";

/// Whether the driver and the kernel let it be changed.
pub fn has(host: &Host) -> bool {
    changes::settings(host).contains_key(&SPLIT.parse().unwrap())
}

pub fn they_are_planned_away_or_refused(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let before = changes::settings(host);

    // A driver that was never told splits by default, which does not count.
    succeeds(host, "set", &["ring.tcp-data-split=off"]);
    succeeds(host, "attach", &["--mode", "native"]);
    fails(
        &run(host, "set", &["ring.tcp-data-split=on"]),
        "ring.tcp-data-split cannot be on with an XDP program that reads single buffers",
    );
    succeeds(host, "detach", &[]);

    // Of a program that is not nicctl's, only the kernel knows what it reads.
    succeeds(host, "set", &["ring.tcp-data-split=off"]);
    let single = Program::returning(Hook::Xdp, XDP_PASS).unwrap();
    set_xdp(host, Some(single.as_fd())).unwrap();
    fails(
        &run(host, "set", &["ring.tcp-data-split=on"]),
        "tcp-data-split cannot be enabled with single buffer XDP",
    );
    set_xdp(host, None).unwrap();

    succeeds(host, "set", &["ring.tcp-data-split=on"]);
    let refused = set_xdp(host, Some(single.as_fd())).unwrap_err();
    assert!(refused.to_string().contains("unable to install XDP to device using tcp-data-split"));
    let attached = nicctl::json("attach", host.interface(), host, &[]);
    assert_eq!(attached["interfaces"][0]["mode"], "native", "{attached}");
    assert_eq!(attached["interfaces"][0]["build"], "frags", "{attached}");
    succeeds(host, "detach", &[]);

    succeeds(host, "restore", &[]);
    assert_eq!(changes::settings(host), before);
    Outcome::Passed
}

fn run(host: &Host, verb: &str, args: &[&str]) -> Output {
    let about = [verb, host.interface(), "--netns", host.netns_name()];
    nicctl::run(&[&about, args].concat())
}

fn succeeds(host: &Host, verb: &str, args: &[&str]) {
    let output = run(host, verb, args);
    assert!(output.status.success(), "{verb} {args:?}: {output:?}");
}

fn fails(output: &Output, said: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(said), "{error}");
}

fn set_xdp(host: &Host, program: Option<BorrowedFd<'_>>) -> netlink::Result<Option<String>> {
    let set = || {
        let mut links = netlink::link::Links::open()?;
        links.set_xdp(host.ifindex(), program, XdpMode::Native.flag())
    };
    host.run(set).unwrap()
}
