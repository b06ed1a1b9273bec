//! `nicctl bench` runs on the real kernel, says what its schema says, and leaves nothing behind.

mod common;
mod schema;

use std::{
    collections::HashSet,
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nic_user::bench::{
    self, Settings,
    round::Counting,
    runner::{Plan, Progress},
    stop::Stop,
};
use nic_user::{lab::Lab, nic::namespace::named_namespaces};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
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
fn document(experiment: &str, args: &[&str]) -> Value {
    let quick = ["bench", experiment, "--rounds", "5", "--time", "0.05", "--json"];
    let output = nicctl(&[&quick, args].concat()).output().unwrap();
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
    let document = document("udp-gso", &[]);
    assert_complete(&document);
    let cases = array(&document["experiments"][0], "cases");
    let titles: Vec<_> = cases.iter().map(|case| case["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["1472 bytes", "1024 bytes", "512 bytes", "1400 bytes through VXLAN"]);
    let offload = &cases[0]["variants"][3];
    assert_eq!(offload["published"]["rate"], 3.49);
}

/// The highest value of a figure, for each variant of a case.
fn figures(case: &Value, name: &str) -> Vec<f64> {
    array(case, "variants").iter().map(|variant| figure(variant, name)).collect()
}

fn figure(variant: &Value, name: &str) -> f64 {
    let mut figures = array(&variant["measured"], "figures").iter();
    let figure = figures.find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no {name} in {variant}"))["value"]["max"].as_f64().unwrap()
}

/// BIG TCP sends larger packets, where there is enough to send.
#[track_caller]
fn assert_packets_grow(cases: &[Value]) {
    for case in cases {
        let [old, new, ..] = figures(case, "average packet")[..] else { panic!("{case}") };
        let fits = case["title"].as_str().unwrap().contains("64000");
        assert_eq!(new > old * 1.2, !fits, "{old} to {new} bytes: {}", case["title"]);
    }
}

#[test]
fn big_tcp_becomes_a_page_and_is_compared_with_itself() {
    needs_root!();
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name).to_str().unwrap().to_owned();
    let (page, json) = (path("page.html"), path("run.json"));
    let document = document("big-tcp", &["--html", &page]);
    std::fs::write(&json, document.to_string()).unwrap();
    assert_complete(&document);
    let cases = array(&document["experiments"][0], "cases");
    assert_packets_grow(cases);

    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<svg ").count(), cases.len());
    assert!(page.contains(document["machine"]["kernel"].as_str().unwrap()));
    for elsewhere in ["src=", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }

    let compared = nicctl(&["bench", "compare", &json, &json, "--json"]).output().unwrap();
    let compared: Value = serde_json::from_slice(succeeded(&compared)).unwrap();
    let schema = nicctl(&["schema", "bench-compare"]).output().unwrap();
    let schema: Value = serde_json::from_slice(succeeded(&schema)).unwrap();
    assert_eq!(schema::mismatch(&schema, &compared), None);
    assert_eq!(array(&compared, "cases").len(), cases.len());
    assert!(array(&compared, "unmatched").is_empty());
    for variant in array(&compared, "cases").iter().flat_map(|case| array(case, "variants")) {
        assert_eq!(variant["a"], variant["b"]);
        assert_ne!(variant["ratios_agree"], false);
    }
    let text = nicctl(&["bench", "compare", &json, &json]).output().unwrap();
    let text = String::from_utf8(succeeded(&text).to_vec()).unwrap();
    assert!(text.contains("RATIO IN A") && text.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn payload_in_the_linear_part_makes_chains() {
    needs_root!();
    let document = document("headers", &[]);
    assert_complete(&document);
    for case in array(&document["experiments"][0], "cases") {
        let [fixed, .., exact] = figures(case, "chained")[..] else { panic!("{case}") };
        assert!(fixed > 50.0 && exact == 0.0, "{fixed}% to {exact}%: {}", case["title"]);
        let segments = figures(case, "segments");
        assert!(segments.iter().all(|segments| *segments >= 2.0), "{segments:?}");
    }
}

#[test]
fn frames_get_all_the_way() {
    needs_root!();
    let document = document("rx-build", &[]);
    assert_complete(&document);
    let cases = array(&document["experiments"][0], "cases");
    assert!(cases.iter().any(|case| case["title"].as_str().unwrap().contains("forward")));
}

/// Nobody looks at it.
struct NoProgress;

impl Progress for NoProgress {
    fn begin(&mut self, _: &str, _: u64) {}
    fn step(&mut self, _: &str) {}
    fn end(&mut self) {}
}

#[test]
fn held_packets_are_received_whatever_is_copied() {
    needs_root!();
    let stop = Stop::default();
    let window = Duration::from_millis(10);
    let plan = Plan { rounds: 1, window, stop: &stop, counting: Counting::Pinned };
    let copybreak = bench::ALL.iter().find(|named| named.name == "copybreak").unwrap();
    let document = bench::run(&[*copybreak], &Settings::default(), &plan, &mut NoProgress).unwrap();
    let cases = &document.experiments[0].cases;
    for case in cases {
        assert!(case.conclusion.is_some());
        for variant in &case.variants {
            // So short a round may be over before anything has come.
            let why = variant.unavailable.as_deref();
            let is_there = why.is_none_or(|why| why.starts_with("nothing was counted"));
            assert!(is_there, "{}: {why:?}", case.title);
        }
    }
    let all = cases.iter().flat_map(|case| &case.variants);
    let measured = all.filter_map(|variant| variant.measured.as_ref());
    assert!(measured.map(|measured| measured.rate.max).any(|rate| rate > 0.0));
}

/// Notes every nginx that there is while it runs.
#[derive(Default)]
struct Watching(HashSet<u32>);

impl Progress for Watching {
    fn begin(&mut self, _: &str, _: u64) {}
    fn step(&mut self, _: &str) {
        self.0.extend(nginx_of(std::process::id()));
    }
    fn end(&mut self) {}
}

/// Every nginx that a process has started and that has not ended.
fn nginx_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_its_nginx = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = format!("(nginx) S {parent} ");
        stat.contains(&parent) || stat.contains(&parent.replace(" S ", " R "))
    };
    pids.filter(is_its_nginx).collect()
}

/// Waits for processes to end.
#[track_caller]
fn wait_for_end<'p>(pids: impl IntoIterator<Item = &'p u32>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    for pid in pids {
        // One whose new parent does not ask for it stays a zombie.
        let runs = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains("(nginx)") && !stat.contains("(nginx) Z")
        };
        while runs() {
            assert!(Instant::now() < deadline, "nginx {pid} still runs");
            thread::yield_now();
        }
    }
}

/// Whether nginx is there for a benchmark; says so if not.
fn has_nginx() -> bool {
    let found = bench::copybreak::nginx().is_ok();
    if !found {
        common::say_skipped("there is no nginx");
    }
    found
}

#[test]
fn nginx_answers_whatever_is_attached() {
    needs_root!();
    if !has_nginx() {
        return;
    }
    let mut experiment = bench::copybreak::experiment(&Settings::default()).unwrap();
    experiment.cases.retain(|case| case.title.starts_with("nginx"));
    let stop = Stop::default();
    let window = Duration::from_millis(50);
    let plan = Plan { rounds: 5, window, stop: &stop, counting: Counting::Pinned };
    let mut watching = Watching::default();
    let results = bench::runner::run(experiment, &plan, &mut watching).unwrap();
    let results = serde_json::to_value(results).unwrap();
    assert_complete(&serde_json::json!({ "experiments": [results] }));
    let cases = array(&results, "cases");
    assert_eq!(cases.len(), 2);
    for case in cases {
        assert_eq!(case["measure"], "requests");
        let [_, attached, to_256, to_2048] = &array(case, "variants")[..] else { panic!("{case}") };
        // Requests are small, responses are not.
        let pulled = [attached, to_256, to_2048].map(|variant| figure(variant, "pulled"));
        assert!(pulled[0] == 0.0 && pulled[1] > 0.5 && pulled[2] > 1.5, "{pulled:?}");
    }
    assert!(!watching.0.is_empty());
    wait_for_end(&watching.0);
}

/// The notes of copybreak with another file in the place of nginx, and so without cases of it.
fn notes_with(nginx: PathBuf) -> Vec<String> {
    let found = bench::copybreak::nginx();
    let set_up = move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        if let Ok(found) = found {
            mount(Some(&nginx), &found, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        }
        let experiment = bench::copybreak::experiment(&Settings::default()).unwrap();
        assert!(!experiment.cases.iter().any(|case| case.title.contains("nginx")));
        experiment.notes
    };
    thread::spawn(set_up).join().unwrap()
}

#[test]
fn without_nginx_the_notes_say_so() {
    needs_root!();
    let notes = notes_with("/dev/null".into());
    let note = "no requests to nginx: nginx is not installed; install it (Debian: nginx-light)";
    assert!(notes.iter().any(|it| it == note), "{notes:?}");
}

/// However much it says, and even if it never ends.
#[test]
fn an_nginx_that_does_not_serve_is_a_note() {
    needs_root!();
    if !has_nginx() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (script, said) in [
        ("[ $1 = -hV ] || { seq 999999; printf '\\033[2J\\377'; exit 1; } >&2", "1; 2; 3"),
        ("[ $1 = -hV ] || exec sleep 60", "it does not serve"),
        ("exec sleep 60", "it does not say what it is"),
    ] {
        let nginx = directory.path().join("nginx");
        std::fs::write(&nginx, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&nginx, Permissions::from_mode(0o755)).unwrap();
        let notes = notes_with(nginx);
        let note =
            notes.iter().find(|note| note.starts_with("no requests to nginx: start nginx: "));
        let note = note.unwrap_or_else(|| panic!("{notes:?}"));
        assert!(note.contains(said) && note.len() < 500, "{note}");
        assert!(!note.contains(char::is_control), "{note}");
    }
}

#[test]
fn nginx_ends_with_a_bench_that_is_killed() {
    needs_root!();
    if !has_nginx() {
        return;
    }
    let mut bench =
        nicctl(&["bench", "copybreak", "--time", "60"]).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let nginx = loop {
        let nginx = nginx_of(bench.id());
        if !nginx.is_empty() {
            break nginx;
        }
        assert!(Instant::now() < deadline && bench.try_wait().unwrap().is_none());
        thread::yield_now();
    };
    bench.kill().unwrap();
    bench.wait().unwrap();
    wait_for_end(&nginx);
    Lab::sweep().unwrap();
    wait_for_namespaces(&bench, false);
}

#[test]
fn what_is_no_run_cannot_be_compared() {
    let output = nicctl(&["bench", "compare", "/dev/null", "/dev/null"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("nicctl: results /dev/null is not a regular file"), "{error}");
}

/// Waits for the child's namespaces to be there, or for all of them to be gone.
#[track_caller]
fn wait_for_namespaces(child: &Child, there: bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let prefix = format!("nic-{}-", child.id());
    while named_namespaces().unwrap().iter().any(|name| name.starts_with(&prefix)) != there {
        assert!(Instant::now() < deadline, "namespaces of {}: {there} is not so", child.id());
        thread::yield_now();
    }
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    needs_root!();
    for (signal, experiment) in [(Signal::SIGINT, "udp-gso"), (Signal::SIGTERM, "copybreak")] {
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
