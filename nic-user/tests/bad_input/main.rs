//! What a user does wrong, or has wrong: the message says what, why and the way out, the exit code
//! says which kind it is, and nothing is changed.

mod arguments;
mod attached;
mod attacker;
mod bpffs;
mod captures;
#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod gone;
mod lock;
mod output;
mod pins;
mod privileges;
mod sandbox;

use std::process::{Command, Output};

/// Ends as it should: the exit code, and what standard error says; nothing on standard output.
#[track_caller]
fn assert_refused(output: &Output, code: i32, message: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(message), "{message:?} is not in {stderr:?}");
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    if output.stdout.is_empty() {
        return;
    }
    // It was to print JSON, and has nothing else to say.
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["code"], code, "{document}");
}

/// What a run that goes well prints.
#[track_caller]
fn assert_done(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program itself, in this process's own surroundings.
fn nicctl(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    command.args(args);
    command
}
