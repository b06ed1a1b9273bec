//! Where frames are counted: chosen by what it costs and what is asked for, changed in place, and
//! undone.

mod attached;
mod common;
mod port;

use attached::{nicctl, number, on, poll, run, stats, succeeded};
use aya::programs::{SchedClassifier, TcAttachType};
use nic_common::{
    headers::protocol,
    steer::{Rule, Rules},
};
use nic_user::{
    driver::{buffers::Buffers, port::Port},
    lab::{
        Host, Lab, Shape,
        bpf::{Hook, Program, XDP_PASS},
        traffic::{self, IpVersion},
    },
    netlink::link::XdpMode,
};
use port::{LAYOUT, WHOLE, config};
use serde_json::Value;

fn attach(host: &Host, args: &[&str]) -> Value {
    let printed = run(host, "attach", &[args, &["--json"]].concat());
    serde_json::from_str::<Value>(&printed).unwrap()["interfaces"][0].clone()
}

/// The exit code and what was said.
fn refused(host: &Host, args: &[&str]) -> (Option<i32>, String) {
    let output = nicctl(&on(host, "attach", args));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// XDP modes, and TCX programs at ingress and egress.
fn programs(host: &Host) -> (Vec<XdpMode>, [usize; 2]) {
    let xdp = host.link().unwrap().xdp.iter().map(|xdp| xdp.mode).collect();
    let tcx = [TcAttachType::Ingress, TcAttachType::Egress].map(|hook| {
        host.run(|| SchedClassifier::query_tcx(host.interface(), hook).unwrap().1.len()).unwrap()
    });
    (xdp, tcx)
}

/// Sends so many datagrams to `host`, which must be counted at TC ingress.
fn receive(lab: &Lab, packets: u64) {
    let counted = || number(&stats(lab.b())["total"], "/ingress/packets");
    let before = counted();
    let sent = traffic::udp(lab.a(), lab.b(), IpVersion::V4, 1, packets, 64).unwrap();
    assert_eq!(sent, packets);
    assert!(poll(|| counted() >= before + packets));
}

#[test]
fn auto_takes_what_costs_a_veth_least_and_says_why_and_what_is_missing() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let before = programs(host);
    let said = run(host, "attach", &[]);
    assert!(
        said.starts_with("nic-b: attached, tc mode\n  tc mode: bulk TCP through a veth"),
        "{said}"
    );
    assert_eq!(programs(host), (vec![], [1, 1]));
    receive(&lab, 20);

    let said = attach(host, &[]);
    assert_eq!((&said["mode"], &said["build"]), (&"tc".into(), &Value::Null), "{said}");
    assert_eq!(said["why"], "it was attached in this mode", "{said}");
    let stats = stats(host);
    let missing = &stats["missing"][0];
    assert_eq!((&missing["counters"], &stats["mode"]), (&"rx".into(), &"tc".into()), "{stats}");
    assert_eq!(missing["why"], "tc mode has no XDP program");
    assert_eq!(number(&stats["total"], "/rx/packets"), 0);
    let shown = run(host, "stats", &[]);
    assert!(shown.contains("missing  verdicts, lengths, malformed"), "{shown}");
    assert!(succeeded(nicctl(&["list"])).contains("  tc  "));

    run(host, "detach", &[]);
    assert_eq!(programs(host), before);
}

#[test]
fn transmit_queues_are_called_a_guess_where_there_are_several() {
    needs_root!();
    for queues in [1, 2] {
        let lab = Lab::new(Shape { queues, ..Shape::default() }).unwrap();
        let host = lab.b();
        let said = attach(host, &[]);
        let (guess, shown) = (&stats(host)["tx_queue_guess"], run(host, "stats", &[]));
        assert_eq!(guess, &said["tx_queue_guess"]);
        assert_eq!(guess.is_string(), queues > 1, "{guess}");
        assert_eq!(shown.contains("TX queues are a guess"), queues > 1, "{shown}");
        run(host, "detach", &[]);
    }
}

#[test]
fn a_device_without_native_xdp_is_counted_at_tc_and_generic_where_that_is_asked_for() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let attach = |args: &[&str]| {
        let args = [&["attach", "lo", "--netns", lab.a().netns_name()], args].concat();
        succeeded(nicctl(&args))
    };
    let said = attach(&[]);
    assert!(said.starts_with("lo: attached, tc mode\n  tc mode: lo has no native XDP"), "{said}");
    let said = attach(&["--mode", "generic"]);
    assert!(said.starts_with("lo: upgraded, generic mode"), "{said}");
    succeeded(nicctl(&["detach", "lo", "--netns", lab.a().netns_name()]));
}

#[test]
fn what_only_xdp_does_takes_xdp_and_is_refused_at_tc() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    for (args, what) in [
        (&["--log"][..], "malformed frames are logged at XDP alone"),
        (&["--rx-copybreak", "128"], "a copy policy was given at XDP alone"),
        (&["--pull", "--max-linear", "128"], "a copy policy was given at XDP alone"),
    ] {
        let (code, error) = refused(host, &[args, &["--mode", "tc"]].concat());
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(&format!("--mode tc: {what}")), "{error}");
        // What counts at TC gets XDP, too.
        attach(host, &["--mode", "tc"]);
        let said = attach(host, args);
        assert_eq!((&said["mode"], &said["why"]), (&"native".into(), &what.into()), "{said}");
        run(host, "detach", &[]);
    }
    // TC itself looks at the copybreak then.
    let said = attach(host, &["--mode", "tc", "--pull", "--rx-copybreak", "128"]);
    assert_eq!(said["mode"], "tc");
    run(host, "detach", &[]);

    attach(host, &["--log"]);
    let (code, error) = refused(host, &["--mode", "tc"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("nicctl attach nic-b --mode tc --log=off"), "{error}");
    attach(host, &["--mode", "tc", "--log=off"]);
    assert_eq!(programs(host), (vec![], [1, 1]));
    run(host, "detach", &[]);
}

#[test]
fn another_mode_keeps_the_counters_and_detach_undoes_the_last() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let before = programs(host);
    let counted = || {
        let total = &stats(host)["total"];
        (number(total, "/rx/packets"), number(total, "/ingress/packets"))
    };
    attach(host, &["--mode", "native"]);
    for (mode, xdp) in [
        ("tc", vec![]),
        ("generic", vec![XdpMode::Generic]),
        ("tc", vec![]),
        ("native", vec![XdpMode::Native]),
    ] {
        let kept = counted();
        let said = attach(host, &["--mode", mode]);
        assert_eq!((&said["mode"], &said["upgraded"]), (&mode.into(), &true.into()));
        assert_eq!(programs(host), (xdp.clone(), [1, 1]), "{mode}");
        let before = counted();
        assert!(before.0 >= kept.0 && before.1 >= kept.1, "{mode}: {kept:?} to {before:?}");
        receive(&lab, 10);
        let after = counted();
        let at_xdp = if xdp.is_empty() { 0 } else { 10 };
        assert!(after.0 >= before.0 + at_xdp && after.1 >= before.1 + 10, "{mode}: {after:?}");
        assert!(!xdp.is_empty() || after.0 == before.0, "{mode}: {after:?}");
    }
    attach(host, &["--mode", "tc"]);
    run(host, "detach", &[]);
    assert_eq!(programs(host), before);
}

#[test]
fn beside_somebody_elses_xdp_program_tc_counts() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let foreign = Program::returning(Hook::Xdp, XDP_PASS).unwrap();
    let link = foreign.attach(host, host.ifindex()).unwrap();
    let before = programs(host);
    for mode in ["native", "generic"] {
        let (code, error) = refused(host, &["--mode", mode]);
        assert_eq!(code, Some(1));
        assert!(error.contains("that is not nicctl's") && error.contains("--mode tc"), "{error}");
    }
    // What takes XDP is not to be had.
    assert_eq!(refused(host, &["--log"]).0, Some(1));
    assert_eq!(programs(host), before);

    let said = attach(host, &[]);
    let why = said["why"].as_str().unwrap();
    assert!(why.starts_with("nic-b has a native XDP program `nic_lab` (id "), "{why}");
    receive(&lab, 10);
    assert_eq!(refused(host, &["--mode", "native"]).0, Some(1));
    assert_eq!(programs(host), (vec![XdpMode::Native], [1, 1]));
    run(host, "detach", &[]);
    assert_eq!(programs(host), before);

    // Also where it came after nicctl's own was detached by somebody.
    drop(link);
    attach(host, &["--mode", "native"]);
    std::fs::remove_file(attached::slot(host).pin("link_xdp")).unwrap();
    assert!(poll(|| programs(host).0.is_empty()));
    let _link = foreign.attach(host, host.ifindex()).unwrap();
    assert_eq!(attach(host, &[])["mode"], "tc");
    run(host, "detach", &[]);
    assert_eq!(programs(host), before);
}

#[test]
fn rings_add_xdp_to_tc_and_take_it_away_again() {
    needs_root!();
    let lab = Lab::new(port::shape(1)).unwrap();
    let host = lab.b();
    attach(host, &["--mode", "tc"]);
    receive(&lab, 5);
    let buffers = Buffers::new(LAYOUT).unwrap();
    let rules = Rules::new(&[Rule::TAKE.protocol(protocol::UDP).port(9)]).unwrap();
    let steered = Port::steered(&host.into(), &config(WHOLE), &rules, &buffers).unwrap();
    assert_eq!(programs(host), (vec![XdpMode::Native], [1, 1]));
    let (code, error) = refused(host, &["--mode", "tc"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("frames go to AF_XDP rings at XDP alone"), "{error}");
    // Whoever attaches meanwhile has not asked for XDP.
    assert_eq!(attach(host, &[])["mode"], "native");
    receive(&lab, 5);
    drop(steered);
    assert_eq!(programs(host), (vec![], [1, 1]));
    let stats = stats(host);
    assert_eq!(stats["mode"], "tc");
    assert!(number(&stats["total"], "/ingress/packets") >= 10);
    run(host, "detach", &[]);
    assert_eq!(programs(host), (vec![], [0, 0]));
}
