//! Programs and settings of an interface as one: attached together or not at all, and given back
//! by detach.

mod attached;
mod common;
mod schema;
mod tap;

use std::{fs, process::Output};

use attached::{nicctl, number, run, succeeded};
use nic_user::{
    lab::{
        Host, Lab, Shape,
        traffic::{self, IpVersion},
    },
    netlink::link_edit::VethEnd,
};
use serde_json::Value;
use tap::Tap;
use tempfile::TempDir;

const PROFILE: &str = "
[channels]
tx = 2
[feature]
tso = \"off\"
[link]
mtu = 2000
gso-max-size = 30000
[rps]
rx-0 = \"1\"
";

fn lab() -> Lab {
    Lab::new(Shape::default()).unwrap()
}

fn document(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// Everything that an interface of `host` has.
fn settings(host: &Host, interface: &str) -> Value {
    let shown = succeeded(nicctl(&["show", interface, "--netns", host.netns_name(), "--json"]));
    document(&shown)["settings"].take()
}

/// A profile in a folder of its own.
struct ProfileFile {
    _folder: TempDir,
    path: String,
}

impl ProfileFile {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml").to_str().unwrap().to_owned();
        fs::write(&path, text).unwrap();
        Self { _folder: folder, path }
    }

    fn args(&self) -> [&str; 2] {
        ["--profile", &self.path]
    }
}

fn attach(host: &Host, interfaces: &[&str], args: &[&str]) -> Output {
    let netns = ["--netns", host.netns_name()];
    nicctl(&[&["attach"], interfaces, &netns, args].concat())
}

fn is_attached(host: &Host) -> bool {
    let listed = succeeded(nicctl(&["list", "--json", "--netns", host.netns_name()]));
    !document(&listed)["interfaces"].as_array().unwrap().is_empty()
}

#[track_caller]
fn assert_untouched(host: &Host, interface: &str, before: &Value) {
    assert!(!is_attached(host));
    assert_eq!(settings(host, interface), *before);
    let netns = host.netns_name();
    let restored = succeeded(nicctl(&["restore", interface, "--netns", netns]));
    assert!(restored.contains("no changes by nicctl"), "{restored}");
}

fn error_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn settings_come_with_the_programs_and_go_with_them() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let (profile, before) = (ProfileFile::new(PROFILE), settings(host, "nic-b"));
    let planned = run(host, "attach", &[&profile.args()[..], &["--dry-run"]].concat());
    assert!(planned.contains("- link.mtu 1500\n+ link.mtu 2000\n"), "{planned}");
    assert_untouched(host, "nic-b", &before);

    let printed = document(&run(host, "attach", &[&profile.args()[..], &["--json"]].concat()));
    let schema = document(&succeeded(nicctl(&["schema", "attach"])));
    assert_eq!(schema::mismatch(&schema, &printed), None);
    let steps = printed["interfaces"][0]["settings"].as_array().unwrap();
    let groups: Vec<_> = steps.iter().map(|step| step["group"].as_str().unwrap()).collect();
    assert_eq!(groups, ["channels", "link", "feature", "link", "link", "rps"]);
    assert!(steps.iter().all(|step| step["state"] == "done"), "{steps:?}");
    assert_eq!(settings(host, "nic-b")["link"]["mtu"]["value"], 2000);

    // What is set on top is not attach's; and again nothing is left to do.
    run(host, "set", &["link.gro-max-size=100000"]);
    let again = run(host, "attach", &profile.args());
    assert!(again.contains("unchanged") && again.contains("nothing to change"), "{again}");
    let printed = document(&run(host, "detach", &["--json"]));
    let schema = document(&succeeded(nicctl(&["schema", "detach"])));
    assert_eq!(schema::mismatch(&schema, &printed), None);
    assert!(printed["interfaces"][0]["given_back"].as_array().unwrap().len() >= 8, "{printed}");
    assert_eq!(settings(host, "nic-b")["link"]["gro-max-size"]["value"], 100_000);
    run(host, "restore", &[]);
    assert_untouched(host, "nic-b", &before);
}

#[test]
fn settings_are_kept_if_that_is_asked_and_restored_later() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let (profile, before) = (ProfileFile::new(PROFILE), settings(host, "nic-b"));
    run(host, "attach", &profile.args());
    assert_eq!(run(host, "detach", &["--keep-settings"]), "nic-b: detached\n");
    assert_eq!(settings(host, "nic-b")["link"]["mtu"]["value"], 2000);
    // The second time there are only settings to give back.
    let said = run(host, "detach", &[]);
    assert!(said.starts_with("nic-b: nothing was attached\nnic-b: "), "{said}");
    assert_untouched(host, "nic-b", &before);
}

#[test]
fn a_setting_that_is_refused_leaves_no_programs() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let _tap = Tap::new(host);
    let before = settings(host, tap::NAME);
    // Only the program behind a tap knows which packets it takes.
    let text = "[link]\nmtu = 1400\n[feature]\ntx-tcp-segmentation = true\n";
    let output = attach(host, &[tap::NAME], &ProfileFile::new(text).args());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("@ link: done, then undone\n"), "{said}");
    let error = error_of(&output);
    assert!(error.contains("set feature.tx-tcp-segmentation to on on nic-tap"), "{error}");
    assert_untouched(host, tap::NAME, &before);
}

/// A veth takes no native XDP with fewer receive queues than its peer has transmit queues. Of a
/// peer in another namespace, only the kernel knows.
const TOO_FEW_QUEUES: &str = "[channels]\nrx = 2\n[link]\nmtu = 2000\n";

#[test]
fn programs_that_are_refused_give_the_settings_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let (profile, before) = (ProfileFile::new(TOO_FEW_QUEUES), settings(host, "nic-b"));
    let native = [&profile.args()[..], &["--mode", "native"]].concat();
    let output = attach(host, &["nic-b"], &native);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches(": done, then undone\n").count(), 2, "{said}");
    let error = error_of(&output);
    assert!(error.contains("fewer receive queues than its peer"), "{error}");
    assert_untouched(host, "nic-b", &before);
    // Without a wish for the mode, there is another one.
    let said = succeeded(attach(host, &["nic-b"], &profile.args()));
    assert!(said.contains("attached, tc mode"), "{said}");
    run(host, "detach", &[]);
    assert_untouched(host, "nic-b", &before);
}

#[test]
fn one_interface_that_fails_takes_the_others_back() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let end = |name| VethEnd { name, queues: 2, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-x"), end("nic-y"))).unwrap();
    let before = ["nic-x", "nic-y", "nic-b"].map(|name| settings(host, name));
    let profile = ProfileFile::new(TOO_FEW_QUEUES);
    let native = [&profile.args()[..], &["--mode", "native"]].concat();
    let output = attach(host, &["nic-x", "nic-y", "nic-b"], &native);
    assert!(error_of(&output).contains("attach to nic-b"));
    for (name, before) in ["nic-x", "nic-y", "nic-b"].into_iter().zip(before) {
        assert_untouched(host, name, &before);
    }
}

#[test]
fn the_document_of_a_failure_tells_what_became_of_every_step() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let end = |name| VethEnd { name, queues: 2, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-x"), end("nic-y"))).unwrap();
    let before = ["nic-x", "nic-b", "nic-y"].map(|name| settings(host, name));
    let profile = ProfileFile::new(TOO_FEW_QUEUES);
    let args = [&profile.args()[..], &["--mode", "native", "--json"]].concat();
    // The second one fails, and the third one is not reached.
    let output = attach(host, &["nic-x", "nic-b", "nic-y"], &args);
    let error = error_of(&output);
    let printed = document(&String::from_utf8(output.stdout).unwrap());
    let schema = document(&succeeded(nicctl(&["schema", "attach"])));
    assert_eq!(schema::mismatch(&schema, &printed), None);
    assert_eq!((&printed["attached"], &printed["dry_run"]), (&false.into(), &false.into()));
    let failure = printed["failure"].as_str().unwrap();
    assert!(failure.contains("attach to nic-b"), "{failure}");
    assert!(error.starts_with(&format!("nicctl: {failure}\n")), "{error}");
    for (index, name, state) in
        [(0, "nic-x", "undone"), (1, "nic-b", "undone"), (2, "nic-y", "planned")]
    {
        let entry = &printed["interfaces"][index];
        assert_eq!((&entry["name"], &entry["mode"]), (&name.into(), &"native".into()));
        assert_eq!(entry["left"], Value::Array(Vec::new()));
        let steps = entry["settings"].as_array().unwrap();
        assert!(!steps.is_empty() && steps.iter().all(|step| step["state"] == state), "{entry}");
    }
    for (name, before) in ["nic-x", "nic-b", "nic-y"].into_iter().zip(before) {
        assert_untouched(host, name, &before);
    }
    // What goes well has no failure.
    let printed = document(&succeeded(attach(host, &["nic-b"], &["--json"])));
    assert_eq!((&printed["attached"], &printed["failure"]), (&true.into(), &Value::Null));
    run(host, "detach", &[]);
}

#[test]
fn what_contradicts_xdp_is_refused_before_anything_is_touched() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let before = settings(host, "nic-b");
    for (text, said) in [
        ("[link]\nmtu = 100000\n", "link.mtu 100000 exceeds the maximum of nic-b, 65535"),
        ("[channels]\nrx = 9\n", "channels.rx 9 exceeds the maximum of nic-b, 4"),
        ("[feature]\nrx-hashing = true\n", "feature.rx-hashing is fixed by the driver"),
        ("[match]\ndriver = \"igb\"\n[link]\nmtu = 1400\n", "its driver is veth, not igb"),
    ] {
        let profile = ProfileFile::new(text);
        let output = attach(host, &["nic-b"], &profile.args());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{error}");
        assert!(output.stdout.is_empty());
        assert_untouched(host, "nic-b", &before);
    }
}

#[test]
fn an_mtu_that_single_buffers_do_not_hold_takes_the_frags_build() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let before = settings(host, "nic-b");
    // The limit is for what the peer sends.
    lab.a().links(|links| links.set_mtu(lab.a().ifindex(), 9000)).unwrap();
    let profile = ProfileFile::new("[link]\nmtu = 9000\n");
    for args in [&["--dry-run"][..], &[]] {
        let native = ["--mode", "native"];
        let said = run(host, "attach", &[&profile.args()[..], &native, args].concat());
        assert!(said.contains("attach, native mode, frags build") || args.is_empty(), "{said}");
        assert!(said.contains("attached, native mode, frags build") || !args.is_empty(), "{said}");
    }
    run(host, "detach", &[]);
    assert_untouched(host, "nic-b", &before);
}

#[test]
fn big_tcp_is_counted_by_egress_and_gone_after_detach() {
    needs_root!();
    let lab = lab();
    // The receiver too, or acknowledgements are all that it would send.
    let before = [settings(lab.a(), "nic-a"), settings(lab.b(), "nic-b")];
    let over_64k = |ip| {
        let sent = traffic::tcp(lab.a(), lab.b(), ip, 1, 64 << 20).unwrap();
        assert_eq!(sent, 64 << 20);
        number(&attached::stats(lab.a())["total"], "/tx/over_64k")
    };
    run(lab.a(), "attach", &[]);
    assert_eq!(over_64k(IpVersion::V6), 0);
    let said = run(lab.a(), "attach", &["--profile", "big-tcp"]);
    assert!(said.contains("+ link.gso-ipv4-max-size 196608\n"), "{said}");
    run(lab.b(), "apply", &["--profile", "big-tcp"]);
    let v6 = over_64k(IpVersion::V6);
    assert!(v6 > 0);
    assert!(over_64k(IpVersion::V4) > v6);
    run(lab.a(), "detach", &[]);
    run(lab.b(), "restore", &[]);
    assert_untouched(lab.a(), "nic-a", &before[0]);
    assert_untouched(lab.b(), "nic-b", &before[1]);
}

#[test]
fn what_is_left_of_a_vanished_interface_is_cleared_away() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    let make = || {
        host.links(|links| links.add_veth(end("nic-x"), end("nic-y"))).unwrap();
        host.links(|links| links.by_name("nic-x")).unwrap().ifindex
    };
    let delete = |index| host.links(|links| links.delete(index)).unwrap();
    let netns = ["--netns", host.netns_name()];
    let detach = || succeeded(nicctl(&[&["detach", "nic-x"], &netns[..]].concat()));
    let profile = ProfileFile::new("[link]\nmtu = 1400\n");

    // Gone, with programs and settings.
    let index = make();
    succeeded(attach(host, &["nic-x"], &profile.args()));
    delete(index);
    let said = detach();
    assert_eq!(said, "nic-x: detached\nnic-x: gone, and with it the settings nicctl changed\n");

    // Gone, with settings only; another one has its name.
    let index = make();
    succeeded(nicctl(&[&["set", "nic-x", "link.mtu=1400"], &netns[..]].concat()));
    delete(index);
    make();
    let said = detach();
    assert!(said.contains("gone, and with it the settings nicctl changed"), "{said}");
    assert_eq!(detach(), "nic-x: nothing was attached\n");
}

#[test]
fn an_interface_whose_name_another_one_took_is_still_restored() {
    needs_root!();
    let lab = lab();
    let host = lab.b();
    let before = settings(host, "nic-b");
    let netns = ["--netns", host.netns_name()];
    let on_new = |args: &[&str]| succeeded(nicctl(&[args, &netns[..]].concat()));
    run(host, "set", &["link.mtu=1400"]);
    attached::rename(host, "nic-old");
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    host.links(|links| links.add_veth(end("nic-b"), end("nic-y"))).unwrap();
    let said = on_new(&["restore", "nic-b"]);
    assert!(said.contains("no changes by nicctl"), "{said}");
    on_new(&["set", "nic-b", "link.mtu=1300"]);
    on_new(&["restore", "nic-b"]);
    on_new(&["restore", "nic-old"]);
    assert_eq!(settings(host, "nic-old"), before);
}
