//! The driver on a real veth pair, in copy mode.

#[macro_use]
mod common;
mod port;

use std::net::UdpSocket;
use std::rc::Rc;
use std::thread;

use nic_common::policy::{CopyPolicy, Verdict};
use nic_user::driver::{
    Access, BusyPoll, Mode,
    buffers::Buffers,
    packet::{Frag, Packet},
    receive::Building,
};
use nic_user::lab::{
    Lab, Shape,
    frames::{Ends, vlan},
    sockets::ToSockets,
    traffic::{self, IpVersion::V4, IpVersion::V6},
};
use port::{LAYOUT, PATIENCE, Rig, SPLIT, WHOLE, assert_every_frame_is_home, config, shape};

/// UDP frames of a lab, one for each length of payload.
fn frames(lab: &Lab, lens: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let ends = Ends::between(lab.a(), lab.b());
    let frame = |len: usize| {
        let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        ends.ethernet(ends.ipv4(ends.udp(V4, &payload)))
    };
    lens.into_iter().map(frame).collect()
}

fn bytes(packets: &[Packet]) -> Vec<Vec<u8>> {
    packets.iter().map(Packet::to_vec).collect()
}

#[test]
fn what_is_sent_to_the_interface_arrives_at_the_port() {
    needs_root!();
    for building in [WHOLE, SPLIT] {
        let mut rig = Rig::new(LAYOUT, &config(building));
        let sent = frames(&rig.lab, (0..1472).step_by(16));
        traffic::send_frames(rig.lab.a(), &sent).unwrap();
        let packets = rig.receive(sent.len());
        assert_eq!(bytes(&packets), sent);
    }
}

#[test]
fn packets_are_built_as_the_policy_says() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(SPLIT));
    let ends = Ends::between(rig.lab.a(), rig.lab.b());
    let sent = [
        ends.ethernet(ends.ipv4(ends.udp(V4, &[1; 100]))),
        ends.ethernet(ends.ipv4(ends.tcp(V4, &[2; 1000]))),
        ends.ethernet(vlan(5, ends.ipv6(ends.udp(V6, &[3; 1000])))),
    ];
    traffic::send_frames(rig.lab.a(), &sent).unwrap();
    let packets = rig.receive(3);
    assert_eq!(bytes(&packets), sent);
    let parts: Vec<_> =
        packets.iter().map(|it| (it.verdict, it.linear.len(), it.frags.len())).collect();
    let expected =
        [(Verdict::Copy, 142, 0), (Verdict::Split, 54, 1), (Verdict::Split, 18 + 40 + 8, 1)];
    assert_eq!(parts, expected);
    // A copied packet keeps no frame.
    assert_eq!(rig.port.buffers().frames().account().held, 2);
    assert_eq!(rig.port.buffers().copies().account().held, 3);
    let built = rig.port.statistics().unwrap()[0].built;
    // The kernel's own multicast is short, and may be among those copied.
    assert!(built.copied >= 1, "{built:?}");
    assert_eq!((built.split, built.whole), (2, 0));
}

#[test]
fn what_the_port_sends_reaches_a_socket() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let (from, to) = (rig.lab.b(), rig.lab.a());
    let receiver = to.run(|| UdpSocket::bind((to.ipv4(), 9))).unwrap().unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let ends = Ends::between(from, to);
    let buffers = Rc::clone(rig.port.buffers());
    let queue = &mut rig.port.queues_mut()[0];
    for len in [0, 1, 18, 500, 1472] {
        let frame = ends.ethernet(ends.ipv4(ends.udp(V4, &vec![len as u8; len])));
        let mut frag = Frag::empty(buffers.frames().take().unwrap(), 0);
        assert!(frag.append(&frame));
        queue.send_frame(frag, false).unwrap();
        queue.flush().unwrap();
        let mut payload = [0; 2000];
        let received = receiver.recv(&mut payload).unwrap();
        assert_eq!(payload[..received], vec![len as u8; len]);
    }
    assert_eq!(queue.in_flight(), 0);
    assert_eq!(buffers.frames().account().held, 0);
}

#[test]
fn a_packet_of_parts_is_sent_as_one() {
    needs_root!();
    let mut config = config(SPLIT);
    for multi_buffer in [false, true] {
        config.options.multi_buffer = multi_buffer;
        let mut rig = Rig::new(LAYOUT, &config);
        let sent = frames(&rig.lab, [10, 1000]);
        traffic::send_frames(rig.lab.a(), &sent).unwrap();
        let packets = rig.receive(2);
        assert_eq!(packets[1].frags.len(), 1);
        let sockets = ToSockets::attach(rig.lab.a()).unwrap();
        let there = Buffers::new(LAYOUT).unwrap();
        let mut peer = sockets.open(rig.lab.a(), &config, &there).unwrap();
        let queue = &mut rig.port.queues_mut()[0];
        for packet in packets {
            queue.send(packet).unwrap();
        }
        queue.flush().unwrap();
        let copied = queue.statistics().unwrap().sent.copied;
        assert_eq!(bytes(&port::receive(&mut peer, 2)), sent);
        assert_eq!(copied, if multi_buffer { 0 } else { 1 });
    }
}

#[test]
fn jumbo_packets_come_in_several_frames() {
    needs_root!();
    let mut config = config(SPLIT);
    config.options.multi_buffer = true;
    let mut rig = Rig::of(Shape { queues: 1, mtu: 9000 }, LAYOUT, &config);
    let sent = frames(&rig.lab, [100, 1500, 4000, 8972]);
    traffic::send_frames(rig.lab.a(), &sent).unwrap();
    let packets = rig.receive(4);
    assert_eq!(bytes(&packets), sent);
    let frags: Vec<_> = packets.iter().map(|packet| packet.frags.len()).collect();
    assert_eq!(frags, [0, 1, 3, 6]);
}

#[test]
fn frames_go_on_to_another_port_of_the_same_memory_without_a_copy() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let [a, b] = [lab.a(), lab.b()].map(|host| ToSockets::attach(host).unwrap());
    let buffers = Buffers::new(LAYOUT).unwrap();
    let mut first = b.open(lab.b(), &config(WHOLE), &buffers).unwrap();
    let mut second = a.open(lab.a(), &config(WHOLE), &buffers).unwrap();
    assert_eq!(
        second.queues()[0].access(),
        &Access::Copy("as the first socket of this memory".into())
    );
    let frame = frames(&lab, [200]);
    traffic::send_frames(lab.a(), &frame).unwrap();
    // There and back, five times.
    for _ in 0..5 {
        for (from, by) in [(&mut first, "b"), (&mut second, "a")] {
            let packets = port::receive(from, 1);
            assert_eq!(bytes(&packets), frame, "at {by}");
            let queue = &mut from.queues_mut()[0];
            packets.into_iter().for_each(|packet| queue.send(packet).unwrap());
            queue.flush().unwrap();
            assert_eq!(queue.statistics().unwrap().sent.copied, 0);
        }
    }
    drop((first, second));
    assert_every_frame_is_home(&buffers);
}

#[test]
fn every_queue_of_a_port_has_its_rings() {
    needs_root!();
    let mut config = config(WHOLE);
    config.queues = vec![0, 1, 2, 3];
    config.options.fill = 32;
    let mut rig = Rig::of(shape(4), LAYOUT, &config);
    let ends = Ends::between(rig.lab.a(), rig.lab.b());
    let flows = (0..64).map(|port| {
        let ends = ends.from_port(40_000 + port);
        ends.ethernet(ends.ipv4(ends.udp(V4, b"to some queue")))
    });
    let mut sent: Vec<_> = flows.collect();
    traffic::send_frames(rig.lab.a(), &sent).unwrap();
    let mut arrived = bytes(&rig.receive(64));
    sent.sort_unstable();
    arrived.sort_unstable();
    assert_eq!(arrived, sent);
}

#[test]
fn busy_polling_receives_too() {
    needs_root!();
    let mut config = config(WHOLE);
    config.options.busy_poll = Some(BusyPoll { microseconds: 20, budget: 64 });
    let mut rig = Rig::new(LAYOUT, &config);
    let sent = frames(&rig.lab, [1, 2, 3]);
    traffic::send_frames(rig.lab.a(), &sent).unwrap();
    assert_eq!(bytes(&rig.receive(3)), sent);
}

#[test]
fn a_task_waits_for_packets() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let sent = frames(&rig.lab, [1, 2, 3]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Rig { port, lab, .. } = &mut rig;
    let queue = &mut port.queues_mut()[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            for frame in &sent {
                traffic::send_frames(lab.a(), std::slice::from_ref(frame)).unwrap();
                thread::yield_now();
            }
        });
        let arrived = runtime.block_on(async {
            let mut arrived = Vec::new();
            while arrived.len() < sent.len() {
                let ready = tokio::time::timeout(PATIENCE, queue.readable());
                ready.await.expect("packets").unwrap();
                queue.receive(64, |packet| arrived.push(packet.to_vec()));
                arrived.retain(|frame| sent.contains(frame));
            }
            arrived
        });
        assert_eq!(arrived, sent);
    });
}

#[test]
fn a_policy_that_copies_more_than_a_buffer_holds_is_refused() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let buffers = Buffers::new(LAYOUT).unwrap();
    let policy = CopyPolicy { rx_copybreak: 257, ..CopyPolicy::DEFAULT };
    let building = Building { policy, bounce_below: 0 };
    let error = sockets.open(lab.b(), &config(building), &buffers).unwrap_err();
    assert!(
        error.to_string().contains("copies up to 257 bytes, but copy buffers have 256"),
        "{error}"
    );
}

#[test]
fn the_mode_is_told_with_its_reason() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let mut config = config(WHOLE);
    let cases =
        [(Mode::Copy, "copy (asked for)"), (Mode::Auto, "copy (its driver has no zero copy)")];
    for (mode, text) in cases {
        config.options.mode = mode;
        let port = sockets.open(lab.b(), &config, &Buffers::new(LAYOUT).unwrap()).unwrap();
        assert_eq!(port.queues()[0].access().to_string(), text);
    }
    config.options.mode = Mode::ZeroCopy;
    let error = sockets.open(lab.b(), &config, &Buffers::new(LAYOUT).unwrap()).unwrap_err();
    assert!(error.to_string().contains("queue 0 of nic-b"), "{error}");
}
