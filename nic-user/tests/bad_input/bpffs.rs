//! bpffs that is missing, read-only, hidden, or full of what others put there.

use std::fs;

use nic_user::lab::bpf::map::Counters;

use crate::{assert_done, assert_refused, needs_root, sandbox::Sandbox};

const UNMOUNT: &str = "umount /sys/fs/bpf";
const MOUNTED: &str = "if mountpoint -q /sys/fs/bpf; then echo yes; else echo no; fi";

#[test]
fn without_bpffs_attach_mounts_it_and_nothing_else_does() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell(UNMOUNT);
    let message = "attachments cannot be read: no bpffs is mounted on /sys/fs/bpf\n  fix: mount \
                   -t bpf -o mode=0700 bpf /sys/fs/bpf\n";
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["stats"],
        &["stats", "nic-a"],
        &["log"],
        &["log", "nic-a"],
        &["detach", "nic-a"],
        &["detach", "nic-a", "--dry-run"],
        &["detach", "--all"],
        &["detach", "--gone"],
        &["detach", "--everywhere"],
    ] {
        sandbox.assert_refuses(args, 4, message);
    }
    assert_done(&sandbox.nicctl(&["attach", "nic-a", "--dry-run"]));
    let doctor = String::from_utf8(sandbox.nicctl(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("not mounted: attach mounts it"), "{doctor}");
    assert_eq!(sandbox.shell(MOUNTED), "no\n");
    // The sandbox has processes of its own, as a container has.
    let attached = sandbox.nicctl(&["attach", "nic-a"]);
    let said = String::from_utf8(attached.stderr).unwrap();
    assert_eq!(attached.status.code(), Some(0), "{said}");
    assert!(said.contains("end with it") && said.contains("-v /sys/fs/bpf:/sys/fs/bpf"), "{said}");
    assert_eq!(sandbox.shell(MOUNTED), "yes\n");
    assert!(assert_done(&sandbox.nicctl(&["list"])).contains("nic-a"));
}

#[test]
fn a_bpffs_that_is_chosen_is_the_only_one() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell("mkdir /mnt/own /mnt/none && mount -t bpf -o mode=0700 bpf /mnt/own");
    let own = ["--bpffs", "/mnt/own"];
    assert_done(&sandbox.nicctl(&[&["attach", "nic-a"], &own[..]].concat()));
    assert_eq!(assert_done(&sandbox.nicctl(&["list"])), "nothing is attached\n");
    let listed = sandbox.shell("NICCTL_BPFFS=/mnt/own /mnt/nicctl list");
    assert!(listed.contains("nic-a"), "{listed}");
    let doctor = String::from_utf8(sandbox.nicctl(&[&own[..], &["doctor"]].concat()).stdout);
    assert!(doctor.unwrap().contains("mounted: /mnt/own"));
    let none = sandbox.nicctl(&["list", "--bpffs", "/mnt/none"]);
    assert_refused(&none, 1, "/mnt/none is not a bpffs\n  fix: mount -t bpf");
    assert_done(&sandbox.nicctl(&[&["detach", "--all"], &own[..]].concat()));
}

#[test]
fn a_private_bpffs_is_used_and_that_of_the_first_process_left_alone() {
    needs_root!();
    let sandbox = Sandbox::new();
    let script = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && /mnt/nicctl attach nic-a && \
                  /mnt/nicctl list && /mnt/nicctl detach nic-a";
    let said = sandbox.shell(&format!("unshare --mount sh -ec '{script}'"));
    assert!(said.contains("nic-a: attached") && said.contains("nic-a: detached"), "{said}");
    assert_eq!(assert_done(&sandbox.nicctl(&["list"])), "nothing is attached\n");
}

#[test]
fn who_may_not_mount_bpffs_gets_the_command() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell(UNMOUNT);
    let before = sandbox.state();
    let output = sandbox.nicctl_with(&["--bounding-set=-sys_admin"], &["attach", "nic-a"]);
    assert_refused(
        &output,
        4,
        "nicctl: mount bpffs on /sys/fs/bpf: Operation not permitted (os error 1)\n  fix: \
         mount -t bpf -o mode=0700 bpf /sys/fs/bpf\n",
    );
    assert_eq!(sandbox.state(), before);
}

#[test]
fn a_read_only_bpffs_is_told_with_the_command_that_changes_it() {
    needs_root!();
    let sandbox = Sandbox::new();
    let message = "Read-only file system (os error 30)\n  fix: mount -o \
                   remount,rw /sys/fs/bpf\n";
    sandbox.shell("mount -o remount,ro /sys/fs/bpf");
    sandbox.assert_refuses(&["attach", "nic-a"], 1, message);
    sandbox.shell("mount -o remount,rw /sys/fs/bpf");
    sandbox.attach();
    sandbox.shell("mount -o remount,ro /sys/fs/bpf");
    for command in ["attach", "stats", "detach"] {
        sandbox.assert_refuses(&[command, "nic-a"], 1, message);
    }
    sandbox.assert_refuses(&["stats", "--json"], 1, message);
}

#[test]
fn pins_survive_ip_netns_exec_which_hides_bpffs() {
    needs_root!();
    let sandbox = Sandbox::new();
    let name = sandbox.lab().a().netns_name();
    let inside = |args: &str| sandbox.shell(&format!("ip netns exec {name} /mnt/nicctl {args}"));
    let before = sandbox.state();
    assert!(inside("attach nic-a --mode native").contains("nic-a: attached"));
    assert_eq!(sandbox.state().pins.len(), before.pins.len() + 13);
    assert!(assert_done(&sandbox.nicctl(&["list"])).contains("nic-a"));
    assert!(inside("list").contains("nic-a"));
    assert!(inside("stats nic-a").contains("QUEUE"));
    assert_eq!(inside("detach nic-a"), "nic-a: detached\n");
    assert_eq!(sandbox.state(), before);
}

#[test]
fn what_others_put_beside_the_pins_is_left_alone() {
    needs_root!();
    let sandbox = Sandbox::new();
    let directory = sandbox.bpffs().join("nicctl");
    for name in ["foo", "1-2-3", "x-1", "new-foo", "-", "1-99999999999"] {
        fs::create_dir_all(directory.join(name)).unwrap();
    }
    for name in ["bar", "7-7"] {
        Counters::<1>::new().unwrap().pin(&directory.join(name)).unwrap();
    }
    let before = sandbox.state();
    assert_eq!(assert_done(&sandbox.nicctl(&["list"])), "nothing is attached\n");
    assert_eq!(assert_done(&sandbox.nicctl(&["stats"])), "nothing is attached\n");
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "--all"])), "nothing is attached\n");
    assert_eq!(sandbox.state(), before);
    sandbox.attach();
    assert!(assert_done(&sandbox.nicctl(&["stats", "nic-a"])).contains("QUEUE"));
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
    assert_eq!(sandbox.state(), before);
}

#[test]
fn what_is_half_made_is_not_shown_and_cleared_away() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let ifindex = sandbox.lab().a().ifindex();
    let staging = sandbox.bpffs().join(format!("nicctl/new-1-{ifindex}"));
    fs::create_dir_all(&staging).unwrap();
    Counters::<1>::new().unwrap().pin(&staging.join("rx")).unwrap();
    for args in [&["list"][..], &["stats"]] {
        assert_eq!(assert_done(&sandbox.nicctl(args)), "nothing is attached\n");
    }
    assert!(staging.exists());
    assert_done(&sandbox.nicctl(&["detach", "nic-a"]));
    assert_eq!(sandbox.state(), before);
}

#[test]
fn a_folder_that_others_may_write_or_own_is_refused_before_anything_is_removed() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell("mkdir /mnt/precious && touch /mnt/precious/file");
    for (spoil, defect) in [
        (
            "chmod 1777 /sys/fs/bpf",
            "/sys/fs/bpf is not trusted: others can write to it (mode 1777)",
        ),
        (
            "chmod 0700 /sys/fs/bpf; mkdir /sys/fs/bpf/nicctl; chown 65534 /sys/fs/bpf/nicctl",
            "nicctl is not trusted: it belongs to user 65534",
        ),
        (
            "rmdir /sys/fs/bpf/nicctl; ln -s /mnt/precious /sys/fs/bpf/nicctl",
            "nicctl: it is a symbolic link or not a directory",
        ),
    ] {
        sandbox.shell(spoil);
        let before = sandbox.state();
        for args in [&["attach", "nic-a"][..], &["detach", "nic-a"]] {
            let output = sandbox.nicctl(args);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{spoil}: {args:?}: {said}");
            assert!(said.contains(defect) && said.contains("fix: "), "{spoil}: {args:?}: {said}");
        }
        assert_eq!(sandbox.state(), before);
        sandbox.shell("test -e /mnt/precious/file");
    }
}

#[test]
fn what_is_no_stage_is_told_and_keeps_no_interface_from_its_own() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell("mkdir /mnt/precious && touch /mnt/precious/file");
    sandbox.shell("mkdir -m 0700 /sys/fs/bpf/nicctl");
    sandbox.shell("ln -s /mnt/precious /sys/fs/bpf/nicctl/new-1-1");
    let said = assert_done(&sandbox.nicctl(&["attach", "nic-a"]));
    assert!(said.contains("new-1-1: it is a symbolic link or not a directory"), "{said}");
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
    sandbox.shell("test -e /mnt/precious/file");
}

#[test]
fn an_interrupted_attachment_whose_programs_run_is_seen_and_cleared_away() {
    needs_root!();
    let sandbox = Sandbox::new();
    for detach in [&["detach", "--all"][..], &["detach", "nic-a"], &["detach", "--everywhere"]] {
        let before = sandbox.state();
        sandbox.attach();
        let slot = sandbox.slot();
        let name = slot.file_name().unwrap().to_str().unwrap();
        std::fs::rename(&slot, slot.with_file_name(format!("new-{name}"))).unwrap();
        assert!(assert_done(&sandbox.nicctl(&["list"])).contains("half-made"));
        assert!(assert_done(&sandbox.nicctl(&["stats"])).contains("half-made"));
        assert_eq!(assert_done(&sandbox.nicctl(detach)), "nic-a: detached\n");
        assert_eq!(sandbox.state(), before);
    }
}

#[test]
fn journals_are_for_nobody_else_whatever_the_umask_and_those_of_others_are_refused() {
    needs_root!();
    let sandbox = Sandbox::new();
    let mtu = |sandbox: &Sandbox| sandbox.lab().a().link().unwrap().mtu;
    sandbox.shell("umask 0; /mnt/nicctl set nic-a link.mtu=1400");
    sandbox.shell("test -z \"$(find /var/lib/nicctl -perm /077)\"");
    let refused = |spoil: &str, defect: &str| {
        sandbox.shell(spoil);
        let output = sandbox.nicctl(&["restore", "nic-a"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{spoil}: {said}");
        assert!(said.contains(defect), "{spoil}: {said}");
        assert_eq!(mtu(&sandbox), 1400, "{spoil}");
    };
    refused("chown 65534 /var/lib/nicctl/*.json", "it belongs to user 65534");
    refused(
        "chown 0 /var/lib/nicctl/*.json; chmod 0666 /var/lib/nicctl/*.json",
        "others can write",
    );
    refused("chmod 0600 /var/lib/nicctl/*.json; chmod 0777 /var/lib/nicctl", "others can write");
    // What an interrupted process, or somebody else, left in the way of a new journal.
    sandbox.shell(
        "chmod 0700 /var/lib/nicctl; echo kept >/mnt/target; for json in /var/lib/nicctl/*.json; \
         do ln -s /mnt/target \"${json%.json}.new\"; done",
    );
    assert_done(&sandbox.nicctl(&["set", "nic-a", "link.mtu=1300"]));
    sandbox.shell("test \"$(cat /mnt/target)\" = kept");
    assert_done(&sandbox.nicctl(&["restore", "nic-a"]));
    assert_eq!(mtu(&sandbox), 1500);
}

#[test]
fn what_was_not_finished_writing_is_cleared_away_by_whoever_holds_the_lock() {
    needs_root!();
    let sandbox = Sandbox::new();
    for args in [
        &["attach", "nic-a"][..],
        &["detach", "nic-a"],
        &["set", "nic-a", "link.mtu=1400"],
        &["restore", "nic-a"],
    ] {
        sandbox.shell("umask 077; echo { >/var/lib/nicctl/9-9.new");
        assert_done(&sandbox.nicctl(args));
        sandbox.shell("test ! -e /var/lib/nicctl/9-9.new");
    }
}
