use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tempfile::TempDir;

use super::*;
use crate::control::{
    fake::{Fake, Fault, Killed, Quirk},
    give_back::give_back,
    kept::Whose,
    plan::{Context, Xdp, plan},
    undo::{self, Restored, Undo},
    wanted::{Desired, Origin, from_arguments},
};
use crate::nic::{setting::Group, surroundings::Surroundings};

/// More than twelve steps, with everything that depends on something.
const EVERYTHING: &[&str] = &[
    "private-flag.legacy-rx=on",
    "channels.combined=8",
    "rss.indirection=equal 8",
    "feature.lro=off",
    "link.mtu=4000",
    "ring.rx=max",
    "ring.tx=50%",
    "ring.tcp-data-split=on",
    "ring.hds-thresh=256",
    "feature.gro=on",
    "coalesce.adaptive-rx=off",
    "coalesce.rx-usecs=20",
    "link.gso-max-size=30000",
    "link.gso-ipv4-max-size=40000",
    "copybreak.rx=128",
    "pause.rx=on",
    "napi.gro-flush-timeout=20000",
    "rps.rx-0=ff",
    "xps.tx-0=1",
    "irq.42=1",
];

const STEPS: usize = 17;

/// What `nicctl restore` undoes.
const EVERYBODY: Undo<'_> = Undo { whose: Whose::Everybody, force: false };

fn restore(fake: &mut Fake, journals: &Journals) -> Result<Restored> {
    undo::undo(fake, journals, EVERYBODY)
}

fn preview(fake: &mut Fake, journals: &Journals) -> Result<Restored> {
    undo::preview(fake, journals, EVERYBODY)
}

struct Lab {
    folder: TempDir,
    journals: Journals,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { journals: Journals::new(folder.path()), folder }
    }

    fn files(&self) -> usize {
        let is_journal =
            |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|e| e == "json");
        std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten()
            .filter(is_journal)
            .count()
    }

    fn apply(&self, arguments: &[&str], fake: &mut Fake) -> Report {
        self.apply_desired(&desired(arguments), fake)
    }

    fn apply_desired(&self, desired: &Desired, fake: &mut Fake) -> Report {
        let plan = planned(desired, fake);
        apply(fake, &plan, &Owner::Set, &self.journals).unwrap()
    }

    /// Whether the process lived to the end of the apply.
    fn apply_or_die(&self, arguments: &[&str], fake: &mut Fake) -> bool {
        let plan = planned(&desired(arguments), fake);
        survives(|| drop(apply(fake, &plan, &Owner::Set, &self.journals).unwrap()))
    }

    fn restore(&self, fake: &mut Fake) -> Option<Error> {
        restore(fake, &self.journals).unwrap().error()
    }

    fn restore_or_die(&self, fake: &mut Fake) -> bool {
        survives(|| drop(restore(fake, &self.journals).unwrap()))
    }
}

fn survives(work: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => true,
        Err(panic) if panic.is::<Killed>() => false,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn desired(arguments: &[&str]) -> Desired {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
    from_arguments(&arguments, &Origin::CommandLine).unwrap()
}

fn planned(desired: &Desired, fake: &Fake) -> Plan {
    let obtained = BTreeMap::new();
    let (identity, obtained) = (&fake.identity, &obtained);
    let context = Context {
        identity,
        xdp: Xdp::None,
        limits: &[],
        around: &Surroundings::default(),
        obtained,
    };
    plan(desired, &fake.settings, &context).unwrap()
}

fn states(report: &Report) -> Vec<StepState> {
    report.steps.iter().map(|step| step.state).collect()
}

fn outcomes(report: &Report) -> Vec<&Outcome> {
    report.steps.iter().flat_map(|step| &step.outcomes).collect()
}

#[test]
fn everything_is_written_once_and_restored() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    let mut report = lab.apply(EVERYTHING, &mut fake);
    assert!(report.error().is_none());
    assert_eq!(report.steps.len(), STEPS);
    assert_eq!(fake.writes.len(), STEPS);
    assert!(outcomes(&report).iter().all(|outcome| **outcome == Outcome::AsAsked));
    assert_eq!(fake.value("ring.rx"), 4096_u64.into());
    assert_eq!(fake.value("link.gso-ipv4-max-size"), 40000_u64.into());
    assert_eq!(lab.files(), 1);
    fake.new_process();
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.values(), before);
    assert_eq!(lab.files(), 0);
    // Nothing is left to restore.
    fake.new_process();
    assert!(restore(&mut fake, &lab.journals).unwrap().given_back.is_none());
    assert_eq!(fake.writes, []);
}

#[test]
fn nothing_to_do_leaves_no_journal() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    assert!(lab.apply(&["ring.rx=256"], &mut fake).steps.is_empty());
    assert_eq!((lab.files(), fake.writes.len()), (0, 0));
}

#[test]
fn each_step_failing_in_turn_undoes_those_before() {
    for step in 0..STEPS {
        for errno in [libc::EBUSY, libc::ENOMEM] {
            for fault in [Fault::Errno(errno), Fault::Half(errno)] {
                let (lab, fake) = (Lab::new(), Fake::full());
                let before = fake.values();
                let mut fake = fake.fault(step, fault.clone());
                let mut report = lab.apply(EVERYTHING, &mut fake);
                assert_eq!(fake.values(), before, "step {step}, {fault:?}");
                let mut expected = vec![StepState::Undone; step];
                expected.push(StepState::Failed);
                expected.resize(STEPS, StepState::Planned);
                assert_eq!(states(&report), expected);
                assert_eq!(lab.files(), 0, "nothing is left to restore");
                let error = report.error().unwrap().to_string();
                let kernel = netlink::describe_errno(errno);
                assert!(error.starts_with("set ") && error.ends_with(&kernel), "{error}");
                assert_eq!(report.steps[step].error, Some(kernel));
            }
        }
    }
}

#[test]
fn reading_back_failing_undoes_too() {
    for read in 0..STEPS {
        let (lab, mut fake) = (Lab::new(), Fake::full());
        let before = fake.values();
        fake.read_faults.insert(read, Fault::Errno(libc::ENOMEM));
        let mut report = lab.apply(EVERYTHING, &mut fake);
        assert_eq!(fake.values(), before, "read {read}");
        let error = report.error().unwrap().to_string();
        assert!(error.starts_with("read back "), "{error}");
        assert_eq!(lab.files(), 0);
    }
}

#[test]
fn an_interface_that_vanishes_is_not_found() {
    for step in 0..STEPS {
        let (lab, fake) = (Lab::new(), Fake::full());
        let mut fake = fake.fault(step, Fault::Vanish);
        let mut report = lab.apply(EVERYTHING, &mut fake);
        let expected: Vec<StepState> = vec![StepState::UndoFailed; step];
        assert_eq!(states(&report)[..step], expected);
        let error = report.error().unwrap();
        assert_eq!(error.kind(), crate::error::Kind::NotFound);
        assert!(error.to_string().contains("ENODEV"), "{error}");
        // It is not written to in vain.
        assert_eq!(fake.writes.len(), step + 1);
    }
}

#[test]
fn undoing_goes_on_where_single_writes_fail() {
    // Step 10 fails, and so do some of the writes that undo those before.
    for failing in STEPS - 6..STEPS + 6 {
        let (lab, fake) = (Lab::new(), Fake::full());
        let before = fake.values();
        let mut fake =
            fake.fault(10, Fault::Errno(libc::EBUSY)).fault(failing, Fault::Errno(libc::EBUSY));
        let report = lab.apply(EVERYTHING, &mut fake);
        assert_eq!(fake.values(), before, "write {failing}");
        assert!(report.left.is_empty());
    }
}

#[test]
fn what_can_not_be_undone_is_told_and_can_be_restored_later() {
    let (lab, fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    let mut fake = fake.fault(8, Fault::Errno(libc::EBUSY));
    for write in 9..80 {
        // From here on, nothing can be written to rings any more.
        if write > 8 {
            fake.faults.insert(write, Fault::Errno(libc::EIO));
        }
    }
    let mut report = lab.apply(EVERYTHING, &mut fake);
    assert!(report.left.iter().any(|left| {
        left.key.to_string() == "ring.rx"
            && left.was == 256_u64.into()
            && left.error.as_deref() == Some("EIO: Input/output error")
    }));
    assert_eq!(states(&report)[5], StepState::UndoFailed);
    assert!(report.error().is_some());
    assert_eq!(lab.files(), 1);
    fake.new_process();
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.values(), before);
}

#[test]
fn killed_anywhere_in_apply_restore_brings_everything_back() {
    for at in 0..STEPS {
        for fault in [Fault::KillBefore, Fault::KillAfter] {
            let (lab, fake) = (Lab::new(), Fake::full());
            let before = fake.values();
            let mut fake = fake.fault(at, fault.clone());
            assert!(!lab.apply_or_die(EVERYTHING, &mut fake));
            fake.new_process();
            assert!(lab.restore(&mut fake).is_none());
            assert_eq!(fake.values(), before, "write {at}, {fault:?}");
            assert_eq!(lab.files(), 0);
        }
        // Between the write and what is noted of it.
        let (lab, mut fake) = (Lab::new(), Fake::full());
        let before = fake.values();
        fake.read_faults.insert(at, Fault::KillBefore);
        assert!(!lab.apply_or_die(EVERYTHING, &mut fake));
        fake.new_process();
        assert!(lab.restore(&mut fake).is_none());
        assert_eq!(fake.values(), before, "read {at}");
    }
}

#[test]
fn killed_anywhere_in_undo_restore_brings_everything_back() {
    let failing = 12;
    for at in failing + 1.. {
        let (lab, fake) = (Lab::new(), Fake::full());
        let before = fake.values();
        let mut fake = fake.fault(failing, Fault::Errno(libc::EBUSY)).fault(at, Fault::KillAfter);
        let survived = lab.apply_or_die(EVERYTHING, &mut fake);
        fake.new_process();
        assert!(lab.restore(&mut fake).is_none());
        assert_eq!(fake.values(), before, "write {at}");
        if survived {
            assert!(at > failing + 5, "the undo was never interrupted");
            break;
        }
    }
}

#[test]
fn killed_anywhere_in_restore_the_next_one_brings_everything_back() {
    for killed_apply in [3, 9, STEPS - 1, usize::MAX] {
        for fault in [Fault::KillBefore, Fault::KillAfter] {
            for at in 0.. {
                let (lab, fake) = (Lab::new(), Fake::full());
                let before = fake.values();
                let mut fake = fake.fault(killed_apply, Fault::KillAfter);
                lab.apply_or_die(EVERYTHING, &mut fake);
                fake.new_process();
                fake.faults.insert(at, fault.clone());
                let survived = lab.restore_or_die(&mut fake);
                fake.new_process();
                assert!(lab.restore(&mut fake).is_none());
                assert_eq!(fake.values(), before, "apply {killed_apply}, restore {at}");
                if survived {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_second_apply_keeps_the_oldest_originals() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    lab.apply(EVERYTHING, &mut fake);
    lab.apply(&["ring.rx=512", "link.gro-max-size=30000"], &mut fake);
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.values(), before);
}

#[test]
fn a_second_apply_that_fails_goes_back_to_the_first() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    lab.apply(&["ring.rx=1024"], &mut fake);
    let after_first = fake.values();
    let mut fake = fake.fault(2, Fault::Errno(libc::EBUSY));
    let report = lab.apply(&["ring.rx=512", "pause.rx=on"], &mut fake);
    assert_eq!(states(&report), [StepState::Undone, StepState::Failed]);
    assert_eq!(fake.values(), after_first);
    fake.new_process();
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.values(), before);
}

#[test]
fn what_comes_after_the_plan_is_part_of_it() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    let plan = planned(&desired(EVERYTHING), &fake);
    let attach = || Err(Error::failed("attach to eth0: no"));
    let mut report = apply_then(&mut fake, &plan, &Owner::Attach, &lab.journals, attach).unwrap();
    assert_eq!(states(&report), [StepState::Undone; STEPS]);
    assert_eq!(report.error().unwrap().to_string(), "attach to eth0: no");
    assert_eq!((fake.values(), lab.files()), (before, 0));
    // Also where nothing is to be changed.
    let nothing = planned(&desired(&["ring.rx=256"]), &fake);
    let report = apply_then(&mut fake, &nothing, &Owner::Attach, &lab.journals, attach).unwrap();
    assert!(report.failure.is_some());
}

#[test]
fn rounding_cutting_and_ignoring_are_reported_as_what_they_are() {
    let lab = Lab::new();
    let mut fake = Fake::full()
        .quirk("ring.rx", Quirk::RoundUp(8))
        .quirk("coalesce.rx-usecs", Quirk::Clamp(64))
        .quirk("pause.rx", Quirk::Ignore);
    let mut report = lab.apply(&["ring.rx=100", "coalesce.rx-usecs=100", "pause.rx=on"], &mut fake);
    let (rounded, cut) = (Outcome::Rounded(104_u64.into()), Outcome::Clamped(64_u64.into()));
    assert_eq!(outcomes(&report), [&rounded, &cut, &Outcome::NoEffect]);
    assert_eq!(report.error().unwrap().to_string(), "eth0 accepted, but without effect: pause.rx");
    // What is known of it is used in the next plan.
    let journal = lab.journals.find(&fake.identity).unwrap().unwrap();
    let (identity, obtained) = (&fake.identity, &journal.obtained);
    let context = Context {
        identity,
        xdp: Xdp::None,
        limits: &[],
        around: &Surroundings::default(),
        obtained,
    };
    let wanted = desired(&["ring.rx=100", "coalesce.rx-usecs=100", "pause.rx=on"]);
    let again = plan(&wanted, &fake.settings, &context).unwrap();
    assert!(again.is_empty());
    assert_eq!(again.notes.len(), 3, "{:?}", again.notes);
}

fn best_effort(arguments: &[&str]) -> Desired {
    let mut desired = desired(arguments);
    for request in desired.values_mut() {
        request.origin = crate::control::wanted::Origin::Profile {
            name: "throughput".into(),
            line: 1,
            built_in: true,
        };
    }
    desired
}

#[test]
fn what_a_driver_does_not_support_is_left_out_of_a_built_in_profile() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    fake.refuses.insert(Group::Coalesce, libc::EOPNOTSUPP);
    let wishes = ["ring.rx=512", "coalesce.rx-usecs=100", "pause.rx=on"];
    let report = lab.apply_desired(&best_effort(&wishes), &mut fake);
    assert_eq!(states(&report), [StepState::Done, StepState::Skipped, StepState::Done]);
    assert!(report.failure.is_none());
    let kernel = netlink::describe_errno(libc::EOPNOTSUPP);
    assert_eq!(report.steps[1].outcomes, [Outcome::LeftOut(kernel.clone())]);
    // On the command line, it was meant.
    let (lab, mut fake) = (Lab::new(), Fake::full());
    fake.refuses.insert(Group::Coalesce, libc::EOPNOTSUPP);
    assert!(lab.apply(&wishes, &mut fake).failure.is_some());
}

#[test]
fn what_a_driver_does_not_support_does_not_keep_the_rest_of_its_group() {
    let (lab, fake) = (Lab::new(), Fake::full());
    // Both at once are refused, and then the first of them.
    let not_supported = || Fault::Errno(libc::EOPNOTSUPP);
    let mut fake = fake.fault(0, not_supported()).fault(1, not_supported());
    let report = lab.apply_desired(&best_effort(&["ring.rx=512", "ring.tx=512"]), &mut fake);
    assert_eq!(states(&report), [StepState::Done]);
    let kernel = netlink::describe_errno(libc::EOPNOTSUPP);
    assert_eq!(outcomes(&report), [&Outcome::LeftOut(kernel), &Outcome::AsAsked]);
}

#[test]
fn a_wish_that_was_not_granted_is_taken_back() {
    let (lab, fake) = (Lab::new(), Fake::full());
    let mut fake = fake.fault(0, Fault::Errno(libc::EOPNOTSUPP));
    lab.apply(&["feature.gro=on"], &mut fake);
    let off = ("rx-gro".to_owned(), Value::Switch(false));
    assert_eq!(fake.writes.last(), Some(&(Group::Feature, vec![off])));
}

#[test]
fn a_wish_from_before_is_given_back() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let (tso, checksum) = ("feature.tx-tcp-segmentation", "feature.tx-checksum-ip-generic");
    let ungranted = Value::from("off [requested on]");
    fake.settings.get_mut(&checksum.parse().unwrap()).unwrap().value = false.into();
    let setting = fake.settings.get_mut(&tso.parse().unwrap()).unwrap();
    (setting.value, setting.requested) = (false.into(), Some(true.into()));
    let state = |fake: &Fake| fake.settings[&tso.parse::<Key>().unwrap()].state();
    let report = lab.apply(&["feature.tx-tcp-segmentation=off"], &mut fake);
    assert_eq!((outcomes(&report), state(&fake)), (vec![&Outcome::AsAsked], false.into()));
    fake.new_process();
    restore(&mut fake, &lab.journals).unwrap();
    assert_eq!(state(&fake), ungranted);
    // And undone after a failure.
    let mut fake = fake.fault(1, Fault::Errno(libc::EIO));
    fake.writes.clear();
    lab.apply(&["feature.tx-tcp-segmentation=off", "pause.rx=on"], &mut fake);
    assert_eq!(state(&fake), ungranted);
}

#[test]
fn another_interface_is_not_written_to() {
    for change in [
        |id: &mut crate::control::Identity| id.boot_id = "boot-2".into(),
        |id: &mut crate::control::Identity| id.id = crate::nic::identity::InterfaceId::fake(7002),
    ] {
        let (lab, mut fake) = (Lab::new(), Fake::full());
        lab.apply(EVERYTHING, &mut fake);
        fake.new_process();
        let mut other = fake.clone();
        change(&mut other.identity);
        assert!(restore(&mut other, &lab.journals).unwrap().given_back.is_none());
        assert_eq!((other.values(), other.writes.len()), (fake.values(), 0));
    }
}

fn of_attach(fake: &mut Fake, force: bool, lab: &Lab) -> Restored {
    undo::undo(fake, &lab.journals, Undo { whose: Whose::Of(&Owner::Attach), force }).unwrap()
}

#[test]
fn an_owner_takes_back_its_own_and_nothing_else() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    lab.apply(&["ring.rx=512", "pause.rx=on"], &mut fake);
    fake.new_process();
    let wanted = desired(&["ring.rx=1024", "ring.tx=512", "channels.combined=8"]);
    let plan = planned(&wanted, &fake);
    apply(&mut fake, &plan, &Owner::Attach, &lab.journals).unwrap();
    fake.new_process();
    let restored = of_attach(&mut fake, false, &lab);
    assert!(restored.error().is_none() && restored.foreign.is_empty());
    assert_eq!(fake.value("ring.rx"), 512_u64.into());
    assert_eq!(fake.value("pause.rx"), true.into());
    assert_eq!(fake.value("ring.tx"), 256_u64.into());
    assert_eq!(fake.value("channels.combined"), 4_u64.into());
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!((fake.values(), lab.files()), (before, 0));
}

#[test]
fn what_somebody_else_changed_is_left_unless_forced() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    lab.apply(&["ring.rx=512", "ring.tx=512"], &mut fake);
    fake.new_process();
    fake.settings.get_mut(&"ring.rx".parse().unwrap()).unwrap().value = 2048_u64.into();
    let previewed = preview(&mut fake, &lab.journals).unwrap();
    assert_eq!(previewed.foreign.len(), 1);
    let restored = restore(&mut fake, &lab.journals).unwrap();
    let foreign = &restored.foreign[0];
    assert_eq!(foreign.key.to_string(), "ring.rx");
    let numbers = (&foreign.is, &foreign.made, &foreign.was);
    assert_eq!(numbers, (&2048_u64.into(), &512_u64.into(), &256_u64.into()));
    assert_eq!(fake.value("ring.rx"), 2048_u64.into());
    assert_eq!(fake.value("ring.tx"), 256_u64.into());
    fake.new_process();
    let force = Undo { force: true, ..EVERYBODY };
    assert!(undo::undo(&mut fake, &lab.journals, force).unwrap().foreign.is_empty());
    assert_eq!((fake.values(), lab.files()), (before, 0));
}

#[test]
fn what_somebody_else_changed_is_the_original_of_the_next_change() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    lab.apply(&["ring.rx=512"], &mut fake);
    fake.settings.get_mut(&"ring.rx".parse().unwrap()).unwrap().value = 2048_u64.into();
    fake.new_process();
    lab.apply(&["ring.rx=1024"], &mut fake);
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.value("ring.rx"), 2048_u64.into());
}

#[test]
fn a_renamed_interface_is_restored() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    lab.apply(EVERYTHING, &mut fake);
    fake.identity.name = "wan0".into();
    let restored = restore(&mut fake, &lab.journals).unwrap();
    assert_eq!(restored.former_name.as_deref(), Some("eth0"));
    assert_eq!(fake.values(), before);
}

#[test]
fn a_journal_of_before_the_boot_is_replaced_by_apply() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    lab.apply(&["ring.rx=512"], &mut fake);
    let mut fake = Fake::full();
    fake.identity.boot_id = "boot-2".into();
    let before = fake.values();
    lab.apply(&["ring.rx=1024"], &mut fake);
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.values(), before);
}

#[test]
fn a_journal_that_can_not_be_written_changes_nothing() {
    let mut fake = Fake::full();
    let plan = planned(&desired(EVERYTHING), &fake);
    let error = apply(&mut fake, &plan, &Owner::Set, &Journals::new("/proc/nicctl")).unwrap_err();
    assert!(error.to_string().starts_with("write journal /proc/nicctl/7001.json"), "{error}");
    assert_eq!(fake.writes, []);
}

#[test]
fn a_setting_that_is_no_more_is_not_in_the_way() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    lab.apply(&["irq.42=1", "ring.rx=512"], &mut fake);
    fake.settings.remove(&"irq.42".parse().unwrap());
    let restored = restore(&mut fake, &lab.journals).unwrap();
    assert!(restored.error().is_none());
    assert_eq!(restored.given_back.unwrap().gone.len(), 1);
    assert_eq!(fake.value("ring.rx"), 256_u64.into());
}

#[test]
fn what_cannot_be_read_is_not_taken_for_gone() {
    for (change, group) in [("rps.rx-0=ff", Group::Rps), ("ring.rx=max", Group::Ring)] {
        let lab = Lab::new();
        let mut fake = Fake::full();
        let before = fake.values();
        assert!(lab.apply(&[change, "link.mtu=4000"], &mut fake).failure.is_none());
        fake.unread.insert(group);
        let previewed = preview(&mut fake, &lab.journals).unwrap();
        assert_eq!(previewed.given_back.unwrap().left.len(), 1, "{change}");
        assert!(lab.restore(&mut fake).is_some(), "{change}");
        assert_eq!((lab.files(), fake.value("link.mtu")), (1, 1500_u64.into()));
        fake.unread.clear();
        assert!(lab.restore(&mut fake).is_none());
        assert_eq!((lab.files(), fake.values()), (0, before));
    }
}

#[test]
fn what_cannot_be_read_is_not_planned() {
    let mut fake = Fake::full();
    let plan_of = |change: &str, fake: &Fake| {
        let wanted = desired(&[change]);
        let (limits, obtained) = (&[][..], &BTreeMap::new());
        let around = &crate::nic::surroundings::Surroundings::default();
        let context =
            Context { identity: &fake.identity, xdp: Xdp::None, limits, around, obtained };
        plan(&wanted, &fake.clone().read().unwrap(), &context)
    };
    fake.unread.insert(Group::Xps);
    // Channels disturb it.
    for change in ["xps.tx-0=1", "channels.combined=2"] {
        let error = plan_of(change, &fake).unwrap_err().to_string();
        assert_eq!(error, "read xps of eth0: ENOBUFS: No buffer space available", "{change}");
    }
    assert!(plan_of("link.mtu=4000", &fake).is_ok());
}

#[test]
fn one_setting_that_is_refused_does_not_keep_its_group() {
    let mut fake = Fake::full();
    let before = fake.values();
    let plan = planned(&desired(&["ring.rx=512", "ring.tx=512"]), &fake);
    fake.settings.get_mut(&"ring.rx".parse().unwrap()).unwrap().value = 512_u64.into();
    fake.settings.get_mut(&"ring.tx".parse().unwrap()).unwrap().value = 512_u64.into();
    // Together they are refused, one by one not.
    let mut fake = fake.fault(0, Fault::Errno(libc::EINVAL)).fault(1, Fault::Errno(libc::EINVAL));
    assert!(give_back(&mut fake, &plan.touched).is_complete());
    assert_eq!(fake.values(), before);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn faults_at_random_leave_nothing_behind(
        wishes in proptest::sample::subsequence(EVERYTHING, 1..EVERYTHING.len()),
        at in 0_usize..STEPS,
        second in 0_usize..30,
        kill: bool,
    ) {
        let (lab, fake) = (Lab::new(), Fake::full());
        let before = fake.values();
        // A table of flows over eight queues needs eight.
        let has_queues = wishes.contains(&"channels.combined=8");
        let wishes: Vec<&str> =
            wishes.into_iter().filter(|wish| has_queues || !wish.starts_with("rss.")).collect();
        let fault = if kill { Fault::KillAfter } else { Fault::Errno(libc::EBUSY) };
        let mut fake = fake.fault(at, Fault::Half(libc::ENOMEM)).fault(second, fault);
        lab.apply_or_die(&wishes, &mut fake);
        fake.new_process();
        proptest::prop_assert!(lab.restore(&mut fake).is_none());
        proptest::prop_assert_eq!(fake.values(), before);
    }
}

#[test]
fn a_table_of_flows_that_nobody_chose_is_the_drivers_again() {
    let (lab, mut fake) = (Lab::new(), Fake::full());
    let before = fake.values();
    lab.apply(&["channels.combined=8", "rss.indirection=equal 2"], &mut fake);
    assert!(fake.table_is_set);
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!(fake.values(), before);
    assert!(!fake.table_is_set);

    // Also where the one that was chosen is the same.
    lab.apply(&["channels.combined=8"], &mut fake);
    lab.apply(&["rss.indirection=equal 4"], &mut fake);
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!((fake.values(), fake.table_is_set), (before.clone(), false));

    // One that somebody chose before stays.
    let chosen = "weight 1 3";
    let table: Key = "rss.indirection".parse().unwrap();
    fake.settings.get_mut(&table).unwrap().value = chosen.into();
    fake.table_is_set = true;
    lab.apply(&["rss.indirection=default"], &mut fake);
    assert_eq!((fake.value("rss.indirection"), fake.table_is_set), ("equal 4".into(), false));
    assert!(lab.restore(&mut fake).is_none());
    assert_eq!((fake.value("rss.indirection"), fake.table_is_set), (chosen.into(), true));
}
