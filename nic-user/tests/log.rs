//! The log of malformed frames, from the frame to the line.

mod attached;
mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use attached::{Attached, nicctl, on, poll};
use nic_user::lab::frames::Ends;
use nic_user::lab::traffic;
use nic_user::lab::{Lab, Shape};

/// A running `nicctl log`, and the lines that it prints.
struct Follower {
    process: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_nicctl"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, lines }
    }

    /// Sends malformed frames until a line comes, which is one that was not there before.
    fn sees(&self, lab: &Lab) -> String {
        let frames: Vec<_> = malformed(lab);
        let mut line = None;
        assert!(poll(|| {
            traffic::send_frames(lab.a(), &frames).unwrap();
            line = self.lines.recv_timeout(Duration::from_millis(200)).ok();
            line.is_some()
        }));
        line.unwrap_or_default()
    }

    /// Exit code and last words.
    fn end(self) -> (Option<i32>, String) {
        let output = self.process.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

fn malformed(lab: &Lab) -> Vec<Vec<u8>> {
    let samples = Ends::between(lab.a(), lab.b()).malformed();
    samples.into_iter().map(|sample| sample.frame).filter(|frame| frame.len() > 14).collect()
}

#[test]
fn malformed_frames_are_followed_over_an_upgrade_until_detach() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let attached = Attached::new(lab.b(), &["--log"]);
    let follower = Follower::start(&on(lab.b(), "log", &[]));
    let line = follower.sees(&lab);
    assert!(line.starts_with("nic-b: malformed frame: ifindex "), "{line}");

    assert_eq!(attached.again(&["--rx-copybreak", "100"])["log"], true);
    while follower.lines.try_recv().is_ok() {}
    assert!(follower.sees(&lab).contains("malformed frame"));

    nicctl(&on(lab.b(), "detach", &[]));
    let (code, words) = follower.end();
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("nic-b was detached"), "{words}");
}

#[test]
fn switching_the_log_off_ends_who_follows_it() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let attached = Attached::new(lab.b(), &["--log"]);
    let follower = Follower::start(&on(lab.b(), "log", &["--json"]));
    let line: serde_json::Value = serde_json::from_str(&follower.sees(&lab)).unwrap();
    assert_eq!(line["interface"], "nic-b");
    let time = line["time"].as_str().unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    assert_eq!(attached.again(&["--log=off"])["log"], false);
    let (code, words) = follower.end();
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("without its log"), "{words}");
    let late = nicctl(&on(lab.b(), "log", &[]));
    assert_eq!(late.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&late.stderr).contains("nicctl attach nic-b --log"));
}

#[test]
fn an_interface_that_vanishes_ends_who_looks_at_it() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let _attached = Attached::new(lab.b(), &["--log"]);
    let log = Follower::start(&on(lab.b(), "log", &[]));
    let stats = Follower::start(&on(lab.b(), "stats", &["--watch", "0.1"]));
    log.sees(&lab);
    let printed = stats.lines.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(printed.starts_with("nic-b  "), "{printed}");
    let delete = || Command::new("ip").args(["link", "delete", "nic-b"]).status().unwrap();
    assert!(lab.b().run(delete).unwrap().success());
    for follower in [log, stats] {
        assert_eq!(follower.end(), (Some(3), "nicctl: nic-b is gone\n".to_owned()));
    }
}
