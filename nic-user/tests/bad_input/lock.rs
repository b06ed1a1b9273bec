//! Two nicctl at once.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

use crate::{
    assert_done, assert_refused, needs_root,
    sandbox::{Locked, Sandbox},
};

#[test]
fn the_second_says_that_it_waits_and_goes_on_when_it_may() {
    needs_root!();
    let sandbox = Sandbox::new();
    for args in [&["attach", "nic-a"][..], &["detach", "nic-a"]] {
        let locked = Locked::new(&sandbox);
        let mut command = sandbox.command("/mnt/nicctl", args);
        let mut waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(waiting.stderr.take().unwrap());
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        let process = said.strip_prefix("nicctl: waiting for another nicctl (process ");
        assert!(process.is_some_and(|process| process.ends_with(")\n")), "{said}");
        drop(locked);
        said.clear();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!((waiting.wait().unwrap().code(), &*said), (Some(0), ""));
    }
}

#[test]
fn waiting_has_an_end() {
    needs_root!();
    let sandbox = Sandbox::new();
    let before = sandbox.state();
    let _locked = Locked::new(&sandbox);
    let output = sandbox.nicctl(&["attach", "nic-a", "--json"]);
    assert_refused(&output, 1, "nicctl: waiting for another nicctl (process ");
    assert_refused(&output, 1, "nicctl: another nicctl (process ");
    assert_refused(&output, 1, ") has held the lock for 10 seconds\n  fix: wait for it, or ");
    assert_eq!(sandbox.state(), before);
}

#[test]
fn who_only_reads_does_not_wait() {
    needs_root!();
    let sandbox = Sandbox::new();
    sandbox.attach();
    let _locked = Locked::new(&sandbox);
    for args in [&["list"][..], &["stats"], &["attach", "nic-a", "--dry-run"]] {
        assert_done(&sandbox.nicctl(args));
    }
}
