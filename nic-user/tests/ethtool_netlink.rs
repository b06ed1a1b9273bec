//! Settings are read and changed on devices of the real kernel, and equal what ethtool says.

mod common;
mod tap;

use std::collections::BTreeMap;
use std::process::Command;

use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink::ethtool::Ethtool;
use nic_user::netlink::ethtool::channels::Channel;
use nic_user::netlink::ethtool::coalesce::Coalesce;
use nic_user::netlink::ethtool::features::{FeatureChanges, FeatureState};
use nic_user::netlink::ethtool::parameter::{Kind, Parameter, Reading, Readings};
use nic_user::netlink::ethtool::pause::Pause;
use nic_user::netlink::ethtool::private_flags::PrivateFlags;
use nic_user::netlink::ethtool::rings::Ring;
use nic_user::netlink::link_edit::LinkChange;
use nic_user::netlink::netdev::Netdev;
use nic_user::netlink::netdev::napi::NapiParameter;
use nic_user::netlink::netdev::queue::{Direction, QueueId};
use tap::{NAME as TAP, Tap};

fn lab(queues: u32) -> Lab {
    Lab::new(Shape { queues, mtu: 1500 }).unwrap()
}

fn ethtool(host: &Host) -> Ethtool {
    host.run(Ethtool::open).unwrap().unwrap()
}

/// What ethtool says about an interface; `None`, aloud, where it is not installed.
fn ethtool_says(host: &Host, arguments: &[&str], interface: &str) -> Option<String> {
    let run = || Command::new("ethtool").args(arguments).arg(interface).output();
    let Ok(output) = host.run(run).unwrap() else {
        common::say_skipped("comparison with ethtool, which is not installed");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The numbers after `NAME:` in a text, in order of their lines; `n/a` is none.
fn numbers(text: &str, name: &str) -> Vec<Option<u32>> {
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok());
    text.lines().filter_map(value).collect()
}

#[test]
fn channels_are_those_of_ethtool() {
    needs_root!();
    let lab = lab(4);
    let mut ethtool = ethtool(lab.a());
    let channels = ethtool.get::<Channel>(lab.a().ifindex()).unwrap();
    let four = Reading { value: 4, max: Some(4) };
    assert_eq!(channels, [(Channel::Rx, four), (Channel::Tx, four)].into());
    let Some(text) = ethtool_says(lab.a(), &["-l"], lab.a().interface()) else { return };
    for (name, channel) in [
        ("RX", Channel::Rx),
        ("TX", Channel::Tx),
        ("Other", Channel::Other),
        ("Combined", Channel::Combined),
    ] {
        let ours = channels.get(&channel);
        // The limits come first.
        let expected = [ours.and_then(|ours| ours.max), ours.map(|ours| ours.value)];
        assert_eq!(numbers(&text, name), expected, "{text}");
    }
}

#[test]
fn only_the_channels_that_are_named_change() {
    needs_root!();
    let lab = lab(4);
    let mut ethtool = ethtool(lab.a());
    let ifindex = lab.a().ifindex();
    assert_eq!(ethtool.set(ifindex, &[(Channel::Rx, 2)]), Ok(None));
    let values = |ethtool: &mut Ethtool| {
        let channels = ethtool.get::<Channel>(ifindex).unwrap();
        [channels[&Channel::Rx].value, channels[&Channel::Tx].value]
    };
    assert_eq!(values(&mut ethtool), [2, 4]);

    let error = ethtool.set(ifindex, &[(Channel::Rx, 3), (Channel::Tx, 5)]).unwrap_err();
    assert_eq!((error.errno, error.attribute.as_deref()), (libc::EINVAL, Some("tx")));
    assert_eq!(error.message.as_deref(), Some("requested channel count exceeds maximum"));
    assert_eq!(values(&mut ethtool), [2, 4]);
}

#[test]
fn what_a_device_does_not_have_is_absent_and_can_not_be_set() {
    needs_root!();
    let lab = lab(1);
    let ifindex = lab.a().ifindex();
    let mut ethtool = ethtool(lab.a());
    assert_eq!(ethtool.get(ifindex), Ok(Readings::<Ring>::new()));
    assert_eq!(ethtool.get(ifindex), Ok(Readings::<Coalesce>::new()));
    assert_eq!(ethtool.get(ifindex), Ok(Readings::<Pause>::new()));
    assert_eq!(ethtool.private_flags(ifindex), Ok(PrivateFlags::new()));
    assert_eq!(ethtool.rss_contexts(ifindex), Ok(Vec::new()));
    assert!(ethtool.set(ifindex, &[(Ring::Rx, 512)]).unwrap_err().is_unsupported());
    assert!(ethtool.set(ifindex, &[(Coalesce::RxUsecs, 5)]).unwrap_err().is_unsupported());
    assert!(ethtool.set(ifindex, &[(Pause::Rx, 1)]).unwrap_err().is_unsupported());
    assert!(ethtool.set_private_flags(ifindex, &[("x", true)]).unwrap_err().is_unsupported());

    // Nothing of it depends on there being something to say.
    assert_eq!(ethtool.get::<Ring>(u32::MAX >> 1).unwrap_err().errno, libc::ENODEV);
}

#[test]
fn a_tap_device_limits_coalescing_without_a_word() {
    needs_root!();
    let lab = lab(1);
    let tap = Tap::new(lab.a());
    let mut ethtool = ethtool(lab.a());
    let coalesce = |ethtool: &mut Ethtool| ethtool.get::<Coalesce>(tap.ifindex).unwrap();
    let frames = |value| Readings::from([(Coalesce::RxFrames, Reading { value, max: None })]);
    assert_eq!(coalesce(&mut ethtool), frames(0));
    assert_eq!(ethtool.set(tap.ifindex, &[(Coalesce::RxFrames, 100)]), Ok(None));
    assert_eq!(coalesce(&mut ethtool), frames(64));

    let changes = [(Coalesce::RxFrames, 32), (Coalesce::TxUsecs, 5)];
    let error = ethtool.set(tap.ifindex, &changes).unwrap_err();
    assert_eq!(error.attribute.as_deref(), Some("tx-usecs"));
    assert!(error.to_string().contains("cannot modify an unsupported parameter"), "{error}");
    assert_eq!(coalesce(&mut ethtool), frames(64));

    let Some(text) = ethtool_says(lab.a(), &["-c"], TAP) else { return };
    for parameter in Coalesce::ALL.iter().filter(|parameter| parameter.kind() == Kind::Number) {
        let ours = coalesce(&mut ethtool).get(parameter).map(|ours| ours.value);
        // ethtool knows fewer, if it is older.
        if let [theirs] = numbers(&text, parameter.name())[..] {
            assert_eq!(ours, theirs, "{parameter:?}: {text}");
        }
    }
}

#[test]
fn features_are_those_of_ethtool() {
    needs_root!();
    let lab = lab(1);
    let tap = Tap::new(lab.a());
    let mut ethtool = ethtool(lab.a());
    for (interface, ifindex) in [(lab.a().interface(), lab.a().ifindex()), (TAP, tap.ifindex)] {
        let features = ethtool.features(ifindex).unwrap();
        let Some(text) = ethtool_says(lab.a(), &["--json", "-k"], interface) else { return };
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut compared = 0;
        for (name, feature) in &features {
            let theirs = &json[0][ethtools_name(name)];
            assert_eq!(theirs["active"], feature.active, "{interface} {name}");
            assert_eq!(theirs["requested"], feature.wanted, "{interface} {name}");
            assert_eq!(theirs["fixed"], feature.is_fixed(), "{interface} {name}");
            compared += 1;
        }
        assert!(compared > 50, "{compared} features");
    }
}

/// ethtool has older names for some features.
fn ethtools_name(name: &str) -> &str {
    match name {
        "rx-checksum" => "rx-checksumming",
        "tx-generic-segmentation" => "generic-segmentation-offload",
        "rx-gro" => "generic-receive-offload",
        "rx-lro" => "large-receive-offload",
        "rx-vlan-hw-parse" => "rx-vlan-offload",
        "tx-vlan-hw-insert" => "tx-vlan-offload",
        "rx-ntuple-filter" => "ntuple-filters",
        "rx-hashing" => "receive-hashing",
        name => name,
    }
}

#[test]
fn a_feature_changes_and_a_fixed_one_is_refused() {
    needs_root!();
    let lab = lab(1);
    let ifindex = lab.a().ifindex();
    let mut ethtool = ethtool(lab.a());
    const USO: &str = "tx-udp-segmentation";
    let is_on = |ethtool: &mut Ethtool| ethtool.features(ifindex).unwrap()[USO].active;
    assert!(is_on(&mut ethtool));

    let outcome = ethtool.set_features(ifindex, &[(USO, false), ("rx-lro", true)]).unwrap();
    assert_eq!(outcome.changed, [(USO.to_owned(), false)].into());
    assert_eq!(outcome.refused, [("rx-lro".to_owned(), true)].into());
    assert!(!is_on(&mut ethtool));
    assert_eq!(ethtool.features(ifindex).unwrap()["rx-lro"].state(), FeatureState::Fixed);

    let again = ethtool.set_features(ifindex, &[(USO, false)]).unwrap();
    assert_eq!(again, FeatureChanges::default());
    assert!(ethtool.set_features(ifindex, &[(USO, true)]).unwrap().refused.is_empty());
    assert!(is_on(&mut ethtool));
}

#[test]
fn what_depends_on_a_feature_changes_with_it() {
    needs_root!();
    let lab = lab(1);
    let ifindex = lab.a().ifindex();
    let mut ethtool = ethtool(lab.a());
    let outcome = ethtool.set_features(ifindex, &[("tx-scatter-gather", false)]).unwrap();
    assert!(!outcome.changed["tx-scatter-gather"]);
    assert!(!outcome.changed["tx-tcp-segmentation"]);
    let tso = ethtool.features(ifindex).unwrap()["tx-tcp-segmentation"];
    assert_eq!((tso.active, tso.wanted, tso.state()), (false, true, FeatureState::Requested));
}

#[test]
fn a_feature_that_does_not_exist_is_named_in_the_error() {
    needs_root!();
    let lab = lab(1);
    let changes = [("tx-udp-segmentation", false), ("rx-grow", true)];
    let mut ethtool = ethtool(lab.a());
    let error = ethtool.set_features(lab.a().ifindex(), &changes).unwrap_err();
    assert_eq!(error.attribute.as_deref(), Some("rx-grow"));
    assert!(error.to_string().starts_with("rx-grow: bit name not found"), "{error}");
    assert!(ethtool.features(lab.a().ifindex()).unwrap()["tx-udp-segmentation"].active);
}

#[test]
fn queues_and_napi_instances_are_listed() {
    needs_root!();
    let lab = lab(3);
    let ifindex = lab.a().ifindex();
    let Some(mut netdev) = netdev(lab.a()) else { return };
    let queues: Vec<_> = netdev.queues(ifindex).unwrap().into_keys().collect();
    let expected: Vec<_> = [Direction::Rx, Direction::Tx]
        .into_iter()
        .flat_map(|direction| (0..3).map(move |number| QueueId { direction, number }))
        .collect();
    assert_eq!(queues, expected);

    // A veth pair polls only for receive offload or XDP.
    assert_eq!(netdev.napis(ifindex), Ok(Vec::new()));
    ethtool(lab.a()).set_features(ifindex, &[("rx-gro", true)]).unwrap();
    assert_eq!(netdev.napis(ifindex).unwrap().len(), 3);

    // It has memory for them, and counts, but does not say so.
    assert_eq!(netdev.page_pools(ifindex), Ok(Vec::new()));
    assert_eq!(netdev.queue_counters(ifindex), Ok(BTreeMap::new()));
}

#[test]
fn only_the_napi_instance_and_the_settings_that_are_named_change() {
    needs_root!();
    let lab = lab(2);
    let ifindex = lab.a().ifindex();
    let Some(mut netdev) = netdev(lab.a()) else { return };
    ethtool(lab.a()).set_features(ifindex, &[("rx-gro", true)]).unwrap();
    let before = netdev.napis(ifindex).unwrap();
    let Some(napi) = before.first().filter(|napi| !napi.parameters.is_empty()) else {
        return common::say_skipped("needs Linux 6.13");
    };

    let changes = [(NapiParameter::GroFlushTimeout, 20_000), (NapiParameter::DeferHardIrqs, 2)];
    assert_eq!(netdev.set_napi(napi.id, &changes), Ok(None));
    let mut expected = before.clone();
    expected[0].parameters.extend(changes);
    assert_eq!(netdev.napis(ifindex), Ok(expected.clone()));

    let changes = [(NapiParameter::GroFlushTimeout, 1), (NapiParameter::DeferHardIrqs, 1 << 31)];
    let error = netdev.set_napi(napi.id, &changes).unwrap_err();
    assert_eq!(error.attribute.as_deref(), Some("defer-hard-irqs"));
    assert_eq!(error.message.as_deref(), Some("integer out of range"));
    assert_eq!(netdev.napis(ifindex), Ok(expected));
}

/// `None`, aloud, before Linux 6.8, which lists nothing.
fn netdev(host: &Host) -> Option<Netdev> {
    if let Ok(mut netdev) = host.run(Netdev::open).unwrap()
        && !netdev.queues(host.ifindex()).unwrap().is_empty()
    {
        return Some(netdev);
    }
    common::say_skipped("needs Linux 6.8");
    None
}

#[test]
fn segments_of_a_packet_are_limited() {
    needs_root!();
    let lab = lab(1);
    let ifindex = lab.a().ifindex();
    let limit = |segments| {
        lab.a().links(|links| links.change(ifindex, &[LinkChange::GsoMaxSegs(segments)]))
    };
    limit(100).unwrap();
    assert_eq!(lab.a().link().unwrap().gso_max_segs, Some(100));
    let error = limit(1 << 20).unwrap_err();
    assert!(error.to_string().contains("too big gso_max_segs"), "{error}");
    assert_eq!(lab.a().link().unwrap().gso_max_segs, Some(100));
}
