//! Settings are read and changed on devices of the real kernel, and equal what ethtool says.

mod common;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::process::Command;

use nic_user::lab::{Host, Lab, Shape};
use nic_user::netlink;
use nic_user::netlink::ethtool::Ethtool;
use nic_user::netlink::ethtool::channels::Channel;
use nic_user::netlink::ethtool::coalesce::Coalesce;
use nic_user::netlink::ethtool::features::FeatureState;
use nic_user::netlink::ethtool::parameter::{Kind, Parameter, Reading, Readings};
use nic_user::netlink::ethtool::pause::Pause;
use nic_user::netlink::ethtool::rings::Ring;

const TAP: &str = "nic-tap";

/// A tap device of a lab's host; gone when dropped.
struct Tap {
    _file: File,
    ifindex: u32,
}

impl Tap {
    fn new(host: &Host) -> Self {
        let file = host.run(make_tap).unwrap();
        let ifindex = host.links(|links| links.by_name(TAP)).unwrap().ifindex;
        Self { _file: file, ifindex }
    }
}

fn make_tap() -> File {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: `ifreq` is plain data for which all zeroes are valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(CString::new(TAP).unwrap().as_bytes()) {
        *to = *from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: `ifreq` is what TUNSETIFF reads and writes, and outlives the call.
    assert_eq!(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut ifreq) }, 0);
    file
}

fn lab(queues: u32) -> Lab {
    Lab::new(Shape { queues, mtu: 1500 }).unwrap()
}

fn ethtool(host: &Host) -> Ethtool {
    host.run(Ethtool::open).unwrap().unwrap()
}

/// What `ethtool --json OPTION` says, if it is there and knows how to say that in JSON.
fn ethtool_json(host: &Host, option: &str, interface: &str) -> Option<serde_json::Value> {
    let run = || Command::new("ethtool").args(["--json", option, interface]).output();
    let output = host.run(run).unwrap().ok().filter(|output| output.status.success())?;
    let mut devices: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).ok()?;
    devices.pop()
}

/// Every value in `json` that has the name of a parameter is the parameter's, and the limits are.
fn same_as_ethtool<P: Parameter>(readings: &Readings<P>, json: &serde_json::Value) -> usize {
    let mut compared = 0;
    for &parameter in P::ALL {
        let ours = readings.get(&parameter);
        let theirs = &json[parameter.name()];
        if let Some(number) = theirs.as_u64() {
            assert_eq!(ours.map(|ours| u64::from(ours.value)), Some(number), "{parameter:?}");
            compared += 1;
        } else if let Some(switch) = theirs.as_bool() {
            assert_eq!(ours.map(|ours| ours.value == 1), Some(switch), "{parameter:?}");
            compared += 1;
        }
        if let Some(max) = json[format!("{}-max", parameter.name())].as_u64() {
            assert_eq!(ours.and_then(|ours| ours.max).map(u64::from), Some(max), "{parameter:?}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn probe() {
    needs_root!();
    let lab = lab(4);
    let tap = Tap::new(lab.a());
    let mut e = ethtool(lab.a());
    for i in [lab.a().ifindex(), tap.ifindex] {
        println!("{:?}", e.get::<Ring>(i));
        println!("{:?}", e.get::<Channel>(i));
        println!("{:?}", e.get::<Coalesce>(i));
        println!("{:?}", e.get::<Pause>(i));
        println!("{:?}", e.private_flags(i));
        println!(
            "{:?}",
            e.features(i)
                .map(|f| f.into_iter().map(|(n, f)| (n, f.active, f.state())).collect::<Vec<_>>())
        );
        println!("{:?}", e.set(i, &[(Coalesce::RxUsecs, 5), (Coalesce::TxUsecs, 5)]));
        println!("{:?}", e.set(i, &[(Coalesce::RxFrames, 100)]));
        println!("{:?}", e.set(i, &[(Channel::Rx, 2), (Channel::Tx, 9)]));
        println!("{:?}", e.set(i, &[(Ring::Rx, 9)]));
        println!("{:?}", e.set(i, &[(Ring::TcpDataSplit, 3)]));
        println!("{:?}", e.set_features(i, &[("tx-udp-segmentation", false), ("rx-lro", true)]));
        println!("{:?}", e.set_features(i, &[("tx-udp-segmentation", true), ("rx-gro", true)]));
        println!("{:?}", e.set_features(i, &[("tx-udp-segmentation", true), ("rx-fgro", true)]));
        println!("{:?}", e.set_features(i, &[("tx-lockless", true), ("netns-local", true)]));
        println!("{:?}", e.set_private_flags(i, &[("tx-lockless", true), ("netns-local", true)]));
    }
    for (o, n) in [
        ("-l", "nic-a"),
        ("-c", TAP),
        ("-k", "nic-a"),
        ("-a", "nic-a"),
        ("-g", "nic-a"),
        ("-x", "nic-a"),
    ] {
        let run = || Command::new("ethtool").args(["--json", o, n]).output();
        println!("{o} {:?}", lab.a().run(run));
    }
}
