//! What `nicctl show` says equals what ethtool, ip and sysfs say; and what is written is shown.

mod common;
mod peers;
mod schema;
mod tap;

use std::process::{Command, Output};

use nic_user::error::Kind;
use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink;
use nic_user::nic::setting::{Group, Key, Value};
use nic_user::nic::{InterfaceName, Nic, settings};
use serde_json::Value as Json;
use tap::Tap;

fn lab() -> Lab {
    Lab::new(Shape { queues: 4, mtu: 1500 }).unwrap()
}

fn nicctl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nicctl")).args(arguments).output().unwrap()
}

#[track_caller]
fn stdout(arguments: &[&str]) -> String {
    let output = nicctl(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn parse(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What `nicctl show --json` says, which fits its schema.
fn shown(host: &Host, interface: &str) -> Json {
    let document = parse(&stdout(&["show", interface, "--netns", host.netns_name(), "--json"]));
    let schema = parse(&stdout(&["schema", "show"]));
    assert_eq!(schema::mismatch(&schema, &document), None);
    document
}

/// What another program says in the host; `None`, aloud, where it is not installed.
fn says(host: &Host, program: &str, arguments: &[&str]) -> Option<String> {
    let run = || Command::new(program).args(arguments).output();
    let Ok(output) = host.run(run).unwrap() else {
        common::say_skipped(&format!("comparison with {program}, which is not installed"));
        return None;
    };
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Runs a shell in the host, with the host's own sysfs.
fn shell(host: &Host, script: &str) -> String {
    let arguments = ["netns", "exec", host.netns_name(), "sh", "-ec", script];
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn value<'a>(document: &'a Json, group: &str, name: &str) -> &'a Json {
    &document["settings"][group][name]["value"]
}

fn compare(host: &Host, interface: &str, document: &Json) {
    let compared = peers::compare(host, interface, document);
    for program in &compared.missing {
        common::say_skipped(&format!("comparison with {program}, which is not installed"));
    }
    println!("{interface}: {} values compared", compared.values);
    assert!(compared.values > 20);
}

#[test]
fn a_veth_is_shown_as_ip_ethtool_and_sysfs_show_it() {
    needs_root!();
    let lab = lab();
    let (host, interface) = (lab.a(), lab.a().interface());
    lab.set_max_packet_size(185_000).unwrap();
    // So that it has NAPIs, and not everything is as it was made.
    shell(host, &format!("ethtool -K {interface} gro on tx-udp-segmentation off"));
    shell(host, &format!("cd /sys/class/net/{interface}; echo 20000 > gro_flush_timeout"));
    shell(host, &format!("cd /sys/class/net/{interface}; echo 1 > queues/rx-2/rps_cpus"));

    let document = shown(host, interface);
    assert_eq!(value(&document, "link", "gso-ipv4-max-size"), 185_000);
    assert_eq!(value(&document, "feature", "tx-udp-segmentation"), false);
    assert_eq!(value(&document, "napi", "gro-flush-timeout"), 20_000);
    assert_eq!(
        value(&document, "rps", "rx-2"),
        &shell(host, &format!("cat /sys/class/net/{interface}/queues/rx-2/rps_cpus"))
    );
    assert_eq!(document["driver"]["name"], "veth");
    assert_eq!(document["copybreak"]["state"], "none");
    compare(host, interface, &document);
    let settings = &document["settings"];
    assert_eq!(document["queues"].as_array().unwrap().len(), 8);
    let per_napi = settings["napi"].as_object().unwrap().iter();
    let timeouts: Vec<_> =
        per_napi.filter(|(name, _)| name.ends_with("/gro-flush-timeout")).collect();
    // One for each queue, where the kernel has them.
    assert!(matches!(timeouts.len(), 0 | 4), "{timeouts:?}");
    assert!(timeouts.iter().all(|(_, setting)| setting["value"] == 20_000), "{timeouts:?}");
}

#[test]
fn an_interface_answers_to_each_of_its_names() {
    use std::os::unix::ffi::OsStrExt;
    needs_root!();
    let lab = lab();
    let (host, interface) = (lab.a(), lab.a().interface());
    let (long, short) = ("x".repeat(127), "nic-short");
    for name in [&*long, short] {
        shell(host, &format!("ip link property add dev {interface} altname {name}"));
        assert_eq!(shown(host, name)["name"], interface, "{name}");
    }
    let bytes = std::ffi::OsStr::from_bytes(b"nic-\xff");
    let ip =
        || Command::new("ip").args(["link", "add"]).arg(bytes).args(["type", "dummy"]).output();
    if !host.run(ip).unwrap().unwrap().status.success() {
        return common::say_skipped("a name that is not UTF-8, which this ip does not take");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_nicctl"))
        .arg("show")
        .arg(bytes)
        .args(["--netns", host.netns_name(), "--json"])
        .output()
        .unwrap();
    let document = parse(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(document["name"], r"nic-\xff");
    assert_eq!(shown(host, r"nic-\xff"), document);
    // sysfs is found, too.
    assert_eq!(value(&document, "napi", "gro-flush-timeout"), 0);
}

#[test]
fn a_tap_is_shown_as_ip_ethtool_and_sysfs_show_it() {
    needs_root!();
    let lab = lab();
    let host = lab.a();
    let _tap = Tap::new(host);
    says(host, "ethtool", &["-C", tap::NAME, "rx-frames", "17"]);
    let document = shown(host, tap::NAME);
    assert_eq!(document["driver"]["name"], "tun");
    compare(host, tap::NAME, &document);
}

/// A namespace's loopback device has nothing that tells it from any other's.
#[test]
fn settings_are_those_of_the_namespace() {
    needs_root!();
    let lab = lab();
    for (host, timeout) in [(lab.a(), 11_000), (lab.b(), 12_000)] {
        shell(host, &format!("echo {timeout} > /sys/class/net/lo/gro_flush_timeout"));
    }
    for (host, timeout) in [(lab.a(), 11_000), (lab.b(), 12_000)] {
        assert_eq!(value(&shown(host, "lo"), "napi", "gro-flush-timeout"), timeout);
    }
}

#[test]
fn what_is_written_is_read() {
    needs_root!();
    let lab = lab();
    let tap = Tap::new(lab.a());
    let veth = lab.a().ifindex();
    let number = |number: u64| Value::from(number);
    type Changes<'a> = &'a [(&'a str, Value)];
    let cases: &[(u32, Group, Changes<'_>)] = &[
        (veth, Group::Link, &[("mtu", number(1400)), ("gso-max-segs", number(60))]),
        // The first overwrites the second, if it comes after it.
        (
            veth,
            Group::Link,
            &[("gso-ipv4-max-size", number(70_000)), ("gso-max-size", number(60_000))],
        ),
        (veth, Group::Channels, &[("rx", number(2)), ("tx", number(3))]),
        (veth, Group::Feature, &[("rx-gro", true.into()), ("rx-gro-list", true.into())]),
        (veth, Group::Napi, &[("gro-flush-timeout", number(9000)), ("defer-hard-irqs", number(2))]),
        (veth, Group::Napi, &[("threaded", true.into())]),
        (veth, Group::Rps, &[("rx-0", "1".into()), ("rx-1", "1".into())]),
        (veth, Group::Xps, &[("tx-1", "1".into())]),
        (tap.ifindex, Group::Coalesce, &[("rx-frames", number(64))]),
    ];
    for &(ifindex, group, changes) in cases {
        let changes: Vec<_> =
            changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let read = lab.a().run(|| {
            let nic = Nic::by_index(ifindex).unwrap();
            settings::write(&nic, group, &changes).unwrap();
            let of_group = settings::read_group(&nic, group).unwrap();
            let all = settings::read(&nic).unwrap();
            assert!(of_group.iter().all(|(key, setting)| all.get(key) == Some(setting)));
            assert!(of_group.keys().all(|key| key.group == group));
            all
        });
        let read = read.unwrap();
        for (name, value) in changes {
            let key = Key::new(group, name);
            let same = match (&value, &read[&key].value) {
                // With as many zeroes in front as the kernel has CPUs for.
                (Value::Text(asked), Value::Text(got)) => {
                    got.trim_start_matches(['0', ',']) == asked
                }
                (asked, got) => asked == got,
            };
            assert!(same, "{key}: asked {value}, got {}", read[&key].value);
        }
    }
}

#[test]
fn a_napi_of_its_own_is_written_alone() {
    needs_root!();
    let lab = lab();
    let (host, interface) = (lab.a(), lab.a().interface());
    shell(host, &format!("ethtool -K {interface} gro on"));
    let outcome = host.run(|| {
        let nic = Nic::by_name(&InterfaceName::new(interface).unwrap()).unwrap();
        let before = settings::read_group(&nic, Group::Napi).unwrap();
        let mut of_napis = before.keys().filter(|key| key.name.ends_with("/gro-flush-timeout"));
        let name = of_napis.next().map(|key| key.name.clone())?;
        settings::write(&nic, Group::Napi, &[(name.clone(), Value::from(7000_u64))]).unwrap();
        let after = settings::read_group(&nic, Group::Napi).unwrap();
        let changed: Vec<_> =
            after.iter().filter(|(key, setting)| before.get(key) != Some(setting)).collect();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert_eq!(after[&Key::new(Group::Napi, name)].value, Value::from(7000_u64));
        Some(())
    });
    if outcome.unwrap().is_none() {
        common::say_skipped("this kernel has no settings of single NAPIs");
        return;
    }
    // The one that differs from the device is worth a line.
    let text = stdout(&["show", interface, "--netns", host.netns_name()]);
    let lines = text.lines().filter(|line| line.contains("/gro-flush-timeout"));
    assert_eq!(lines.count(), 1, "{text}");
}

#[test]
fn refusals_name_the_setting() {
    needs_root!();
    let lab = lab();
    let veth = lab.a().ifindex();
    let refusal = |group, name: &str, value: Value| -> netlink::Error {
        let changes = [(name.to_owned(), value)];
        let written = lab.a().run(|| {
            let nic = Nic::by_index(veth).unwrap();
            settings::write(&nic, group, &changes)
        });
        written.unwrap().unwrap_err()
    };
    let fixed = refusal(Group::Feature, "rx-lro", true.into());
    assert_eq!(fixed.attribute.as_deref(), Some("rx-lro"), "{fixed}");
    let queue = refusal(Group::Rps, "rx-99", "1".into());
    assert_eq!((queue.errno, queue.attribute.as_deref()), (libc::ENOENT, Some("rx-99")));
    let mask = refusal(Group::Rps, "rx-0", "xyz".into());
    assert_eq!((mask.errno, mask.attribute.as_deref()), (libc::EINVAL, Some("rx-0")));
    let size = refusal(Group::Link, "gro-max-size", Value::from(524_281_u64));
    assert!(size.message.as_deref().is_some_and(|text| text.contains("gro_max_size")), "{size}");
    let unknown = refusal(Group::Link, "speed", Value::from(1_u64));
    assert_eq!(unknown.attribute.as_deref(), Some("speed"));
    for (group, name) in
        [(Group::Irq, "1"), (Group::Copybreak, "rx"), (Group::Rss, "key"), (Group::Ring, "rx")]
    {
        refusal(group, name, Value::from(1_u64));
    }
}

#[test]
fn text_fits_a_screen() {
    needs_root!();
    let lab = lab();
    let _tap = Tap::new(lab.a());
    for interface in [lab.a().interface(), tap::NAME, "lo"] {
        let show = ["show", interface, "--netns", lab.a().netns_name()];
        let text = stdout(&show);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().count() <= 50, "{text}");
        assert!(text.contains("\nlink.mtu "), "{text}");
        let features = stdout(&[&show[..], &["--group", "feature"]].concat());
        assert!(features.contains("\nfeature.rx-lro ") && !features.contains("link."));
        assert!(features.lines().all(|line| line.chars().count() <= 80), "{features}");
    }
    let none = stdout(&["show", "lo", "--group", "ring", "--group", "pause"]);
    assert_eq!(none, "lo has no settings of: ring, pause\n");
}

#[test]
fn one_group_leaves_the_others_out() {
    let all = parse(&stdout(&["show", "lo", "--json"]));
    let one = parse(&stdout(&["show", "lo", "--json", "--group", "link"]));
    assert_eq!(one["settings"].as_object().unwrap().len(), 1);
    assert_eq!(one["settings"]["link"], all["settings"]["link"]);
    assert_eq!(one["copybreak"], all["copybreak"]);
}

#[test]
fn what_is_not_there_can_not_be_shown() {
    for (arguments, code) in [
        (&["show", "nic-none"][..], Kind::NotFound),
        (&["show", "lo", "--netns", "nic-none"], Kind::NotFound),
        (&["show", "lo", "--group", "rings"], Kind::Usage),
        (&["show", "a/b"], Kind::Usage),
        (&["show"], Kind::Usage),
    ] {
        let output = nicctl(arguments);
        assert_eq!(output.status.code(), Some(code as i32), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}
