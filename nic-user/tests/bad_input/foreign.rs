//! Programs of others on the interface, and interfaces that do not take what is wanted.

use std::{os::fd::AsFd, process};

use nic_user::{
    lab::{
        Host, Lab, Shape,
        bpf::{Hook, Program, TC_ACT_UNSPEC, XDP_PASS},
    },
    netlink::link::{Links, XdpMode},
};

use crate::{
    assert_done, assert_refused, needs_root, nicctl,
    sandbox::{Sandbox, programs},
};

/// Outside of a sandbox, from where the holder of a link is seen. So there are others to wait for.
fn on(host: &Host, args: &[&str]) -> process::Output {
    let mut output = nicctl(args).args(["--netns", host.netns_name()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let waited = |line: &&str| line.starts_with("nicctl: waiting for another nicctl");
    output.stderr =
        said.split_inclusive('\n').filter(|line| !waited(line)).collect::<String>().into();
    output
}

#[track_caller]
fn assert_refused_for_foreign(host: &Host, message: &str) {
    let before = programs(host);
    for args in [
        &["attach", "nic-a", "--mode", "native"][..],
        &["attach", "nic-a", "--mode", "generic"],
        &["attach", "nic-a", "--log", "--json"],
        &["attach", "nic-a", "--rx-copybreak", "9", "--dry-run"],
    ] {
        assert_refused(&on(host, args), 1, message);
    }
    assert_eq!(assert_done(&on(host, &["detach", "nic-a"])), "nic-a: nothing was attached\n");
    assert_eq!(programs(host), before);
}

#[test]
fn an_xdp_program_of_somebody_else_is_named_and_stays() {
    needs_root!();
    for (mode, name, word) in
        [(XdpMode::Native, "native", "xdpdrv"), (XdpMode::Generic, "generic", "xdpgeneric")]
    {
        let lab = Lab::new(Shape::default()).unwrap();
        let host = lab.a();
        let program = Program::returning(Hook::Xdp, XDP_PASS).unwrap();
        host.links(|links: &mut Links| {
            links.set_xdp(host.ifindex(), Some(program.as_fd()), mode.flag())
        })
        .unwrap();
        let id = programs(host).0[0].prog_id;
        assert_refused_for_foreign(
            host,
            &format!(
                "nicctl: attach to nic-a: nic-a has a {name} XDP program `nic_lab` (id {id}) that \
                 is not nicctl's\n  fix: detach it first if it is not needed: `ip netns exec {netns} \
                 ip link set dev nic-a {word} off`; or count beside it: `nicctl attach nic-a --mode \
                 tc --netns {netns}`\n",
                netns = host.netns_name()
            ),
        );
    }
}

#[test]
fn a_link_of_somebody_else_is_named_with_its_holder_and_stays() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    let program = Program::returning(Hook::Xdp, XDP_PASS).unwrap();
    let _link = program.attach(host, host.ifindex()).unwrap();
    let id = programs(host).0[0].prog_id;
    let link = format!("(id {id}) that is not nicctl's, attached by link ");
    assert_refused_for_foreign(host, &link);
    assert_refused_for_foreign(host, &format!(" (process {})\n  fix: stop its ", process::id()));
}

#[test]
fn tc_programs_of_somebody_else_stay() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.a();
    let _links = [Hook::TcIngress, Hook::TcEgress].map(|hook| {
        let program = Program::returning(hook, TC_ACT_UNSPEC).unwrap();
        program.attach(host, host.ifindex()).unwrap()
    });
    let before = programs(host);
    assert_done(&on(host, &["attach", "nic-a", "--mode", "native"]));
    let (xdp, tcx) = programs(host);
    assert_eq!((xdp.len(), tcx.each_ref().map(Vec::len)), (1, [2, 2]));
    for (hook, foreign) in tcx.iter().zip(&before.1) {
        assert!(foreign.iter().all(|id| hook.contains(id)));
    }
    assert_done(&on(host, &["detach", "nic-a"]));
    assert_eq!(programs(host), before);
}

#[test]
fn a_device_that_does_not_offload_is_told_so() {
    needs_root!();
    let sandbox = Sandbox::new();
    let message = "nicctl: attach to nic-a: nic-a (veth) has no XDP offload\n  fix: `nicctl \
                   attach nic-a --mode native`, or `nicctl attach nic-a --mode generic`\n";
    sandbox.assert_refuses(&["attach", "nic-a", "--mode", "offload"], 1, message);
    sandbox.assert_refuses(&["attach", "nic-a", "--mode", "offload", "--dry-run"], 1, message);
    // Nor is an attachment touched that works.
    assert_done(&sandbox.nicctl(&["attach", "nic-a", "--rx-copybreak", "77"]));
    let args = ["attach", "nic-a", "--mode", "offload", "--rx-copybreak", "78"];
    sandbox.assert_refuses(&args, 1, message);
    assert!(assert_done(&sandbox.nicctl(&["stats"])).contains("rx-copybreak 77"));
}

#[test]
fn a_device_without_native_xdp_gets_generic_where_xdp_is_needed_or_a_refusal() {
    needs_root!();
    let sandbox = Sandbox::new();
    let message = "nicctl: attach to lo: lo has no native XDP\n  fix: `nicctl attach lo --mode \
                   generic`\n";
    sandbox.assert_refuses(&["attach", "lo", "--mode", "native"], 1, message);
    let said = assert_done(&sandbox.nicctl(&["attach", "lo", "--log"]));
    assert!(said.starts_with("lo: attached, generic mode"), "{said}");
    let why = "generic mode: attach to lo: lo has no native XDP";
    assert!(said.contains(why), "{said}");
}

#[test]
fn an_mtu_beyond_a_single_buffer_takes_frags_and_is_said_once() {
    needs_root!();
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.lab().a(), sandbox.lab().b());
    // The other end's MTU is what veth looks at.
    b.links(|links| links.set_mtu(b.ifindex(), 9000)).unwrap();
    assert_takes_frags(&sandbox, "MTU 9000 is more than a single buffer holds: ");
    assert_done(&sandbox.nicctl(&["detach", "nic-a"]));
    a.links(|links| links.set_mtu(a.ifindex(), 9000)).unwrap();
    assert_takes_frags(&sandbox, "MTU 9000 is more than a single buffer holds: ");
}

/// nic-a gets the frags build in native mode, and one line says why.
#[track_caller]
fn assert_takes_frags(sandbox: &Sandbox, why: &str) {
    let said = assert_done(&sandbox.nicctl(&["attach", "nic-a", "--mode", "native"]));
    assert!(said.starts_with("nic-a: attached, native mode, frags build\n"), "{said}");
    let reasons: Vec<_> =
        said.lines().filter_map(|line| line.strip_prefix("  frags build: ")).collect();
    assert!(matches!(reasons[..], [reason] if reason.starts_with(why)), "{said}");
}
