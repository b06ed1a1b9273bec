//! A lab is what it says: two hosts, a multi-queue cable, traffic, and nothing left afterwards.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use nic_user::lab::frames::Ends;
use nic_user::lab::traffic::{self, IpVersion};
use nic_user::lab::{Lab, Shape};
use nic_user::netlink::qdisc::Clsact;
use nic_user::nic::namespace::{current_cookie, name_of_cookie, named_namespaces};
use nic_user::nic::{InterfaceName, Nic};

#[test]
fn interfaces_have_the_shape_that_was_asked_for() {
    needs_root!();
    let lab = Lab::new(Shape { queues: 4, mtu: 9000 }).unwrap();
    for (host, peer) in [(lab.a(), lab.b()), (lab.b(), lab.a())] {
        let name = InterfaceName::new(host.interface()).unwrap();
        let nic = host.run(|| Nic::by_name(&name)).unwrap().unwrap();
        assert_eq!((nic.kind(), nic.driver_name()), (Some("veth"), Some("veth")));
        assert_eq!((nic.mtu(), nic.link.up, nic.link.running), (9000, true, true));
        assert_eq!((nic.rx_queues(), nic.tx_queues()), (4, 4));
        assert_eq!((nic.max_rx_queues(), nic.max_tx_queues()), (4, 4));
        assert_eq!(nic.xdp(), []);
        // The kernel tells since 6.3.
        if let Some(can) = nic.xdp_features {
            assert_eq!((can.native(), can.frags(), can.offload()), (true, true, false));
        }
        assert_eq!(nic.link.lower, None);
        let other = nic.peer().unwrap();
        assert_eq!(other.ifindex, peer.ifindex());
        assert!(other.netnsid.is_some());
    }
}

#[test]
fn traffic_of_every_kind_arrives() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    for ip in IpVersion::ALL {
        assert_eq!(traffic::tcp(lab.a(), lab.b(), ip, 8, 1 << 20).unwrap(), 8 << 20);
        assert_eq!(traffic::tcp(lab.b(), lab.a(), ip, 1, 100_000).unwrap(), 100_000);
        assert_eq!(traffic::udp(lab.a(), lab.b(), ip, 8, 1000, 64).unwrap(), 1000);
        // In fragments.
        assert_eq!(traffic::udp(lab.a(), lab.b(), ip, 1, 20, 20_000).unwrap(), 20);
        // Nothing but headers.
        assert_eq!(traffic::udp(lab.a(), lab.b(), ip, 1, 5, 0).unwrap(), 5);
    }
}

#[test]
fn raw_frames_arrive_one_by_one() {
    needs_root!();
    let lab = Lab::new(Shape { queues: 1, mtu: 1500 }).unwrap();
    // An Ethernet type for local experiments, to nobody.
    let frame = [&[0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &[0; 46]].concat();
    let before = lab.b().stats().unwrap();
    assert_eq!(traffic::send_frames(lab.a(), &vec![frame.clone(); 5000]).unwrap(), 5000);
    let after = lab.b().stats().unwrap();
    assert!(after.rx_packets - before.rx_packets >= 5000);
    assert!(after.rx_bytes - before.rx_bytes >= 5000 * frame.len() as u64);

    let error = traffic::send_frames(lab.a(), &[vec![0; 1515 + 18]]).unwrap_err();
    assert!(error.to_string().contains("send frames through nic-a"), "{error}");
}

#[test]
fn big_tcp_takes_effect() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    lab.set_max_packet_size(185_000).unwrap();
    let link = lab.a().link().unwrap();
    assert_eq!(
        [link.gso_max_size, link.gro_max_size, link.gso_ipv4_max_size, link.gro_ipv4_max_size],
        [Some(185_000); 4]
    );
    for ip in IpVersion::ALL {
        assert_eq!(traffic::tcp(lab.a(), lab.b(), ip, 2, 4 << 20).unwrap(), 8 << 20);
    }
}

#[test]
fn nothing_is_left_of_a_lab() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let names = [lab.a().netns_name().to_owned(), lab.b().netns_name().to_owned()];
    let cookie = lab.a().netns().cookie().unwrap();
    assert_eq!(name_of_cookie(cookie).unwrap().as_ref(), Some(&names[0]));
    assert_ne!(current_cookie().unwrap(), cookie);
    assert_eq!(lab.b().run(current_cookie).unwrap().unwrap(), lab.b().netns().cookie().unwrap());

    // A lab in use is not swept.
    Lab::sweep().unwrap();
    assert!(names.iter().all(|name| named_namespaces().unwrap().contains(name)));

    drop(lab);
    assert!(!names.iter().any(|name| named_namespaces().unwrap().contains(name)));
    assert_eq!(name_of_cookie(cookie).unwrap(), None);
    let leftovers = Nic::all().unwrap();
    assert!(!leftovers.iter().any(|nic| matches!(nic.name(), "nic-a" | "nic-b")));
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn hold_a_lab_until_killed() {
    if std::env::var_os("HOLD_A_LAB").is_none() {
        return;
    }
    let lab = Lab::new(Shape::default()).unwrap();
    println!("\nholds {} {}", lab.a().netns_name(), lab.b().netns_name());
    // Ends with the parent, if that does not kill us.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn what_a_killed_process_left_is_swept() {
    needs_root!();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "hold_a_lab_until_killed"])
        .env("HOLD_A_LAB", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.into_iter().find(|line| line.starts_with("holds ")).unwrap();
    let names: Vec<_> = line.split(' ').skip(1).map(str::to_owned).collect();

    Lab::sweep().unwrap();
    assert!(names.iter().all(|name| named_namespaces().unwrap().contains(name)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    Lab::sweep().unwrap();
    assert!(!names.iter().any(|name| named_namespaces().unwrap().contains(name)));
}

#[test]
fn a_panic_inside_a_host_comes_out() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let outcome = std::panic::catch_unwind(|| lab.a().run(|| panic!("inside")));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"inside"));
}

#[test]
fn every_sample_can_be_sent() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let ends = Ends::between(lab.a(), lab.b());
    let frames: Vec<_> = [ends.samples(), ends.malformed()]
        .concat()
        .into_iter()
        .map(|sample| sample.frame)
        .collect();
    let before = lab.b().stats().unwrap().rx_packets;
    assert_eq!(traffic::send_frames(lab.a(), &frames).unwrap(), frames.len() as u64);
    assert!(lab.b().stats().unwrap().rx_packets - before >= frames.len() as u64);
}

#[test]
fn a_clsact_qdisc_that_is_gone_is_removed() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let remove = || Clsact::open().and_then(|mut clsact| clsact.delete(lab.a().ifindex()));
    lab.a().run(remove).unwrap().unwrap();
    let add = || Clsact::open().and_then(|mut clsact| clsact.add(lab.a().ifindex()));
    // Not every kernel has it; the failed attempt must not stand in the way either.
    let _ = lab.a().run(add).unwrap();
    for _ in 0..2 {
        lab.a().run(remove).unwrap().unwrap();
    }
}
