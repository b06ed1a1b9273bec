//! `nicctl bench` runs on the real kernel, says what its schema says, and leaves nothing behind.

mod common;
mod schema;

use std::{
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nic_user::nic::namespace::named_namespaces;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

fn nicctl(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    command.args(args).stdin(Stdio::null());
    command
}

#[track_caller]
fn succeeded(output: &Output) -> &[u8] {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    &output.stdout
}

/// The document of a quick run of one experiment.
#[track_caller]
fn document(experiment: &str) -> Value {
    let args = ["bench", experiment, "--rounds", "5", "--time", "0.05", "--json"];
    let output = nicctl(&args).output().unwrap();
    let document = serde_json::from_slice(succeeded(&output)).unwrap();
    let schema = nicctl(&["schema", "bench"]).output().unwrap();
    let schema: Value = serde_json::from_slice(succeeded(&schema)).unwrap();
    assert_eq!(schema::mismatch(&schema, &document), None);
    document
}

fn array<'v>(value: &'v Value, name: &str) -> &'v Vec<Value> {
    value[name].as_array().unwrap()
}

/// Every variant of every case was measured in every round. On a busy machine a thread may not get
/// to run within a window as short as the one here, so not each round need have come to anything.
#[track_caller]
fn assert_complete(document: &Value) {
    for case in array(&document["experiments"][0], "cases") {
        for variant in array(case, "variants") {
            assert!(variant["unavailable"].is_null(), "{variant}");
            let rate = &variant["measured"]["rate"];
            assert_eq!(array(rate, "rounds").len(), 5, "{variant}");
            assert!(rate["max"].as_f64().unwrap() > 0.0, "{variant}");
        }
    }
}

#[test]
fn udp_gso_measures_every_variant() {
    needs_root!();
    let document = document("udp-gso");
    assert_complete(&document);
    let cases = array(&document["experiments"][0], "cases");
    let titles: Vec<_> = cases.iter().map(|case| case["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["1472 bytes", "1024 bytes", "512 bytes", "1400 bytes through VXLAN"]);
    let offload = &cases[0]["variants"][3];
    assert_eq!(offload["published"]["rate"], 3.49);
}

/// The average packet of each variant of a case.
fn packet_sizes(case: &Value) -> Vec<f64> {
    let average = |variant: &Value| {
        let mut figures = array(&variant["measured"], "figures").iter();
        let figure = figures.find(|figure| figure["name"] == "average packet sent").unwrap();
        figure["value"]["max"].as_f64().unwrap()
    };
    array(case, "variants").iter().map(average).collect()
}

#[test]
fn big_tcp_sends_larger_packets() {
    needs_root!();
    let document = document("big-tcp");
    assert_complete(&document);
    for case in array(&document["experiments"][0], "cases") {
        let [old, new, ..] = packet_sizes(case)[..] else { panic!("{case}") };
        let fits = case["title"].as_str().unwrap().contains("64000");
        assert_eq!(new > old * 1.2, !fits, "{old} to {new} bytes: {}", case["title"]);
    }
}

/// Waits for the child's namespaces to be there, or for all of them to be gone.
#[track_caller]
fn wait_for_namespaces(child: &Child, there: bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let prefix = format!("nic-{}-", child.id());
    while named_namespaces().iter().any(|name| name.starts_with(&prefix)) != there {
        assert!(Instant::now() < deadline, "namespaces of {}: {there} is not so", child.id());
        thread::yield_now();
    }
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    needs_root!();
    for (signal, experiment) in [(Signal::SIGINT, "udp-gso"), (Signal::SIGTERM, "big-tcp")] {
        let mut bench =
            nicctl(&["bench", experiment, "--time", "60"]).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_namespaces(&bench, true);
        kill(Pid::from_raw(bench.id() as i32), signal).unwrap();
        assert_eq!(bench.wait().unwrap().code(), Some(1));
        wait_for_namespaces(&bench, false);
    }
}

#[test]
fn without_sense_it_is_a_usage_error() {
    for args in [&["nonsense"][..], &["--rounds", "4"], &["--time", "0.01"], &["--time", "x"]] {
        let output = nicctl(&[&["bench"], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
