use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;
use crate::{
    control::{
        apply,
        fake::Fake,
        journal::Journals,
        kept::Owner,
        profile::Profile,
        rules, text,
        wanted::{Origin, Request, from_arguments},
    },
    error::Kind,
    nic::{
        cpus::CpuSet,
        setting::{Access, Setting},
        surroundings::{Peer, Surroundings},
    },
    report::style::Style,
};

fn desired(arguments: &[&str]) -> Desired {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
    from_arguments(&arguments, &Origin::CommandLine).unwrap()
}

fn plan_with(desired: &Desired, fake: &Fake, xdp: Xdp) -> Result<Plan> {
    let obtained = BTreeMap::new();
    let (identity, obtained) = (&fake.identity, &obtained);
    plan(
        desired,
        &fake.settings,
        &Context { identity, xdp, limits: &[], around: &Surroundings::default(), obtained },
    )
}

fn plan_of(arguments: &[&str], fake: &Fake) -> Result<Plan> {
    plan_with(&desired(arguments), fake, Xdp::None)
}

/// The groups and settings of each step, like `ring rx tx`.
fn steps(plan: &Plan) -> Vec<String> {
    let names = |step: &Step| {
        let names: Vec<&str> = step.changes.iter().map(|c| c.key.name.as_str()).collect();
        format!("{} {}", step.group, names.join(" "))
    };
    plan.steps.iter().map(names).collect()
}

fn refusal(arguments: &[&str], fake: &Fake) -> (Kind, String, String) {
    let error = plan_of(arguments, fake).unwrap_err();
    let fix = error.fix().unwrap_or_default().to_owned();
    (error.kind(), error.to_string().replace("plan for eth0: ", ""), fix)
}

fn with(mut fake: Fake, key: &str, change: impl FnOnce(&mut Setting)) -> Fake {
    change(fake.settings.get_mut(&key.parse().unwrap()).unwrap());
    fake
}

fn from_profile(text: &str) -> Desired {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    fs::write(&path, text).unwrap();
    Profile::load(path.to_str().unwrap()).unwrap().settings
}

#[test]
fn what_is_so_already_is_dropped() {
    let plan =
        plan_of(&["ring.rx=256", "feature.gro=off", "rps.rx-0=0", "xps.tx-0=F"], &Fake::full());
    assert!(plan.unwrap().is_empty());
}

#[test]
fn sets_of_cpus_have_several_spellings() {
    let are_same =
        |key: &str, one: &str, other: &str| same(&key.parse().unwrap(), &one.into(), &other.into());
    for (key, one, other, expected) in [
        ("rps.rx-0", "f", "00000000,0000000F", true),
        ("rps.rx-0", "32", "00000000,00000032", true),
        ("rps.rx-0", "1,0", "1", false),
        ("rps.rx-0", "0-3,8", "10f", true),
        ("rps.rx-0", "off", "0", true),
        ("xps.tx-0", "0", "off", true),
        ("irq.42", "0,1,2-3", "0-3", true),
        ("irq.42", "3,0-1", "0-1,3", true),
        ("irq.42", "0-3", "0-4", false),
        ("irq.42", "0-4294967295,5", "0-4294967295", true),
        ("irq.42", "0-7:1/2", "0,2,4,6", true),
        ("rss.function", "toeplitz", "TOEPLITZ", false),
    ] {
        assert_eq!(are_same(key, one, other), expected, "{key} {one} {other}");
    }
}

#[test]
fn one_group_is_one_write_in_the_order_of_dependencies() {
    let plan = plan_of(
        &[
            "irq.42=0",
            "rps.rx-0=ff",
            "link.gso-ipv4-max-size=196608",
            "link.gso-max-size=196608",
            "feature.gro=on",
            "coalesce.rx-usecs=10",
            "coalesce.adaptive-rx=off",
            "ring.tx=512",
            "ring.rx=512",
            "feature.lro=off",
            "channels.combined=8",
            "rss.indirection=equal 8",
        ],
        &Fake::full(),
    );
    assert_eq!(
        steps(&plan.unwrap()),
        [
            "channels combined",
            "rss indirection",
            "feature rx-lro",
            "ring rx tx",
            "feature rx-gro",
            "coalesce adaptive-rx",
            "coalesce rx-usecs",
            "link gso-max-size",
            "link gso-ipv4-max-size",
            "rps rx-0",
            "irq 42",
        ]
    );
}

#[test]
fn with_fewer_queues_the_table_of_flows_goes_first() {
    let plan = plan_of(&["channels.combined=2", "rss.indirection=equal 2"], &Fake::full()).unwrap();
    assert_eq!(steps(&plan), ["rss indirection", "channels combined"]);
}

#[test]
fn max_min_and_percentages_are_of_the_devices_limits() {
    let plan = plan_of(&["ring.rx=max", "ring.tx=2%", "copybreak.rx=min"], &Fake::full()).unwrap();
    let to: Vec<String> = plan
        .changes()
        .map(|change| format!("{} {} {:?}", change.key, change.to, change.asked))
        .collect();
    assert_eq!(
        to,
        ["ring.rx 4096 Some(\"max\")", "ring.tx 81 Some(\"2%\")", "copybreak.rx 0 Some(\"min\")"]
    );
}

#[test]
fn a_percentage_of_less_than_there_can_be_is_refused_with_the_least() {
    let fake = with(Fake::full(), "channels.combined", |setting| setting.min = None);
    let (kind, what, fix) = refusal(&["channels.combined=0%"], &fake);
    assert_eq!(
        (kind, what.as_str()),
        (Kind::Usage, "channels.combined 0% is 0 of 8: the minimum is 1")
    );
    assert_eq!(fix, "channels.combined=13%, or channels.combined=1");
    assert_eq!(refusal(&["ring.tx=1%"], &fake).2, "ring.tx=2%, or ring.tx=64");
    assert!(plan_of(&["coalesce.rx-usecs=0%", "coalesce.adaptive-rx=off"], &fake).is_ok());
    let pct0 = from_profile("[channels]\ncombined = \"0%\"\n");
    assert!(plan_with(&pct0, &fake, Xdp::None).unwrap_err().to_string().contains("p.toml:2)"));
}

#[test]
fn features_are_refused_with_what_they_need_also_a_second_time() {
    let both = ["feature.tx-checksum-ip-generic=off", "feature.tx-tcp-segmentation=on"];
    let fake = Fake::full();
    let ungranted = with(fake.clone(), "feature.tx-tcp-segmentation", |setting| {
        (setting.value, setting.requested) = (false.into(), Some(true.into()));
    });
    let ungranted =
        with(ungranted, "feature.tx-checksum-ip-generic", |setting| setting.value = false.into());
    for fake in [&fake, &ungranted] {
        let (kind, what, fix) = refusal(&both, fake);
        assert_eq!(kind, Kind::Usage);
        assert_eq!(
            what,
            "feature.tx-tcp-segmentation on (command line) contradicts \
             feature.tx-checksum-ip-generic off (command line): tx-tcp-segmentation needs \
             tx-checksum-ip-generic on, or tx-checksum-ipv4 on"
        );
        assert!(fix.contains("tx-checksum-ip-generic = \"keep\""), "{fix}");
    }
    let (kind, what, fix) = refusal(&["feature.tx-tcp-segmentation=on"], &ungranted);
    assert_eq!((kind, fix.as_str()), (Kind::Failed, "add feature.tx-checksum-ip-generic=on"));
    assert!(
        what.contains("is already requested, and cannot take effect: tx-tcp-segmentation needs"),
        "{what}"
    );
    let both = ["feature.tx-checksum-ip-generic=on", "feature.tx-tcp-segmentation=on"];
    assert_eq!(plan_of(&both, &ungranted).unwrap().changes().count(), 2);
}

#[test]
fn names_of_ethtool_contradict_the_kernels() {
    let desired =
        from_profile("[feature]\ntx-checksumming = \"off\"\ntcp-segmentation-offload = \"on\"\n");
    let error = plan_with(&desired, &Fake::full(), Xdp::None).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), Kind::Usage);
    for part in [
        "tcp-segmentation-offload on (",
        "p.toml:3) contradicts",
        "tx-checksumming off (",
        "p.toml:2)",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn off_that_is_requested_on_is_not_off() {
    let fake = with(Fake::full(), "feature.rx-gro", |s| s.requested = Some(true.into()));
    let plan = plan_of(&["feature.gro=off"], &fake).unwrap();
    let change = plan.changes().next().unwrap();
    assert_eq!((change.from.to_string(), &change.to), ("off [requested on]".into(), &false.into()));
    assert_eq!(plan.touched[&change.key], "off [requested on]".into());
    let (kind, what, _) = refusal(&["feature.gro=on"], &fake);
    assert_eq!(kind, Kind::Failed);
    assert_eq!(what, "feature.gro on is already requested, but the device keeps it off");
}

#[test]
fn a_feature_takes_what_needs_it_along_and_that_is_told() {
    let plan = plan_of(&["feature.tx-scatter-gather=off"], &Fake::full()).unwrap();
    let note = "this also turns feature.tx-tcp-segmentation off: it needs tx-scatter-gather on";
    assert!(plan.notes.iter().any(|known| known == note), "{:?}", plan.notes);
}

fn around(surroundings: &Surroundings, arguments: &[&str], fake: &Fake) -> Result<Plan> {
    let (identity, obtained, around) = (&fake.identity, &BTreeMap::new(), surroundings);
    let context = Context { identity, xdp: Xdp::None, limits: &[], around, obtained };
    plan(&desired(arguments), &fake.settings, &context)
}

#[test]
fn cpus_are_those_that_run_in_any_notation() {
    let mut fake = Fake::full();
    fake.settings.insert("rps.rx-1".parse().unwrap(), Setting::new("00000000,00000000"));
    let machine = Surroundings { cpus: CpuSet::from_list("0-7"), ..Surroundings::default() };
    let to = |argument: &str| -> Vec<String> {
        let plan = around(&machine, &[argument], &fake).unwrap();
        plan.changes().map(|change| format!("{}={}", change.key, change.to)).collect()
    };
    for argument in ["rps.rx-0=0-7", "rps.rx-0=FF", "rps.rx-0=all", "rps.rx-0=0,1,2-7"] {
        assert_eq!(to(argument), ["rps.rx-0=00000000,000000ff"], "{argument}");
    }
    assert_eq!(to("rps.rx-*=10"), ["rps.rx-0=00000000,00000010", "rps.rx-1=00000000,00000010"]);
    assert_eq!(to("irq.*=ff"), ["irq.42=0-7"]);
    assert_eq!(to("xps.tx-0=off"), ["xps.tx-0=00"]);
    assert_eq!(to("rps.rx-0=off"), [""; 0]);
    let refused = |argument| {
        let error = around(&machine, &[argument], &fake).unwrap_err();
        (error.kind(), error.to_string(), error.fix().unwrap_or_default().to_owned())
    };
    let (kind, what, fix) = refused("rps.rx-0=0-8");
    assert_eq!(kind, Kind::Usage);
    assert!(what.ends_with("rps.rx-0 is CPUs 0-8, but the machine has CPUs 0-7 online"), "{what}");
    assert_eq!(fix, "rps.rx-0=0-7, or rps.rx-0=all");
    assert!(refused("irq.42=off").1.ends_with("irq.42 needs at least one CPU"));
    assert!(refused("rps.tx-*=all").1.ends_with("eth0 has no rps.tx-*"));
    let error = from_arguments(&["rps.rx-0=nonsense".into()], &Origin::CommandLine).unwrap_err();
    assert!(
        error.to_string().starts_with("rps.rx-0 is \"nonsense\"; it must be a list of CPUs"),
        "{error}"
    );
}

#[test]
fn queues_that_something_holds_cannot_go() {
    let mut fake = Fake::full();
    let count = |value: u64| Setting { max: Some(8), ..Setting::new(value) };
    fake.settings.remove(&"channels.combined".parse().unwrap());
    fake.settings.insert("channels.rx".parse().unwrap(), count(4));
    fake.settings.insert("channels.tx".parse().unwrap(), count(4));
    let peer = Peer { name: "far".into(), rx_queues: 4, tx_queues: 4, native_xdp: true };
    let free = Surroundings {
        peer: Some(Peer { native_xdp: false, ..peer.clone() }),
        ..Surroundings::default()
    };
    let held = Surroundings {
        af_xdp: Some(2),
        native_xdp: true,
        peer: Some(peer),
        ..Surroundings::default()
    };
    for (argument, said) in [
        ("channels.rx=2", "an AF_XDP socket uses queue 2, and only 2 queues would be left"),
        ("channels.rx=3", "channels.rx 3 is below the 4 transmit queues of its peer far"),
        ("channels.tx=5", "channels.tx 5 exceeds the 4 receive queues of its peer far"),
    ] {
        let error = around(&held, &[argument], &fake).unwrap_err();
        assert!(error.to_string().contains(said), "{argument}: {error}");
        assert!(around(&free, &[argument], &fake).is_ok(), "{argument}");
    }
    assert!(
        around(&free, &["channels.rx=0"], &fake)
            .unwrap_err()
            .to_string()
            .contains("no receive queue")
    );
    let table = around(&free, &["rss.indirection=equal 8"], &fake).unwrap_err();
    assert!(table.to_string().contains("uses 8 queues, but there will be 4"), "{table}");
}

#[test]
fn numbers_beyond_the_limits_are_refused_with_the_limit() {
    let fake = Fake::full();
    assert_eq!(
        refusal(&["ring.rx=8192"], &fake),
        (
            Kind::Usage,
            "ring.rx 8192 exceeds the maximum of eth0, 4096".into(),
            "ring.rx=4096, or ring.rx=max".into()
        )
    );
    let (_, what, fix) = refusal(&["ring.rx=8"], &fake);
    assert_eq!(what, "ring.rx 8 is below the minimum of eth0, 64");
    assert_eq!(fix, "ring.rx=64, or ring.rx=min");
    let (_, what, fix) = refusal(&["napi.gro-flush-timeout=max"], &fake);
    assert_eq!(what, "the maximum of napi.gro-flush-timeout is unknown");
    assert_eq!(fix, "give a number");
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    let fake = Fake::full();
    let what = |argument| refusal(&[argument], &fake);
    assert_eq!(what("ring.rx=on").1, "ring.rx takes a number, not on");
    assert_eq!(what("ring.rx=many").1, "ring.rx takes a number, not many");
    assert_eq!(what("feature.gro=1").1, "feature.rx-gro takes on or off, not 1");
    assert_eq!(what("pause.rx=yes").1, "pause.rx takes on or off, not yes");
    // What the device has as text may look like a number.
    assert_eq!(plan_of(&["irq.42=1"], &fake).unwrap().steps[0].changes[0].to, "1".into());
}

#[test]
fn what_the_device_does_not_have_is_an_error_of_set_and_a_note_of_a_profile() {
    let fake = Fake::full();
    let (kind, what, fix) = refusal(&["ring.rx-jumbo=5"], &fake);
    assert_eq!((kind, what.as_str()), (Kind::Failed, "eth0 has no ring.rx-jumbo"));
    assert_eq!(fix, "it has: hds-thresh, rx, tcp-data-split, tx");
    assert_eq!(
        refusal(&["private-flag.legacy_rx=on"], &fake).2,
        "did you mean private-flag.legacy-rx?"
    );
    let bare = Fake::new(&[("link.mtu", Setting::new(1500_u64))]);
    assert!(refusal(&["ring.rx=5"], &bare).2.contains("no settings in group ring"));

    let desired = from_profile("[ring]\nrx-jumbo = 5\nrx = 512\n");
    let plan = plan_with(&desired, &fake, Xdp::None).unwrap();
    assert_eq!(plan.notes, ["skipped: eth0 has no ring.rx-jumbo"]);
    assert_eq!(steps(&plan), ["ring rx"]);
}

#[test]
fn a_feature_that_nobody_knows_is_suggested_also_from_a_profile() {
    let fake = Fake::full();
    let (kind, what, fix) = refusal(&["feature.rx-grro=on"], &fake);
    assert_eq!(kind, Kind::Usage);
    assert_eq!(what, "eth0 has no feature \"rx-grro\"");
    assert_eq!(fix, "did you mean rx-gro?");
    let desired = from_profile("[feature]\nrx-grro = true\n");
    assert_eq!(plan_with(&desired, &fake, Xdp::None).unwrap_err().kind(), Kind::Usage);
    // One that this kernel does not have yet is something else.
    let desired = from_profile("[feature]\nhsr-dup-offload = true\n");
    assert_eq!(plan_with(&desired, &fake, Xdp::None).unwrap().notes.len(), 1);
}

fn fixed(key: &str, by: &str) -> Fake {
    with(Fake::full(), key, |setting| setting.access = Access::Fixed { by: by.into() })
}

#[test]
fn what_is_fixed_is_refused_with_who_fixed_it() {
    let fake = fixed("feature.rx-lro", "host");
    let (kind, what, fix) = refusal(&["feature.lro=off"], &fake);
    assert_eq!(kind, Kind::Failed);
    assert_eq!(what, "feature.rx-lro is fixed by the host: it is on");
    assert!(fix.contains("on the host"), "{fix}");
    // It is so already.
    assert!(plan_of(&["feature.lro=on"], &fake).unwrap().is_empty());
    let desired = from_profile("[feature]\nlro = false\n");
    let error = plan_with(&desired, &fake, Xdp::None).unwrap_err().to_string();
    assert!(error.contains("p.toml:2)"), "{error}");
}

#[test]
fn a_built_in_profile_wants_what_can_be_had() {
    let mut fake = fixed("feature.rx-gro", "driver");
    fake = with(fake, "link.gso-max-size", |setting| setting.max = Some(65536));
    let desired = Profile::load("big-tcp").unwrap().settings;
    let plan = plan_with(&desired, &fake, Xdp::None).unwrap();
    let note = "skipped: feature.rx-gro is fixed by the driver: it is off";
    assert!(plan.notes.iter().any(|known| known == note), "{:?}", plan.notes);
    // tso_max_size of a tunnel: clamped to what there is already.
    assert!(plan.changes().all(|change| change.key.name != "gso-max-size"));
    assert!(plan.changes().any(|change| change.key.name == "gro-max-size"));
}

#[test]
fn read_only_settings_are_refused() {
    let fake = with(Fake::full(), "ring.rx", |setting| setting.access = Access::ReadOnly);
    assert_eq!(refusal(&["ring.rx=512"], &fake).1, "ring.rx is read-only");
}

#[test]
fn an_alias_changes_those_of_its_features_that_can_be() {
    let fake = fixed("feature.tx-tcp6-segmentation", "driver");
    let plan = plan_of(&["feature.tso=off"], &fake).unwrap();
    assert_eq!(steps(&plan), ["feature tx-tcp-segmentation"]);
    assert_eq!(plan.notes, [""; 0]);
    let fake = with(fake, "feature.tx-tcp-segmentation", |setting| {
        setting.access = Access::Fixed { by: "driver".into() };
    });
    let (_, what, _) = refusal(&["feature.tso=off"], &fake);
    assert!(what.contains("is fixed by the driver"), "{what}");
}

#[test]
fn contradictions_are_refused_and_told_of_what_there_is() {
    let fake = Fake::full();
    let (kind, what, fix) = refusal(&["coalesce.rx-usecs=20", "coalesce.adaptive-rx=on"], &fake);
    assert_eq!(kind, Kind::Usage);
    assert_eq!(
        what,
        "coalesce.rx-usecs 20 (command line) contradicts coalesce.adaptive-rx on (command line)"
    );
    assert!(fix.contains("adaptive-rx = \"keep\""), "{fix}");
    let plan = plan_of(&["coalesce.rx-usecs=20"], &fake).unwrap();
    assert_eq!(plan.notes, ["coalesce.rx-usecs has no effect while coalesce.adaptive-rx is on"]);
    let off = plan_of(&["coalesce.rx-usecs=20", "coalesce.adaptive-rx=off"], &fake).unwrap();
    assert_eq!(off.notes, [""; 0]);
}

#[test]
fn built_in_profiles_do_not_contradict_themselves() {
    for (name, _) in Profile::built_in() {
        let desired = Profile::load(name).unwrap().settings;
        for xdp in [Xdp::None, Xdp::SingleBuffer, Xdp::Frags] {
            plan_with(&desired, &Fake::full(), xdp).unwrap();
        }
    }
}

#[test]
fn keep_takes_a_wish_of_the_extended_profile_back() {
    let desired = from_profile("extends = \"throughput\"\n[ring]\nrx = \"keep\"\n");
    let plan = plan_with(&desired, &Fake::full(), Xdp::None).unwrap();
    assert!(steps(&plan).contains(&"ring tx".to_owned()));
}

#[test]
fn xdp_refuses_what_it_does_not_run_with() {
    let fake = with(Fake::full(), "feature.rx-lro", |setting| setting.value = false.into());
    let refused = |argument, xdp| {
        plan_with(&desired(&[argument]), &fake, xdp).map_err(|error| error.to_string()).err()
    };
    let lro = refused("feature.lro=on", Xdp::Frags).unwrap();
    assert!(lro.ends_with("XDP does not work with feature.rx-lro on"), "{lro}");
    let split = refused("ring.tcp-data-split=on", Xdp::SingleBuffer).unwrap();
    assert!(split.contains("single-buffer XDP program"), "{split}");
    assert_eq!(refused("ring.tcp-data-split=on", Xdp::Frags), None);
    assert_eq!(refused("feature.lro=on", Xdp::None), None);
}

#[test]
fn what_xdp_needs_goes_with_what_a_user_wants() {
    let needs = || {
        let key = "feature.rx-lro".parse().unwrap();
        let wanted = Wanted::Value(false.into());
        Desired::from([(key, Request { wanted, origin: Origin::Xdp, alias: None })])
    };
    let both = with_needs_of_xdp(desired(&["ring.rx=512"]), needs()).unwrap();
    let plan = plan_with(&both, &Fake::full(), Xdp::Frags).unwrap();
    assert_eq!(steps(&plan), ["feature rx-lro", "ring rx"]);
    let error = with_needs_of_xdp(desired(&["feature.lro=on"]), needs()).unwrap_err();
    assert_eq!(error.to_string(), "feature.rx-lro on (command line), but XDP needs it off");
}

#[test]
fn small_sizes_keep_those_for_ipv4() {
    let fake = with(Fake::full(), "link.gso-max-size", |s| s.value = 196_608_u64.into());
    let fake = with(fake, "link.gso-ipv4-max-size", |s| s.value = 100_000_u64.into());
    let plan = plan_of(&["link.gso-max-size=32768"], &fake).unwrap();
    assert_eq!(steps(&plan), ["link gso-max-size", "link gso-ipv4-max-size"]);
    let kept = plan.changes().last().unwrap();
    assert!(kept.kept && kept.to == 100_000_u64.into());
    // Above 65536 nothing is overwritten.
    let plan = plan_of(&["link.gso-max-size=300000"], &fake).unwrap();
    assert_eq!(steps(&plan), ["link gso-max-size"]);
}

#[test]
fn what_is_wanted_and_so_already_is_written_again_if_a_change_may_undo_it() {
    let plan =
        plan_of(&["coalesce.adaptive-rx=off", "coalesce.rx-usecs=3"], &Fake::full()).unwrap();
    assert_eq!(steps(&plan), ["coalesce adaptive-rx", "coalesce rx-usecs"]);
    assert!(plan.changes().last().unwrap().kept);
}

#[test]
fn what_may_change_besides_is_remembered() {
    let plan = plan_of(&["channels.combined=8"], &Fake::full()).unwrap();
    let touched: Vec<String> = plan.touched.keys().map(ToString::to_string).collect();
    assert_eq!(touched, ["channels.combined", "rss.indirection", "rps.rx-0", "xps.tx-0"]);
}

#[test]
fn surprises_are_told() {
    let plan = plan_of(&["feature.lro=off", "feature.gro=on"], &Fake::full()).unwrap();
    assert_eq!(plan.notes, [""; 0]);
    let fake = with(Fake::full(), "feature.rx-lro", |setting| setting.value = false.into());
    let plan = plan_of(&["feature.lro=on"], &fake).unwrap();
    assert_eq!(plan.notes, ["feature.rx-lro on: merged packets cannot be forwarded as they were"]);
}

#[test]
fn what_a_driver_made_of_a_wish_before_is_not_tried_again() {
    let fake = with(Fake::full(), "ring.rx", |setting| setting.value = 104_u64.into());
    let obtained =
        [("ring.rx".parse().unwrap(), Obtained { asked: 100_u64.into(), got: 104_u64.into() })]
            .into();
    let (identity, obtained) = (&fake.identity, &obtained);
    let context = Context {
        identity,
        xdp: Xdp::None,
        limits: &[],
        around: &Surroundings::default(),
        obtained,
    };
    let again = plan(&desired(&["ring.rx=100"]), &fake.settings, &context).unwrap();
    assert!(again.is_empty());
    assert_eq!(again.notes, ["ring.rx is 104: the driver made 104 of 100 before"]);
    let other = plan(&desired(&["ring.rx=200"]), &fake.settings, &context).unwrap();
    assert!(!other.is_empty());
}

#[test]
fn several_refusals_are_all_told() {
    let (kind, what, _) = refusal(&["ring.rx=8192", "feature.nonsense=on"], &Fake::full());
    assert_eq!(kind, Kind::Usage);
    assert!(what.starts_with("2 settings are refused\n  "), "{what}");
    assert!(what.contains("\n    fix: ring.rx=4096, or ring.rx=max"), "{what}");
}

/// Reads `KEY VALUE [MIN..MAX] [fixed:WHO]`, one a line.
fn settings(text: &str) -> Vec<(String, Setting)> {
    let setting = |line: &str| {
        let mut words = line.split_whitespace();
        let key = words.next().unwrap().to_owned();
        let value = match words.next().unwrap().parse::<Wanted>().unwrap() {
            Wanted::Value(value) => value,
            other => panic!("{other}"),
        };
        let mut setting = Setting::new(value);
        for word in words {
            if let Some(by) = word.strip_prefix("fixed:") {
                setting.access = Access::Fixed { by: by.into() };
            } else if let Some((min, max)) = word.split_once("..") {
                (setting.min, setting.max) = (min.parse().ok(), max.parse().ok());
            }
        }
        (key, setting)
    };
    text.lines().filter(|line| !line.is_empty()).map(setting).collect()
}

/// `NAME.desired.toml` and `NAME.current` give `NAME.plan`, as text.
#[test]
fn desired_and_current_give_the_plan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/plan/golden");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = file.strip_suffix(".desired.toml") else { continue };
        let desired = Profile::load(path.to_str().unwrap()).unwrap();
        let current = fs::read_to_string(folder.join(format!("{name}.current"))).unwrap();
        let mut fake = Fake::new(&[]);
        fake.identity.driver = Some(name.to_owned());
        fake.settings = settings(&current)
            .into_iter()
            .map(|(key, setting)| (key.parse().unwrap(), setting))
            .collect();
        let mut text = Vec::new();
        match plan_with(&desired.settings, &fake, Xdp::None) {
            Ok(plan) => text::write_plan(&plan, &mut text, Style::Plain).unwrap(),
            Err(error) => text = format!("{error}\n").into_bytes(),
        }
        let text = String::from_utf8(text).unwrap().replace(&format!("{}/", folder.display()), "");
        let golden = folder.join(format!("{name}.plan"));
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(text, expected, "{}", golden.display());
        seen += 1;
    }
    assert!(seen >= 4);
}

/// Wishes for some of the settings of a full NIC, each within its limits.
fn any_desired() -> impl Strategy<Value = Desired> {
    let wish = |key: Key, setting: Setting| {
        let wanted = match &setting.value {
            Value::Switch(_) => any::<bool>().prop_map(|on| Wanted::Value(on.into())).boxed(),
            Value::Number(_) => {
                let (min, max) = (setting.min.unwrap_or(0), setting.max.unwrap_or(1000));
                let number = (min..=max).prop_map(|number| Wanted::Value(number.into()));
                match setting.max {
                    Some(_) => prop_oneof![
                        number,
                        Just(Wanted::Max),
                        Just(Wanted::Min),
                        (0_u8..=100).prop_map(Wanted::Percent),
                        Just(Wanted::Keep),
                    ]
                    .boxed(),
                    None => number.boxed(),
                }
            }
            Value::Text(_) if key.group == Group::Rss => {
                (1_u64..=8).prop_map(|n| Wanted::Value(format!("equal {n}").into())).boxed()
            }
            Value::Text(_) => "[0-9a-f]{1,4}".prop_map(|text| Wanted::Value(text.into())).boxed(),
        };
        (Just(key), prop::option::weighted(0.6, wanted))
    };
    let wishes: Vec<_> =
        Fake::full().settings.into_iter().map(|(key, setting)| wish(key, setting)).collect();
    wishes.prop_map(|wishes| {
        let request = |wanted| Request { wanted, origin: Origin::CommandLine, alias: None };
        wishes.into_iter().filter_map(|(key, wanted)| Some((key, request(wanted?)))).collect()
    })
}

/// Wishes for everything as it is.
fn as_it_is(fake: &Fake) -> Desired {
    let request = |setting: &Setting| Request {
        wanted: Wanted::Value(setting.value.clone()),
        origin: Origin::CommandLine,
        alias: None,
    };
    let granted = fake.settings.iter().filter(|(_, setting)| setting.requested.is_none());
    granted.map(|(key, setting)| (key.clone(), request(setting))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_planned_for_what_is_so(desired in any_desired()) {
        let mut fake = Fake::full();
        let _ = planned_and_applied(&desired, &mut fake);
        prop_assert!(plan_with(&as_it_is(&fake), &fake, Xdp::None).unwrap().is_empty());
    }

    #[test]
    fn after_a_plan_there_is_nothing_to_plan(desired in any_desired()) {
        let mut fake = Fake::full();
        if planned_and_applied(&desired, &mut fake) {
            let again = plan_with(&desired, &fake, Xdp::None).unwrap();
            prop_assert!(again.is_empty(), "{:?}", steps(&again));
        }
    }

    #[test]
    fn steps_follow_the_rules(desired in any_desired()) {
        if let Ok(plan) = plan_with(&desired, &Fake::full(), Xdp::None) {
            let fewer = gets_fewer_queues(plan.changes());
            let stages: Vec<usize> =
                plan.changes().map(|change| rules::stage_of(&change.key, &change.to, fewer)).collect();
            prop_assert!(stages.is_sorted());
            for step in &plan.steps {
                prop_assert!(step.changes.iter().all(|change| change.key.group == step.group));
            }
            for change in plan.changes() {
                let (original, from) = (&plan.touched[&change.key], &change.from);
                prop_assert!(original == from || is_default(original));
                prop_assert!(change.kept || change.from != change.to);
            }
        }
    }
}

/// Whether there was a plan, and it could be applied.
fn planned_and_applied(desired: &Desired, fake: &mut Fake) -> bool {
    let Ok(plan) = plan_with(desired, fake, Xdp::None) else { return false };
    let folder = tempfile::tempdir().unwrap();
    apply(fake, &plan, &Owner::Set, &Journals::new(folder.path())).unwrap().failure.is_none()
}
