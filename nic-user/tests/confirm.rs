//! Changes that are given back unless somebody confirms them, whoever is killed meanwhile.

mod attached;
mod common;

use std::fs;

use attached::{command_of, nicctl, on, poll, run, succeeded};
use nic_user::{
    lab::{Host, Lab, Shape},
    nic::identity::{InterfaceId, InterfaceKey},
};
use nix::{
    mount::{MsFlags, mount, umount},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

fn lab() -> Lab {
    Lab::new(Shape::default()).unwrap()
}

fn document(host: &Host, verb: &str, args: &[&str]) -> Value {
    serde_json::from_str(&run(host, verb, &[args, &["--json"]].concat())).unwrap()
}

fn settings(host: &Host) -> Value {
    document(host, "show", &[])["settings"].take()
}

fn mtu(host: &Host) -> u32 {
    host.link().unwrap().mtu
}

/// What nicctl says of the interface in `nicctl list`.
fn listed(host: &Host) -> Value {
    let list = succeeded(nicctl(&["list", "--json", "--netns", host.netns_name()]));
    serde_json::from_str::<Value>(&list).unwrap()
}

fn is_attached(host: &Host) -> bool {
    !listed(host)["interfaces"].as_array().unwrap().is_empty()
}

fn refusal(host: &Host, verb: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = nicctl(&on(host, verb, args));
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The guards of deadlines of this host: it is the only one in its network namespace.
fn guards(host: &Host) -> Vec<Pid> {
    let netns = fs::metadata(format!("/run/netns/{}", host.netns_name())).unwrap();
    let is_guard = |pid: i32| {
        use std::os::unix::fs::MetadataExt;
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let its = fs::metadata(format!("/proc/{pid}/ns/net"));
        words.split(|&byte| byte == 0).nth(1) == Some(b"guard")
            && its.is_ok_and(|its| its.ino() == netns.ino())
    };
    let pids = fs::read_dir("/proc").unwrap();
    let pids = pids.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|&pid| is_guard(pid)).map(Pid::from_raw).collect()
}

#[test]
fn what_is_not_confirmed_is_given_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "set", &["link.mtu=1400"]);
    let before = settings(host);
    let said = run(host, "set", &["link.mtu=1300", "feature.gro=on", "--confirm", "1"]);
    let netns = host.netns_name();
    let how = format!(
        "nic-b: reverted in 1 s unless confirmed: nicctl confirm nic-b --netns \
                       {netns}\n"
    );
    assert!(said.ends_with(&how), "{said}");
    assert_ne!(settings(host), before);
    assert!(poll(|| settings(host) == before));
    assert!(poll(|| guards(host).is_empty()));
    let (code, error) = refusal(host, "confirm", &[]);
    assert_eq!(code, Some(3), "{error}");
    // What was set before, without a deadline, can still be given back.
    run(host, "restore", &[]);
    assert_eq!(mtu(host), 1500);
}

#[test]
fn what_is_confirmed_stays() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let said = document(host, "set", &["link.mtu=1300", "--confirm", "1000"]);
    assert_eq!((&said["changed"], &said["confirm_within"]), (&true.into(), &1000.into()));
    assert_eq!(guards(host).len(), 1);
    let left = listed(host)["settings"][0]["confirm_within"].as_u64().unwrap();
    assert!((900..=1000).contains(&left), "{left}");
    assert_eq!(document(host, "confirm", &[])["confirmed"], Value::from(["nic-b"].as_slice()));
    // Nothing is left to guard.
    assert!(poll(|| guards(host).is_empty()));
    assert_eq!(listed(host)["settings"][0]["confirm_within"], Value::Null);
    assert_eq!(mtu(host), 1300);
    run(host, "restore", &[]);
    assert_eq!(mtu(host), 1500);
}

#[test]
fn where_nothing_changes_nothing_waits() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let said = document(host, "set", &["link.mtu=1500", "--confirm", "1000"]);
    assert_eq!((&said["changed"], &said["confirm_within"]), (&false.into(), &Value::Null));
    assert!(guards(host).is_empty());
    let (code, _) = refusal(host, "set", &["ring.rx=70000", "--confirm", "1000"]);
    assert_ne!(code, Some(0));
    assert!(guards(host).is_empty());
}

#[test]
fn nothing_is_built_on_what_waits_and_restore_takes_it_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "set", &["link.mtu=1300", "--confirm", "1000"]);
    assert_eq!(document(host, "restore", &["--dry-run"])["unconfirmed_taken_back"], true);
    for (verb, args) in
        [("set", &["link.mtu=1200"][..]), ("attach", &[]), ("apply", &["--profile", "big-tcp"])]
    {
        let (code, error) = refusal(host, verb, args);
        assert_eq!(code, Some(1), "{verb}: {error}");
        assert!(error.contains("are unconfirmed"), "{verb}: {error}");
    }
    assert_eq!(mtu(host), 1300);
    assert_eq!(document(host, "restore", &[])["unconfirmed_taken_back"], true);
    assert_eq!(mtu(host), 1500);
    assert!(poll(|| guards(host).is_empty()));
}

#[test]
fn what_somebody_else_changed_meanwhile_stays_and_can_be_forced() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "set", &["link.mtu=1400", "feature.gro=on", "--confirm", "1"]);
    host.links(|links| links.set_mtu(host.ifindex(), 1300)).unwrap();
    assert!(poll(|| guards(host).is_empty()));
    let settings = settings(host);
    assert_eq!(settings["feature"]["rx-gro"]["value"], false);
    assert_eq!(mtu(host), 1300);
    let restored = document(host, "restore", &[]);
    assert_eq!(restored["foreign"][0]["setting"], "link.mtu", "{restored}");
    run(host, "restore", &["--force"]);
    assert_eq!(mtu(host), 1500);
}

#[test]
fn without_a_journal_it_is_given_back_all_the_same() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "set", &["link.mtu=1400", "--confirm", "1000"]);
    let id = host.run(|| InterfaceId::of(&host.link().unwrap())).unwrap().unwrap();
    fs::remove_file(format!("/var/lib/nicctl/{}.json", InterfaceKey::Id(id))).unwrap();
    run(host, "restore", &[]);
    assert_eq!(mtu(host), 1500);
}

#[test]
fn programs_of_another_bpffs_are_not_taken_for_given_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    mount(Some("bpf"), path, Some("bpf"), MsFlags::empty(), Some("mode=0700")).unwrap();
    let there = |verb, args: &[&str]| run(host, verb, &[args, &["--bpffs", path]].concat());
    there("attach", &["--confirm", "1000"]);
    let (code, error) = refusal(host, "restore", &[]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains(&format!("--bpffs {path}")), "{error}");
    there("restore", &[]);
    assert!(there("detach", &[]).contains("nothing was attached"));
    umount(path).unwrap();
}

#[test]
fn if_the_guard_is_killed_the_next_command_gives_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "set", &["link.mtu=1300", "--confirm", "2"]);
    guards(host).into_iter().for_each(|guard| kill(guard, Signal::SIGKILL).unwrap());
    // A command that changes nothing itself, as the profile is for another driver.
    let profile = tempfile::NamedTempFile::new().unwrap();
    fs::write(profile.path(), "[match]\ndriver = \"none\"\n[link]\nmtu = 1200\n").unwrap();
    let path = profile.path().to_str().unwrap();
    assert!(poll(|| {
        // The command of another test may come first.
        let (code, error) = refusal(host, "apply", &["--profile", path]);
        assert_eq!(code, Some(7), "{error}");
        mtu(host) == 1500
    }));
    assert!(guards(host).is_empty());
}

#[test]
fn programs_are_given_back_too() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let before = settings(host);
    run(host, "attach", &["--profile", "big-tcp", "--confirm", "1"]);
    assert!(is_attached(host));
    assert!(poll(|| !is_attached(host) && settings(host) == before));

    // An attachment that was there is what it was.
    run(host, "attach", &["--rx-copybreak", "128", "--log"]);
    run(host, "attach", &["--rx-copybreak", "64", "--log=off", "--confirm", "1"]);
    let policy = || {
        let copybreak = &document(host, "stats", &[])["interfaces"][0]["policy"]["rx_copybreak"];
        (copybreak.as_u64(), listed(host)["interfaces"][0]["log"].as_bool())
    };
    assert!(poll(|| policy() == (Some(128), Some(true))));
    run(host, "detach", &[]);

    // One at TC alone has no policy that could be asked for again.
    run(host, "attach", &["--mode", "tc"]);
    run(host, "attach", &["--rx-copybreak", "99", "--confirm", "1"]);
    let mode = || listed(host)["interfaces"][0]["mode"].as_str().unwrap().to_owned();
    assert_eq!(mode(), "native");
    assert!(poll(|| mode() == "tc"));
    run(host, "detach", &[]);
}

#[test]
fn detach_takes_back_what_waits() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "attach", &[]);
    run(host, "set", &["link.mtu=1300", "--confirm", "1000"]);
    let said = document(host, "detach", &[]);
    assert_eq!(said["interfaces"][0]["unconfirmed_taken_back"], true);
    assert_eq!((mtu(host), is_attached(host)), (1500, false));
}

#[test]
fn whoever_is_killed_it_is_given_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let before = settings(host);
    for round in 0_u32..8 {
        let args = ["link.mtu=1300", "feature.gro=on", "channels.rx=2", "--confirm", "1"];
        let mut child = command_of(&on(host, "set", &args)).spawn().unwrap();
        // Some are killed before they begin, some when they are done.
        (0..round * 40_000).for_each(|_| std::hint::spin_loop());
        let _ = child.kill();
        child.wait().unwrap();
        assert!(poll(|| settings(host) == before && guards(host).is_empty()), "round {round}");
        // Whether it came far enough to have a guard or not.
        run(host, "restore", &[]);
        assert_eq!(settings(host), before, "round {round}");
    }
}

/// The file of what waits of this host's interface.
fn pending_file(host: &Host) -> String {
    let id = host.run(|| InterfaceId::of(&host.link().unwrap())).unwrap().unwrap();
    format!("/var/lib/nicctl/{}.pending", InterfaceKey::Id(id))
}

/// Puts another deadline into it.
fn wait_until(host: &Host, deadline: u64) {
    let path = pending_file(host);
    let mut pending: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    pending["deadline"] = deadline.into();
    fs::write(&path, pending.to_string()).unwrap();
}

#[test]
fn what_is_damaged_is_told_once_and_a_deadline_is_within_a_day() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    run(host, "set", &["link.mtu=1300", "--confirm", "1000"]);
    let whole = fs::read(pending_file(host)).unwrap();
    let damages: [&dyn Fn(); 2] =
        [&|| wait_until(host, u64::MAX / 2), &|| fs::write(pending_file(host), "{").unwrap()];
    for damage in damages {
        damage();
        for verb in ["set", "confirm", "restore"] {
            let args: &[&str] = if verb == "set" { &["link.mtu=1200"] } else { &[] };
            let (code, error) = refusal(host, verb, args);
            assert_eq!(code, Some(1), "{verb}: {error}");
            assert_eq!(error.matches("it is damaged").count(), 1, "{verb}: {error}");
        }
        let doctor = nicctl(&["doctor", "--netns", host.netns_name()]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("it is damaged"));
    }
    fs::write(pending_file(host), whole).unwrap();
    run(host, "restore", &[]);
    assert_eq!(mtu(host), 1500);
}

#[test]
fn what_is_named_twice_is_done_once() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let twice = |verb, args: &[&str]| run(host, verb, &[&["nic-b"], args].concat());
    twice("set", &["link.mtu=1300", "--confirm", "1000"]);
    assert_eq!(twice("confirm", &[]), "nic-b: confirmed\n");
    let restored = twice("restore", &[]);
    assert_eq!(restored.matches("+ link.mtu").count(), 1, "{restored}");
    run(host, "attach", &[]);
    assert_eq!(twice("detach", &[]), "nic-b: detached\n");
}

#[test]
fn what_is_too_late_and_not_given_back_is_not_confirmed() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    mount(Some("bpf"), path, Some("bpf"), MsFlags::empty(), Some("mode=0700")).unwrap();
    run(host, "attach", &["--bpffs", path, "--confirm", "1000"]);
    guards(host).into_iter().for_each(|guard| kill(guard, Signal::SIGKILL).unwrap());
    wait_until(host, 1);
    let (code, error) = refusal(host, "confirm", &[]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("too late to confirm"), "{error}");
    run(host, "restore", &["--bpffs", path]);
    umount(path).unwrap();
}
