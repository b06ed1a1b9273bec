//! Settings planned, applied, refused, undone and restored on the real kernel.

mod attached;
mod common;
mod tap;

use std::{
    fs,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use attached::{nicctl, poll, run, succeeded};
use nic_user::{
    lab::{Host, Lab, Shape},
    netlink::link_edit::{MaxSize, VethEnd, Vxlan},
};
use serde_json::Value;
use tap::Tap;

/// Settings of a veth, of several groups, that can all be changed.
const CHANGES: &[&str] = &[
    "channels.rx=2",
    "channels.tx=2",
    "link.mtu=2000",
    "feature.gro=on",
    "feature.tso=off",
    "link.gso-max-size=30000",
    "link.gso-ipv4-max-size=40000",
    "link.gro-max-size=196608",
    "link.gro-ipv4-max-size=196608",
    "napi.gro-flush-timeout=20000",
    "napi.defer-hard-irqs=2",
    "rps.rx-0=1",
    "xps.tx-0=1",
];

fn lab() -> Lab {
    Lab::new(Shape::default()).unwrap()
}

/// Everything that the interface has.
fn settings(host: &Host) -> Value {
    settings_of(host, host.interface())
}

fn settings_of(host: &Host, interface: &str) -> Value {
    let shown = succeeded(nicctl(&["show", interface, "--netns", host.netns_name(), "--json"]));
    serde_json::from_str::<Value>(&shown).unwrap()["settings"].take()
}

fn value<'s>(settings: &'s Value, key: &str) -> &'s Value {
    let (group, name) = key.split_once('.').unwrap();
    &settings[group][name]["value"]
}

fn command(host: &Host, verb: &str, interface: &str, args: &[&str]) -> Output {
    nicctl(&[&[verb, interface, "--netns", host.netns_name()], args].concat())
}

/// The exit code, and what was said of the error.
fn failure(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_is_set_is_so_and_restored() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let before = settings(host);
    let report = run(host, "set", CHANGES);
    assert!(!report.contains('!'), "{report}");
    let changed = settings(host);
    for (key, expected) in [
        ("channels.rx", Value::from(2)),
        ("link.mtu", 2000.into()),
        ("feature.rx-gro", true.into()),
        ("feature.tx-tcp-segmentation", false.into()),
        ("link.gso-max-size", 30000.into()),
        ("link.gso-ipv4-max-size", 40000.into()),
        ("link.gro-ipv4-max-size", 196_608.into()),
        ("napi.gro-flush-timeout", 20000.into()),
    ] {
        assert_eq!(*value(&changed, key), expected, "{key}");
    }
    assert_eq!(run(host, "set", CHANGES), format!("{}: nothing to change\n", host.interface()));
    let said = run(host, "restore", &["--dry-run"]);
    assert!(said.contains("would be restored"), "{said}");
    assert_eq!(settings(host), changed);
    run(host, "restore", &[]);
    assert_eq!(settings(host), before);
    let again = run(host, "restore", &[]);
    assert_eq!(again, format!("{}: no changes by nicctl\n", host.interface()));
}

/// Names of several interfaces of `host`, one of which is longer than all others.
fn with_another_pair(host: &Host) -> [&'static str; 2] {
    let end = |name| VethEnd { name, queues: 2, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-c"), end("nic-d"))).unwrap();
    ["nic-c", "nic-d"]
}

/// `nicctl ARGS --netns HOST --json`
fn in_netns(host: &Host, args: &[&str]) -> Output {
    nicctl(&[args, &["--netns", host.netns_name(), "--json"]].concat())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn several_interfaces_are_changed_together_or_not_at_all() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    with_another_pair(host);
    let in_netns = |args: &[&str]| in_netns(host, args);
    let mtus = || -> Vec<u64> {
        let shown = json(&in_netns(&["show", "nic-c", "nic-d"]));
        let shown = shown["interfaces"].as_array().unwrap().clone();
        shown.iter().map(|one| value(&one["settings"], "link.mtu").as_u64().unwrap()).collect()
    };
    let set: &[&str] = &["set", "nic-c", "nic-d", "nic-c", "link.mtu=1400"];
    let plan = json(&in_netns(&[set, &["--dry-run"]].concat()));
    assert_eq!(plan["interfaces"].as_array().unwrap().len(), 2);
    // What the second cannot do, the first does not do either.
    for refused in ["nic-c nic-d link.mtu=1400 channels.rx=500", "nic-c nic-x link.mtu=1400"] {
        let words: Vec<_> = ["set"].into_iter().chain(refused.split(' ')).collect();
        let output = in_netns(&words);
        let document = json(&output);
        assert_eq!(document["error"]["code"], output.status.code().unwrap(), "{document}");
        assert_eq!(mtus(), [1500, 1500]);
    }
    let done = json(&in_netns(set));
    let changed = |one: &Value| one["changed"] == true && one["applied"] == true;
    assert!(done["interfaces"].as_array().unwrap().iter().all(changed), "{done}");
    assert_eq!(mtus(), [1400, 1400]);
    let listed = json(&in_netns(&["list"]));
    let listed = listed["settings"].as_array().unwrap();
    let of = |one: &Value| (one["name"].to_string(), one["count"].as_u64(), one["gone"].as_bool());
    let mut listed: Vec<_> = listed.iter().map(of).collect();
    listed.sort();
    let expected = ["nic-c", "nic-d"].map(|name| (format!("{name:?}"), Some(1), Some(false)));
    assert_eq!(listed, expected);
    let back = json(&in_netns(&["restore", "--all"]));
    assert_eq!(back["interfaces"].as_array().unwrap().len(), 2, "{back}");
    assert_eq!(mtus(), [1500, 1500]);
    assert_eq!(json(&in_netns(&["restore", "--all"]))["interfaces"], Value::Array(Vec::new()));
}

#[test]
fn all_is_every_interface_but_loopback_and_passes_over_what_cannot_be_meant() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    with_another_pair(host);
    let in_netns = |args: &[&str]| in_netns(host, args);
    let names = |document: &Value, key: &str| {
        let all = document["interfaces"].as_array().unwrap().iter();
        let mut names: Vec<_> = all.map(|one| one[key].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let all = ["nic-a", "nic-c", "nic-d"];
    assert_eq!(names(&json(&in_netns(&["show", "--all"])), "name"), all);
    // What none of them has is nothing that could be left out.
    let set = in_netns(&["set", "--all", "coalesce.rx-usecs=50", "feature.gro=on"]);
    assert_eq!(set.status.code(), Some(1), "{set:?}");
    let set = in_netns(&["set", "--all", "feature.gro=on"]);
    assert_eq!(set.status.code(), Some(0), "{set:?}");
    assert_eq!(names(&json(&set), "interface"), all);
    in_netns(&["restore", "--all"]);

    let profile = tempfile::NamedTempFile::new().unwrap();
    let path = profile.path().to_str().unwrap();
    let apply = |matching: &str, more: &[&str]| {
        fs::write(profile.path(), format!("[match]\n{matching}\n[link]\nmtu = 1400\n")).unwrap();
        in_netns(&[&["apply", "--profile", path], more].concat())
    };
    let some = apply("name = \"nic-[cd]\"", &["--all"]);
    assert_eq!(some.status.code(), Some(7), "brackets are no pattern: {some:?}");
    let some = apply("name = \"nic-?\"\nmin-speed = 1", &["--all", "--detailed-exitcode"]);
    assert_eq!(some.status.code(), Some(5), "{some:?}");
    in_netns(&["restore", "--all"]);
    let one = apply("driver = \"mlx5_core\"", &["nic-c"]);
    assert_eq!((one.status.code(), &json(&one)["error"]["code"]), (Some(7), &7.into()));
    assert!(json(&one)["error"]["message"].as_str().unwrap().contains("does not match nic-c"));
}

#[test]
fn a_profile_is_planned_applied_and_restored() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let before = settings(host);
    let big_tcp = ["--profile", "big-tcp"];
    let plan =
        |more: &[&str]| command(host, "plan", host.interface(), &[&big_tcp[..], more].concat());
    let text = succeeded(plan(&[]));
    assert!(text.contains("\n- link.gso-max-size 65536\n+ link.gso-max-size 196608\n"), "{text}");
    assert_eq!(plan(&["--detailed-exitcode"]).status.code(), Some(5));
    assert_eq!(settings(host), before);
    run(host, "apply", &big_tcp);
    assert_eq!(*value(&settings(host), "link.gso-max-size"), Value::from(196_608));
    assert_eq!(plan(&["--detailed-exitcode"]).status.code(), Some(0));
    // A second profile on top; the first state of all is what comes back.
    run(host, "apply", &["--profile", "udp-gso"]);
    run(host, "restore", &[]);
    assert_eq!(settings(host), before);
}

#[test]
fn what_is_shown_as_a_profile_changes_nothing_and_brings_it_back() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let before = settings(host);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("before.toml");
    std::fs::write(&path, run(host, "show", &["--as-profile"])).unwrap();
    let profile = ["--profile", path.to_str().unwrap()];
    assert!(run(host, "plan", &profile).contains("nothing to change"));
    run(host, "set", CHANGES);
    run(host, "apply", &profile);
    assert_eq!(settings(host), before);
    run(host, "restore", &[]);
    assert_eq!(settings(host), before);
}

#[test]
fn what_can_not_be_is_refused_before_anything_is_touched() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let before = settings(host);
    for (wish, code, said) in [
        ("link.mtu=70000", 2, "link.mtu 70000 exceeds the maximum of nic-a, 65535"),
        ("link.mtu=20", 2, "link.mtu 20 is below the minimum of nic-a, 68"),
        ("link.mtu=on", 2, "link.mtu takes a number, not on"),
        ("feature.rx-grro=on", 2, "fix: did you mean rx-gro?"),
        ("channels.rxx=1", 2, "fix: did you mean channels.rx?"),
        ("ring.rx=512", 1, "nic-a has no ring.rx"),
        ("feature.rx-hashing=on", 1, "feature.rx-hashing is fixed by the driver: it is off"),
        ("channels.rx=5", 2, "channels.rx 5 exceeds the maximum of nic-a, 4"),
    ] {
        let output = command(host, "set", host.interface(), &["feature.gro=on", wish]);
        let (exit, error) = failure(&output);
        assert_eq!(exit, code, "{wish}: {error}");
        assert!(error.contains(said), "{wish}: {error}");
    }
    assert_eq!(settings(host), before);
}

#[test]
fn packets_that_a_tunnel_can_not_cut_are_refused() {
    needs_root!();
    let lab = lab();
    let (host, remote) = (lab.a(), lab.b().ipv4());
    let vxlan = Vxlan { parent: host.ifindex(), network: 5, remote, port: 4789 };
    host.links(|links| links.add_vxlan("nic-x", &vxlan)).unwrap();
    let before = settings_of(host, "nic-x");
    let max = before["link"]["gso-max-size"]["max"].as_u64().unwrap();
    let wish = format!("link.gso-max-size={}", max + 1);
    let (exit, error) = failure(&command(host, "set", "nic-x", &[&wish]));
    assert_eq!(exit, 2, "{error}");
    assert!(error.contains(&format!("exceeds the maximum of nic-x, {max}")), "{error}");
    assert_eq!(settings_of(host, "nic-x"), before);
    // The kernel says the same.
    let asked = host.links(|links| {
        let index = links.by_name("nic-x")?.ifindex;
        links.set_max_size(index, MaxSize::Gso, max as u32 + 1)
    });
    assert!(asked.unwrap_err().to_string().contains("gso_max_size"));
}

#[test]
fn what_the_kernel_refuses_undoes_what_was_done() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let _tap = Tap::new(host);
    let before = settings_of(host, tap::NAME);
    // Only the program behind a tap knows which packets it takes (TUNSETOFFLOAD).
    let wishes = ["link.mtu=2000", "feature.gro=off", "feature.tx-tcp-segmentation=on"];
    let output = command(host, "set", tap::NAME, &wishes);
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(report.matches(": done, then undone\n").count(), 1, "{report}");
    assert!(report.contains("@ feature: failed: "), "{report}");
    let (exit, error) = failure(&output);
    assert_eq!(exit, 1);
    assert!(error.contains("feature.tx-tcp-segmentation to on"), "{error}");
    assert_eq!(settings_of(host, tap::NAME), before);
    // Nothing is left to restore.
    assert!(succeeded(command(host, "restore", tap::NAME, &[])).contains("no changes by nicctl"));
}

/// What only the kernel or another program knows: `set` may fail where `plan` saw nothing.
const ONLY_THE_KERNEL_KNOWS: &[(&str, &str, &str)] = &[
    (
        "tun",
        "feature.tx-",
        "what the program behind it takes (TUNSETOFFLOAD): tun_net_fix_features",
    ),
    ("tun", "coalesce.rx-frames", "it cuts it to 64 without a word: tun_set_coalesce"),
    ("vxlan", "link.mtu", "the MTU of its parent, less its headers: vxlan_change_mtu"),
    ("bridge", "feature.", "what its ports have: br_features_recompute"),
];

/// Some of the settings that can be set, each with some value of its kind.
fn any_wishes(settings: &Value, state: &mut u64) -> Vec<String> {
    let mut wishes = Vec::new();
    for (group, named) in settings.as_object().unwrap() {
        let count = named.as_object().unwrap().len() as u64;
        for (name, setting) in named.as_object().unwrap() {
            // A few of each group, so that large ones do not hide the others.
            if setting["access"] != "read-write" || next(state) % count.max(3) > 1 {
                continue;
            }
            let value = match (group.as_str(), &setting["value"]) {
                ("rps" | "xps" | "irq", _) => ["0", "1", "3", "0-1", "cpus:1", "all", "off", "7"]
                    [next(state) as usize % 8]
                    .to_owned(),
                (_, Value::Bool(_)) => ["on", "off"][next(state) as usize % 2].to_owned(),
                (_, Value::Number(now)) => {
                    let max = setting["max"].as_u64().unwrap_or(100_000);
                    match next(state) % 6 {
                        0 => "0".to_owned(),
                        1 if setting["max"].is_u64() => "max".to_owned(),
                        2 if setting["max"].is_u64() => format!("{}%", next(state) % 101),
                        3 => now.to_string(),
                        _ => (next(state) % (max + 2)).to_string(),
                    }
                }
                (_, text) => text.as_str().unwrap().to_owned(),
            };
            wishes.push(format!("{group}.{name}={value}"));
        }
    }
    wishes
}

#[test]
fn what_plan_accepts_set_does() {
    needs_root!();
    let lab = lab();
    let (host, remote) = (lab.a(), lab.b().ipv4());
    let _tap = Tap::new(host);
    let vxlan = Vxlan { parent: host.ifindex(), network: 5, remote, port: 4789 };
    host.links(|links| links.add_vxlan("nic-x", &vxlan)).unwrap();
    let mut interfaces = vec![host.interface(), tap::NAME, "nic-x"];
    for (name, kind) in [("nic-ifb", "ifb"), ("nic-br", "bridge")] {
        let add = || Command::new("ip").args(["link", "add", name, "type", kind]).output();
        match host.run(add).unwrap().unwrap().status.success() {
            true => interfaces.push(name),
            false => common::say_skipped(&format!("{kind}, which this kernel does not have")),
        }
    }
    let (mut state, mut accepted) = (0x9e37_79b9, 0);
    for interface in interfaces {
        // While it is down, the kernel does not tell which NAPI instances it has.
        let up = || Command::new("ip").args(["link", "set", interface, "up"]).output();
        assert!(host.run(up).unwrap().unwrap().status.success());
        let driver = settings_driver(host, interface);
        for _ in 0..40 {
            let wishes = any_wishes(&settings_of(host, interface), &mut state);
            let wishes: Vec<&str> = wishes.iter().map(String::as_str).collect();
            let is_known = |wish: &&str| {
                ONLY_THE_KERNEL_KNOWS
                    .iter()
                    .any(|(of, key, _)| *of == driver && wish.starts_with(key))
            };
            if wishes.is_empty() || wishes.iter().any(is_known) {
                continue;
            }
            if !command(host, "plan", interface, &wishes).status.success() {
                continue;
            }
            accepted += 1;
            let (code, error) = failure(&command(host, "set", interface, &wishes));
            assert_eq!(code, 0, "{interface} {wishes:?}: {error}");
            let again =
                command(host, "plan", interface, &[&wishes[..], &["--detailed-exitcode"]].concat());
            assert_eq!(failure(&again).0, 0, "{interface} {wishes:?}: {again:?}");
            if accepted % 3 == 0 {
                succeeded(command(host, "restore", interface, &[]));
            }
        }
    }
    println!("{accepted} requests accepted and done");
    assert!(accepted > 20);
}

fn settings_driver(host: &Host, interface: &str) -> String {
    let shown = succeeded(nicctl(&["show", interface, "--netns", host.netns_name(), "--json"]));
    let shown = serde_json::from_str::<Value>(&shown).unwrap();
    shown["driver"]["name"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn features_that_contradict_each_other_are_refused_however_often() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let before = settings(host);
    let both = ["feature.tx-checksum-ip-generic=off", "feature.tx-tcp-segmentation=on"];
    let refused = |wishes: &[&str], code, said: &str| {
        let (exit, error) = failure(&command(host, "set", host.interface(), wishes));
        assert_eq!(exit, code, "{error}");
        assert!(error.contains(said), "{error}");
    };
    for _ in 0..2 {
        refused(&both, 2, "contradicts feature.tx-checksum-ip-generic off (command line)");
    }
    assert_eq!(settings(host), before);
    // What else goes off is told, and stays requested.
    let said = run(host, "set", &both[..1]);
    assert!(said.contains("this also turns feature.tx-tcp-segmentation off"), "{said}");
    let tso = &settings(host)["feature"]["tx-tcp-segmentation"];
    assert_eq!((&tso["value"], &tso["requested"]), (&false.into(), &true.into()));
    refused(&both, 2, "contradicts");
    refused(&both[1..], 1, "fix: add feature.tx-checksum-ip-generic=on");
    // Off is more than not granted, and given back as it was.
    let said = run(host, "set", &["feature.tx-tcp-segmentation=off"]);
    assert!(said.contains("- feature.tx-tcp-segmentation off [requested on]"), "{said}");
    assert_eq!(settings(host)["feature"]["tx-tcp-segmentation"]["requested"], Value::Null);
    run(host, "restore", &[]);
    assert_eq!(settings(host), before);
}

#[test]
fn queues_that_an_af_xdp_socket_has_are_not_taken_away() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let end = |name| VethEnd { name, queues: 4, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-x"), end("nic-y"))).unwrap();
    let mut forward = Command::new(env!("CARGO_BIN_EXE_nicctl"))
        .args(["forward", host.interface(), "nic-x", "--netns", host.netns_name()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let show = ["show", host.interface(), "--netns", host.netns_name(), "--json"];
    // It opens them one by one.
    let has_sockets = || {
        let shown = succeeded(nicctl(&show));
        shown.contains("\"af_xdp\": true") && !shown.contains("\"af_xdp\": false")
    };
    while forward.try_wait().unwrap().is_none() && !has_sockets() {}
    let verbs =
        ["plan", "set"].map(|verb| command(host, verb, host.interface(), &["channels.tx=2"]));
    forward.kill().unwrap();
    forward.wait().unwrap();
    for output in verbs {
        let (exit, error) = failure(&output);
        assert_eq!(exit, 1, "{error}");
        assert!(
            error.contains("an AF_XDP socket uses queue 3, and only 2 queues would be left"),
            "{error}"
        );
    }
}

#[test]
fn cpus_are_taken_as_they_are_shown() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let rx =
        |name: &str| value(&settings(host), &format!("rps.{name}")).as_str().unwrap().to_owned();
    for wish in ["rps.rx-*=all", "rps.rx-*=0", "rps.rx-*=0-0", "rps.rx-*=cpus:0", "rps.rx-*=off"] {
        run(host, "set", &[wish]);
        assert!(run(host, "plan", &[wish]).contains("nothing to change"), "{wish}");
        assert_eq!(rx("rx-0"), rx("rx-3"), "{wish}");
    }
    let (exit, error) = failure(&command(host, "plan", host.interface(), &["rps.rx-0=0-4095"]));
    assert_eq!(exit, 2);
    assert!(error.contains("but the machine has CPUs 0"), "{error}");
    let (exit, error) = failure(&command(host, "plan", host.interface(), &["rps.rx-0=nonsense"]));
    assert_eq!(exit, 2, "{error}");
}

#[test]
fn an_mtu_that_the_interface_below_has_no_room_for_is_refused() {
    needs_root!();
    let lab = lab();
    let (host, parent) = (lab.a(), lab.a().interface());
    let add = ["link", "add", "nic-m", "link", parent, "type", "macvlan"];
    let added = host.run(|| Command::new("ip").args(add).output()).unwrap().unwrap();
    if !added.status.success() {
        return common::say_skipped("macvlan, which this kernel does not have");
    }
    for verb in ["plan", "set"] {
        let (exit, error) = failure(&command(host, verb, "nic-m", &["link.mtu=9000"]));
        assert_eq!(exit, 1, "{error}");
        assert!(error.contains("link.mtu 9000 exceeds what nic-a below it allows"), "{error}");
    }
    succeeded(command(host, "set", "nic-m", &["link.mtu=1400"]));
}

#[test]
fn channels_that_xdp_of_either_end_forbids_are_refused() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    run(host, "attach", &["--mode", "native"]);
    for (of, wish, said) in [
        (host, "channels.rx=1", "is below the 4 transmit queues of its peer nic-b"),
        (lab.b(), "feature.tso=on", ""),
        (lab.b(), "channels.tx=2", ""),
    ] {
        let planned = command(of, "plan", of.interface(), &[wish]);
        let set = command(of, "set", of.interface(), &[wish]);
        assert_eq!(planned.status.success(), set.status.success(), "{wish}: {planned:?} {set:?}");
        assert!(failure(&planned).1.contains(said), "{planned:?}");
    }
    run(host, "set", &["channels.rx=3", "channels.tx=3"]);
    let (exit, error) = failure(&command(lab.b(), "plan", lab.b().interface(), &["channels.tx=4"]));
    assert_eq!(exit, 1);
    assert!(error.contains("exceeds the 3 receive queues of its peer nic-a"), "{error}");
}

#[test]
fn what_a_driver_cuts_silently_is_told_and_not_tried_again() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let _tap = Tap::new(host);
    let before = settings_of(host, tap::NAME);
    let set = |verb| succeeded(command(host, verb, tap::NAME, &["coalesce.rx-frames=100"]));
    let report = set("set");
    assert!(report.contains("! coalesce.rx-frames: limited by the driver to 64\n"), "{report}");
    assert_eq!(*value(&settings_of(host, tap::NAME), "coalesce.rx-frames"), Value::from(64));
    let again = set("plan");
    assert!(again.contains("nothing to change\n"), "{again}");
    assert!(again.contains("64: the driver made 64 of 100 before"), "{again}");
    succeeded(command(host, "restore", tap::NAME, &[]));
    assert_eq!(settings_of(host, tap::NAME), before);
}

/// Makes a pair, lets nicctl change nic-x, deletes it and makes it anew: there is a journal of the
/// first one.
fn make_anew(host: &Host) {
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    let make = || host.links(|links| links.add_veth(end("nic-x"), end("nic-y"))).unwrap();
    make();
    succeeded(command(host, "set", "nic-x", &["link.mtu=1400"]));
    let index = host.links(|links| links.by_name("nic-x")).unwrap().ifindex;
    host.links(|links| links.delete(index)).unwrap();
    make();
}

#[test]
fn an_interface_that_was_made_anew_is_left_alone() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    make_anew(host);
    let before = settings_of(host, "nic-x");
    let restore = |args: &[&str]| succeeded(command(host, "restore", "nic-x", args));
    for (args, removed) in [(&["--dry-run"][..], "would be removed"), (&[], "is removed")] {
        // It is told only when every network namespace could be looked at, which those that other
        // tests make and remove can keep from it for a moment.
        let mut said = String::new();
        assert!(poll(|| {
            said = restore(args);
            said.contains("a former interface of this name is gone")
        }));
        assert!(said.contains(removed), "{said}");
    }
    assert_eq!(settings_of(host, "nic-x"), before);
    assert_eq!(restore(&[]), "nic-x: no changes by nicctl\n");
}

#[test]
fn a_change_takes_the_place_of_the_journal_of_a_vanished_interface() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    make_anew(host);
    let before = settings_of(host, "nic-x");
    // The next change begins a journal of its own.
    let report = succeeded(command(host, "set", "nic-x", &["link.mtu=1300"]));
    assert!(report.contains("note: the journal of a former nic-x is removed"), "{report}");
    succeeded(command(host, "restore", "nic-x", &[]));
    assert_eq!(settings_of(host, "nic-x"), before);
}

/// Numbers without order (xorshift), the same in every run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Starts `nicctl VERB` and kills it somewhere within `within`; whether it was still running.
fn killed(host: &Host, verb: &str, args: &[&str], within: Duration, state: &mut u64) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nicctl"))
        .args([&[verb, host.interface(), "--netns", host.netns_name()], args].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_micros(next(state) % within.as_micros().max(1) as u64));
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

#[test]
fn whenever_set_or_restore_is_killed_restore_brings_everything_back() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let before = settings(host);
    let begin = Instant::now();
    run(host, "set", CHANGES);
    let set = begin.elapsed();
    let begin = Instant::now();
    run(host, "restore", &[]);
    let restore = begin.elapsed();
    let mut state = 0x9e37_79b9;
    let mut interrupted = 0;
    for times in 0.. {
        if interrupted >= 60 {
            break;
        }
        if killed(host, "set", CHANGES, set, &mut state) {
            interrupted += 1;
        }
        if times % 2 == 0 && killed(host, "restore", &[], restore, &mut state) {
            interrupted += 1;
        }
        run(host, "restore", &[]);
        assert_eq!(settings(host), before, "kill {times}");
    }
}

#[test]
fn what_no_interface_can_have_is_refused_of_all() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let of_all = |args: &[&str]| {
        nicctl(&[&["set", "--all", "--netns", host.netns_name(), "--dry-run"], args].concat())
    };
    let (code, error) = failure(&of_all(&["ring.rx=100", "link.mtu=1400"]));
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("no interface supports the settings requested of ring.rx"), "{error}");
    succeeded(of_all(&["link.mtu=1400"]));
}

#[test]
fn a_name_with_an_equals_sign_is_a_name_wherever_it_stands() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    attached::rename(host, "a=b");
    let in_netns =
        |args: &[&str]| nicctl(&[args, &["--netns", host.netns_name(), "--dry-run"]].concat());
    let said = succeeded(in_netns(&["set", "a=b", "a=b", "link.mtu=1400"]));
    assert!(said.contains("link.mtu") || said.contains("mtu"), "{said}");
    let (code, error) = failure(&in_netns(&["set", "a=b", "c=d"]));
    assert_eq!(code, 2, "{error}");
}
