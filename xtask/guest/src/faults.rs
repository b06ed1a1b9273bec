//! Whatever fails in the middle of changes, and wherever they end, a card is as it was, or can be
//! made so.

use std::{
    panic::{self, AssertUnwindSafe},
    process::Command,
};

use nic_user::lab::Host;

use crate::{
    Guest, Outcome,
    changes::{self, Ended, Fault},
    control::lasting,
    netdevsim, nicctl,
    tracer::{self, Interference},
};

/// One of each step that a card may have; those that the card takes are made together.
const WISHES: [&str; 15] = [
    "channels.combined=2",
    "rss.indirection=equal 1",
    "feature.rx-lro=off",
    "link.mtu=1400",
    "ring.rx=512",
    "feature.rx-gro=off",
    "coalesce.adaptive-tx=on",
    "coalesce.rx-usecs=200",
    "link.gso-max-size=30000",
    "link.gso-ipv4-max-size=40000",
    "copybreak.rx=128",
    "pause.rx=on",
    "napi.gro-flush-timeout=20000",
    "rps.rx-0=1",
    "xps.tx-0=1",
];

/// How many system calls are the last: emulation takes its time.
const KILLS: usize = 2;

/// Those that the card takes.
fn wishes(host: &Host) -> Vec<&'static str> {
    let before = changes::settings(host);
    let has = |wish: &&str| {
        let key = wish.split_once('=').and_then(|(key, _)| key.parse().ok());
        key.is_some_and(|key| before.contains_key(&key))
    };
    let taken = |wish: &&str| {
        let set = changes::set(host, &[wish], Fault::None);
        changes::restore(host);
        set.is_ok_and(|(mut report, _)| report.error().is_none())
    };
    WISHES.into_iter().filter(has).filter(taken).collect()
}

pub fn whichever_step_fails_it_is_all_or_nothing(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let wishes = wishes(host);
    let before = changes::settings(host);
    let is_as_before = |when: &str| {
        assert_eq!(lasting(&changes::settings(host)), lasting(&before), "{when}");
    };
    let is_quick = guest.driver == netdevsim::DRIVER;
    let (_, steps) = changes::set(host, &wishes, Fault::None).unwrap();
    changes::restore(host);
    is_as_before("restored");
    for step in 0..steps {
        let faults = [Fault::Refused(step), Fault::Half(step), Fault::ReadBack(step)];
        // Hardware takes its time to be reset.
        let one = step % faults.len();
        let faults = if is_quick { &faults[..] } else { &faults[one..=one] };
        for &fault in faults {
            let (report, _) = changes::set(host, &wishes, fault).unwrap();
            assert!(report.failure.is_some() && report.left.is_empty(), "{fault:?}: {report:?}");
            is_as_before(&format!("{fault:?} of {steps}"));
        }
        let set = || changes::set(host, &wishes, Fault::End(step));
        let ended = panic::catch_unwind(AssertUnwindSafe(set)).unwrap_err();
        assert!(ended.is::<Ended>());
        changes::restore(host);
        is_as_before(&format!("ended after step {step} of {steps}"));
    }
    println!("{steps} steps failed, and were the last, one by one");
    Outcome::Passed
}

pub fn wherever_it_is_killed_it_can_be_restored(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let wishes = wishes(host);
    let before = changes::settings(host);
    let set = |at| {
        let mut command = Command::new(nicctl::NICCTL);
        command.args(["set", host.interface(), "--netns", host.netns_name()]).args(&wishes);
        let ended = tracer::run(&mut command, at);
        nicctl::text(&["restore", host.interface(), "--netns", host.netns_name()]);
        assert_eq!(lasting(&changes::settings(host)), lasting(&before), "{at:?}");
        ended
    };
    let calls = set(None).calls;
    // Before the journal is on disk, nothing was changed.
    let written = calls.iter().position(|&call| call == libc::SYS_fsync).unwrap();
    for call in (written..calls.len()).step_by((calls.len() - written).div_ceil(KILLS).max(1)) {
        assert_eq!(set(Some((call, Interference::Kill))).code, None);
    }
    Outcome::Passed
}
