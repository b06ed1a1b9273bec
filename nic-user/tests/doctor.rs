//! What `nicctl doctor` says of this machine, and of interfaces with and without trouble.

mod attached;
mod common;
mod schema;

use std::process::{Command, Output};

use attached::{nicctl, succeeded};
use nic_user::{
    lab::{Host, Lab, Shape},
    netlink::link_edit::VethEnd,
};
use serde_json::Value;

fn doctor(host: &Host, args: &[&str]) -> Output {
    nicctl(&[&["doctor", "--netns", host.netns_name()], args].concat())
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The findings of one check, as `status found`.
fn findings(of: &Value, check: &str) -> Vec<String> {
    let findings = of.as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    findings.map(|finding| text(finding, "status") + " " + &text(finding, "found")).collect()
}

#[test]
fn a_lab_is_healthy_and_the_document_is_what_its_schema_says() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let output = doctor(lab.b(), &["nic-b", "lo", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document = document(&output);
    let schema = serde_json::from_str(&succeeded(nicctl(&["schema", "doctor"]))).unwrap();
    assert_eq!(schema::mismatch(&schema, &document), None);
    assert_eq!(document["healthy"], true);
    let machine = &document["machine"];
    for check in ["kernel", "privileges", "programs", "btf", "jit", "lockdown", "bpffs", "tcx"]
        .into_iter()
        .chain(["af-xdp", "netdev", "iommu", "irqbalance", "journals", "attachments"])
    {
        assert!(!findings(machine, check).is_empty(), "{check}: {machine}");
    }
    assert_eq!(findings(machine, "programs"), ["ok the kernel accepts all 6, including frags"]);
    let veth = &document["interfaces"][0]["findings"];
    let attach = "ok would be attached in tc mode: bulk TCP through a veth";
    assert!(findings(veth, "attach")[0].starts_with(attach), "{veth}");
    assert!(findings(veth, "driver")[0].starts_with("ok veth "));
    let loopback = &document["interfaces"][1]["findings"];
    assert!(
        findings(loopback, "attach")[0]
            .starts_with("ok would be attached in tc mode: lo has no native XDP")
    );
    // Nothing was attached.
    assert!(attached::nic(lab.b(), "nic-b").xdp().is_empty());
}

#[test]
fn on_a_terminal_it_fits() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let text = succeeded(doctor(lab.b(), &["nic-b"]));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("this machine\nok "), "{text}");
    assert!(text.contains("\nnic-b\nok       driver       veth"), "{text}");
}

#[test]
fn what_is_attached_and_what_was_set_is_told() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    attached::run(host, "attach", &["--profile", "big-tcp"]);
    let output = document(&doctor(host, &["nic-b", "--json"]));
    let attach = findings(&output["interfaces"][0]["findings"], "attach");
    assert!(attach[0].starts_with("ok is attached in tc mode"), "{attach:?}");
    let restore = format!(
        "settings of nic-b (attach) can be restored: nicctl restore nic-b --netns {}",
        host.netns_name()
    );
    let journals = findings(&output["machine"], "journals");
    assert!(journals.iter().any(|found| found.ends_with(&restore)), "{journals:?}");
    attached::run(host, "detach", &[]);
}

/// Where attach would put native programs, whatever the peer sends.
#[test]
fn the_build_is_the_one_that_attach_takes() {
    needs_root!();
    for mtu in [1500, 9000] {
        let lab = Lab::new(Shape::default()).unwrap();
        let host = lab.b();
        // What arrives is as large as the peer's MTU.
        lab.a().links(|links| links.set_mtu(lab.a().ifindex(), mtu)).unwrap();
        let planned = attached::run(host, "attach", &["--mode", "native", "--dry-run", "--json"]);
        let made = attached::run(host, "attach", &["--mode", "native", "--json"]);
        let build = |text: &str| {
            let document: Value = serde_json::from_str(text).unwrap();
            document["interfaces"][0]["build"].clone()
        };
        assert_eq!(build(&planned), build(&made), "MTU {mtu}");
        let output = document(&doctor(host, &["nic-b", "--json"]));
        let told = &findings(&output["interfaces"][0]["findings"], "attach")[0];
        let build = build(&made);
        let build = format!("with the {} build", build.as_str().unwrap());
        assert!(
            told.starts_with("ok is attached in native mode") && told.contains(&build),
            "{told}"
        );
        attached::run(host, "detach", &[]);
    }
}

#[test]
fn big_tcp_is_told_by_what_is_sent() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let big_tcp = || {
        let output = document(&doctor(lab.b(), &["nic-b", "--json"]));
        findings(&output["interfaces"][0]["findings"], "big-tcp").remove(0)
    };
    assert!(big_tcp().starts_with("note off; "), "{}", big_tcp());
    attached::run(lab.b(), "attach", &["--profile", "big-tcp"]);
    assert!(big_tcp().ends_with("and TCP uses it"), "{}", big_tcp());
    attached::run(lab.b(), "detach", &[]);
}

#[test]
fn a_program_of_others_is_told() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    // One that nicctl put there, and does not know any more.
    attached::run(host, "attach", &["--mode", "native"]);
    let key = attached::slot(host).key;
    let pins = format!("/sys/fs/bpf/nicctl/{key}");
    let hidden = format!("/sys/fs/bpf/nic-hidden-{key}");
    std::fs::rename(&pins, &hidden).unwrap();
    let output = doctor(host, &["nic-b", "--json"]);
    std::fs::rename(&hidden, &pins).unwrap();
    attached::run(host, "detach", &[]);
    let document = document(&output);
    let attach = findings(&document["interfaces"][0]["findings"], "attach");
    let beside = "ok would be attached in tc mode: nic-b has a native XDP program";
    assert!(attach[0].starts_with(beside), "{attach:?}");
}

#[test]
fn the_journal_of_a_vanished_interface_is_told() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-v"), end("nic-w"))).unwrap();
    let netns = ["--netns", host.netns_name()];
    succeeded(nicctl(&[&["set", "nic-v", "link.mtu=1400"], &netns[..]].concat()));
    let index = host.links(|links| links.by_name("nic-v")).unwrap().ifindex;
    host.links(|links| links.delete(index)).unwrap();
    let journals = || findings(&document(&doctor(host, &["--json"]))["machine"], "journals");
    let gone = "note nic-v is gone, and its settings with it".to_owned();
    assert!(journals().contains(&gone));
    let said = succeeded(nicctl(&[&["detach", "nic-v"], &netns[..]].concat()));
    assert!(said.contains("gone, and with it the settings nicctl changed"), "{said}");
    assert!(!journals().contains(&gone));
}

#[test]
fn an_interface_that_is_not_there_is_not_found() {
    let output = nicctl(&["doctor", "nic-none"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
}

#[test]
fn who_may_not_attach_is_told_what_is_missing() {
    needs_root!();
    let command = env!("CARGO_BIN_EXE_nicctl");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "--bounding-set=-all", command])
        .args(["doctor", "--json"])
        .output();
    let Ok(output) = output else { return common::say_skipped("needs setpriv") };
    if output.stdout.is_empty() {
        // The folder of the build may be root's.
        return common::say_skipped("the command cannot be run by others");
    }
    assert_eq!(output.status.code(), Some(1));
    let privileges = findings(&document(&output)["machine"], "privileges");
    assert!(privileges[0].starts_with("problem "), "{privileges:?}");
}
