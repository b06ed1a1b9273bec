//! Attachments that are not as attach left them: interfaces gone or renamed, pins missing, or of
//! another version of nicctl. Whatever it is, the others are shown, and detach clears it away.

use std::fs;

use nic_user::{lab::bpf::map::Counters, nic::identity::InterfaceKey};
use serde_json::Value;

use crate::{
    assert_done, assert_refused, needs_root,
    sandbox::{Sandbox, State},
};

/// A lab with nic-a attached, lo attached too, and one of nic-a's pins gone.
fn without(pin: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.attach();
    fs::remove_file(sandbox.slot().join(pin)).unwrap();
    assert_done(&sandbox.nicctl(&["attach", "lo"]));
    sandbox
}

fn list(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&assert_done(&sandbox.nicctl(&["list", "--json"]))).unwrap()
}

/// Detaches both interfaces, and nothing is left.
#[track_caller]
fn assert_detaches(sandbox: &Sandbox) {
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "lo"])), "lo: detached\n");
    let State { pins, xdp, tcx } = sandbox.state();
    assert!(!pins.iter().any(|pin| pin.ends_with("nicctl")), "{pins:?}");
    assert_eq!((xdp, tcx), Default::default());
}

#[track_caller]
fn assert_unreadable(sandbox: &Sandbox, reason: &str) {
    // The list shows it among the others.
    let json = list(sandbox);
    assert_eq!(json["interfaces"][0]["name"], "lo");
    assert_eq!(json["unreadable"][0]["name"], "nic-a");
    assert!(json["unreadable"][0]["reason"].as_str().unwrap().contains(reason), "{json}");
    let text = assert_done(&sandbox.nicctl(&["list"]));
    assert!(text.contains("unreadable") && text.contains(reason), "{text}");
    // The counters of the others are shown, and it is a failure that one is missing.
    let stats = sandbox.nicctl(&["stats"]);
    assert_eq!(stats.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stats.stdout).starts_with("lo  tc"));
    let stderr = String::from_utf8_lossy(&stats.stderr);
    assert!(stderr.contains("nicctl: nic-a: ") && stderr.contains(reason), "{stderr}");
    // Asked for by name, there is nothing else to show.
    sandbox.assert_refuses(&["stats", "nic-a"], 1, reason);
    sandbox.assert_refuses(&["stats", "nic-a", "--json"], 1, reason);
    sandbox.assert_refuses(&["attach", "nic-a"], 1, reason);
    assert_detaches(sandbox);
}

#[test]
fn an_attachment_without_its_record_is_unreadable() {
    needs_root!();
    assert_unreadable(&without("record"), "/record: No such file or directory");
}

#[test]
fn an_attachment_of_another_version_is_unreadable() {
    needs_root!();
    let sandbox = without("record");
    let host = sandbox.lab().a();
    let link = host.link().unwrap();
    let [key, _] = host.run(|| InterfaceKey::both(&link)).unwrap().unwrap();
    let record = sandbox.bpffs().join(format!("nicctl/{key}/record"));
    Counters::<1>::new().unwrap().pin(&record).unwrap();
    assert_unreadable(&sandbox, "was attached by another version of nicctl");
}

#[test]
fn counters_that_are_missing_come_back_with_attach() {
    needs_root!();
    for pin in ["rx", "ingress", "tx"] {
        let sandbox = without(pin);
        let reason = format!("/{pin}: No such file or directory (os error 2)\n  fix: ");
        sandbox.assert_refuses(&["stats", "nic-a"], 1, &reason);
        let stats = sandbox.nicctl(&["stats", "--json"]);
        assert_eq!(stats.status.code(), Some(1));
        let json: Value = serde_json::from_slice(&stats.stdout).unwrap();
        assert_eq!(json["interfaces"][0]["name"], "lo");
        assert_eq!(list(&sandbox)["interfaces"].as_array().unwrap().len(), 2);
        sandbox.attach();
        assert!(assert_done(&sandbox.nicctl(&["stats"])).contains("nic-a"));
        assert_detaches(&sandbox);
    }
}

#[test]
fn a_missing_policy_is_told() {
    needs_root!();
    let sandbox = without("policy");
    for command in ["stats", "attach"] {
        sandbox.assert_refuses(&[command, "nic-a"], 1, "/policy: No such file or directory");
    }
    assert_detaches(&sandbox);
}

#[test]
fn links_that_are_missing_come_back_with_attach() {
    needs_root!();
    for pin in ["link_xdp", "link_ingress", "link_egress"] {
        let sandbox = without(pin);
        assert_done(&sandbox.nicctl(&["stats"]));
        sandbox.attach();
        let state = sandbox.state();
        assert_eq!((state.xdp.len(), state.tcx.map(|hook| hook.len())), (1, [1, 1]));
        assert_detaches(&sandbox);
    }
}

#[test]
fn an_interface_that_is_gone_is_detached_by_its_last_name() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.pins();
    sandbox.attach();
    sandbox.shell("ip link delete nic-a");
    let listed = &list(&sandbox)["interfaces"][0];
    assert_eq!((&listed["name"], &listed["stale"]), (&"nic-a".into(), &true.into()));
    assert!(assert_done(&sandbox.nicctl(&["list"])).contains("gone"));
    assert!(assert_done(&sandbox.nicctl(&["stats", "nic-a"])).contains("QUEUE"));
    assert_refused(&sandbox.nicctl(&["attach", "nic-a"]), 3, "there is no interface nic-a");
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
    assert_eq!(sandbox.pins(), before);
    assert_refused(&sandbox.nicctl(&["detach", "nic-a"]), 3, "there is no interface nic-a");
}

#[test]
fn interfaces_that_are_gone_and_had_one_name_are_all_detached() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.pins();
    for _ in 0..2 {
        sandbox.shell("ip link add nic-x type veth peer name nic-y");
        assert_done(&sandbox.nicctl(&["attach", "nic-x"]));
        sandbox.shell("ip link delete nic-x");
    }
    let detached = assert_done(&sandbox.nicctl(&["detach", "nic-x"]));
    assert_eq!(detached, "nic-x: detached\nnic-x: detached\n");
    assert_eq!(sandbox.pins(), before);
}

#[test]
fn a_renamed_interface_goes_by_both_names() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    sandbox.shell("ip link set nic-a down; ip link set nic-a name nic-c");
    assert_eq!(list(&sandbox)["interfaces"][0]["name"], "nic-c");
    for name in ["nic-a", "nic-c"] {
        assert!(assert_done(&sandbox.nicctl(&["stats", name])).starts_with(name));
    }
    assert_done(&sandbox.nicctl(&["attach", "nic-c"]));
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-c"])), "nic-c: detached\n");
    assert_eq!(list(&sandbox)["interfaces"].as_array().unwrap().len(), 0);
}
