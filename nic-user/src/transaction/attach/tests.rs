use super::*;
use crate::{
    control::{
        Owner, Undo, Whose, apply_then,
        fake::{Fake, Fault},
        wanted::{Origin, from_arguments},
    },
    error::Error,
    netlink::{
        ethtool::{
            channels::{ChannelCounts, Channels},
            features::Feature,
        },
        ethtool_ioctl::DriverInfo,
        link::XdpMode,
    },
    nic::{
        preflight,
        setting::{Group, Key, Setting, Value},
    },
};

/// A NIC with everything that XDP gets in conflict with.
fn fake() -> Fake {
    let mut fake = Fake::full();
    for (key, setting) in [
        ("feature.rx-gro-hw", Setting::new(true)),
        ("channels.rx", Setting { max: Some(8), ..Setting::new(0_u64) }),
        ("channels.tx", Setting { max: Some(8), ..Setting::new(0_u64) }),
    ] {
        fake.settings.insert(key.parse().unwrap(), setting);
    }
    fake
}

/// The same, as it is known before its settings are read.
fn nic(fake: &Fake, driver: &str) -> Nic {
    let number = |name: &str| match fake.settings[&Key::new(Group::Channels, name)].value {
        Value::Number(number) => number as u32,
        _ => 0,
    };
    let counts = |rx, tx, combined| ChannelCounts { rx, tx, combined, other: 0 };
    let current = counts(number("rx"), number("tx"), number("combined"));
    let mut nic = Nic {
        driver: Some(DriverInfo { driver: driver.to_owned(), ..DriverInfo::default() }),
        channels: Some(Channels { current, max: counts(8, 8, 8) }),
        ..Nic::default()
    };
    nic.link.mtu = 1500;
    for name in preflight::MERGING {
        let active = fake.value(&format!("feature.{name}")) == true.into();
        let feature = Feature { active, wanted: active, changeable: true, never_changes: false };
        nic.features.insert((*name).to_owned(), feature);
    }
    nic
}

struct Lab {
    fake: Fake,
    nic: Nic,
    _folder: tempfile::TempDir,
    journals: Journals,
}

impl Lab {
    fn new(driver: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = fake();
        let journals = Journals::new(folder.path());
        Self { nic: nic(&fake, driver), fake, _folder: folder, journals }
    }

    fn plan(&mut self, wishes: &[&str], mode: XdpMode) -> Result<Plan> {
        let wishes: Vec<String> = wishes.iter().map(|&wish| wish.into()).collect();
        let wishes = from_arguments(&wishes, &Origin::CommandLine)?;
        self.plan_desired(&wishes, mode)
    }

    fn plan_desired(&mut self, wishes: &Desired, mode: XdpMode) -> Result<Plan> {
        let needs = rules::needs_of_xdp(&self.nic, mode);
        let program = Present::expected(&self.nic, mode);
        plan_settings(&mut self.fake, wishes, needs, &program, &self.journals)
    }

    /// The changes that are planned, or why there are none, and what to do about it.
    fn planned(driver: &str, wishes: &[&str], mode: XdpMode) -> Result<String, String> {
        let mut lab = Self::new(driver);
        match lab.plan(wishes, mode) {
            Ok(plan) => {
                let change = |c: &control::plan::Change| format!("{}={}", c.key, c.to);
                Ok(plan.changes().map(change).collect::<Vec<_>>().join(" "))
            }
            Err(error) => {
                assert!(lab.fake.writes.is_empty());
                let message = error.to_string().replace("plan for eth0: ", "");
                Err(format!("{message} | {}", error.fix().unwrap_or_default()))
            }
        }
    }
}

const NATIVE: XdpMode = XdpMode::Native;
const GENERIC: XdpMode = XdpMode::Generic;

#[test]
fn what_xdp_does_not_run_with_is_planned_away() {
    for (driver, mode, wishes, changes) in [
        ("mlx5_core", NATIVE, &[][..], "feature.rx-gro-hw=off feature.rx-lro=off"),
        ("ixgbe", NATIVE, &[], "feature.rx-lro=off"),
        ("vmxnet3", NATIVE, &[], "feature.rx-lro=off"),
        // It does without by itself, and has it again afterwards.
        ("virtio_net", NATIVE, &[], ""),
        ("igb", NATIVE, &[], ""),
        // Of this one nothing is known.
        ("unheard-of", NATIVE, &[], "feature.rx-gro-hw=off feature.rx-lro=off"),
        // The kernel turns them off, and not on again.
        ("igb", GENERIC, &[], "feature.rx-gro-hw=off feature.rx-lro=off"),
        ("virtio_net", GENERIC, &[], "feature.rx-gro-hw=off feature.rx-lro=off"),
        // Four of eight channels are in use, which leaves enough; eight are not.
        ("ena", NATIVE, &[], ""),
        ("ena", NATIVE, &["channels.combined=max"], ""),
        ("ena", NATIVE, &["channels.combined=2"], "channels.combined=2"),
        // Before split headers.
        (
            "mlx5_core",
            NATIVE,
            &["ring.tcp-data-split=on", "feature.lro=off"],
            "feature.rx-gro-hw=off feature.rx-lro=off ring.tcp-data-split=on",
        ),
        ("ice", NATIVE, &["link.mtu=9000"], "link.mtu=9000"),
        (
            "igb",
            GENERIC,
            &["link.mtu=9000"],
            "feature.rx-gro-hw=off feature.rx-lro=off link.mtu=9000",
        ),
    ] {
        let planned = Lab::planned(driver, wishes, mode);
        assert_eq!(planned.as_deref(), Ok(changes), "{driver} {wishes:?}");
    }
}

#[test]
fn what_can_not_be_planned_away_is_refused_with_the_way_out() {
    for (driver, mode, wish, refusal) in [
        (
            "mlx5_core",
            NATIVE,
            "feature.lro=on",
            "feature.rx-lro on (command line), but XDP needs it off | omit it",
        ),
        (
            "igb",
            GENERIC,
            "feature.rx-gro-hw=on",
            "feature.rx-gro-hw on (command line), but XDP needs it off | omit it",
        ),
        (
            "igb",
            NATIVE,
            "link.mtu=9000",
            "link.mtu 9000 exceeds the maximum for native XDP, 3046 | link.mtu=3046, or attach \
             with --mode generic",
        ),
        (
            "igb",
            NATIVE,
            "ring.tcp-data-split=on",
            "ring.tcp-data-split cannot be on with a single-buffer XDP program | omit it, or \
             detach and attach with it if the driver supports frags",
        ),
        (
            "ena",
            NATIVE,
            "channels.combined=8",
            "channels.combined 8 exceeds the maximum for native XDP, 4 | channels.combined=4, or \
             attach with --mode generic",
        ),
    ] {
        let planned = Lab::planned(driver, &[wish], mode);
        assert_eq!(planned, Err(refusal.to_owned()), "{driver} {wish}");
    }
}

#[test]
fn channels_in_use_make_room_for_xdp() {
    let mut lab = Lab::new("ena");
    lab.fake.settings.get_mut(&Key::new(Group::Channels, "combined")).unwrap().value = 8_u64.into();
    lab.nic = nic(&lab.fake, "ena");
    let plan = lab.plan(&[], NATIVE).unwrap();
    assert!(
        plan.changes().any(|change| change.key.name == "combined" && change.to == 4_u64.into())
    );
    let after = plan.applied_to(&lab.nic);
    let blocks = |nic: &Nic| preflight::xdp_findings(nic, NATIVE).iter().any(|f| f.blocks);
    assert!(blocks(&lab.nic) && !blocks(&after));
}

#[test]
fn a_built_in_profile_leaves_out_what_xdp_does_not_run_with() {
    let profile = Profile::load("header-split").unwrap();
    let mut lab = Lab::new("igb");
    let plan = lab.plan_desired(&profile.settings, NATIVE).unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("tcp-data-split")), "{:?}", plan.notes);
    assert!(!plan.applied_to(&lab.nic).splits_headers);
    let mut lab = Lab::new("ice");
    let plan = lab.plan_desired(&profile.settings, NATIVE).unwrap();
    let after = plan.applied_to(&lab.nic);
    assert!(after.splits_headers && preflight::needs_frags(&after));
}

#[test]
fn programs_and_settings_succeed_or_fail_together() {
    let mut lab = Lab::new("mlx5_core");
    // No kernel has both hardware GRO and LRO on.
    let key = "feature.rx-gro-hw".parse().unwrap();
    lab.fake.settings.insert(key, Setting::new(false));
    lab.nic = nic(&lab.fake, "mlx5_core");
    let before = lab.fake.values();
    let plan = lab.plan(&["ring.rx=512"], NATIVE).unwrap();

    // The programs are refused.
    let refused = || Err(Error::failed("no programs"));
    let report = apply_then(&mut lab.fake, &plan, &Owner::Attach, &lab.journals, refused).unwrap();
    assert_eq!(report.failure.unwrap().to_string(), "no programs");
    assert_eq!(lab.fake.values(), before);
    assert!(lab.journals.all().unwrap().is_empty());

    // A setting is refused, and programs are not even tried.
    lab.fake.new_process();
    lab.fake.faults.insert(1, Fault::Errno(libc::EBUSY));
    let never = || panic!("attached");
    let report = apply_then(&mut lab.fake, &plan, &Owner::Attach, &lab.journals, never).unwrap();
    assert!(report.failure.is_some());
    assert_eq!(lab.fake.values(), before);

    // Both go well, until they are detached.
    lab.fake.new_process();
    let report =
        apply_then(&mut lab.fake, &plan, &Owner::Attach, &lab.journals, || Ok(())).unwrap();
    assert!(report.failure.is_none());
    assert_eq!(lab.fake.value("feature.rx-lro"), false.into());
    let undo = Undo { whose: Whose::Of(&Owner::Attach), force: false };
    control::undo(&mut lab.fake, &lab.journals, undo).unwrap();
    assert_eq!(lab.fake.values(), before);
}
