//! Whatever fails in the middle of `nicctl set`, and wherever it is killed, a card is as it was, or
//! can be made so.

use std::process::Command;

use nic_user::lab::Host;

use crate::{
    Guest, Outcome, control, netdevsim, nicctl,
    tracer::{self, Ended, From, Interference},
};

/// One of each step that a card may have; those that the card takes are made together.
const WISHES: [&str; 16] = [
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
    "private-flag.s0ix-enabled=off",
];

/// Real drivers take their time.
const MOST_CALLS: usize = 8;

pub fn whatever_happens_it_is_all_or_nothing(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let before = control::settings(host);
    let restored = |when: &str| {
        nicctl::text(&["restore", host.interface(), "--netns", host.netns_name()]);
        let now = control::settings(host);
        assert_eq!(control::lasting(&now), control::lasting(&before), "{when}");
    };
    let taken = |wish: &&str| {
        let has = wish.split_once('=').and_then(|(key, _)| before.get(&key.parse().ok()?));
        let taken = has.is_some() && set(host, &[wish], None).code == Some(0);
        restored(wish);
        taken
    };
    let wishes: Vec<&str> = WISHES.into_iter().filter(taken).collect();
    let calls = set(host, &wishes, None).calls;
    let after = control::settings(host);
    restored("all of them");
    let step = if guest.driver == netdevsim::DRIVER { 1 } else { calls / MOST_CALLS };
    let numbers = (0..calls).step_by(step.max(1));
    for call in numbers.clone() {
        let ended = set(host, &wishes, Some((call, Interference::Fail(libc::EBUSY))));
        let now = control::settings(host);
        let expected = if ended.code == Some(0) { &after } else { &before };
        let when = format!("call {call} of {calls} failed, exit code {:?}", ended.code);
        assert_eq!(control::lasting(&now), control::lasting(expected), "{when}");
        restored(&when);
        let ended = set(host, &wishes, Some((call, Interference::Kill)));
        assert_eq!(ended.code, None);
        restored(&format!("killed after call {call} of {calls}"));
    }
    let tried = numbers.count();
    println!("{} settings: {tried} of {calls} calls failed, and were the last", wishes.len());
    Outcome::Passed
}

fn set(host: &Host, wishes: &[&str], at: Option<(usize, Interference)>) -> Ended {
    let mut command = Command::new(nicctl::NICCTL);
    command.args(["set", host.interface(), "--netns", host.netns_name()]).args(wishes);
    tracer::run(&mut command, From::Journal, at)
}
