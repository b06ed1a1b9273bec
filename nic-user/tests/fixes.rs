//! Every command that nicctl proposes is pasted where it was printed: it goes well, and what it was
//! proposed for is gone.

mod attached;
mod common;
mod paste;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::Path,
    process::{Command, Output, Stdio},
};

use attached::{nic, on, poll, succeeded};
use nic_user::{
    lab::{
        Host, Lab, Shape,
        bpf::{Hook, Program},
    },
    netlink::{
        link::{Links, XdpMode},
        link_edit::VethEnd,
    },
};
use paste::{commands, paste};
use serde_json::Value;
use tempfile::TempDir;

const XDP_PASS: i32 = 2;

/// What is printed on either stream.
fn said(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|stream| String::from_utf8_lossy(stream).into_owned()).concat()
}

/// A lab, and a command line to give in its second host.
struct Case {
    lab: Lab,
}

impl Case {
    fn new() -> Self {
        Self { lab: Lab::new(Shape::default()).unwrap() }
    }

    fn host(&self) -> &Host {
        self.lab.b()
    }

    /// `nicctl VERB nic-b --netns HOST ARGS`, as a shell has it.
    fn line(&self, verb: &str, args: &str) -> String {
        let words = on(self.host(), verb, &[]).join(" ");
        // It is of a namespace, not of an interface.
        let words = if verb == "list" { words.replace(" nic-b ", " ") } else { words };
        format!("nicctl {words} {args}")
    }

    /// Goes well.
    #[track_caller]
    fn does(&self, verb: &str, args: &str) -> String {
        pasted(&self.line(verb, args))
    }

    /// What it proposes, in vain.
    #[track_caller]
    fn proposes(&self, verb: &str, args: &str) -> Vec<String> {
        let line = self.line(verb, args);
        let output = paste(&line);
        assert!(!output.status.success(), "{line}: {}", said(&output));
        found(&line, &output)
    }

    /// Each proposal, pasted, makes the same command go well; `undo` is what makes it fail again.
    #[track_caller]
    fn each_helps(&self, verb: &str, args: &str, undo: impl Fn(&Self)) -> Vec<String> {
        let proposals = self.proposes(verb, args);
        for command in &proposals {
            pasted(command);
            self.does(verb, args);
            undo(self);
        }
        proposals
    }

    fn links<T: Send>(
        &self,
        work: impl FnOnce(&mut Links) -> nic_user::netlink::Result<T> + Send,
    ) -> T {
        self.host().links(work).unwrap()
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        paste(&self.line("detach", ""));
        paste(&self.line("restore", "--force"));
    }
}

#[track_caller]
fn found(line: &str, output: &Output) -> Vec<String> {
    let found = commands(&said(output));
    assert!(!found.is_empty(), "{line} proposes nothing: {}", said(output));
    found
}

#[track_caller]
fn pasted(line: &str) -> String {
    let output = paste(line);
    assert!(output.status.success(), "{line}: {}", said(&output));
    said(&output)
}

#[test]
fn nothing_is_attached() {
    needs_root!();
    let case = Case::new();
    let proposals = case.each_helps("stats", "", |case| drop(case.does("detach", "")));
    assert_eq!(proposals, [format!("nicctl attach nic-b --netns {}", case.host().netns_name())]);
}

#[test]
fn it_is_not_logged() {
    needs_root!();
    let case = Case::new();
    case.does("attach", "--mode native");
    let proposals = case.proposes("log", "");
    pasted(&proposals[0]);
    // It follows until it is ended.
    let line = case.line("log", "");
    assert_eq!(paste(&format!("timeout 1 {line}")).status.code(), Some(124));
    for command in case.proposes("attach", "--mode tc --log") {
        pasted(&command);
    }
    assert!(case.does("list", "").contains("nic-b"));
}

#[test]
fn a_mode_is_not_to_be_had() {
    needs_root!();
    let case = Case::new();
    let detach = |case: &Case| drop(case.does("detach", ""));
    for command in case.proposes("attach", "--mode offload") {
        pasted(&command);
        detach(&case);
    }
    case.does("set", "channels.rx=1");
    let proposals = case.proposes("attach", "--mode native");
    assert_eq!(proposals.len(), 2, "{proposals:?}");
    pasted(&proposals[1]);
    detach(&case);
    pasted(&proposals[0]);
    case.does("attach", "--mode native");
}

#[test]
fn what_costs_is_warned_of_until_it_is_changed() {
    needs_root!();
    let case = Case::new();
    case.does("set", "feature.gro=off");
    let line = case.line("attach", "--mode native");
    let output = paste(&line);
    // What it costs in any case can only be told.
    let fix = found(&line, &output).into_iter().find(|fix| fix.starts_with("nicctl set")).unwrap();
    pasted(&fix);
    case.does("detach", "");
    assert!(!commands(&pasted(&line)).contains(&fix));
}

#[test]
fn another_program_is_there() {
    needs_root!();
    let case = Case::new();
    let foreign = Program::returning(Hook::Xdp, XDP_PASS).unwrap();
    let set = |program: Option<&Program>| {
        let ifindex = case.host().ifindex();
        let program = program.map(AsFd::as_fd);
        case.links(|links| links.set_xdp(ifindex, program, XdpMode::Generic.flag()));
    };
    set(Some(&foreign));
    let proposals = case.proposes("attach", "--mode generic");
    assert_eq!(proposals.len(), 2, "{proposals:?}");
    pasted(&proposals[1]);
    case.does("detach", "");
    pasted(&proposals[0]);
    assert!(nic(case.host(), "nic-b").xdp().is_empty());
    case.does("attach", "--mode generic");
    case.does("detach", "");

    let link = foreign.attach(case.host(), case.host().ifindex()).unwrap();
    let proposals = case.proposes("attach", "--mode native");
    assert_eq!(proposals.len(), 2, "{proposals:?}");
    if paste("command -v bpftool").status.success() {
        pasted(&proposals[0]);
        case.does("attach", "--mode native");
    } else {
        common::say_skipped("bpftool is not installed");
    }
    drop(link);
}

#[test]
fn changes_wait_to_be_confirmed() {
    needs_root!();
    let case = Case::new();
    let wait = |case: &Case| case.does("set", "link.mtu=1400 --confirm 60");
    for (which, kept) in [(0, 1400), (1, 1500)] {
        let how = commands(&wait(&case));
        let proposals = case.proposes("set", "link.gso-max-segs=100");
        assert_eq!(proposals.len(), 2, "{proposals:?}");
        assert_eq!(how, proposals[..1]);
        pasted(&proposals[which]);
        assert_eq!(nic(case.host(), "nic-b").mtu(), kept);
        case.does("set", "link.gso-max-segs=100");
        case.does("restore", "");
    }
    wait(&case);
    let netns = case.host().netns_name();
    assert_eq!(
        commands(&pasted(&format!("nicctl list --netns {netns}"))),
        [format!("nicctl confirm nic-b --netns {netns}")]
    );
}

#[test]
fn somebody_else_changed_a_setting() {
    needs_root!();
    let case = Case::new();
    case.does("set", "link.mtu=1400");
    case.links(|links| links.set_mtu(case.host().ifindex(), 1300));
    let [fix] = &commands(&case.does("restore", ""))[..] else { panic!() };
    pasted(fix);
    assert_eq!(nic(case.host(), "nic-b").mtu(), 1500);
}

#[test]
fn there_is_no_such_name() {
    needs_root!();
    let case = Case::new();
    for command in case.proposes("set", "feature.nothing-like-it=on") {
        assert!(pasted(&command).contains("tx-checksum-ip-generic"), "{command}");
    }
    let netns = case.host().netns_name();
    let line = format!("nicctl attach something --netns {netns}");
    for command in found(&line, &paste(&line)) {
        assert!(pasted(&command).contains("nic-b"), "{command}");
    }
}

#[test]
fn an_interface_is_gone() {
    needs_root!();
    let case = Case::new();
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    case.links(|links| links.add_veth(end("nic-v"), end("nic-w")));
    let netns = case.host().netns_name();
    pasted(&format!("nicctl set nic-v link.mtu=1400 --netns {netns}"));
    case.links(|links| {
        let index = links.by_name("nic-v")?.ifindex;
        links.delete(index)
    });
    let line = format!("nicctl restore nic-v --netns {netns}");
    let told = paste(&line);
    for command in found(&line, &told) {
        pasted(&command);
    }
    assert!(!said(&paste(&line)).contains("detach --gone"));
}

#[test]
fn the_kernel_does_not_route() {
    needs_root!();
    let case = Case::new();
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    case.links(|links| links.add_veth(end("nic-v"), end("nic-w")));
    let netns = case.host().netns_name();
    let line = format!("timeout 1 nicctl forward nic-b nic-v --l3 --netns {netns}");
    case.links(|links| {
        let index = links.by_name("nic-v")?.ifindex;
        links.set_up(index, true)
    });
    let proposals = found(&line, &paste(&line));
    assert_eq!(proposals.len(), 2, "{proposals:?}");
    for command in proposals {
        pasted(&command);
    }
    assert_eq!(commands(&said(&paste(&line))), [""; 0]);
}

/// The findings of an interface that have a fix, except for what only may matter.
fn fixable(case: &Case) -> Vec<(String, Vec<String>)> {
    let output = paste(&case.line("doctor", "--json"));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = document["interfaces"][0]["findings"].as_array().unwrap();
    let fix = |finding: &Value| {
        let fix = finding["fix"].as_str()?;
        let commands = if fix.ends_with(", if that matters") { vec![] } else { commands(fix) };
        let check = finding["check"].as_str()?.to_owned();
        (!commands.is_empty()).then_some((check, commands))
    };
    findings.iter().filter_map(fix).collect()
}

#[test]
fn what_doctor_finds() {
    needs_root!();
    let case = Case::new();
    case.does("set", "feature.gro=off feature.tx-udp-segmentation=off channels.rx=1");
    case.links(|links| links.set_up(case.host().ifindex(), false));
    let mut cured = Vec::new();
    while let Some((check, commands)) = fixable(&case).into_iter().next() {
        let fix = (check, commands[0].clone());
        assert!(!cured.contains(&fix), "{fix:?} did not help");
        pasted(&fix.1);
        cured.push(fix);
    }
    for check in ["link", "native-xdp", "big-tcp", "udp-gso"] {
        assert!(cured.iter().any(|(cured, _)| cured == check), "{check}: {cured:?}");
    }
}

#[test]
fn checksums_are_off() {
    needs_root!();
    let case = Case::new();
    case.does("set", "feature.tx=off");
    let (_, commands) = fixable(&case).into_iter().find(|(check, _)| check == "udp-gso").unwrap();
    pasted(&commands[0]);
    case.does("restore", "");
}

/// A bpffs of its own, until this is dropped.
struct OwnBpffs(TempDir);

impl OwnBpffs {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for OwnBpffs {
    fn drop(&mut self) {
        paste(&format!("umount -l {}", self.path().display()));
    }
}

#[test]
fn another_bpffs_was_chosen() {
    needs_root!();
    let case = Case::new();
    let own = OwnBpffs::new();
    let option = format!("--bpffs {}", own.path().display());
    // None is mounted there yet.
    let [mount] = &case.proposes("attach", &option)[..] else { panic!() };
    pasted(mount);
    let [attach] = &case.proposes("stats", &option)[..] else { panic!() };
    assert!(attach.ends_with(&option), "{attach}");
    pasted(attach);
    case.does("stats", &option);
    case.does("detach", &option);

    fs::set_permissions(own.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let [trust] = &case.proposes("attach", &option)[..] else { panic!() };
    pasted(trust);
    case.does("attach", &option);
    case.does("detach", &option);

    pasted(&format!("mount -o remount,ro {}", own.path().display()));
    let [writable] = &case.proposes("attach", &option)[..] else { panic!() };
    pasted(writable);
    case.does("attach", &option);
    case.does("detach", &option);
}

#[test]
fn the_shell_is_in_another_namespace() {
    needs_root!();
    let case = Case::new();
    let netns = case.host().netns_name();
    let line = format!("ip netns exec {netns} nicctl stats nic-b");
    let [attach] = &found(&line, &paste(&line))[..] else { panic!() };
    assert_eq!(*attach, format!("nicctl attach nic-b --netns {netns}"));
    pasted(attach);
    pasted(&line);
    case.does("detach", "");
    // In a shell of that namespace it means the same.
    let inside = format!("ip netns exec {netns} bash -c 'nicctl stats nic-b; true'");
    assert_eq!(commands(&pasted(&inside)), ["nicctl attach nic-b"]);
}

#[test]
fn sudo_was_needed() {
    needs_root!();
    let line = "SUDO_COMMAND='/usr/local/bin/nicctl stats lo' nicctl stats lo";
    assert_eq!(found(line, &paste(line)), ["sudo nicctl attach lo"]);
}

#[test]
fn no_journal_can_be_written() {
    needs_root!();
    let inside = "
        mkdir -p /var/lib/nicctl
        mount -t tmpfs -o ro,mode=0700 tmpfs /var/lib/nicctl
        journals() { nicctl doctor --json | jq -r '.machine[] | select(.check == \"journals\")'; }
        journals | jq -r .status
        eval \"$(journals | jq -r .fix | cut -d'`' -f2)\" || exit 1
        journals | jq -r .status";
    let output = nix_unshared(inside);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(succeeded(output), "warning\nok\n");
}

fn nix_unshared(script: &str) -> Output {
    let script = script.replace('\'', r"'\''");
    paste(&format!("unshare --mount --propagation private bash -c '{script}'"))
}

/// The rings that another process has.
#[test]
fn another_process_has_the_rings() {
    needs_root!();
    let case = Case::new();
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    case.links(|links| links.add_veth(end("nic-v"), end("nic-w")));
    case.links(|links| {
        let index = links.by_name("nic-v")?.ifindex;
        links.set_up(index, true)
    });
    let netns = case.host().netns_name();
    let mut first = Command::new(env!("CARGO_BIN_EXE_nicctl"))
        .args(["forward", "nic-b", "nic-v", "--netns", netns])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut begun).unwrap();
    assert!(begun.starts_with("forwarding frames"), "{begun}");
    let line = format!("timeout 2 nicctl forward nic-b nic-v --netns {netns}");
    pasted(&found(&line, &paste(&line))[0]);
    let ended = poll(|| first.try_wait().unwrap().is_some());
    if !ended {
        first.kill().unwrap();
    }
    assert!(ended, "it goes on after: {line}");
    assert_eq!(paste(&line).status.code(), Some(124));
}
