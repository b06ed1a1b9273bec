//! Output that nobody takes.

use std::{
    fs::File,
    io::pipe,
    process::{Command, Stdio},
};

use crate::{needs_root, sandbox::Sandbox};

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
fn a_full_disk_is_a_failure() {
    needs_root!();
    let sandbox = Sandbox::new();
    for args in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = run(sandbox.command("/mnt/nicctl", args), full.into());
        let message =
            "nicctl: write to standard output: No space left on device (os error 28)\n".to_owned();
        assert_eq!(ended, (Some(1), message), "{args:?}");
    }
}
