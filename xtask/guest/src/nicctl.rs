//! The program under test, run as users run it.

use std::process::{Command, Output};

use nic_user::lab::Host;
use serde_json::Value;

pub const NICCTL: &str = "/bin/nicctl";

/// Runs `nicctl`, whatever comes of it.
pub fn run(args: &[&str]) -> Output {
    Command::new(NICCTL).args(args).output().expect("nicctl runs")
}

/// What a `nicctl` that must succeed prints.
pub fn text(args: &[&str]) -> String {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nicctl {}: {said}", args.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same for a command about an interface of `host`, with `--json`.
pub fn json(command: &str, interface: &str, host: &Host, more: &[&str]) -> Value {
    let mut args = vec![command, interface, "--netns", host.netns_name(), "--json"];
    args.extend(more);
    serde_json::from_str(&text(&args)).expect("JSON")
}

/// What is attached anywhere.
pub fn attached() -> Vec<Value> {
    let list: Value = serde_json::from_str(&text(&["list", "--json"])).expect("JSON");
    list["interfaces"].as_array().expect("a list").clone()
}

/// Detaches what a failed test left attached: this machine is ours alone. Whatever comes of it is
/// printed: the first process must not panic outside of a test, for the kernel panics with it.
pub fn detach_all() {
    let output = run(&["detach", "--everywhere"]);
    if !output.status.success() {
        println!("nicctl detach --everywhere: {}", String::from_utf8_lossy(&output.stderr));
    }
}
