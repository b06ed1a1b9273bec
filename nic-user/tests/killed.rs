//! Whenever attach or detach is killed, detach leaves the interface as it was, and attach works.

mod attached;
mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use attached::{both, nicctl, run, start, stats};
use aya::programs::{SchedClassifier, TcAttachType};
use nic_user::lab::traffic::{self, IpVersion};
use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink::link_edit::VethEnd;
use nic_user::netlink::qdisc::Clsact;
use nic_user::nic::Nic;
use nic_user::offload::Slot;
use serde_json::Value;

/// How often each command is killed before it is done.
const TIMES: u32 = 100;
/// The same, where settings belong to it.
const TIMES_WITH_SETTINGS: u32 = 40;

/// What most is attached with: programs at every hook.
const NATIVE: &[&str] = &["--mode", "native"];

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
gro-ipv4-max-size = 100000
[napi]
gro-flush-timeout = 20000
[rps]
rx-0 = \"1\"
";

/// Numbers without order (splitmix64), the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

/// Runs the command and kills it somewhere within `within`; whether it was still running.
fn kill(host: &Host, verb: &str, args: &[&str], within: Duration, numbers: &mut Numbers) -> bool {
    let mut child = start(host, verb, args);
    thread::sleep(Duration::from_micros(numbers.below(within.as_micros() as u64)));
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

/// A command with its arguments.
type Call<'c> = (&'c str, &'c [&'c str]);

/// How long the command takes when nothing is in its way.
fn duration(host: &Host, command: Call<'_>, other: Call<'_>) -> Duration {
    let taken = (0..5).map(|_| {
        run(host, other.0, other.1);
        let begin = Instant::now();
        run(host, command.0, command.1);
        begin.elapsed()
    });
    taken.min().unwrap()
}

struct Clean<'l> {
    lab: &'l Lab,
    nics: [Nic; 2],
}

impl<'l> Clean<'l> {
    fn of(lab: &'l Lab) -> Self {
        Self { lab, nics: both(lab) }
    }

    /// Everything is as it was before the first attach, and traffic flows.
    #[track_caller]
    fn assert_restored(&self, times: u32) {
        let host = self.lab.b();
        assert_eq!(both(self.lab), self.nics, "kill {times}");
        assert_eq!(tc(host), (0, 0, false), "kill {times}");
        assert_eq!(pins(host), Vec::<String>::new(), "kill {times}");
        assert_eq!(traffic::udp(self.lab.a(), host, IpVersion::V4, 4, 8, 64).unwrap(), 8);
    }
}

/// TCX programs at ingress and egress, and whether there is a clsact qdisc.
fn tc(host: &Host) -> (usize, usize, bool) {
    host.run(|| {
        let programs = |hook| SchedClassifier::query_tcx(host.interface(), hook).unwrap().1.len();
        let mut clsact = Clsact::open().unwrap();
        let was_none = clsact.add(host.ifindex()).unwrap();
        if was_none {
            clsact.delete(host.ifindex()).unwrap();
        }
        (programs(TcAttachType::Ingress), programs(TcAttachType::Egress), !was_none)
    })
    .unwrap()
}

/// Whatever nicctl has in bpffs for this host, whole or half made.
fn pins(host: &Host) -> Vec<String> {
    let ours = attached::slot(host).key.to_string();
    let Ok(entries) = fs::read_dir("/sys/fs/bpf/nicctl") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(&ours)).collect()
}

/// One more attachment, from whatever state there is.
fn assert_works(lab: &Lab) {
    let host = lab.b();
    run(host, "attach", NATIVE);
    let before = attached::number(&stats(host)["total"], "/rx/packets");
    assert_eq!(traffic::udp(lab.a(), host, IpVersion::V4, 4, 8, 64).unwrap(), 8);
    assert!(attached::number(&stats(host)["total"], "/rx/packets") >= before + 8);
}

#[test]
fn killed_attaches_leave_nothing_that_detach_does_not_remove() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let clean = Clean::of(&lab);
    let within = duration(lab.b(), ("attach", NATIVE), ("detach", &[]));
    run(lab.b(), "detach", &[]);
    clean.assert_restored(0);
    let mut numbers = Numbers(1);
    let mut killed = 0;
    // Now and then it is done before it is killed.
    for times in 1.. {
        if killed == TIMES {
            break;
        }
        killed += u32::from(kill(lab.b(), "attach", NATIVE, within, &mut numbers));
        // What a killed command left must not be in the way of others.
        assert!(nicctl(&["list"]).status.success(), "kill {times}");
        if times % 4 == 0 {
            assert_works(&lab);
        }
        run(lab.b(), "detach", &[]);
        clean.assert_restored(times);
    }
}

#[test]
fn killed_detaches_are_completed_by_the_next_command() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let clean = Clean::of(&lab);
    let within = duration(lab.b(), ("detach", &[]), ("attach", NATIVE));
    clean.assert_restored(0);
    let mut numbers = Numbers(2);
    let mut killed = 0;
    // Now and then it is done before it is killed.
    for times in 1.. {
        if killed == TIMES {
            break;
        }
        run(lab.b(), "attach", NATIVE);
        killed += u32::from(kill(lab.b(), "detach", &[], within, &mut numbers));
        assert!(nicctl(&["list"]).status.success(), "kill {times}");
        if times % 4 == 0 {
            assert_works(&lab);
        }
        run(lab.b(), "detach", &[]);
        clean.assert_restored(times);
    }
}

#[test]
fn killed_changes_of_mode_leave_a_mode_that_counts_and_that_detach_removes() {
    needs_root!();
    const MODES: [&str; 3] = ["native", "tc", "generic"];
    let lab = Lab::new(Shape::default()).unwrap();
    let (host, clean) = (lab.b(), Clean::of(&lab));
    let to = |mode| ["--mode", mode];
    let within = duration(host, ("attach", &to("tc")), ("attach", &to("generic")));
    let ingress = || attached::number(&stats(host)["total"], "/ingress/packets");
    let mut numbers = Numbers(4);
    let mut killed = 0;
    for times in 1.. {
        if killed == TIMES {
            break;
        }
        let mode = MODES[numbers.below(3) as usize];
        killed += u32::from(kill(host, "attach", &to(mode), within, &mut numbers));
        // TC has counted all the while, and what is said of XDP is so.
        let before = ingress();
        assert_eq!(traffic::udp(lab.a(), host, IpVersion::V4, 4, 8, 64).unwrap(), 8);
        assert!(ingress() >= before + 8, "kill {times}");
        let said = stats(host)["mode"].as_str().unwrap().to_owned();
        let xdp = host.link().unwrap().xdp;
        let is = xdp.first().map(|xdp| xdp.mode.name());
        assert!(is.map_or(matches!(&*said, "tc" | "partial"), |is| is == said), "{said}: {xdp:?}");
        if times % 4 == 0 {
            run(host, "attach", &[]);
            assert_ne!(stats(host)["mode"], "partial", "kill {times}");
        }
        if times % 8 == 0 {
            run(host, "detach", &[]);
            clean.assert_restored(times);
            run(host, "attach", &to(mode));
        }
    }
    run(host, "detach", &[]);
    clean.assert_restored(0);
}

/// Everything that can be set of an interface, as text.
fn settings(host: &Host) -> String {
    run(host, "show", &["--as-profile"])
}

#[test]
fn killed_with_settings_detach_or_restore_bring_everything_back() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    fs::write(&path, PROFILE).unwrap();
    let attach = ["--mode", "native", "--profile", path.to_str().unwrap()];
    let (before, clean) = (settings(host), Clean::of(&lab));
    let attaching = duration(host, ("attach", &attach), ("detach", &[]));
    let detaching = duration(host, ("detach", &[]), ("attach", &attach));
    let mut numbers = Numbers(3);
    let mut killed = 0;
    for times in 1.. {
        if killed >= TIMES_WITH_SETTINGS {
            break;
        }
        killed += u32::from(kill(host, "attach", &attach, attaching, &mut numbers));
        if times % 2 == 0 {
            killed += u32::from(kill(host, "detach", &[], detaching, &mut numbers));
        }
        if times % 3 == 0 {
            // Programs that are left do not keep settings from being given back.
            run(host, "restore", &[]);
            assert_eq!(settings(host), before, "kill {times}");
        }
        run(host, "detach", &[]);
        assert_eq!(settings(host), before, "kill {times}");
        clean.assert_restored(times);
    }
    assert!(run(host, "restore", &[]).contains("no changes by nicctl"));
}

/// How often something is killed while the interface gets new names, addresses and namespaces;
/// `NICCTL_KILLS` says otherwise.
const TIMES_ON_THE_MOVE: u32 = 40;

/// An interface that goes by another name, address or network namespace all the time.
struct Wanderer<'l> {
    hosts: [&'l Host; 2],
    at: usize,
    name: String,
}

impl Wanderer<'_> {
    fn host(&self) -> &Host {
        self.hosts[self.at]
    }

    fn ip(&self, args: &[&str]) {
        let ip = || Command::new("ip").args(args).status().unwrap();
        assert!(self.host().run(ip).unwrap().success(), "{args:?}");
    }

    /// Changes one thing about it that is none of nicctl's.
    fn change(&mut self, numbers: &mut Numbers) {
        match numbers.below(4) {
            0 => {
                let address = format!("02:00:00:00:09:{:02x}", numbers.below(256));
                self.ip(&["link", "set", &self.name, "address", &address]);
            }
            1 => {
                let name = format!("nic-w{}", numbers.below(1000));
                self.ip(&["link", "set", &self.name, "down"]);
                self.ip(&["link", "set", &self.name, "name", &name]);
                self.name = name;
            }
            2 => {
                let to = self.hosts[1 - self.at].netns_name().to_owned();
                self.ip(&["link", "set", &self.name, "netns", &to]);
                self.at = 1 - self.at;
            }
            _ => {}
        }
    }

    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let (verb, rest) = args.split_first().unwrap();
        [&[*verb, &self.name, "--netns", self.host().netns_name()], rest].concat()
    }

    fn kill(&self, args: &[&str], numbers: &mut Numbers) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
        command.args(self.args(args)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        thread::sleep(Duration::from_micros(numbers.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn run(&self, args: &[&str]) -> String {
        attached::succeeded(nicctl(&self.args(args)))
    }

    /// What it is set to, but for what it has only while it is up.
    fn settings(&self) -> String {
        self.ip(&["link", "set", &self.name, "up"]);
        let shown: Value = serde_json::from_str(&self.run(&["show", "--json"])).unwrap();
        let mut settings = shown["settings"].as_object().unwrap().clone();
        settings.remove("napi");
        Value::Object(settings).to_string()
    }
}

#[test]
fn killed_on_the_move_everything_is_given_back_and_nothing_of_others_touched() {
    needs_root!();
    let times = std::env::var("NICCTL_KILLS").ok().and_then(|times| times.parse().ok());
    let lab = Lab::new(Shape::default()).unwrap();
    let hosts = [lab.a(), lab.b()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    fs::write(&path, PROFILE.replace("mtu = 2000\n", "")).unwrap();
    let attach = ["attach", "--mode", "native", "--profile", path.to_str().unwrap()];
    let end = |name| VethEnd { name, queues: 4, mtu: 1500, netns: None };
    lab.b().links(|links| links.add_veth(end("nic-w"), end("nic-o"))).unwrap();
    let mut wanderer = Wanderer { hosts, at: 1, name: "nic-w".to_owned() };
    let before = wanderer.settings();
    let others = hosts.map(settings);
    let key = {
        let link = lab.b().links(|links| links.by_name("nic-w")).unwrap();
        lab.b().run(|| Slot::of(&link)).unwrap().unwrap().key.to_string()
    };
    let mut numbers = Numbers(4);
    for time in 0..times.unwrap_or(TIMES_ON_THE_MOVE) {
        let verbs: [&[&str]; 4] =
            [&attach, &["set", "link.mtu=1400", "rps.rx-1=2"], &["detach"], &["restore"]];
        wanderer.kill(verbs[numbers.below(4) as usize], &mut numbers);
        wanderer.change(&mut numbers);
        if numbers.below(3) == 0 {
            wanderer.run(&["detach"]);
            wanderer.run(&["restore"]);
            assert_eq!(wanderer.settings(), before, "kill {time}");
            let pins = fs::read_dir("/sys/fs/bpf/nicctl").into_iter().flatten().flatten();
            let mut names = pins.filter_map(|pin| pin.file_name().into_string().ok());
            assert!(!names.any(|name| name.ends_with(&key)), "kill {time}");
        }
        assert_eq!(hosts.map(settings), others, "kill {time}");
    }
    wanderer.run(&["detach"]);
    wanderer.run(&["restore"]);
    assert_eq!(wanderer.settings(), before);
    assert!(wanderer.run(&["restore"]).contains("no changes by nicctl"));
}
