//! Without root, or without one of its capabilities.

use std::{io, os::unix::process::CommandExt, process::Command};

use crate::{assert_done, assert_refused, needs_root, sandbox::Sandbox};

const NOBODY: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs"];

const FIX: &str = "fix: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";

#[test]
fn a_missing_capability_is_named() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    for (held, missing) in [
        ("-all", "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"),
        ("-all,+net_admin,+perfmon", "CAP_BPF"),
        ("-all,+bpf,+perfmon", "CAP_NET_ADMIN"),
        ("-all,+bpf,+net_admin", "CAP_PERFMON"),
        ("-sys_admin,-bpf", "CAP_BPF"),
        ("-sys_admin,-net_admin,-perfmon", "CAP_NET_ADMIN and CAP_PERFMON"),
    ] {
        let held = format!("--bounding-set={held}");
        for args in [&["attach", "nic-a"][..], &["attach", "nic-a", "--dry-run", "--json"]] {
            let output = sandbox.nicctl_with(&[&held], args);
            let message =
                format!("nicctl: attach to nic-a: not permitted without {missing}\n  {FIX}\n");
            assert_refused(&output, 4, &message);
        }
        let output = sandbox.nicctl_with(&[&held], &["decode", "--bpf", "--hex", "00"]);
        assert_refused(&output, 4, &format!("load the program: not permitted without {missing}"));
        assert_eq!(sandbox.state(), before);
    }
}

#[test]
fn what_the_message_asks_for_is_enough() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    for held in ["-all,+bpf,+net_admin,+perfmon", "-all,+sys_admin"] {
        let held = format!("--bounding-set={held}");
        for args in [&["attach", "nic-a"][..], &["list"], &["stats"], &["detach", "nic-a"]] {
            assert_done(&sandbox.nicctl_with(&[&held], args));
        }
        assert_eq!(sandbox.state(), before);
    }
}

#[test]
fn others_than_root_may_not_look_into_bpffs() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let before = sandbox.state();
    let message = "/sys/fs/bpf/nicctl: Permission denied (os error 13)\n  fix: nicctl keeps its \
                   state in bpffs, which is root's: run it as root, or with CAP_DAC_OVERRIDE\n";
    for args in [&["list"][..], &["stats"], &["log"], &["detach", "--all"]] {
        assert_refused(&sandbox.nicctl_with(&NOBODY, args), 4, message);
    }
    for args in [&["stats", "nic-a"][..], &["stats", "nic-a", "--json"], &["log", "nic-a"]] {
        assert_refused(&sandbox.nicctl_with(&NOBODY, args), 4, "Permission denied");
    }
    assert_refused(&sandbox.nicctl_with(&NOBODY, &["detach", "nic-a"]), 4, "Permission denied");
    assert_refused(
        &sandbox.nicctl_with(&NOBODY, &["attach", "nic-a"]),
        4,
        "not permitted without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
    );
    assert_eq!(sandbox.state(), before);
}

#[test]
fn another_namespace_takes_cap_sys_admin() {
    needs_root!();
    let sandbox = Sandbox::new();
    let name = sandbox.lab().b().netns_name();
    for args in [&["attach", "nic-b"][..], &["stats"], &["list"], &["detach", "nic-b"]] {
        let output = sandbox
            .nicctl_with(&["--bounding-set=-sys_admin"], &[args, &["--netns", name]].concat());
        assert_refused(&output, 4, &format!("enter network namespace {name}: Operation not"));
        assert_refused(&output, 4, "fix: it takes root, or CAP_SYS_ADMIN");
    }
}

#[test]
fn a_user_namespace_has_no_capabilities_that_count() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let args = ["--user", "--map-root-user", "/mnt/nicctl", "attach", "nic-a"];
    let output = sandbox.command("unshare", &args).output().unwrap();
    assert_refused(
        &output,
        4,
        "attach to nic-a: capabilities in a user namespace do not reach BPF",
    );
    assert_eq!(sandbox.state(), before);
}

/// The process gets EPERM for what hands types to the kernel.
fn refuse_btf(command: &mut Command) {
    const BPF_BTF_LOAD: u32 = 18;
    let insn = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal, ret) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    // In `struct seccomp_data`: the number of the call, and its first argument.
    let mut filter = [
        insn(load, 0, 0, 0),
        insn(equal, 0, 3, libc::SYS_bpf as u32),
        insn(load, 0, 0, 16),
        insn(equal, 0, 1, BPF_BTF_LOAD),
        insn(ret, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        insn(ret, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: prctl(2) is a system call, and reads the filter, which outlives it.
    unsafe {
        command.pre_exec(move || {
            let program =
                libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let done = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
}

#[test]
fn refused_types_are_told() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let mut command = sandbox.command("/mnt/nicctl", &["attach", "nic-a"]);
    refuse_btf(&mut command);
    let message = "nicctl: attach to nic-a: make the maps: the kernel does not take types (BTF): \
                   Operation not permitted (os error 1)\n  fix: a seccomp filter, ";
    assert_refused(&command.output().unwrap(), 4, message);
    assert_eq!(sandbox.state(), before);
}
