//! `nicctl bench --tx --rx`: interfaces of this machine are taken, and come back as they were,
//! whatever happens in between. Here they are a veth pair inside a host of a lab.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    net::IpAddr,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nic_user::{
    control::journal::SYSTEM_DIR,
    lab::{
        Host, Lab, Shape,
        traffic::{self, IpVersion},
    },
    netlink::{
        ethtool::{Ethtool, features::Features},
        link_edit::VethEnd,
        route::Routes,
    },
    nic::{
        InterfaceName, Nic,
        namespace::named_namespaces,
        setting::{Group, Key, Value},
        settings,
    },
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const ENDS: [&str; 2] = ["nic-tx", "nic-rx"];
const PATIENCE: Duration = Duration::from_secs(20);

/// A host with a cable that begins and ends at it.
struct Cabled(Lab);

impl Cabled {
    fn new() -> Self {
        let lab = Lab::new(Shape::default()).unwrap();
        let host = lab.a();
        let [tx, rx] = ENDS.map(|name| VethEnd { name, queues: 2, mtu: 1600, netns: None });
        host.links(|links| {
            links.add_veth(tx, rx)?;
            let [tx, rx] = [links.by_name(tx.name)?.ifindex, links.by_name(rx.name)?.ifindex];
            links.set_up(tx, true)?;
            links.set_up(rx, true)?;
            links.add_address(tx, IpAddr::from([198, 51, 100, 1]), 24)?;
            links.add_address(tx, "2001:db8:1::1".parse().unwrap(), 64)?;
            links.set_mtu(tx, 1700)
        })
        .unwrap();
        host.run(|| {
            let tx = nic(ENDS[0]).ifindex();
            let off = [("tx-udp-segmentation", false), ("rx-gro", true)];
            Ethtool::open().unwrap().set_features(tx, &off).unwrap();
            // Without it there is none of some others, which are wished for all the same.
            let off = [("tx-scatter-gather", false)];
            Ethtool::open().unwrap().set_features(nic(ENDS[1]).ifindex(), &off).unwrap();
            fs::write("/proc/sys/net/ipv4/conf/nic-tx/rp_filter", "2").unwrap();
            fs::write("/proc/sys/net/ipv6/neigh/nic-rx/gc_stale_time", "77").unwrap();
        })
        .unwrap();
        Self(lab)
    }

    fn host(&self) -> &Host {
        self.0.a()
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.host().run(|| command.spawn()).unwrap().unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.start(args).wait_with_output().unwrap()
    }

    fn endless(&self) -> Child {
        let [tx, rx] = ENDS;
        self.start(&["bench", "udp-gso", "--tx", tx, "--rx", rx, "--time", "60"])
    }

    /// What is to be as it was.
    fn state(&self) -> Option<Vec<State>> {
        let read = || ENDS.iter().map(|name| State::read(name)).collect();
        self.host().run(read).unwrap()
    }

    /// Everything is as it was, if need be after whoever else gives it back at the moment is done.
    #[track_caller]
    fn assert_restored(&self, was: &[State], mut again: impl FnMut()) {
        let deadline = Instant::now() + PATIENCE;
        while self.state().as_deref() != Some(was) {
            let is = self.state();
            assert!(Instant::now() < deadline, "was {was:#?}, is {is:#?}");
            again();
        }
    }
}

fn nic(name: &str) -> Nic {
    Nic::by_name(&InterfaceName::new(name).unwrap()).unwrap()
}

#[derive(Debug, PartialEq)]
struct State {
    name: String,
    mac: Option<[u8; 6]>,
    up: bool,
    addresses: Vec<IpAddr>,
    settings: BTreeMap<String, Value>,
    /// With what is wished of them.
    features: Features,
    sysctls: [String; 2],
}

impl State {
    fn read(name: &str) -> Option<Self> {
        let nic = Nic::by_name(&InterfaceName::new(name).unwrap()).ok()?;
        let addresses = Routes::open().unwrap().addresses_of(nic.ifindex()).unwrap();
        let mut addresses: Vec<_> = addresses.iter().filter_map(|address| address.ip()).collect();
        addresses.sort();
        // A NAPI has another number each time the interface comes up.
        let of_napi = |key: &Key| key.group == Group::Napi && key.name.contains('/');
        let settings = settings::read(&nic).ok()?.into_iter().filter(|(key, _)| !of_napi(key));
        let sysctl = |path: &str| fs::read_to_string(format!("/proc/sys/net/{path}"));
        Some(Self {
            name: nic.name().to_owned(),
            mac: nic.link.mac,
            up: nic.link.up,
            addresses,
            settings: settings.map(|(key, it)| (key.to_string(), it.value)).collect(),
            features: nic.features,
            sysctls: [
                sysctl(&format!("ipv4/conf/{name}/rp_filter")).ok()?,
                sysctl(&format!("ipv6/neigh/{name}/gc_stale_time")).ok()?,
            ],
        })
    }
}

fn lent_by(child: &Child) -> Vec<String> {
    let prefix = format!("nic-{}-", child.id());
    named_namespaces().unwrap().into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

/// Until both interfaces are elsewhere, in namespaces of this child.
#[track_caller]
fn wait_until_lent(cabled: &Cabled, child: &mut Child) {
    let deadline = Instant::now() + PATIENCE;
    let is_here = |name: &&str| cabled.host().links(|links| links.by_name(name)).is_ok();
    while lent_by(child).is_empty() || ENDS.iter().any(is_here) {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < deadline, "nothing is lent");
    }
}

#[test]
fn experiments_run_over_two_interfaces_which_come_back_as_they_were() {
    needs_root!();
    let cabled = Cabled::new();
    let was = cabled.state().unwrap();
    assert_eq!(was[0].sysctls[0], "2\n");
    let [tx, rx] = ENDS;
    let output =
        cabled.run(&["bench", "--tx", tx, "--rx", rx, "--rounds", "5", "--time", "0.05", "--json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    cabled.assert_restored(&was, || panic!("not as it was"));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let experiments = document["experiments"].as_array().unwrap();
    let names: Vec<_> = experiments.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["udp-gso", "big-tcp"]), "{names:?}");
    for experiment in experiments {
        assert!(experiment["place"].as_str().unwrap().starts_with("nic-tx to nic-rx; "));
        let cases = experiment["cases"].as_array().unwrap().iter();
        for variant in cases.flat_map(|case| case["variants"].as_array().unwrap()) {
            let rate = &variant["measured"]["rate"]["max"];
            assert!(rate.as_f64().is_some_and(|rate| rate > 0.0), "{variant}");
        }
    }
}

#[test]
fn an_interruption_gives_them_back() {
    needs_root!();
    let cabled = Cabled::new();
    let was = cabled.state().unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut bench = cabled.endless();
        wait_until_lent(&cabled, &mut bench);
        kill(Pid::from_raw(bench.id() as i32), signal).unwrap();
        let namespaces = lent_by(&bench);
        assert_eq!(bench.wait().unwrap().code(), Some(1));
        cabled.assert_restored(&was, || panic!("not as it was"));
        assert!(!namespaces.is_empty() && lent_by(&bench).is_empty());
    }
}

#[test]
fn after_a_kill_the_next_command_gives_them_back() {
    needs_root!();
    let cabled = Cabled::new();
    let was = cabled.state().unwrap();
    // Until all of it is set up, and then somewhere on the way there.
    let start = Instant::now();
    let mut bench = cabled.endless();
    wait_until_lent(&cabled, &mut bench);
    let way = start.elapsed() * 2;
    let part = |n: u32| way * n / 8;
    for at in [None].into_iter().chain((1..8).map(part).map(Some)) {
        if let Some(at) = at {
            bench = cabled.endless();
            thread::sleep(at);
        }
        bench.kill().unwrap();
        bench.wait().unwrap();
        cabled.run(&["restore", ENDS[0]]);
        cabled.assert_restored(&was, || drop(cabled.run(&["restore", ENDS[0]])));
        assert_eq!(lent_by(&bench), Vec::<String>::new());
    }
    // A next run does the same before it begins, and takes them itself.
    bench = cabled.endless();
    wait_until_lent(&cabled, &mut bench);
    bench.kill().unwrap();
    bench.wait().unwrap();
    let mut next = cabled.endless();
    wait_until_lent(&cabled, &mut next);
    kill(Pid::from_raw(next.id() as i32), Signal::SIGINT).unwrap();
    next.wait().unwrap();
    cabled.assert_restored(&was, || drop(cabled.run(&["restore", ENDS[0]])));
}

/// What a killed bench had taken comes back with the interface that it is about, and only once
/// nobody else is at work.
#[test]
fn restore_moves_what_it_names_once_it_holds_the_lock() {
    needs_root!();
    let cabled = Cabled::new();
    let was = cabled.state().unwrap();
    let mut bench = cabled.endless();
    wait_until_lent(&cabled, &mut bench);
    bench.kill().unwrap();
    bench.wait().unwrap();
    let lent = lent_by(&bench);
    for args in [&["restore", cabled.host().interface()][..], &["restore", ENDS[0], "--dry-run"]] {
        cabled.run(args);
        assert_eq!(lent_by(&bench), lent, "{args:?}");
        assert_eq!(cabled.state(), None, "{args:?}");
    }
    let lock = fs::File::open(SYSTEM_DIR).unwrap();
    lock.lock().unwrap();
    let mut restore = cabled.start(&["restore", ENDS[0]]);
    let mut said = String::new();
    let mut stderr = BufReader::new(restore.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("waiting for another nicctl"), "{said}");
    assert_eq!((lent_by(&bench), cabled.state()), (lent, None));
    drop(lock);
    restore.wait().unwrap();
    cabled.assert_restored(&was, || drop(cabled.run(&["restore", ENDS[0]])));
}

#[track_caller]
fn refused(cabled: &Cabled, [tx, rx]: [&str; 2], reason: &str) {
    let output = cabled.run(&["bench", "udp-gso", "--tx", tx, "--rx", rx]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains(reason), "{error}");
}

#[test]
fn what_somebody_uses_is_refused() {
    needs_root!();
    let cabled = Cabled::new();
    let [tx, rx] = ENDS;
    let was = cabled.state().unwrap();
    refused(&cabled, [tx, tx], "two interfaces");
    refused(&cabled, [tx, "lo"], "neither a NIC nor");
    refused(&cabled, [tx, "nic-none"], "there is no interface nic-none");
    let here = cabled.host().interface();
    let connections = traffic::connect(cabled.host(), cabled.0.b(), IpVersion::V6, 1).unwrap();
    refused(&cabled, [here, rx], "TCP connections at its address 2001:db8::1");
    drop(connections);

    let attached = cabled.run(&["attach", rx]);
    assert!(attached.status.success(), "{}", String::from_utf8_lossy(&attached.stderr));
    refused(&cabled, ENDS, "BPF programs");
    assert!(cabled.run(&["detach", rx]).status.success());

    let ip = |args: &[&str]| {
        let mut command = Command::new("ip");
        cabled.host().run(|| command.args(args).output()).unwrap()
    };
    let Ok(output) = ip(&["route", "add", "203.0.113.0/24", "dev", tx]) else { return };
    assert!(output.status.success());
    refused(&cabled, ENDS, "1 routes use it");
    assert!(ip(&["-6", "route", "add", "default", "dev", tx]).unwrap().status.success());
    refused(&cabled, ENDS, "the default route uses it");
    assert_eq!(cabled.state().unwrap(), was);
}

#[test]
fn what_is_not_cabled_comes_back() {
    needs_root!();
    let cabled = Cabled::new();
    let was = cabled.state().unwrap();
    refused(&cabled, [ENDS[0], cabled.host().interface()], "arrives at nic-a");
    cabled.assert_restored(&was, || panic!("not as it was"));
    assert!(cabled.host().link().unwrap().up);
}
