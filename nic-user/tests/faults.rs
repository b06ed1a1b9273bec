//! Wherever `nicctl set` or `nicctl restore` fails or is killed, the interface is as it was, or
//! can be made so: at every call that speaks to the kernel or writes the journal, one by one.

mod attached;
mod common;
mod tracer;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use attached::{on, run};
use nic_user::{
    lab::{Host, Lab, Shape},
    nic::{
        Nic,
        setting::{Key, Value},
        settings,
    },
};
use tracer::{From, Interference};

/// Every step that a veth has.
const CHANGES: &[&str] = &[
    "channels.rx=2",
    "channels.tx=2",
    "link.mtu=2000",
    "feature.gro=on",
    "feature.tso=off",
    "link.gso-max-size=30000",
    "link.gso-ipv4-max-size=40000",
    "napi.gro-flush-timeout=20000",
    "rps.rx-0=1",
    "xps.tx-0=1",
];

/// What it has, but for single NAPI instances, which are others whenever GRO was off.
fn settings(host: &Host) -> BTreeMap<Key, Value> {
    let read = || settings::read(&Nic::by_index(host.ifindex())?);
    let all = host.run(read).unwrap().unwrap().into_iter();
    all.filter(|(key, _)| !key.name.contains('/')).map(|(key, set)| (key, set.value)).collect()
}

#[track_caller]
fn assert_same(now: &BTreeMap<Key, Value>, expected: &BTreeMap<Key, Value>, when: &str) {
    let differs = |key: &&Key| now.get(key) != expected.get(key);
    let differing: BTreeSet<_> = now.keys().chain(expected.keys()).filter(differs).collect();
    assert!(differing.is_empty(), "{when}: {differing:?} are not what they should be");
}

fn command(host: &Host, verb: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    command.args(on(host, verb, args));
    command
}

/// Before and after `nicctl set`.
struct States {
    before: BTreeMap<Key, Value>,
    after: BTreeMap<Key, Value>,
}

impl States {
    fn of(host: &Host) -> Self {
        let before = settings(host);
        run(host, "set", CHANGES);
        let after = settings(host);
        run(host, "restore", &[]);
        assert_same(&settings(host), &before, "restored");
        Self { before, after }
    }
}

fn calls(host: &Host, verb: &str, args: &[&str], from: From) -> usize {
    let ended = tracer::run(&mut command(host, verb, args), from, None);
    assert_eq!(ended.code, Some(0));
    ended.calls
}

#[test]
fn whichever_call_fails_it_is_all_or_nothing() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    let states = States::of(host);
    let calls = calls(host, "set", CHANGES, From::Start);
    run(host, "restore", &[]);
    let mut undone = 0;
    for call in 0..calls {
        let errno = [libc::EBUSY, libc::ENOMEM][call % 2];
        let at = Some((call, Interference::Fail(errno)));
        let ended = tracer::run(&mut command(host, "set", CHANGES), From::Start, at);
        let expected = if ended.code == Some(0) { &states.after } else { &states.before };
        let when = format!("call {call} failed, exit code {:?}", ended.code);
        assert_same(&settings(host), expected, &when);
        if ended.code == Some(0) {
            run(host, "restore", &[]);
            assert_same(&settings(host), &states.before, &format!("{when}, restored"));
        } else {
            undone += 1;
        }
    }
    assert!(run(host, "restore", &[]).contains("changed nothing"));
    println!("{calls} calls failed one by one; {undone} times all was undone");
    assert!(undone > calls / 2);
}

#[test]
fn wherever_set_is_killed_restore_brings_everything_back() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    let states = States::of(host);
    let calls = calls(host, "set", CHANGES, From::Journal);
    run(host, "restore", &[]);
    for call in 0..calls {
        let at = Some((call, Interference::Kill));
        let ended = tracer::run(&mut command(host, "set", CHANGES), From::Journal, at);
        assert_eq!(ended.code, None, "call {call}");
        run(host, "restore", &[]);
        assert_same(&settings(host), &states.before, &format!("killed after call {call}"));
    }
    println!("killed after each of {calls} calls");
}

#[test]
fn wherever_restore_is_killed_another_one_ends_its_work() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    let states = States::of(host);
    run(host, "set", CHANGES);
    let calls = calls(host, "restore", &[], From::Start);
    for call in 0..calls {
        run(host, "set", CHANGES);
        let at = Some((call, Interference::Kill));
        tracer::run(&mut command(host, "restore", &[]), From::Start, at);
        run(host, "restore", &[]);
        assert_same(&settings(host), &states.before, &format!("killed after call {call}"));
    }
    println!("killed after each of {calls} calls");
}
