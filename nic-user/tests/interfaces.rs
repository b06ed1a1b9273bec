//! Interfaces come, go, change their names and share a machine.

mod attached;
mod common;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use attached::{nic, nicctl, number, on, run, succeeded};
use aya::Ebpf;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcHandle};
use aya::programs::{SchedClassifier, TcAttachType};
use nic_common::policy::CopyPolicy;
use nic_user::lab::bpf::map::Counters;
use nic_user::lab::traffic::{self, IpVersion};
use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink::link::XdpMode;
use nic_user::netlink::link_edit::VethEnd;
use nic_user::netlink::qdisc::Clsact;
use nic_user::nic::mode::Mode;
use nic_user::nic::namespace::NAMED_DIR;
use nic_user::offload::{self, Attached, Effect, Lock, ModeWanted, Options};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::Value;

/// The entries of `nicctl VERB --json --netns HOST`, which must go well.
#[track_caller]
fn entries(host: &Host, args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json", "--netns", host.netns_name()]].concat();
    let document: Value = serde_json::from_str(&succeeded(nicctl(&args))).unwrap();
    document["interfaces"].as_array().unwrap().clone()
}

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// Sends datagrams to `lab.b()`.
#[track_caller]
fn send(lab: &Lab, count: u64) {
    let arrived = traffic::udp(lab.a(), lab.b(), IpVersion::V4, 4, count, 64).unwrap();
    assert_eq!(arrived, count);
}

#[track_caller]
fn exit_code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn several_interfaces_at_once_are_all_or_none() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let end = |name| VethEnd { name, queues: 2, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-c"), end("nic-d"))).unwrap();
    let netns = ["--netns", host.netns_name()];

    let refused = nicctl(&[&["attach", "nic-b", "nic-c", "nic-x"], &netns[..]].concat());
    assert_eq!(exit_code(&refused), 3);
    assert!(entries(host, &["list"]).is_empty());

    let all = ["nic-b", "nic-c", "nic-d"];
    let attached = entries(host, &[&["attach", "--mode", "native"], &all[..]].concat());
    assert_eq!(names(&attached), all);
    let mut listed = entries(host, &["list"]);
    listed.sort_by_key(|entry| entry["name"].to_string());
    assert_eq!(names(&listed), all);
    send(&lab, 100);
    for one in entries(host, &["stats"]) {
        let packets = number(&one["total"], "/rx/packets");
        let queues = one["queues"].as_array().unwrap().len();
        if one["name"] == "nic-b" {
            assert!(packets >= 100 && queues == 4, "{one}");
        } else {
            assert!(packets < 100 && queues == 2, "{one}");
        }
    }
    let detached = entries(host, &["detach", "nic-c", "nic-d", "nic-c"]);
    assert_eq!(names(&entries(host, &["list"])), ["nic-b"]);
    assert_eq!(detached[0]["was_attached"], true);
    run(host, "detach", &[]);
}

#[test]
fn where_nothing_would_be_different_nothing_is_loaded() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let attach = |args: &[&str]| {
        let args = [args, &["--json", "--detailed-exitcode"]].concat();
        let output = nicctl(&on(host, "attach", &args));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (exit_code(&output), document["interfaces"][0]["changed"].as_bool().unwrap())
    };
    let programs = || {
        let listed = &entries(host, &["list"])[0];
        ["xdp_program", "ingress_program", "egress_program"].map(|program| listed[program].clone())
    };
    assert_eq!(attach(&["--dry-run"]), (5, true));
    assert_eq!(attach(&["--rx-copybreak", "100"]), (5, true));
    let loaded = programs();
    for same in [&[][..], &["--rx-copybreak", "100"], &["--mode", "native"], &["--dry-run"]] {
        assert_eq!(attach(same), (0, false), "{same:?}");
    }
    assert_eq!(programs(), loaded);
    let said = run(host, "attach", &[]);
    assert!(said.starts_with("nic-b: unchanged, native mode, single-buffer build\n"), "{said}");
    // What is missing is attached again, and what would be different is replaced.
    attached::slot(host).detach_link("link_ingress").unwrap();
    for other in [&[][..], &["--split", "off"], &["--pull"], &["--mode", "generic"]] {
        assert_eq!(attach(other), (5, true), "{other:?}");
        assert_eq!(attach(other), (0, false), "{other:?}");
    }
    // The programs know how many queues there are.
    run(host, "set", &["channels.tx=2"]);
    assert_eq!(attach(&[]), (5, true));
    run(host, "detach", &[]);
}

#[test]
fn attaching_otherwise_upgrades_and_the_second_detach_does_nothing() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let before = attached::both(&lab);
    assert!(run(lab.b(), "attach", &["--mode", "native"]).contains("nic-b: attached"));
    let [first] = &entries(lab.b(), &["list"])[..] else { panic!("one") };
    send(&lab, 10);
    assert!(run(lab.b(), "attach", &["--log"]).contains("nic-b: upgraded"));
    let [second] = &entries(lab.b(), &["list"])[..] else { panic!("one") };
    assert_eq!(first["attached_at"], second["attached_at"]);
    assert_ne!(first["xdp_program"], second["xdp_program"]);
    assert!(number(&attached::stats(lab.b())["total"], "/rx/packets") >= 10);
    assert_eq!(run(lab.b(), "detach", &[]), "nic-b: detached\n");
    assert_eq!(run(lab.b(), "detach", &[]), "nic-b: nothing was attached\n");
    assert_eq!(attached::both(&lab), before);
}

/// Runs nicctl as `ip netns exec` does: in the host's namespace, with a `/sys` of its own that goes
/// with the process.
fn netns_exec(host: &Host, args: &[&str]) -> Output {
    let netns = File::open(Path::new(NAMED_DIR).join(host.netns_name())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    let enter = move || {
        setns(&netns, CloneFlags::CLONE_NEWNET)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_SLAVE | MsFlags::MS_REC, none)?;
        umount2("/sys", MntFlags::MNT_DETACH)?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none)?;
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(enter) };
    command.args(args).output().unwrap()
}

#[test]
fn what_ip_netns_exec_attached_is_there_for_everybody() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    succeeded(netns_exec(lab.b(), &["attach", "nic-b", "--mode", "native"]));
    assert_eq!(names(&entries(lab.b(), &["list"])), ["nic-b"]);
    send(&lab, 10);
    // By the name of the namespace from outside, as the only one there is from inside.
    let outside: Value = serde_json::from_str(&succeeded(nicctl(&["list", "--json"]))).unwrap();
    let all = outside["interfaces"].as_array().unwrap();
    assert!(all.iter().any(|entry| entry["netns"] == lab.b().netns_name()), "{outside}");
    let inside = succeeded(netns_exec(lab.b(), &["stats", "nic-b", "--json"]));
    let inside: Value = serde_json::from_str(&inside).unwrap();
    assert!(number(&inside, "/interfaces/0/total/rx/packets") >= 10);
    assert!(succeeded(netns_exec(lab.b(), &["attach", "nic-b", "--log"])).contains("upgraded"));
    assert!(number(&attached::stats(lab.b())["total"], "/rx/packets") >= 10);
    assert_eq!(succeeded(netns_exec(lab.b(), &["detach", "nic-b"])), "nic-b: detached\n");
    assert!(entries(lab.b(), &["list"]).is_empty());
    assert!(nic(lab.b(), "nic-b").xdp().is_empty());
}

#[test]
fn a_renamed_interface_goes_by_its_new_name() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let netns = ["--netns", host.netns_name()];
    run(host, "attach", &["--mode", "native"]);
    send(&lab, 10);
    attached::rename(host, "nic-new");
    let on = |verb: &str, name: &str| nicctl(&[&[verb, name], &netns[..]].concat());

    let [listed] = &entries(host, &["list"])[..] else { panic!("one") };
    assert_eq!((&listed["name"], &listed["stale"]), (&"nic-new".into(), &false.into()));
    for args in [&["stats"][..], &["stats", "nic-new"]] {
        let [one] = &entries(host, args)[..] else { panic!("one") };
        assert_eq!(one["name"], "nic-new");
        assert!(number(&one["total"], "/rx/packets") >= 10);
    }
    assert_eq!(exit_code(&on("attach", "nic-b")), 3);
    assert!(succeeded(on("attach", "nic-new")).contains("nic-new: upgraded"));
    assert_eq!(succeeded(on("detach", "nic-new")), "nic-new: detached\n");
    assert!(entries(host, &["list"]).is_empty());
}

#[test]
fn a_vanished_interface_is_called_gone_and_a_new_one_of_its_name_is_another() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let (a, b) = (lab.a(), lab.b());
    run(b, "attach", &["--mode", "native"]);
    let old = b.ifindex();
    a.links(|links| links.delete(a.ifindex())).unwrap();

    let [listed] = &entries(b, &["list"])[..] else { panic!("one") };
    assert_eq!((&listed["stale"], &listed["xdp_program"]), (&true.into(), &Value::Null));
    let table = succeeded(nicctl(&["list", "--netns", b.netns_name()]));
    assert!(table.contains("gone"), "{table}");

    let end = |name| VethEnd { name, queues: 4, mtu: 1500, netns: None };
    b.links(|links| links.add_veth(end("nic-b"), end("nic-c"))).unwrap();
    // One that would have the index of the old one is not to be had here.
    assert_ne!(nic(b, "nic-b").ifindex(), old);
    let [stats] = &entries(b, &["attach", "nic-b"])[..] else { panic!("one") };
    assert_eq!(stats["upgraded"], false);
    let new = nic(b, "nic-b").ifindex();
    let [stats] = &entries(b, &["stats", "nic-b"])[..] else { panic!("one") };
    assert_eq!(number(stats, "/ifindex"), u64::from(new));

    run(b, "detach", &[]);
    assert!(entries(b, &["list"]).is_empty());
    assert!(nic(b, "nic-b").xdp().is_empty());
}

#[test]
fn pins_of_a_vanished_interface_are_detached_by_its_name() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    run(lab.b(), "attach", &[]);
    lab.a().links(|links| links.delete(lab.a().ifindex())).unwrap();
    assert_eq!(run(lab.b(), "detach", &[]), "nic-b: detached\n");
    assert!(entries(lab.b(), &["list"]).is_empty());
    let again = nicctl(&["detach", "nic-b", "--netns", lab.b().netns_name()]);
    assert_eq!(exit_code(&again), 3);
}

const NATIVE: Mode = Mode::Xdp(XdpMode::Native);

/// Attaches through the library, with filters of a clsact qdisc.
fn attach_clsact(host: &Host, mode: Mode) -> Attached {
    let attach = || {
        let lock = Lock::take(|_| {})?;
        let policy = |base: CopyPolicy| base;
        let mode = ModeWanted::Only(mode);
        let options = Options {
            mode,
            policy: &policy,
            pull: None,
            log: None,
            clsact: true,
            for_rings: false,
        };
        offload::attach(&lock, &nic(host, host.interface()), &options)
    };
    host.run(attach).unwrap().unwrap()
}

/// Whether there is a clsact qdisc, and whether filters hang on it.
fn clsact(host: &Host) -> (bool, bool) {
    host.run(|| {
        let mut clsact = Clsact::open().unwrap();
        let filters = clsact.has_filters(host.ifindex()).unwrap_or(false);
        let was_none = clsact.add(host.ifindex()).unwrap();
        if was_none {
            clsact.delete(host.ifindex()).unwrap();
        }
        (!was_none, filters)
    })
    .unwrap()
}

/// Somebody else's filter at the host's TC ingress, which stays when this returns.
fn add_foreign_filter(host: &Host) {
    static OBJECT: &[u8] = aya::include_bytes_aligned!("../src/offload/nicctl.bpf.o");
    host.run(|| {
        let mut ebpf = Ebpf::load(OBJECT).unwrap();
        let program = ebpf.program_mut("nic_ingress").unwrap();
        let program: &mut SchedClassifier = program.try_into().unwrap();
        program.load().unwrap();
        let options = NlOptions { priority: 7, handle: TcHandle::new(0, 1), classid: None };
        let options = TcAttachOptions::Netlink(options);
        let ingress = TcAttachType::Ingress;
        let id = program.attach_with_options(host.interface(), ingress, options).unwrap();
        std::mem::forget(program.take_link(id).unwrap());
    })
    .unwrap();
}

#[test]
fn clsact_filters_count_are_upgraded_and_go() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    assert_eq!(attach_clsact(host, NATIVE).effect, Effect::Attached);
    assert_eq!(clsact(host), (true, true));
    assert_eq!(entries(host, &["list"])[0]["tc"], "clsact");
    let counted = || {
        send(&lab, 100);
        traffic::udp(host, lab.a(), IpVersion::V4, 4, 100, 64).unwrap();
        let total = &attached::stats(host)["total"];
        ["/rx/packets", "/ingress/packets", "/tx/packets"].map(|counter| number(total, counter))
    };
    assert!(counted().iter().all(|&packets| packets >= 100));
    // The command keeps what it finds.
    assert!(run(host, "attach", &[]).contains("unchanged"));
    assert!(run(host, "attach", &["--log"]).contains("upgraded"));
    assert_eq!(entries(host, &["list"])[0]["tc"], "clsact");
    let after = counted();
    assert!(after.iter().all(|&packets| (200..220).contains(&packets)), "{after:?}");
    run(host, "detach", &[]);
    assert_eq!(clsact(host), (false, false));
}

#[test]
fn filters_alone_are_an_attachment_until_their_interface_goes() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    attach_clsact(host, Mode::Tc);
    let listed = || entries(host, &["list"])[0].clone();
    assert_eq!((&listed()["mode"], &listed()["stale"]), (&"tc".into(), &false.into()));
    send(&lab, 100);
    assert!(number(&attached::stats(host)["total"], "/ingress/packets") >= 100);
    assert!(run(host, "attach", &["--mode", "native"]).contains("upgraded"));
    assert!(run(host, "attach", &["--mode", "tc"]).contains("upgraded"));
    assert!(number(&attached::stats(host)["total"], "/ingress/packets") >= 100);
    run(host, "detach", &[]);
    assert_eq!(clsact(host), (false, false));

    attach_clsact(host, Mode::Tc);
    lab.a().links(|links| links.delete(lab.a().ifindex())).unwrap();
    assert_eq!((&listed()["mode"], &listed()["stale"]), (&"gone".into(), &true.into()));
    assert_eq!(run(host, "detach", &[]), "nic-b: detached\n");
}

#[test]
fn filters_whose_record_cannot_be_read_are_not_taken_for_none() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    attach_clsact(host, NATIVE);
    let slot = attached::slot(host);
    let (record, aside) = (slot.pin("record"), slot.pin("aside"));
    fs::rename(&record, &aside).unwrap();
    Counters::<1>::new().unwrap().pin(&record).unwrap();
    let refused = nicctl(&["detach", host.interface(), "--netns", host.netns_name()]);
    assert_eq!(exit_code(&refused), 1);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("/record: ") && said.contains(" tc qdisc del dev "), "{said}");
    assert_eq!(clsact(host), (true, true));
    fs::rename(&aside, &record).unwrap();
    run(host, "detach", &[]);
    assert_eq!(clsact(host), (false, false));
}

#[test]
fn a_clsact_qdisc_of_somebody_else_stays() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let add = || Clsact::open().unwrap().add(host.ifindex()).unwrap();
    assert!(host.run(add).unwrap());
    attach_clsact(host, NATIVE);
    run(host, "detach", &[]);
    assert_eq!(clsact(host), (true, false));

    add_foreign_filter(host);
    attach_clsact(host, NATIVE);
    run(host, "detach", &[]);
    assert_eq!(clsact(host), (true, true));
}

#[test]
fn a_filter_that_somebody_hung_on_our_qdisc_stays() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    attach_clsact(host, NATIVE);
    add_foreign_filter(host);
    run(host, "detach", &[]);
    assert_eq!(clsact(host), (true, true));
    assert!(nic(host, host.interface()).xdp().is_empty());
}

#[test]
fn an_attachment_without_its_xdp_program_is_partial_and_attach_makes_it_whole() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let attached = attached::Attached::new(host, &[]);
    send(&lab, 10);
    let before = attached.settled();
    // As a killed change of mode leaves it.
    let slot = attached::slot(host);
    slot.detach_link("link_xdp").unwrap();
    assert_eq!(entries(host, &["list"])[0]["mode"], "partial");
    let again = attached.again(&[]);
    assert_eq!(again["mode"], "native");
    assert!(again["notes"].to_string().contains("some frames were not counted"), "{again}");
    let packets = |stats: &Value| number(&stats["total"]["rx"], "/packets");
    assert!(packets(&attached.stats()) >= packets(&before), "counters are kept");
}

#[test]
fn an_interface_that_moved_is_found_where_it_is() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let (from, to) = (lab.b(), lab.a());
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    from.links(|links| links.add_veth(end("nic-mv"), end("nic-nv"))).unwrap();
    let in_netns = |host: &Host, args: &[&str]| {
        nicctl(&[&[args[0], "nic-mv", "--netns", host.netns_name()], &args[1..]].concat())
    };
    succeeded(in_netns(from, &["set", "link.mtu=1400"]));
    succeeded(in_netns(from, &["attach"]));
    let ifindex = nic(from, "nic-mv").ifindex();
    let address = ["link", "set", "nic-mv", "address", "02:00:00:00:09:09"];
    assert!(from.run(|| Command::new("ip").args(address).status()).unwrap().unwrap().success());
    from.links(|links| links.move_to(ifindex, to.netns().as_fd())).unwrap();

    assert!(entries(from, &["list"]).is_empty());
    assert_eq!(names(&entries(to, &["list"])), ["nic-mv"]);
    let everywhere: Value = serde_json::from_str(&succeeded(nicctl(&["list", "--json"]))).unwrap();
    let listed = everywhere["interfaces"].as_array().unwrap().iter();
    let mut listed = listed.filter(|entry| entry["name"] == "nic-mv");
    assert_eq!(listed.next().unwrap()["netns"], to.netns_name());
    assert_eq!(exit_code(&in_netns(from, &["stats"])), 3);
    // Nobody takes it for one that no longer exists.
    let gone: Value =
        serde_json::from_str(&succeeded(nicctl(&["detach", "--gone", "--dry-run", "--json"])))
            .unwrap();
    assert!(!names(gone["interfaces"].as_array().unwrap()).contains(&"nic-mv"), "{gone}");
    assert!(succeeded(in_netns(to, &["attach"])).contains("nic-mv: upgraded"));
    assert_eq!(succeeded(in_netns(to, &["detach"])), "nic-mv: detached\n");
    assert_eq!(nic(to, "nic-mv").mtu(), 1400);
    let restored = succeeded(in_netns(to, &["restore"]));
    assert!(restored.contains("link.mtu"), "{restored}");
    assert_eq!(nic(to, "nic-mv").mtu(), 1500);
}
