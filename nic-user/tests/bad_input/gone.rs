//! Settings of interfaces that no longer exist: told, and forgotten when asked to.

use std::fs;

use nic_user::lab::{Host, Lab, Shape};
use serde_json::Value;

use crate::{assert_done, assert_refused, needs_root, sandbox::Sandbox};

const FORGOTTEN: &str = ": gone, and with it the settings nicctl changed\n";

/// How many journals there are.
fn journals(sandbox: &Sandbox) -> usize {
    fs::read_dir(sandbox.journals()).map_or(0, Iterator::count)
}

/// The settings of an interface that was deleted afterwards.
fn with_deleted_interface() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.shell("ip link add nic-v type veth peer name nic-w");
    assert_done(&sandbox.nicctl(&["set", "nic-v", "link.mtu=1400"]));
    sandbox.shell("ip link delete nic-v");
    assert_eq!(journals(&sandbox), 1);
    sandbox
}

#[test]
fn the_settings_of_a_deleted_interface_are_forgotten() {
    needs_root!();
    let sandbox = with_deleted_interface();
    let way_out =
        "fix: its settings are gone with it; to remove their journal: `nicctl detach --gone`";
    for args in [&["restore", "nic-v"][..], &["restore", "nic-v", "--dry-run"]] {
        assert_refused(&sandbox.nicctl(args), 3, way_out);
    }
    let said = assert_done(&sandbox.nicctl(&["detach", "--gone", "--dry-run"]));
    assert_eq!((said.ends_with(FORGOTTEN), journals(&sandbox)), (true, 1));
    let said = assert_done(&sandbox.nicctl(&["detach", "--gone", "--json"]));
    let entry = &serde_json::from_str::<Value>(&said).unwrap()["interfaces"][0];
    assert_eq!((&entry["name"], &entry["settings_are_gone"]), (&"nic-v".into(), &true.into()));
    assert_eq!(journals(&sandbox), 0);
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "--gone"])), "nothing is attached\n");
    let restore = sandbox.nicctl(&["restore", "nic-v"]);
    assert_refused(&restore, 3, "nic-v");
    assert!(!String::from_utf8_lossy(&restore.stderr).contains("--gone"));
}

#[test]
fn interfaces_that_are_there_are_not_forgotten() {
    needs_root!();
    let sandbox = with_deleted_interface();
    assert_done(&sandbox.nicctl(&["set", "nic-a", "link.mtu=1400"]));
    let said = assert_done(&sandbox.nicctl(&["detach", "--gone"]));
    assert!(said.contains("nic-v") && !said.contains("nic-a"), "{said}");
    assert_eq!(journals(&sandbox), 1);
    assert_done(&sandbox.nicctl(&["restore", "nic-a"]));
    assert_eq!(sandbox.lab().a().link().unwrap().mtu, 1500);
}

fn set(sandbox: &Sandbox, host: &Host, change: &str) {
    let netns = ["--netns", host.netns_name()];
    assert_done(&sandbox.nicctl(&[&["set", host.interface(), change], &netns[..]].concat()));
}

#[test]
fn the_settings_of_a_vanished_namespace_keep_no_other_from_being_detached() {
    needs_root!();
    let sandbox = Sandbox::new();
    let lab = Lab::new(Shape::default()).unwrap();
    let on = |host: &Host, args: &[&str]| {
        let netns = ["--netns", host.netns_name()];
        assert_done(&sandbox.nicctl(&[&[args[0], host.interface()], &args[1..], &netns].concat()));
    };
    for host in [lab.a(), lab.b()] {
        on(host, &["attach", "--profile", "big-tcp"]);
        on(host, &["detach", "--keep-settings"]);
    }
    drop(lab);
    let before = sandbox.lab().a().link().unwrap().gso_max_size;
    assert_done(&sandbox.nicctl(&["attach", "nic-a", "--profile", "big-tcp"]));
    let output = sandbox.nicctl(&["detach", "--everywhere"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("its network namespace is not visible from here"), "{said}");
    assert!(said.contains("if it is gone: `nicctl detach --gone`"), "{said}");
    // The others are detached, and have their settings back.
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("nic-a: detached\n"));
    assert_eq!(sandbox.lab().a().link().unwrap().gso_max_size, before);
    assert_eq!(journals(&sandbox), 2);
    let said = assert_done(&sandbox.nicctl(&["detach", "--gone"]));
    assert_eq!((said.matches(FORGOTTEN).count(), journals(&sandbox)), (2, 0), "{said}");
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "--everywhere"])), "nothing is attached\n");
}

#[test]
fn what_is_attached_in_a_namespace_that_is_not_to_be_seen_is_not_forgotten() {
    needs_root!();
    let sandbox = Sandbox::new();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    set(&sandbox, host, "link.mtu=1400");
    let netns = ["--netns", host.netns_name()];
    assert_done(&sandbox.nicctl(&[&["attach", host.interface()], &netns[..]].concat()));
    // Nobody inside the sandbox sees it any more.
    sandbox.shell(&format!("umount /run/netns/{}", host.netns_name()));
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "--gone"])), "nothing is attached\n");
    assert_eq!(journals(&sandbox), 1);
}

#[test]
fn all_is_one_namespace_and_the_machine_takes_a_word_of_its_own() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let other = ["--netns", sandbox.lab().b().netns_name()];
    assert_done(&sandbox.nicctl(&[&["attach", "nic-b"], &other[..]].concat()));
    let said = assert_done(&sandbox.nicctl(&[&["detach", "--all"], &other[..]].concat()));
    assert_eq!(said, "nic-b: detached\n");
    assert_done(&sandbox.nicctl(&[&["attach", "nic-b"], &other[..]].concat()));
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "--all"])), "nic-a: detached\n");
    for word in ["--everywhere", "--gone"] {
        let output = sandbox.nicctl(&[&["detach", word], &other[..]].concat());
        assert_refused(&output, 2, "cannot be used with");
    }
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "--everywhere"])), "nic-b: detached\n");
}
