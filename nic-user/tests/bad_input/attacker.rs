//! A local user without any privilege plants whatever he can where root's commands will look, and
//! root runs all of them: nothing of root's changes, nothing waits, nothing controls the terminal.

use std::{
    process::Output,
    thread,
    time::{Duration, Instant},
};

use nic_user::report::text;

use crate::{assert_done, needs_root, sandbox::Sandbox};

/// uid 65534, without groups and capabilities.
const USER: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs"];

/// What is root's and nobody else's business, and places as they should be.
const WORLD: &str = "
    mkdir -p /mnt/precious/folder && echo root >/mnt/precious/file && touch /mnt/precious/folder/f
    chmod 0600 /mnt/precious/file
    mount -t tmpfs -o mode=0755 tmpfs /run/nicctl 2>/dev/null ||
        { mkdir -p /run/nicctl && mount -t tmpfs -o mode=0755 tmpfs /run/nicctl; }
    chmod 0755 /mnt && mkdir -m 1777 /mnt/tmp";

/// Whatever of root's could have been touched: names, owners, modes, content.
const PRECIOUS: &str = "
    find /mnt/precious -printf '%p %y %U %G %m %s %l\\n' | sort; cat /mnt/precious/file
    cat /sys/class/net/nic-a/mtu
    cat /proc/sys/net/ipv4/conf/nic-a/forwarding";

/// What is there of the user's.
const PLANTED: &str = "find /sys/fs/bpf /var/lib/nicctl /run/nicctl /mnt/tmp -uid 65534";

/// How somebody has made places weak, and what the user plants there.
struct Attack {
    weak: &'static str,
    plant: &'static str,
}

/// What the user tries everywhere; most of it fails where nothing is weak.
const EVERYTHING: &str = r#"
    slot=$(cat /mnt/slot)
    ln -s /mnt/precious /sys/fs/bpf/nicctl; mkdir -m 0777 /sys/fs/bpf/nicctl
    ln -s /mnt/precious /sys/fs/bpf/nicctl/new-1-1
    ln -s /mnt/precious/folder /sys/fs/bpf/nicctl/$slot
    ln -s /mnt/precious/file /var/lib/nicctl/$slot.json
    ln -s /mnt/precious/file /var/lib/nicctl/$slot.new
    mkfifo /var/lib/nicctl/9-9.json; mkdir /var/lib/nicctl/8-8.json
    ln -s /mnt/precious/file /run/nicctl/nic-1-0-lent.json
    mkfifo /run/nicctl/nic-2-0-lent.json
    true"#;

const JOURNAL: &str = r#"
    slot=$(cat /mnt/slot)
    printf '{"version":2,"written_by":"0","identity":{"id":%s,"name":"nic-a","ifindex":1,"mac":null,
      "driver":null,"bus":null,"boot_id":"%s","netns_cookie":1},"phase":"applied","obtained":{},
      "settings":{"link.mtu":{"original":68,"made":[{"owner":"set","value":null}]}}}' \
      "$slot" "$(cat /proc/sys/kernel/random/boot_id)" >/var/lib/nicctl/$slot.json
    chmod 0666 /var/lib/nicctl/$slot.json"#;

const LOAN: &str = r#"
    end='{"name":"nic-a","kind":"veth","mac":[2,0,0,0,0,1],"up":true,"addresses":[],
      "settings":{"link.mtu":68},"sysctls":{"ipv4/conf":{"../../../../../mnt/precious/file":"x"}}}'
    printf '{"version":2,"netns_cookie":1,"namespaces":["../../mnt/precious/file","nic-1-0-lent-b"],
      "ends":[%s,%s]}' "$end" "$end" >/run/nicctl/nic-1-0-lent.json
    sed 's/"version":2/"version":1/' /run/nicctl/nic-1-0-lent.json >/run/nicctl/nic-3-0-lent.json
    ln -s /mnt/precious/file /run/nicctl/nic-4-0-lent.new
    mkfifo /run/nicctl/nic-5-0-lent.json; mkdir /run/nicctl/nic-6-0-lent.json"#;

const PAGES: &str = r#"
    mkdir -p /mnt/tmp/man && cd /mnt/tmp/man
    for page in nicctl nicctl-attach nicctl-stats page; do ln -s /mnt/precious/file $page.1; done
    ln -s /mnt/precious /mnt/tmp/link; mkfifo /mnt/tmp/pipe
    for file in throughput latency; do ln -s /mnt/tmp/pipe /mnt/tmp/$file; done"#;

const ATTACKS: [Attack; 9] = [
    Attack { weak: "true", plant: EVERYTHING },
    // The hint of every tutorial: `mount -t bpf bpf /sys/fs/bpf`.
    Attack { weak: "umount /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf", plant: EVERYTHING },
    Attack { weak: "chmod 0755 /sys/fs/bpf; mkdir -m 0777 /sys/fs/bpf/nicctl", plant: EVERYTHING },
    Attack {
        weak: "chmod 0755 /sys/fs/bpf; mkdir -m 0755 /sys/fs/bpf/nicctl; \
               mkdir -m 0777 /sys/fs/bpf/nicctl/new-1-1",
        plant: "ln -s /mnt/precious/file /sys/fs/bpf/nicctl/new-1-1/rx; true",
    },
    Attack { weak: "chmod 0777 /var/lib/nicctl", plant: EVERYTHING },
    Attack { weak: "chmod 0777 /var/lib/nicctl", plant: JOURNAL },
    // Once made by the user, and then made strong.
    Attack { weak: "chmod 1777 /var/lib/nicctl /run/nicctl; touch /mnt/strong", plant: JOURNAL },
    Attack { weak: "chmod 0777 /run/nicctl; touch /mnt/strong", plant: LOAN },
    Attack { weak: "chmod 0777 /run/nicctl", plant: PAGES },
];

const ALL: [&[&str]; 25] = [
    &["doctor"],
    &["doctor", "nic-a"],
    &["list"],
    &["stats"],
    &["attach", "nic-a", "--dry-run"],
    &["attach", "nic-a"],
    &["attach", "nic-a", "--profile", "throughput"],
    &["list", "--json"],
    &["stats", "nic-a"],
    &["log", "nic-x"],
    &["show", "nic-a"],
    &["plan", "nic-a", "--profile", "latency"],
    &["set", "nic-a", "feature.rx-gro=on"],
    &["apply", "nic-a", "--profile", "throughput"],
    &["forward", "nic-a", "nic-x"],
    &["man", "/mnt/tmp/man"],
    &["man", "/mnt/tmp/link"],
    &["bench", "--tx", "nic-a", "--rx", "lo"],
    &["bench", "compare", "/mnt/tmp/pipe", "/mnt/tmp/pipe"],
    &["plan", "nic-a", "--profile", "./latency"],
    &["restore", "nic-a"],
    &["detach", "nic-a"],
    &["detach", "--all"],
    &["detach", "--gone"],
    &["detach", "--everywhere"],
];

/// Runs nicctl as root where the user has been; it ends by itself with a documented exit code.
#[track_caller]
fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    let script = "cd /mnt/tmp && TMPDIR=/mnt/tmp exec timeout 30 /mnt/nicctl \"$@\"";
    let all = [&["-c", script, "sh"], args].concat();
    let output = sandbox.command("sh", &all).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains(|c| c != '\n' && text::controls(c)), "{args:?}: {said:?}");
    assert!(matches!(output.status.code(), Some(0..=6)), "{args:?}: {:?}: {said}", output.status);
    output
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.shell(WORLD);
    // Where the pins and the journal of nic-a go.
    sandbox.attach();
    let slot = sandbox.slot().file_name().unwrap().to_str().unwrap().to_owned();
    assert_done(&sandbox.nicctl(&["detach", "nic-a"]));
    sandbox.shell(&format!("echo {slot} >/mnt/slot"));
    sandbox
}

fn as_user(sandbox: &Sandbox, script: &str) {
    let args = [&USER[..], &["sh", "-c", script]].concat();
    sandbox.command("setpriv", &args).output().unwrap();
}

#[test]
fn what_a_user_plants_changes_nothing_of_roots() {
    needs_root!();
    for (number, Attack { weak, plant }) in ATTACKS.iter().enumerate() {
        let sandbox = sandbox();
        sandbox.shell(weak);
        let before = sandbox.shell(PRECIOUS);
        as_user(&sandbox, plant);
        let planted = sandbox.shell(PLANTED);
        assert!(number == 0 || !planted.is_empty(), "attack {number} planted nothing: {plant}");
        sandbox.shell("if test -e /mnt/strong; then chmod 0755 /run/nicctl /var/lib/nicctl; fi");
        for args in ALL {
            // What is set in between is given back by what follows.
            run(&sandbox, args);
        }
        assert_eq!(sandbox.shell(PRECIOUS), before, "attack {number}: {weak}: {plant}");
    }
}

#[test]
fn where_nothing_is_weak_a_user_is_not_even_in_the_way() {
    needs_root!();
    let sandbox = sandbox();
    as_user(&sandbox, EVERYTHING);
    as_user(&sandbox, PAGES);
    for args in [
        &["attach", "nic-a"][..],
        &["stats", "nic-a"],
        &["set", "nic-a", "link.mtu=1400"],
        &["restore", "nic-a"],
        &["apply", "nic-a", "--profile", "throughput", "--dry-run"],
        &["detach", "nic-a"],
    ] {
        assert_eq!(run(&sandbox, args).status.code(), Some(0), "{args:?}");
    }
}

/// A place that the user may write is named, with exit code 1, by every command that would use it.
#[test]
fn a_place_that_the_user_may_write_is_refused_by_name() {
    needs_root!();
    for (weak, place, commands) in [
        (
            "umount /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf",
            "/sys/fs/bpf is not trusted: others can write to it (mode 1777)",
            &[&["attach", "nic-a"][..], &["list"], &["stats"], &["detach", "--all"]][..],
        ),
        (
            "mkdir -m 0777 /sys/fs/bpf/nicctl",
            "/sys/fs/bpf/nicctl is not trusted: others can write to it (mode 0777)",
            &[&["attach", "nic-a"], &["list"], &["stats"], &["detach", "--all"]],
        ),
        (
            "mkdir -m 0700 /sys/fs/bpf/nicctl; mkdir /sys/fs/bpf/nicctl/new-$(cat /mnt/slot); \
             chown 65534 /sys/fs/bpf/nicctl/new-$(cat /mnt/slot)",
            "is not trusted: it belongs to user 65534",
            &[&["attach", "nic-a"], &["detach", "nic-a"]],
        ),
        (
            "echo {} >/var/lib/nicctl/1-1.new; chmod 0777 /var/lib/nicctl",
            "/var/lib/nicctl is not trusted: others can write to it (mode 0777)",
            &[&["set", "nic-a", "link.mtu=1400"], &["attach", "nic-a"], &["detach", "nic-a"]],
        ),
        (
            "chmod 0777 /run/nicctl",
            "/run/nicctl is not trusted: others can write to it (mode 0777)",
            &[&["doctor"], &["restore", "nic-a"]],
        ),
    ] {
        let sandbox = sandbox();
        sandbox.shell(weak);
        for args in commands {
            let output = run(&sandbox, args);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(place), "{weak}: {args:?}: {said}");
            let told = ["doctor", "restore"].contains(&args[0]);
            assert!(told || output.status.code() == Some(1), "{weak}: {args:?}: {said}");
        }
    }
}

/// Interfaces of a user's own network namespace, which root looks at.
const INTERFACES: &str = r#"
    exec unshare --user --map-root-user --net sh -ec '
    name=$(printf "\033[31mx\302\233")
    ip link add "$name" type veth peer name nic-y
    ip link set "$name" alias "$(printf "\033]0;owned\007")"
    ip link property add dev "$name" altname "$(printf "\033[2Jalt\342\200\256")"
    ip link set nic-y alias "$(printf "\n  fix: rm -rf /\n")"
    ip link set "$name" up; ip link set nic-y up
    touch /mnt/tmp/ready; exec sleep 60'"#;

#[test]
fn names_in_a_users_own_namespace_do_not_control_the_terminal() {
    needs_root!();
    let sandbox = sandbox();
    let args = [&USER[..4], &["sh", "-c", INTERFACES]].concat();
    let mut user = sandbox.command("setpriv", &[&USER[..3], &args[4..]].concat()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_ready = || sandbox.shell("ls /mnt/tmp").contains("ready");
    while !is_ready() && user.try_wait().unwrap().is_none() && Instant::now() < deadline {
        thread::yield_now();
    }
    if !is_ready() {
        crate::common::say_skipped("users have no namespaces of their own here");
        return;
    }
    // Mounted in the sandbox alone.
    let attach = "mount -t tmpfs tmpfs /run/netns; touch /run/netns/evil; \
                  pid=$(pgrep -u 65534 -x sleep); mount --bind /proc/$pid/ns/net /run/netns/evil";
    sandbox.shell(attach);
    let name = "\x1b[31mx\u{9b}";
    for args in [
        &["doctor"][..],
        &["show", name],
        &["show", "nic-y"],
        &["show", "\x1b[2Jalt\u{202e}"],
        &["attach", name],
        &["list"],
        &["list", "--json"],
        &["stats"],
        &["set", name, "link.mtu=1400"],
        &["plan", name, "--profile", "throughput"],
        &["restore", name],
        &["log", name],
        &["detach", name],
        &["attach", "\x1b[31mnone"],
        &["detach", "--all"],
    ] {
        let output = run(&sandbox, &[args, &["--netns", "evil"]].concat());
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let forged = said.lines().any(|line| line.starts_with("  fix: rm"));
        assert!(!forged && !said.contains("Usage:"), "{args:?}: {said}");
    }
    user.kill().unwrap();
    user.wait().unwrap();
}
