//! Names, numbers and flags without sense. What can be told from the command line alone is told
//! without root.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use crate::{assert_done, assert_refused, needs_root, nicctl, sandbox::Sandbox};

const ON_INTERFACES: [&[&str]; 4] =
    [&["attach"], &["attach", "--dry-run"], &["stats"], &["detach"]];

#[test]
fn names_that_no_interface_can_have_are_usage_errors() {
    let bad = [
        ("", "interface name \"\" is empty"),
        ("a/b", "interface name \"a/b\" contains a slash"),
        ("../../etc/passwd", "contains a slash"),
        (&"x".repeat(128), "is 128 bytes long; the maximum is 127"),
        ("eth0:1", "contains a colon"),
        ("eth 0", "contains white space"),
        ("..", "is the name of a directory"),
    ];
    for command in ON_INTERFACES {
        for (name, message) in bad {
            assert_refused(&nicctl(command).arg(name).output().unwrap(), 2, message);
        }
        // A name of bytes is one that there can be, and so is an alternative name.
        for name in [OsStr::from_bytes(b"eth\xff"), OsStr::new(&"x".repeat(127))] {
            let output = nicctl(command).arg(name).output().unwrap();
            assert_refused(&output, 3, "there is no interface");
        }
    }
}

#[test]
fn names_that_no_namespace_can_have_are_usage_errors() {
    for command in ON_INTERFACES {
        for name in ["", "a/b", ".."] {
            let output = nicctl(command).args(["lo", "--netns", name]).output().unwrap();
            assert_refused(
                &output,
                2,
                &format!("{name:?} is not a valid name of a network namespace"),
            );
        }
        let output = nicctl(command).args(["lo", "--netns", "nic-none"]).output().unwrap();
        assert_refused(&output, 3, "there is no network namespace nic-none");
    }
}

#[test]
fn names_of_any_bytes_are_managed() {
    needs_root!();
    let sandbox = Sandbox::new();
    // Of interfaces as long as they can be, and one that looks like an escape.
    let other = "abc\\x5cxffdefghij";
    sandbox.shell(
        "mount -t tmpfs tmpfs /run/netns; name=$(printf 'ns\\377'); touch /run/netns/$name
         unshare --net sh -ec '
         mount --bind /proc/self/ns/net /run/netns/$(printf \"ns\\377\")
         name=$(printf \"\\377\\376\\303abc\\033\\377\\377\\377\\377\\377\\377\\377\\377\")
         ip link add \"$name\" type veth peer name \"abc\\\\xffdefghij\"'",
    );
    let bytes = b"\xff\xfe\xc3abc\x1b\xff\xff\xff\xff\xff\xff\xff\xff";
    let shown = "\\xff\\xfe\\xc3abc\\u001b\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff";
    for (name, shown) in [(OsStr::from_bytes(bytes), shown), (OsStr::new(other), other)] {
        let run = |args: &[&str]| {
            let mut command = sandbox.command("/mnt/nicctl", args);
            assert_done(&command.arg("--netns").arg(OsStr::from_bytes(b"ns\xff")).output().unwrap())
        };
        let on = |args: &[&str]| {
            let mut command = sandbox.command("/mnt/nicctl", &args[..1]);
            command.arg(name).args(&args[1..]).arg("--netns").arg(OsStr::from_bytes(b"ns\xff"));
            assert_done(&command.output().unwrap())
        };
        let attached = format!("{shown}: attached, native mode");
        assert!(on(&["attach", "--mode", "native"]).starts_with(&attached), "{shown}");
        assert!(on(&["attach", "--log"]).contains("upgraded"), "{shown}");
        assert!(run(&["list"]).contains(shown), "{shown}");
        assert!(on(&["stats"]).contains("QUEUE"), "{shown}");
        on(&["set", "link.mtu=1400"]);
        on(&["restore"]);
        assert!(run(&["doctor"]).contains("no leftovers"), "{shown}");
        assert_eq!(on(&["detach"]), format!("{shown}: detached\n"));
    }
    // Where it is from, seen from elsewhere; and what is gone, by the name that it had.
    let mut command = sandbox.command("/mnt/nicctl", &["attach"]);
    command.arg(OsStr::from_bytes(bytes)).arg("--netns").arg(OsStr::from_bytes(b"ns\xff"));
    assert_done(&command.output().unwrap());
    let list = assert_done(&sandbox.nicctl(&["list"]));
    assert!(list.contains(shown) && list.contains("ns\\xff"), "{list}");
    sandbox.shell("nsenter --net=/run/netns/$(printf 'ns\\377') ip link del 'abc\\xffdefghij'");
    let mut command = sandbox.command("/mnt/nicctl", &["detach"]);
    command.arg(OsStr::from_bytes(bytes)).arg("--netns").arg(OsStr::from_bytes(b"ns\xff"));
    assert_eq!(assert_done(&command.output().unwrap()), format!("{shown}: detached\n"));
}

#[test]
fn numbers_out_of_range_name_the_range() {
    let range = "it must be a number of bytes from 0 to 2048";
    for value in ["2049", "-1", "x", "", "1e3", "0x10", "99999999999999999999"] {
        for option in ["--rx-copybreak", "--max-linear"] {
            let output = nicctl(&["attach", "lo", option, value]).output().unwrap();
            assert_refused(&output, 2, range);
            let output = nicctl(&["decode", "--hex", "00", option, value]).output().unwrap();
            assert_refused(&output, 2, range);
        }
    }
    for value in ["-1", "x", "", "4294967296"] {
        let output = nicctl(&["stats", "--queue", value]).output().unwrap();
        assert_refused(&output, 2, "it must be a queue number");
    }
}

#[test]
fn words_that_are_not_known_come_with_those_that_are() {
    let modes = "[possible values: auto, native, generic, offload, tc]";
    assert_refused(&nicctl(&["attach", "lo", "--mode", "turbo"]).output().unwrap(), 2, modes);
    let switch = "[possible values: on, off]";
    assert_refused(&nicctl(&["attach", "lo", "--split", "maybe"]).output().unwrap(), 2, switch);
}

#[test]
fn contradictions_are_usage_errors() {
    let required = "required arguments were not provided";
    for (args, message) in [
        (&["detach"][..], required),
        (&["attach"], required),
        (&["attach", "--json"], required),
        (&["detach", "--all", "lo"], "the argument '--all' cannot be used with"),
        (&["decode", "file.pcap", "--hex", "00"], "cannot be used with"),
        (&["stats", "--watch", "lo"], "give interfaces before --watch"),
        (&["log", "lo", "lo"], "unexpected argument"),
    ] {
        assert_refused(&nicctl(args).output().unwrap(), 2, message);
    }
}

#[test]
fn an_unknown_interface_is_not_found_and_the_nearest_suggested() {
    needs_root!();
    let sandbox = Sandbox::new();
    for command in ON_INTERFACES.iter().chain([&["log"][..]].iter()) {
        for json in [&[][..], &["--json"]] {
            let args = [command, &["nic-aa"][..], json].concat();
            let message = "nicctl: there is no interface nic-aa\n  fix: did you mean nic-a?\n";
            sandbox.assert_refuses(&args, 3, message);
        }
    }
}

#[test]
fn one_bad_name_among_good_ones_changes_nothing() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.assert_refuses(&["attach", "nic-a", "lo", "nic-x"], 3, "there is no interface nic-x");
    sandbox.attach();
    sandbox.assert_refuses(&["detach", "nic-a", "nic-x"], 3, "there is no interface nic-x");
}

#[test]
fn what_is_not_attached_comes_with_the_command_that_attaches() {
    needs_root!();
    let sandbox = Sandbox::new();
    let message = "nicctl: nicctl is not attached to nic-a\n  fix: nicctl attach nic-a\n";
    for command in ["stats", "log"] {
        sandbox.assert_refuses(&[command, "nic-a"], 3, message);
        sandbox.assert_refuses(&[command, "nic-a", "--json"], 3, message);
    }
}

#[test]
fn a_queue_that_does_not_exist_is_a_usage_error_with_those_that_do() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let message = "nic-a: no queue 2: it has queues 0 to 1";
    sandbox.assert_refuses(&["stats", "--queue", "2"], 2, message);
    sandbox.assert_refuses(&["stats", "--queue", "2", "--json"], 2, message);
}

#[test]
fn a_log_that_is_off_comes_with_the_command_that_turns_it_on() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let message = "nicctl: nic-a was attached without --log\n  fix: nicctl attach nic-a --log\n";
    sandbox.assert_refuses(&["log", "nic-a"], 3, message);
    sandbox.assert_refuses(&["log", "--json"], 3, message);
}

#[test]
fn files_that_are_endless_or_would_be_waited_for_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let large = folder.path().join("large.toml");
    std::fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    for path in [Path::new("/dev/zero"), &pipe] {
        let path = path.to_str().unwrap();
        let output = nicctl(&["bench", "compare", path, path]).output().unwrap();
        assert_refused(&output, 2, &format!("results {path} is not a regular file"));
        let profile = if path == "/dev/zero" { "/dev/./zero" } else { path };
        let output = nicctl(&["plan", "lo", "--profile", profile]).output().unwrap();
        assert_refused(&output, 2, &format!("profile {profile} is not a regular file"));
    }
    let path = large.to_str().unwrap();
    let output = nicctl(&["bench", "compare", path, path]).output().unwrap();
    assert_refused(&output, 2, &format!("results {path} is larger than 16 MiB"));
    let output = nicctl(&["plan", "lo", "--profile", path]).output().unwrap();
    assert_refused(&output, 2, &format!("profile {path} is larger than 256 KiB"));
}

#[test]
fn a_pipe_in_place_of_a_namespace_is_not_waited_for() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.shell("mount -t tmpfs tmpfs /run/netns && mkfifo /run/netns/pipe");
    sandbox.assert_refuses(&["stats", "--netns", "pipe"], 1, "network namespace pipe is just an");
}
