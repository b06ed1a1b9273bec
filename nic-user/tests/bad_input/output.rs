//! Output that nobody takes.

use std::{
    fs::{self, File},
    io::pipe,
    process::{Command, Stdio},
};

use nic_user::report::text;

use crate::{assert_done, needs_root, nicctl, sandbox::Sandbox};

const PRINTING: [&[&str]; 14] = [
    &["attach", "nic-a"],
    &["attach", "nic-a", "--json"],
    &["stats"],
    &["stats", "--json"],
    &["stats", "--watch", "0.1"],
    &["stats", "--watch", "0.1", "--json"],
    &["stats", "--histogram"],
    &["list"],
    &["list", "--json"],
    &["decode", "--hex", "00"],
    &["schema", "stats"],
    &["completions", "bash"],
    &["man"],
    &["detach", "nic-a", "--dry-run"],
];

fn run(mut command: Command, stdout: Stdio) -> (Option<i32>, String) {
    let output = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_reader_that_has_had_enough_is_a_success() {
    needs_root!();
    let sandbox = Sandbox::new();
    for args in PRINTING.into_iter().chain([&["--help"][..], &["--version"], &["help", "stats"]]) {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let ended = run(sandbox.command("/mnt/nicctl", args), writer.into());
        assert_eq!(ended, (Some(0), String::new()), "{args:?}");
    }
}

#[test]
fn what_is_done_and_cannot_be_told_has_an_exit_code_of_its_own() {
    needs_root!();
    let sandbox = Sandbox::new();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for args in PRINTING.into_iter().chain([&["--help"][..], &["--version"]]) {
        let ended = run(sandbox.command("/mnt/nicctl", args), full());
        let (code, said) = match args.contains(&"--watch") {
            true => (1, "write to standard output"),
            false => (6, "done, but standard output could not be written"),
        };
        let message = format!("nicctl: {said}: No space left on device (os error 28)\n");
        assert_eq!(ended, (Some(code), message), "{args:?}");
    }
    // It was done.
    sandbox.slot();
    let ended = run(sandbox.command("/mnt/nicctl", &["detach", "nic-a"]), full());
    assert_eq!(ended.0, Some(6), "{}", ended.1);
    assert_eq!(assert_done(&sandbox.nicctl(&["list"])), "nothing is attached\n");
}

/// Whatever a name is made of.
const ODD: &str = "\x1b[31mx\x07\u{9b}2J\u{202e}\x7f";

#[test]
fn what_is_named_on_the_command_line_cannot_control_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{ODD}.toml"));
    fs::write(&file, format!("description = \"\"\n[\"{}\"]\n", "a\\u001b[2J")).unwrap();
    let file = file.to_str().unwrap();
    for args in [
        &[ODD][..],
        &["attach", "lo", "--mode", ODD],
        &["attach", ODD],
        &["stats", "lo", "--netns", ODD],
        &["decode", ODD],
        &["decode", "--hex", ODD],
        &["bench", "compare", ODD, file],
        &["bench", "--peer", ODD],
        &["man", &format!("/dev/null/{ODD}")],
        &["plan", "lo", "--profile", file],
        &["plan", "lo", ODD],
        &["plan", "lo", &format!("ring.rx={ODD}")],
    ] {
        for json in [&[][..], &["--json"]] {
            let output = nicctl(&[args, json].concat()).output().unwrap();
            assert_ne!(output.status.code(), Some(0), "{args:?}");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            let controls = |c: char| c != '\n' && text::controls(c);
            assert!(!said.contains(controls), "{args:?}: {said:?}");
        }
    }
}

#[test]
fn names_of_the_machine_cannot_control_the_terminal() {
    needs_root!();
    let sandbox = Sandbox::new();
    let name = "\x1b[31mx\x7f";
    let script = format!("ip link add '{name}' type veth peer name nic-z");
    sandbox.shell(&script);
    for args in [
        &["attach", name][..],
        &["list"],
        &["stats"],
        &["show", name],
        &["set", name, "link.mtu=1400"],
        &["plan", name, "link.mtu=1300"],
        &["doctor"],
        &["restore", name, "--dry-run"],
        &["detach", name],
    ] {
        let output = sandbox.nicctl(args);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains(|c| c != '\n' && text::controls(c)), "{args:?}: {said:?}");
        let named = said.contains("\\u001b[31mx");
        assert!(named || said.is_empty(), "{args:?}: {said:?}");
    }
}
