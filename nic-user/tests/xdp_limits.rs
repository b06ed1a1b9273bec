//! What is said before attaching agrees with what the kernel says then.

mod common;

use std::os::fd::AsFd;

use nic_user::lab::bpf::{Hook, Program, XDP_PASS};
use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink::link::{Links, XdpMode};
use nic_user::netlink::{self, Error};
use nic_user::nic::drivers::facts;
use nic_user::nic::preflight::{Machine, needs_frags, xdp_findings};
use nic_user::nic::{InterfaceName, Nic};

/// A program that is not nicctl's.
fn pass(hook: Hook) -> Program {
    Program::returning(hook, XDP_PASS).unwrap()
}

fn attach(
    host: &Host,
    ifindex: u32,
    program: Option<&Program>,
    mode: XdpMode,
) -> netlink::Result<Option<String>> {
    let program = program.map(AsFd::as_fd);
    host.run(|| Links::open()?.set_xdp(ifindex, program, mode.flag())).unwrap()
}

fn set_mtu(lab: &Lab, mtu: u32) {
    for host in [lab.a(), lab.b()] {
        host.links(|links| links.set_mtu(host.ifindex(), mtu)).unwrap();
    }
}

fn read(host: &Host, name: &str) -> Nic {
    let name = InterfaceName::new(name).unwrap();
    host.run(|| Nic::by_name(&name)).unwrap().unwrap()
}

fn blocks(nic: &Nic, mode: XdpMode) -> bool {
    xdp_findings(nic, mode).iter().any(|finding| finding.blocks)
}

#[test]
fn veth_takes_single_buffers_up_to_its_limit_and_frags_beyond() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let [single, frags] = [Hook::Xdp, Hook::XdpFrags].map(pass);
    let host = lab.b();
    let ifindex = host.ifindex();

    let page_size = Machine::current().page_size;
    let limit = facts("veth").and_then(|veth| veth.single_buffer_mtu.bytes(page_size)).unwrap();
    set_mtu(&lab, limit);
    let nic = read(host, host.interface());
    assert!(!needs_frags(&nic) && !blocks(&nic, XdpMode::Native));
    attach(host, ifindex, Some(&single), XdpMode::Native).unwrap();
    let nic = read(host, host.interface());
    assert_eq!(nic.xdp().iter().map(|xdp| xdp.mode).collect::<Vec<_>>(), [XdpMode::Native]);
    assert_ne!(nic.xdp()[0].prog_id, 0);
    attach(host, ifindex, None, XdpMode::Native).unwrap();
    assert_eq!(read(host, host.interface()).xdp(), []);

    set_mtu(&lab, limit + 1);
    let nic = read(host, host.interface());
    assert!(needs_frags(&nic) && !blocks(&nic, XdpMode::Native));
    let error = attach(host, ifindex, Some(&single), XdpMode::Native).unwrap_err();
    assert_eq!(
        error.to_string(),
        "veth: Peer MTU is too large to set XDP (ERANGE: Numerical result out of range)"
    );
    attach(host, ifindex, Some(&frags), XdpMode::Native).unwrap();
}

#[test]
fn the_kernel_says_why_two_modes_do_not_go_together() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let program = pass(Hook::Xdp);
    let (host, ifindex) = (lab.b(), lab.b().ifindex());
    attach(host, ifindex, Some(&program), XdpMode::Generic).unwrap();
    let error = attach(host, ifindex, Some(&program), XdpMode::Native).unwrap_err();
    let message = "Native and generic XDP can't be active at the same time".to_owned();
    assert_eq!(error, Error::new(libc::EEXIST, message));
    let nic = read(host, host.interface());
    assert_eq!(nic.xdp().iter().map(|xdp| xdp.mode).collect::<Vec<_>>(), [XdpMode::Generic]);
}

#[test]
fn the_loopback_device_is_left_generic() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let (host, program) = (lab.a(), pass(Hook::Xdp));
    let lo = read(host, "lo");
    assert!(!blocks(&lo, XdpMode::Generic));
    attach(host, lo.ifindex(), Some(&program), XdpMode::Generic).unwrap();
    attach(host, lo.ifindex(), None, XdpMode::Generic).unwrap();
    for mode in [XdpMode::Native, XdpMode::Offload] {
        // The kernel tells since 6.3.
        let known = mode == XdpMode::Offload || lo.xdp_features.is_some();
        assert_eq!(blocks(&lo, mode), known, "{mode:?}");
        attach(host, lo.ifindex(), Some(&program), mode).unwrap_err();
    }
}
