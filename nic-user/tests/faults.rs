//! Wherever a command fails or is killed, nothing is lost, and its exit code is true: every system
//! call that it makes, on whichever thread, fails with one of ten error numbers, or is its last.
//!
//! After each such run:
//! - an exit code of 0 is true: of `set`, `apply` and `attach`, everything that was asked is in
//!   force, with the journal that undoes it; of `restore` and `detach`, everything is as it was,
//!   and nothing is left;
//! - a command that failed has done all or nothing;
//! - nothing is lost: a plain `restore`, or `detach`, makes everything what it was;
//! - there was no panic, and no end of patience.
//!
//! Commands that only look say nothing of what is there that is not so.
//!
//! That is too much for every day: each twelfth call fails, with the error numbers in turn.
//! `NICCTL_FAULTS=N` chooses other calls, or the same with other numbers; `NICCTL_FAULTS=all` lets
//! each call fail in every way, which takes hours; `NICCTL_FAULTS=all:K/N` each N-th from the K-th
//! on (from 0), in every way: the N parts can run beside each other, each with a bpffs, journals
//! and namespaces of its own.

mod attached;
mod common;
mod tracer;

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::Path,
    process::Command,
    sync::{Mutex, PoisonError},
};

use attached::{nicctl, on, run};
use aya::programs::{SchedClassifier, TcAttachType};
use nic_user::{
    control::journal::SYSTEM_DIR,
    lab::{Host, Lab, Shape},
    nic::{
        Nic,
        setting::{Key, Value},
        settings,
    },
};
use nix::errno::Errno;
use tempfile::TempDir;
use tracer::{Ended, Interference};

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

/// Settings of several groups, that XDP needs or has nothing against.
const PROFILE: &str = "
[channels]
tx = 2
[feature]
gro = true
tso = false
[link]
mtu = 2000
gso-max-size = 30000
[napi]
gro-flush-timeout = 20000
[rps]
rx-0 = \"1\"
";

/// What the kernel may answer whenever memory, files, time or rights are short, and `ENODEV`,
/// which it answers of an interface that is gone, as this one is not.
const ERRNOS: [i32; 10] = [
    libc::ENOBUFS,
    libc::ENOMEM,
    libc::EINTR,
    libc::EPERM,
    libc::EIO,
    libc::EAGAIN,
    libc::EACCES,
    libc::ENOSPC,
    libc::EMFILE,
    libc::ENODEV,
];

/// One nicctl at a time: others would only wait for the lock.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A command with its arguments.
#[derive(Clone, Copy)]
struct Call<'a>(&'a str, &'a [&'a str]);

/// A command, what goes before it, and what undoes it.
struct Scenario<'a> {
    before: Option<Call<'a>>,
    command: Call<'a>,
    undo: Call<'a>,
}

/// Everything that nicctl may change.
#[derive(Debug, PartialEq)]
struct State {
    /// Without single NAPI instances, which are others whenever GRO was off.
    settings: BTreeMap<Key, Value>,
    xdp: usize,
    /// TCX programs at ingress and egress.
    tcx: [usize; 2],
    pins: Vec<String>,
    journals: Vec<String>,
}

impl State {
    fn of(host: &Host) -> Self {
        host.run(|| {
            let nic = Nic::by_index(host.ifindex()).unwrap();
            let settings = settings::read(&nic).unwrap().into_iter();
            let tcx = |hook| SchedClassifier::query_tcx(host.interface(), hook).unwrap().1.len();
            Self {
                settings: settings
                    .filter(|(key, _)| !key.name.contains('/'))
                    .map(|(key, setting)| (key, setting.value))
                    .collect(),
                xdp: nic.xdp().len(),
                tcx: [TcAttachType::Ingress, TcAttachType::Egress].map(tcx),
                pins: names(Path::new("/sys/fs/bpf/nicctl"), ""),
                journals: names(Path::new(SYSTEM_DIR), ".json"),
            }
        })
        .unwrap()
    }

    /// What is not as in `expected`.
    fn differences(&self, expected: &Self) -> Vec<String> {
        let keys = self.settings.keys().chain(expected.settings.keys());
        let differs = |key: &&Key| self.settings.get(key) != expected.settings.get(key);
        let mut differences: Vec<String> = keys.filter(differs).map(Key::to_string).collect();
        differences.dedup();
        let mut other = |what: &str, same: bool| {
            if !same {
                differences.push(what.to_owned());
            }
        };
        other("xdp", self.xdp == expected.xdp);
        other("tcx", self.tcx == expected.tcx);
        other("pins", self.pins == expected.pins);
        other("journals", self.journals == expected.journals);
        differences
    }
}

fn names(folder: &Path, suffix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(suffix)).collect();
    names.sort();
    names
}

/// A lab in which a scenario was played once, without interference.
struct Stage {
    lab: Lab,
    start: State,
    end: State,
    calls: Vec<i64>,
}

impl Stage {
    fn new(scenario: &Scenario<'_>) -> Self {
        let lab = Lab::new(Shape::default()).unwrap();
        let start = State::of(lab.a());
        let ended = play(lab.a(), scenario, None);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let end = State::of(lab.a());
        run(lab.a(), scenario.undo.0, scenario.undo.1);
        assert_eq!(State::of(lab.a()), start);
        Self { lab, start, end, calls: ended.calls }
    }
}

fn play(host: &Host, scenario: &Scenario<'_>, at: Option<(usize, Interference)>) -> Ended {
    if let Some(Call(verb, args)) = scenario.before {
        run(host, verb, args);
    }
    let Call(verb, args) = scenario.command;
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    tracer::run(command.args(on(host, verb, args)).env_remove("RUST_BACKTRACE"), at)
}

/// What went wrong in one run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Exit code 0, and not so.
    Untrue,
    /// It failed, and has done neither all nor nothing.
    Half,
    /// What there was cannot be had back by a plain command.
    Lost,
    Panic,
    Hang,
}

struct Violation {
    kind: Kind,
    number: usize,
    call: i64,
    interference: Interference,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, number, call, interference, what } = self;
        let done = match interference {
            Interference::Fail(errno) => format!("{:?}", Errno::from_raw(*errno)),
            Interference::FailFromNowOn(errno) => {
                format!("{:?} from now on", Errno::from_raw(*errno))
            }
            Interference::Kill => "killed".to_owned(),
        };
        write!(f, "{kind:?}: call {number} (syscall {call}), {done}: {what}")
    }
}

/// Whether the standard library itself panics when this call fails: it needs memory, stacks and
/// random numbers, and takes for granted that a directory can be closed.
const fn is_of_std(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_brk
            | libc::SYS_sigaltstack
            | libc::SYS_getrandom
            | libc::SYS_close
    )
}

/// Looks at what a run has left, and undoes it.
fn examine(
    stage: &Stage,
    scenario: &Scenario<'_>,
    (call, interference): (i64, Interference),
    ended: &Ended,
) -> Vec<(Kind, String)> {
    let host = stage.lab.a();
    let mut found = Vec::new();
    let said = || ended.stderr.lines().take(2).collect::<Vec<_>>().join("; ");
    if ended.hung {
        found.push((Kind::Hang, said()));
    }
    let panicked = ended.code == Some(101) || ended.stderr.contains("panicked");
    if panicked && !is_of_std(call) {
        found.push((Kind::Panic, said()));
    }
    // What keeps failing may keep from undoing, too.
    let must_be_whole = matches!(interference, Interference::Fail(_)) && !panicked;
    let now = State::of(host);
    let to_end = now.differences(&stage.end);
    match ended.code {
        Some(0) if !to_end.is_empty() => {
            found.push((Kind::Untrue, format!("{}: {}", to_end.join(", "), said())));
        }
        // One that gives back ends what it began the next time.
        Some(1..) if scenario.before.is_none() && must_be_whole && !to_end.is_empty() => {
            let to_start = now.differences(&stage.start);
            // A journal alone gives back nothing.
            if !to_start.is_empty() && to_start != ["journals"] {
                found.push((Kind::Half, format!("{}: {}", to_start.join(", "), said())));
            }
        }
        _ => {}
    }
    let Call(verb, args) = scenario.undo;
    let undone = nicctl(&on(host, verb, args));
    let left = State::of(host).differences(&stage.start);
    if !undone.status.success() || !left.is_empty() {
        let says = String::from_utf8_lossy(&undone.stderr).trim().to_owned();
        found.push((Kind::Lost, format!("{}: {} {says}", left.join(", "), said())));
    }
    found
}

/// Of so many calls, one is interfered with, unless all are.
const STRIDE: usize = 12;

/// What is to be done to which call.
fn interferences(calls: usize) -> Vec<(usize, Interference)> {
    let rest = [Interference::FailFromNowOn(libc::EIO), Interference::Kill];
    let all: Vec<Interference> = ERRNOS.into_iter().map(Interference::Fail).chain(rest).collect();
    let chosen = env::var("NICCTL_FAULTS").unwrap_or_default();
    if let Some(part) = chosen.strip_prefix("all") {
        let (first, step) = part.strip_prefix(':').map_or((0, 1), |part| {
            let (first, step) = part.split_once('/').expect("all:K/N");
            (first.parse().unwrap(), step.parse().unwrap())
        });
        let every = |number| all.iter().map(move |&interference| (number, interference));
        return (first..calls).step_by(step).flat_map(every).collect();
    }
    let seed: usize = chosen.parse().unwrap_or_default();
    let numbers = (seed % STRIDE..calls).step_by(STRIDE);
    let interference = |number| all[(number / STRIDE + seed / STRIDE) % all.len()];
    numbers.map(|number| (number, interference(number))).collect()
}

/// Plays a scenario with everything that can happen to it.
fn nothing_is_lost(scenario: &Scenario<'_>) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stage = Stage::new(scenario);
    let calls = stage.calls.len();
    let interferences = interferences(calls);
    let (mut violations, mut zero, mut killed) = (Vec::new(), 0, 0);
    for &(number, interference) in &interferences {
        let ended = play(stage.lab.a(), scenario, Some((number, interference)));
        let call = ended.calls.get(number).copied().unwrap_or_default();
        zero += usize::from(ended.code == Some(0));
        killed += usize::from(ended.code.is_none());
        let found = examine(&stage, scenario, (call, interference), &ended);
        if found.iter().any(|(kind, _)| *kind == Kind::Lost) {
            stage = Stage::new(scenario);
        }
        violations.extend(found.into_iter().map(|(kind, what)| Violation {
            kind,
            number,
            call,
            interference,
            what,
        }));
    }
    let verb = scenario.command.0;
    let times = interferences.len();
    let of = |kind| violations.iter().filter(|violation| violation.kind == kind).count();
    println!(
        "{verb}: {calls} calls, {times} interferences, exit code 0 {zero} times, killed {killed} \
         times; lost {}, untrue {}, half {}, panics {}, hangs {}",
        of(Kind::Lost),
        of(Kind::Untrue),
        of(Kind::Half),
        of(Kind::Panic),
        of(Kind::Hang),
    );
    let told: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(told.is_empty(), "{verb}:\n{}", told.join("\n"));
}

struct ProfileFile {
    path: String,
    _folder: TempDir,
}

impl ProfileFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        fs::write(&path, PROFILE).unwrap();
        Self { path: path.to_str().unwrap().to_owned(), _folder: folder }
    }

    fn args(&self) -> [&str; 2] {
        ["--profile", &self.path]
    }
}

const RESTORE: Call<'_> = Call("restore", &[]);
const DETACH: Call<'_> = Call("detach", &[]);

#[test]
fn set_loses_nothing() {
    needs_root!();
    nothing_is_lost(&Scenario { before: None, command: Call("set", CHANGES), undo: RESTORE });
}

#[test]
fn apply_loses_nothing() {
    needs_root!();
    let profile = ProfileFile::new();
    let command = Call("apply", &profile.args());
    nothing_is_lost(&Scenario { before: None, command, undo: RESTORE });
}

#[test]
fn restore_loses_nothing() {
    needs_root!();
    let before = Some(Call("set", CHANGES));
    nothing_is_lost(&Scenario { before, command: RESTORE, undo: RESTORE });
}

/// An interruption while a lock is taken is none of the user's concern; a kernel that has no locks
/// left is, and nothing is changed.
#[test]
fn a_lock_that_is_interrupted_is_taken_and_one_that_is_not_to_be_had_is_an_error() {
    needs_root!();
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let set = Call("set", &["link.mtu=2000"]);
    let scenario = Scenario { before: None, command: set, undo: Call("restore", &[]) };
    let stage = Stage::new(&scenario);
    let is_lock = |number: &usize| stage.calls[*number] == libc::SYS_flock;
    let locks: Vec<_> = (0..stage.calls.len()).filter(is_lock).collect();
    assert!(locks.len() >= 2, "programs and settings: {locks:?}");
    let played = |number, errno| {
        let ended = play(stage.lab.a(), &scenario, Some((number, Interference::Fail(errno))));
        let found = State::of(stage.lab.a());
        nicctl(&on(stage.lab.a(), "restore", &[]));
        (ended, found)
    };
    for number in locks {
        let (ended, found) = played(number, libc::EINTR);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
        assert_eq!(found.differences(&stage.end), Vec::<String>::new());
        let (ended, found) = played(number, libc::ENOLCK);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("No locks available"), "{}", ended.stderr);
        assert_eq!(found.differences(&stage.start), Vec::<String>::new());
    }
}

/// What commands that only look say of an interface that has nothing of nicctl.
const DENIALS: [&str; 3] = ["nothing is attached", "is not attached to", "no settings changed by"];

#[test]
fn what_is_attached_is_not_denied() {
    needs_root!();
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    let profile = ProfileFile::new();
    run(host, "attach", &profile.args());
    let dry_run = on(host, "restore", &["--dry-run"]);
    for args in [vec!["list"], on(host, "stats", &[]), dry_run, on(host, "doctor", &[])] {
        let look = |at| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
            tracer::run(command.args(&args).env_remove("RUST_BACKTRACE"), at)
        };
        let calls = look(None).calls.len();
        let mut untrue = Vec::new();
        for (number, interference) in interferences(calls) {
            let ended = look(Some((number, interference)));
            let denies = DENIALS.iter().any(|denial| ended.stdout.contains(denial));
            let is_silent = ended.code == Some(0) && !ended.stdout.contains(host.interface());
            if denies || is_silent {
                let (call, said) = (ended.calls.get(number), ended.stdout.trim());
                untrue.push(format!("call {number} ({call:?}), {interference:?}: {said}"));
            }
        }
        println!("{}: {calls} calls, {} untrue", args[0], untrue.len());
        assert!(untrue.is_empty(), "{args:?}:\n{}", untrue.join("\n"));
    }
    run(host, "detach", &[]);
}

/// A single setting differs only in the group that cannot be read.
#[test]
fn restore_of_one_setting_loses_nothing() {
    needs_root!();
    for change in ["channels.tx=2", "feature.tso=off", "link.mtu=2000", "rps.rx-0=1"] {
        let before = Some(Call("set", &[change]));
        nothing_is_lost(&Scenario { before, command: RESTORE, undo: RESTORE });
    }
}

#[test]
fn attach_loses_nothing() {
    needs_root!();
    let profile = ProfileFile::new();
    let command = Call("attach", &profile.args());
    nothing_is_lost(&Scenario { before: None, command, undo: DETACH });
}

#[test]
fn detach_loses_nothing() {
    needs_root!();
    let profile = ProfileFile::new();
    let before = Some(Call("attach", &profile.args()));
    nothing_is_lost(&Scenario { before, command: DETACH, undo: DETACH });
}
