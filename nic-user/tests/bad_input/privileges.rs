//! Without root, or without one of its capabilities.

use std::{io, os::unix::process::CommandExt, process::Command};

use nic_user::offload::{NEEDS, WHERE_HIDDEN};

use crate::{assert_done, assert_refused, needs_root, sandbox::Sandbox};

const NOBODY: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs"];

const FIX: &str = "fix: run it as root or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";

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
    let message = "/sys/fs/bpf/nicctl: Permission denied (os error 13)\n  fix: it belongs to \
                   root: run nicctl as root or with CAP_DAC_OVERRIDE\n";
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
fn what_takes_no_privilege_is_for_everybody() {
    needs_root!();
    let sandbox = Sandbox::new();
    for args in [
        &["show", "nic-a"][..],
        &["plan", "nic-a", "link.mtu=1400"],
        &["decode", "--hex", "00"],
        &["schema", "stats"],
        &["man"],
    ] {
        assert_done(&sandbox.nicctl_with(&NOBODY, args));
    }
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
        assert_refused(&output, 4, "fix: run it as root or with CAP_SYS_ADMIN");
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

#[test]
fn inside_ip_netns_exec_bpffs_is_hidden_from_who_may_not_look_at_the_first_process() {
    needs_root!();
    let sandbox = Sandbox::new();
    let name = sandbox.lab().a().netns_name();
    let inside = |capabilities: &[&str], args: &[&str]| {
        let privileges = with(0, capabilities);
        let privileges: Vec<&str> = privileges.iter().map(String::as_str).collect();
        let exec = ["netns", "exec", name, "setpriv"];
        let all = [&exec[..], &privileges, &["/mnt/nicctl"], args].concat();
        sandbox.command("ip", &all).output().unwrap()
    };
    let hidden: Vec<&str> = WHERE_HIDDEN.iter().map(|(name, _)| *name).collect();
    let without = ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"];
    let enough = [&without[..], &hidden].concat();
    for args in [&["attach", "nic-a"][..], &["list"], &["stats", "nic-a"], &["detach", "nic-a"]] {
        let before = sandbox.state();
        let output = inside(&without, args);
        assert_refused(&output, 4, "look for bpffs: none on /sys/fs/bpf, and that of process 1");
        assert_refused(&output, 4, "CAP_SYS_PTRACE");
        assert_eq!(sandbox.state(), before);
        assert_done(&inside(&enough, args));
    }
    let doctor = String::from_utf8(inside(&without, &["doctor"]).stdout).unwrap();
    assert!(doctor.contains("look for bpffs: "), "{doctor}");
}

#[test]
fn inside_its_namespace_an_interface_is_given_back_without_setns() {
    needs_root!();
    let sandbox = Sandbox::new();
    let name = sandbox.lab().a().netns_name();
    let privileges = with(0, &["CAP_NET_ADMIN"]);
    let privileges: Vec<&str> = privileges.iter().map(String::as_str).collect();
    let before = sandbox.lab().a().link().unwrap().gso_max_size;
    for detach in [&["detach", "nic-a"][..], &["detach", "nic-a", "--netns", name]] {
        assert_done(&sandbox.nicctl(&["attach", "nic-a", "--profile", "big-tcp"]));
        assert_ne!(sandbox.lab().a().link().unwrap().gso_max_size, before);
        let said = assert_done(&sandbox.nicctl_with(&privileges, detach));
        assert!(said.starts_with("nic-a: detached\n"), "{said}");
        assert_eq!(sandbox.lab().a().link().unwrap().gso_max_size, before);
    }
}

#[test]
fn in_a_users_namespace_every_command_that_needs_bpffs_says_so() {
    needs_root!();
    let sandbox = Sandbox::new();
    assert_done(&sandbox.nicctl(&["attach", "nic-a", "--log"]));
    assert_done(&sandbox.nicctl(&["set", "nic-a", "link.mtu=1400"]));
    let before = sandbox.state();
    for user in ["0", "65534"] {
        let user = [format!("--reuid={user}"), format!("--regid={user}")];
        for args in [
            &["list"][..],
            &["stats"],
            &["log"],
            &["attach", "nic-a"],
            &["detach", "nic-a"],
            &["detach", "--all"],
            &["set", "nic-a", "link.mtu=1300"],
            &["restore", "nic-a"],
        ] {
            // Who is root outside owns the pins inside, too.
            let is_root = user[0] == "--reuid=0";
            if is_root && args[0] == "detach" {
                continue;
            }
            let unshare = ["--clear-groups", "unshare", "--user", "--map-root-user"];
            let unshare = [&unshare[..], &["timeout", "20", "/mnt/nicctl"]].concat();
            let all = [&[&*user[0], &*user[1]][..], &unshare, args].concat();
            let output = sandbox.command("setpriv", &all).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("unshare failed") {
                crate::common::say_skipped("users have no namespaces of their own here");
                return;
            }
            let reads = is_root && ["list", "stats"].contains(&args[0]);
            assert_eq!(output.status.code(), Some(if reads { 0 } else { 4 }), "{args:?}: {said}");
        }
    }
    assert_eq!(sandbox.state(), before);
    assert_eq!(sandbox.lab().a().link().unwrap().mtu, 1400);
}

/// What a command is tried with: what comes before it, and its arguments.
fn trial(command: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    const ATTACH: &[&str] = &["attach", "nic-a", "--log"];
    const SET: &[&str] = &["set", "nic-a", "link.mtu=1400"];
    Some(match command {
        "attach" => (&["list"], &["attach", "nic-a"]),
        "detach" => (ATTACH, &["detach", "nic-a"]),
        "list" => (ATTACH, &["list"]),
        "stats" => (ATTACH, &["stats", "nic-a"]),
        "set" => (&["list"], SET),
        "restore" => (SET, &["restore", "nic-a"]),
        "bench" => (&["list"], &["bench", "udp-gso", "--rounds", "5", "--time", "0.05"]),
        "decode --bpf" => (&["list"], &["decode", "--bpf", "--hex", "00"]),
        // They go on until they are interrupted, or take a profile.
        _ => return None,
    })
}

/// All that any command takes.
const ALL: &[&str] =
    &["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN"];

/// As root (0) or another user with just these capabilities.
fn with(user: u32, capabilities: &[&str]) -> Vec<String> {
    let held: String =
        capabilities.iter().map(|name| name.to_lowercase().replace("cap_", ",+")).collect();
    let mut privileges =
        vec![format!("--bounding-set=-all{held}"), format!("--inh-caps=-all{held}")];
    if user != 0 {
        privileges.extend([format!("--reuid={user}"), format!("--regid={user}")]);
        privileges.extend(["--clear-groups".to_owned(), format!("--ambient-caps=-all{held}")]);
    }
    privileges
}

#[test]
fn what_the_table_says_is_enough_and_every_part_of_it_is_needed() {
    needs_root!();
    for needs in NEEDS {
        let Some((before, args)) = trial(needs.command) else { continue };
        let sandbox = Sandbox::new();
        let run = |user, capabilities: &[&str]| {
            let privileges = with(user, capabilities);
            let privileges: Vec<&str> = privileges.iter().map(String::as_str).collect();
            assert_done(&sandbox.nicctl(before));
            let output = sandbox.nicctl_with(&privileges, args);
            // Whatever it was, it is over; root does not believe what others have made.
            let all = with(user, ALL);
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            sandbox.nicctl_with(&all, &["detach", "--all"]);
            sandbox.nicctl_with(&all, &["restore", "nic-a"]);
            output
        };
        for (user, others) in [(0, &[][..]), (65534, needs.of_others)] {
            let all: Vec<&str> =
                needs.of_root.iter().chain(others).map(|(name, _)| *name).collect();
            let output = run(user, &all);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{user} {args:?}: {said}");
            for missing in &all {
                let rest: Vec<&str> = all.iter().copied().filter(|name| name != missing).collect();
                let output = run(user, &rest);
                let said = String::from_utf8_lossy(&output.stderr);
                let case = format!("{user} {args:?} without {missing}: {said}");
                assert_eq!(output.status.code(), Some(4), "{case}");
                assert!(said.contains(missing), "{case}");
            }
        }
    }
}

#[test]
fn the_log_takes_cap_sys_admin() {
    needs_root!();
    let sandbox = Sandbox::new();
    assert_done(&sandbox.nicctl(&["attach", "nic-a", "--log"]));
    let output = sandbox.nicctl_with(&["--bounding-set=-sys_admin"], &["log", "nic-a"]);
    let message = "follow the log of nic-a: not permitted without CAP_SYS_ADMIN\n  fix: it needs";
    assert_refused(&output, 4, message);
}

#[test]
fn privileges_of_the_file_are_refused() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell("cp /mnt/nicctl /mnt/suid && chmod 4755 /mnt/suid");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "/mnt/suid", "list"];
    let output = sandbox.command("setpriv", &nobody).output().unwrap();
    assert_refused(&output, 4, "nicctl refuses to run with file privileges");
    // Root has them anyway.
    assert_done(&sandbox.command("/mnt/suid", &["list"]).output().unwrap());
}

#[test]
fn without_another_thread_it_fails_and_changes_nothing() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let name = sandbox.lab().b().netns_name();
    sandbox.shell("chmod 0777 /mnt");
    for args in [
        &["attach", "nic-a"][..],
        &["stats"],
        &["log"],
        &["set", "nic-a", "link.mtu=1400"],
        &["bench", "udp-gso"],
        &["bench", "serve"],
        &["doctor"],
        &["list", "--netns", name],
    ] {
        let caps = with(65533, &["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON", "CAP_DAC_OVERRIDE"]);
        let privileges: Vec<&str> = caps.iter().map(String::as_str).collect();
        // The process itself is the one that there may be.
        let limited = ["--nproc=1:1", "setpriv"];
        let all = [&limited[..], &privileges, &["/mnt/nicctl"], args].concat();
        let output = sandbox.command("prlimit", &all).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 101), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
    }
    sandbox.nicctl(&["detach", "--all"]);
    sandbox.nicctl(&["restore", "nic-a"]);
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
    let message = "nicctl: attach to nic-a: create the maps: the kernel rejects their types \
                   (BTF): Operation not permitted (os error 1)\n  fix: a seccomp filter, ";
    assert_refused(&command.output().unwrap(), 4, message);
    assert_eq!(sandbox.state(), before);
}
