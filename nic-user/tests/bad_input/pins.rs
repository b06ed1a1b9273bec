//! Pins that are not what their names say. Nothing of them is believed, nothing of others is
//! detached, and the other interfaces go on.

use std::{
    ffi::CString,
    fs,
    os::{
        fd::{AsFd, AsRawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use aya::maps::{Array, HashMap, MapData, PerCpuArray, Queue};
use nic_user::lab::bpf::{Hook, Program, XDP_PASS};
use serde_json::Value;

use crate::{
    assert_done, needs_root,
    sandbox::{Sandbox, State},
};

/// A sandbox with nic-a attached, and what was pinned in its slot as `pin` replaced.
fn with(pin: &str, put: impl FnOnce(&Path)) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.attach();
    let path = sandbox.slot().join(pin);
    fs::remove_file(&path).unwrap();
    put(&path);
    sandbox
}

/// Pins whatever has a descriptor.
fn pin(object: impl AsFd, path: &Path) {
    #[repr(C)]
    struct Attr {
        pathname: u64,
        bpf_fd: u32,
        file_flags: u32,
    }
    const BPF_OBJ_PIN: libc::c_int = 6;
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let bpf_fd = object.as_fd().as_raw_fd() as u32;
    let attr = Attr { pathname: path.as_ptr() as u64, bpf_fd, file_flags: 0 };
    // SAFETY: the path ends in a zero and outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_PIN, &raw const attr, size_of::<Attr>()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Every command says what is wrong, none changes anything, lo is shown, and detach clears it away.
#[track_caller]
fn assert_told_and_cleared(sandbox: &Sandbox, commands: &[&str], reason: &str) {
    assert_done(&sandbox.nicctl(&["attach", "lo"]));
    for command in commands {
        sandbox.assert_refuses(&[command, "nic-a"], 1, reason);
    }
    let stats = sandbox.nicctl(&["stats"]);
    assert_eq!(stats.status.code(), Some(1), "{reason}");
    assert!(String::from_utf8_lossy(&stats.stdout).starts_with("lo  tc"));
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "lo"])), "lo: detached\n");
    let State { pins, xdp, tcx } = sandbox.state();
    assert!(!pins.iter().any(|pin| pin.ends_with("nicctl")), "{pins:?}");
    assert_eq!((xdp, tcx), Default::default());
}

#[test]
fn counters_that_are_another_map_are_told() {
    needs_root!();
    type Put = fn(&Path);
    // What lies on a machine as it is, is longer for each CPU than is expected.
    let larger: Put =
        |path| PerCpuArray::<MapData, [u64; 2048]>::create(2, 0).unwrap().pin(path).unwrap();
    let cases: [(Put, &str); 5] = [
        (larger, "it is a map with value size 16384, not 8 to 4096"),
        (
            |path| HashMap::<MapData, [u8; 512], u64>::create(2, 0).unwrap().pin(path).unwrap(),
            "it is a map with type 1, not 6",
        ),
        (
            |path| Array::<MapData, [u64; 78]>::create(2, 0).unwrap().pin(path).unwrap(),
            "it is a map with type 2, not 6",
        ),
        (
            |path| PerCpuArray::<MapData, u64>::create(1 << 17, 0).unwrap().pin(path).unwrap(),
            "it is a map with number of entries 131072, not 1 to 65536",
        ),
        (
            |path| pin(Program::returning(Hook::Xdp, XDP_PASS).unwrap(), path),
            "it is a program, not a map",
        ),
    ];
    for (put, reason) in cases {
        for name in ["rx", "ingress", "tx"] {
            assert_told_and_cleared(&with(name, put), &["stats", "attach"], reason);
        }
    }
}

#[test]
fn counters_of_another_length_without_types_are_told() {
    needs_root!();
    for name in ["rx", "ingress", "tx"] {
        let sandbox = with(name, |path| {
            PerCpuArray::<MapData, [u64; 99]>::create(2, 0).unwrap().pin(path).unwrap();
        });
        let reason = "it was attached by another version of nicctl";
        assert_told_and_cleared(&sandbox, &["stats", "attach"], reason);
    }
}

#[test]
fn a_policy_that_is_another_map_is_told() {
    needs_root!();
    let long = with("policy", |path| {
        Array::<MapData, [u64; 64]>::create(1, 0).unwrap().pin(path).unwrap();
    });
    let reason = "it is a map with value size 512, not 8";
    assert_told_and_cleared(&long, &["stats", "attach"], reason);
    let queue =
        with("policy", |path| Queue::<MapData, u64>::create(1, 0).unwrap().pin(path).unwrap());
    assert_told_and_cleared(&queue, &["stats", "attach"], "it is a map with type 22, not 2");
}

#[test]
fn a_record_that_is_another_map_is_told() {
    needs_root!();
    let key = with("record", |path| {
        HashMap::<MapData, [u8; 512], [u8; 88]>::create(1, 0).unwrap().pin(path).unwrap();
    });
    let reason = "it is a map with type 1, not 2";
    assert_told_and_cleared(&key, &["stats", "attach"], reason);
    let program = with("record", |path| {
        pin(Program::returning(Hook::Xdp, XDP_PASS).unwrap(), path);
    });
    assert_told_and_cleared(&program, &["stats", "attach"], "it is a program, not a map");
}

#[test]
fn a_record_that_claims_any_number_of_queues_changes_nothing() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let record = MapData::from_pin(sandbox.slot().join("record")).unwrap();
    let mut record: Array<_, [u32; 24]> = aya::maps::Map::Array(record).try_into().unwrap();
    let mut words = record.get(&0, 0).unwrap();
    // rx_queues and tx_queues
    words[10..12].fill(u32::MAX);
    record.set(0, words, 0).unwrap();
    let stats: Value =
        serde_json::from_str(&assert_done(&sandbox.nicctl(&["stats", "--json"]))).unwrap();
    assert_eq!(stats["interfaces"][0]["queues"].as_array().unwrap().len(), 2);
    sandbox.attach();
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
}

/// No command touches a link that is not nicctl's on this interface; moved away, all goes on.
#[track_caller]
fn assert_foreign_link_stays(sandbox: &Sandbox, link: &Path, reason: &str) {
    for command in ["attach", "stats", "detach"] {
        sandbox.assert_refuses(&[command, "nic-a"], 1, reason);
        sandbox.assert_refuses(&[command, "nic-a"], 1, "link_xdp is not nicctl's: ");
        sandbox.assert_refuses(
            &[command, "nic-a"],
            1,
            "  fix: it is left alone: move it away and try again: `mv ",
        );
    }
    fs::rename(link, sandbox.bpffs().join("away")).unwrap();
    assert_eq!(assert_done(&sandbox.nicctl(&["detach", "nic-a"])), "nic-a: detached\n");
}

#[test]
fn the_link_of_another_interface_is_not_detached() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let link = sandbox.slot().join("link_xdp");
    sandbox.shell("ip link add nic-x type veth peer name nic-y");
    assert_done(&sandbox.nicctl(&["attach", "nic-x", "--mode", "native"]));
    let slots = fs::read_dir(sandbox.bpffs().join("nicctl")).unwrap().flatten();
    let other = slots.map(|slot| slot.path().join("link_xdp")).find(|path| *path != link).unwrap();
    fs::rename(&other, &link).unwrap();
    let xdp = || sandbox.shell("ip -o link show nic-x | grep -c prog/xdp");
    assert_eq!(xdp(), "1\n");
    assert_foreign_link_stays(&sandbox, &link, "it is attached to interface ");
    assert_eq!(xdp(), "1\n");
}

#[test]
fn the_link_of_somebody_else_on_the_interface_is_not_detached() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let link = sandbox.slot().join("link_xdp");
    fs::remove_file(&link).unwrap();
    let (host, program) = (sandbox.lab().a(), Program::returning(Hook::Xdp, XDP_PASS).unwrap());
    // The kernel lets go of a link some time after its last pin.
    let mut attempts = std::iter::repeat_with(|| program.attach(host, host.ifindex()));
    let attached = attempts.by_ref().take(100_000).find_map(Result::ok);
    pin(attached.unwrap(), &link);
    assert_foreign_link_stays(&sandbox, &link, "is `nic_lab`");
    assert_eq!(sandbox.state().xdp.len(), 1);
}

#[test]
fn a_link_of_another_hook_and_what_is_no_link_are_told() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let slot = sandbox.slot();
    let [xdp, ingress] = ["link_xdp", "link_ingress"].map(|name| slot.join(name));
    let aside = sandbox.bpffs().join("aside");
    for (from, to) in [(&xdp, &aside), (&ingress, &xdp)] {
        fs::rename(from, to).unwrap();
    }
    assert_foreign_link_stays(&sandbox, &xdp, "it is a link of type 11 and hook 46");
    let program = with("link_xdp", |path| {
        pin(Program::returning(Hook::Xdp, XDP_PASS).unwrap(), path);
    });
    let path = program.slot().join("link_xdp");
    assert_foreign_link_stays(&program, &path, "it is a program, not a link");
}
