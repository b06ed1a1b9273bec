//! What goes wrong around a port, and that no frame is lost by it.

#[macro_use]
mod common;
mod port;

use std::io::{BufRead, BufReader, stdin};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::{Map, MapData, XskMap};
use nic_user::driver::Mode;
use nic_user::driver::buffers::{Buffers, Layout};
use nic_user::driver::packet::Frag;
use nic_user::driver::port::{Config, Port};
use nic_user::driver::queue::{Queue, Refusal};
use nic_user::driver::receive::Building;
use nic_user::error::Kind;
use nic_user::lab::frames::Ends;
use nic_user::lab::sockets::ToSockets;
use nic_user::lab::traffic::{self, IpVersion::V4};
use nic_user::lab::{Host, Lab, Shape};
use nic_user::nic::namespace::NetNs;
use port::{LAYOUT, PATIENCE, Rig, SPLIT, WHOLE, assert_every_frame_is_home, config, shape};

fn frame(lab: &Lab, len: usize) -> Vec<u8> {
    let ends = Ends::between(lab.a(), lab.b());
    ends.ethernet(ends.ipv4(ends.udp(V4, &vec![0xa5; len])))
}

fn send(lab: &Lab, len: usize, count: usize) {
    traffic::send_frames(lab.a(), &vec![frame(lab, len); count]).unwrap();
}

/// Waits until `done`; what is waited for is looked at again and again.
#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

fn queue(port: &mut Port) -> &mut Queue {
    &mut port.queues_mut()[0]
}

fn frag(buffers: &Buffers, bytes: &[u8]) -> Frag {
    let mut frag = Frag::empty(buffers.frames().take().expect("a frame"), 0);
    assert!(frag.append(bytes));
    frag
}

/// `ip` inside a host.
fn ip(host: &Host, arguments: &str) {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host.netns_name(), "ip"]).args(arguments.split(' '));
    assert!(command.status().unwrap().success(), "ip {arguments}");
}

#[test]
fn a_queue_in_use_is_refused() {
    needs_root!();
    let rig = Rig::new(LAYOUT, &config(WHOLE));
    let buffers = Buffers::new(LAYOUT).unwrap();
    let mut config = config(WHOLE);
    config.options.mode = Mode::Auto;
    let error = rig.sockets.open(rig.lab.b(), &config, &buffers).unwrap_err();
    assert!(
        error.to_string().contains("open queue 0 of nic-b: Device or resource busy"),
        "{error}"
    );
    assert!(error.fix().unwrap().contains("another program"), "{error:?}");
    assert_every_frame_is_home(&buffers);
}

#[test]
fn a_closed_port_opens_again_at_once() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let buffers = Buffers::new(LAYOUT).unwrap();
    for round in 1..=5 {
        let mut port = sockets.open(lab.b(), &config(SPLIT), &buffers).unwrap();
        send(&lab, 1000, round);
        drop(port::receive(&mut port, round));
        drop(port);
        assert_every_frame_is_home(&buffers);
    }
}

#[test]
fn a_queue_that_is_not_there_is_refused() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let mut config = config(WHOLE);
    config.queues = vec![7];
    let error = sockets.open(lab.b(), &config, &Buffers::new(LAYOUT).unwrap()).unwrap_err();
    assert!(error.to_string().contains("open queue 7 of nic-b"), "{error}");
    assert!(error.fix().unwrap().contains("that many queues"), "{error:?}");
}

#[test]
fn an_interface_that_goes_away_is_told() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let bytes = frame(&rig.lab, 100);
    let ifindex = rig.lab.b().ifindex();
    rig.lab.b().links(|links| links.delete(ifindex)).unwrap();
    let buffers = Rc::clone(rig.port.buffers());
    queue(&mut rig.port).send_frame(frag(&buffers, &bytes), false).unwrap();
    let error = queue(&mut rig.port).flush().unwrap_err();
    assert!(error.fix().unwrap().contains("gone"), "{error:?}");
    let error = rig.port.wait(PATIENCE).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("queue 0 of nic-b is gone"), "{error}");
    drop(rig);
    assert_every_frame_is_home(&buffers);
}

#[test]
fn a_task_learns_that_the_interface_is_gone() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Rig { port, lab, .. } = &mut rig;
    let ifindex = lab.b().ifindex();
    thread::scope(|scope| {
        scope.spawn(|| lab.b().links(|links| links.delete(ifindex)).unwrap());
        let waited = runtime
            .block_on(async { tokio::time::timeout(PATIENCE, queue(port).readable()).await });
        let error = waited.expect("news").unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
    });
}

#[test]
fn an_interface_that_is_down_for_a_while_loses_no_frame() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let (bytes, ifindex) = (frame(&rig.lab, 100), rig.lab.b().ifindex());
    rig.lab.b().links(|links| links.set_up(ifindex, false)).unwrap();
    let buffers = Rc::clone(rig.port.buffers());
    queue(&mut rig.port).send_frame(frag(&buffers, &bytes), false).unwrap();
    let error = queue(&mut rig.port).flush().unwrap_err();
    assert!(error.to_string().contains("send through queue 0 of nic-b: "), "{error}");
    assert_eq!(error.fix(), Some("bring the interface up"));
    assert_eq!(queue(&mut rig.port).in_flight(), 1);

    rig.lab.b().links(|links| links.set_up(ifindex, true)).unwrap();
    rig.lab.b().wait_until_running().unwrap();
    rig.lab.a().wait_until_running().unwrap();
    wait_until("the frame is sent", || {
        queue(&mut rig.port).flush().unwrap();
        queue(&mut rig.port).in_flight() == 0
    });
    send(&rig.lab, 100, 1);
    assert_eq!(rig.receive(1)[0].len(), bytes.len());
}

#[test]
fn another_name_and_another_mtu_change_nothing() {
    needs_root!();
    // Which queue it comes to is a hash that differs from boot to boot.
    let config = Config { queues: vec![0, 1], ..config(WHOLE) };
    let mut rig = Rig::of(shape(2), LAYOUT, &config);
    for change in ["mtu 1400", "name nic-renamed"] {
        ip(rig.lab.b(), &format!("link set nic-b {change}"));
        send(&rig.lab, 100, 1);
        assert_eq!(rig.receive(1).len(), 1, "{change}");
    }
}

#[test]
fn the_kernel_keeps_a_queue_whose_rings_are_open() {
    needs_root!();
    let lab = Lab::new(shape(4)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let mut config = config(WHOLE);
    config.queues = vec![3];
    let port = sockets.open(lab.b(), &config, &Buffers::new(LAYOUT).unwrap()).unwrap();
    let channels = |count: &str| {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            lab.b().netns_name(),
            "ethtool",
            "-L",
            "nic-b",
            "rx",
            count,
        ]);
        command.stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(!channels("2"));
    drop(port);
}

#[test]
fn frames_too_long_are_dropped_and_counted() {
    needs_root!();
    let mut rig = Rig::of(Shape { queues: 1, mtu: 3000 }, LAYOUT, &config(WHOLE));
    send(&rig.lab, 2500, 3);
    send(&rig.lab, 100, 1);
    assert_eq!(rig.receive(1)[0].len(), 142);
    assert_eq!(rig.port.statistics().unwrap()[0].kernel.rx_dropped, 3);
}

#[test]
fn malformed_packets_arrive_as_they_are() {
    needs_root!();
    for building in [WHOLE, SPLIT] {
        let mut rig = Rig::new(LAYOUT, &config(building));
        let ends = Ends::between(rig.lab.a(), rig.lab.b());
        let mut sent: Vec<_> = ends.malformed().into_iter().map(|sample| sample.frame).collect();
        // The kernel itself sends no frame shorter than an Ethernet header.
        sent.retain(|frame| frame.len() > 14 && frame[0] & 1 == 0);
        traffic::send_frames(rig.lab.a(), &sent).unwrap();
        let received: Vec<_> = rig.receive(sent.len()).iter().map(|it| it.to_vec()).collect();
        assert_eq!(received, sent);
    }
}

#[test]
fn with_all_frames_held_packets_are_dropped_and_counted_and_then_it_goes_on() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let mut held = Vec::new();
    while held.len() < 256 {
        send(&rig.lab, 100, 32);
        held.extend(rig.receive(1));
    }
    assert_eq!(rig.port.buffers().frames().account().held, 256);
    send(&rig.lab, 100, 10);
    wait_until("the kernel misses frames", || {
        rig.port.statistics().unwrap()[0].kernel.rx_fill_empty >= 10
    });
    assert_eq!(rig.port.buffers().frames().account().low_water, 0);
    drop(held);
    queue(&mut rig.port).receive(1, drop);
    send(&rig.lab, 100, 10);
    assert_eq!(rig.receive(10).len(), 10);
}

#[test]
fn a_full_rx_ring_is_counted_and_then_it_goes_on() {
    needs_root!();
    let mut config = config(WHOLE);
    (config.options.rx_size, config.options.fill) = (32, 128);
    let mut rig = Rig::new(LAYOUT, &config);
    send(&rig.lab, 100, 40);
    wait_until("the ring is full", || rig.port.statistics().unwrap()[0].kernel.rx_ring_full > 0);
    assert_eq!(rig.receive(32).len(), 32);
    send(&rig.lab, 100, 10);
    assert!(rig.receive(10).len() >= 10);
}

#[test]
fn a_full_tx_ring_gives_back_what_does_not_fit() {
    needs_root!();
    let mut config = config(WHOLE);
    config.options.fill = 32;
    let mut rig = Rig::new(LAYOUT, &config);
    let bytes = frame(&rig.lab, 100);
    let buffers = Rc::clone(rig.port.buffers());
    let queue = queue(&mut rig.port);
    for _ in 0..128 {
        queue.send_frame(frag(&buffers, &bytes), false).unwrap();
    }
    let unsent = queue.send_frame(frag(&buffers, &bytes), false).unwrap_err();
    assert_eq!((unsent.why, &*unsent.what), (Refusal::Full, &bytes[..]));
    assert_eq!(buffers.frames().account().held, 1);
    let mut left = Some(unsent.what);
    wait_until("there is room", || {
        queue.flush().unwrap();
        left = queue.send_frame(left.take().unwrap(), false).err().map(|unsent| unsent.what);
        left.is_none()
    });
    wait_until("all are sent", || {
        queue.flush().unwrap();
        queue.in_flight() == 0
    });
    assert!(queue.statistics().unwrap().sent.full >= 1);
}

#[test]
fn packets_of_another_memory_are_copied_and_too_long_ones_given_back() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    let elsewhere = Buffers::new(Layout { frame_size: 4096, ..LAYOUT }).unwrap();
    let queue = queue(&mut rig.port);
    queue.send_frame(frag(&elsewhere, &[0xff; 1000]), false).unwrap();
    let unsent = queue.send_frame(frag(&elsewhere, &[0xff; 2049]), false).unwrap_err();
    assert_eq!(unsent.why, Refusal::TooLong);
    queue.flush().unwrap();
    assert_eq!(queue.statistics().unwrap().sent.copied, 1);
    drop(unsent);
    assert_every_frame_is_home(&elsewhere);
}

#[test]
fn packets_may_be_dropped_on_another_thread() {
    needs_root!();
    let mut rig = Rig::new(Layout { frames: 64, copies: 64, ..LAYOUT }, &config(SPLIT));
    let (sender, receiver) = mpsc::sync_channel(8);
    let user = thread::spawn(move || receiver.into_iter().map(drop).count());
    for _ in 0..50 {
        send(&rig.lab, 1000, 10);
        for packet in rig.receive(1) {
            sender.send(packet).unwrap();
        }
    }
    drop(sender);
    assert!(user.join().unwrap() >= 50);
    let account = rig.port.buffers().frames().account();
    assert_eq!(account.held, 0, "{account:?}");
}

#[test]
fn a_user_that_never_returns_its_frames_costs_no_more_than_them() {
    needs_root!();
    let mut rig = Rig::new(LAYOUT, &config(WHOLE));
    send(&rig.lab, 100, 10);
    let packets = rig.receive(10);
    let buffers = Rc::clone(rig.port.buffers());
    packets.into_iter().for_each(std::mem::forget);
    drop(rig);
    let account = buffers.frames().account();
    assert_eq!((account.held, account.free), (10, 246));
}

/// A consumer that keeps every packet: with the bounce path it gets as many as there are buffers,
/// without it no more than there are frames.
#[test]
fn held_packets_are_bounced_when_frames_run_low() {
    needs_root!();
    let layout = Layout { frames: 64, copies: 192, ..LAYOUT };
    let mut config = config(WHOLE);
    config.options.fill = 32;
    config.building = Building { bounce_below: 40, ..WHOLE };
    let mut rig = Rig::new(layout, &config);
    let mut held = Vec::new();
    while held.len() < 200 {
        send(&rig.lab, 100, 10);
        held.extend(rig.receive(1));
    }
    let built = rig.port.statistics().unwrap()[0].built;
    assert!(built.frag_alloc > 150, "{built:?}");
    // The kernel's own multicast, which the rig drops, may have been bounced, too.
    let kept = rig.port.buffers().frames().account().held;
    assert!(kept + built.frag_alloc as u32 >= held.len() as u32, "{kept} kept, {built:?}");
    // The buffers run out too.
    while rig.port.buffers().frames().account().held < 64 {
        send(&rig.lab, 100, 10);
        queue(&mut rig.port).receive(64, |packet| held.push(packet));
    }
    assert!(rig.port.statistics().unwrap()[0].built.frag_alloc_err > 0);
    assert!(held.iter().all(|packet| packet.len() == 142 || packet.linear[0] & 1 == 1));
    // Frames in use again, nothing is bounced any more.
    held.clear();
    let before = rig.port.statistics().unwrap()[0].built.frag_alloc;
    queue(&mut rig.port).receive(1, drop);
    send(&rig.lab, 100, 20);
    held.extend(rig.receive(20));
    assert_eq!(rig.port.statistics().unwrap()[0].built.frag_alloc, before);
}

const CHILD: &str = "NIC_DRIVER_CHILD";

/// Runs another process of this test binary with `arguments` for its one test, in this host; its
/// standard input is the map of the sockets.
fn child(host: &Host, sockets: &ToSockets, wrapper: &[&str]) -> Child {
    let exe = std::env::current_exe().unwrap();
    let mut arguments: Vec<_> = wrapper.iter().map(|it| it.to_string()).collect();
    arguments.push(exe.to_str().unwrap().to_owned());
    let mut command = Command::new(&arguments[0]);
    command
        .args(&arguments[1..])
        .args(["--exact", "the_other_process", "--nocapture"])
        .env(CHILD, format!("{} {}", host.netns_name(), host.ifindex()))
        .stdin(sockets.as_fd().try_clone_to_owned().unwrap())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Opens a port and keeps it until it is killed, if another test started it.
#[test]
fn the_other_process() {
    let Ok(place) = std::env::var(CHILD) else { return };
    let [netns, ifindex] = place.split(' ').collect::<Vec<_>>()[..] else { panic!("{place}") };
    let netns = NetNs::named(netns).unwrap();
    let interface = nic_user::driver::Interface {
        name: "nic-b",
        ifindex: ifindex.parse().unwrap(),
        netns: Some(&netns),
    };
    let map = MapData::from_fd(stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let mut map = XskMap::try_from(Map::XskMap(map)).unwrap();
    let buffers = Buffers::new(Layout { frames: 4096, ..LAYOUT }).unwrap();
    let port = Port::open(&interface, &config(WHOLE), &buffers, |queue, socket| {
        map.set(queue, socket, 0).unwrap();
        Ok(())
    });
    match port {
        Ok(mut port) => {
            println!("open");
            loop {
                port.wait(PATIENCE).unwrap();
                queue(&mut port).receive(64, std::mem::forget);
            }
        }
        Err(error) => println!("{error}; {}", error.fix().unwrap_or_default()),
    }
}

/// The first line that says something, not the test harness; and the output, which must stay open.
fn first_line(child: &mut Child) -> (String, BufReader<ChildStdout>) {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("open") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child says nothing");
    }
    (line.trim_end().to_owned(), output)
}

#[test]
fn after_kill_9_traffic_is_the_kernels_and_the_queue_is_free() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let receiver = lab.b().run(|| UdpSocket::bind((lab.b().ipv4(), 9))).unwrap().unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut child = child(lab.b(), &sockets, &[]);
    let (line, _output) = first_line(&mut child);
    assert!(line.ends_with("open"), "{line}");
    send(&lab, 100, 10);
    assert!(receiver.recv(&mut [0; 200]).is_err());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the kernel has the packets again", || {
        send(&lab, 100, 1);
        receiver.recv(&mut [0; 200]).is_ok_and(|len| len == 100)
    });
    let buffers = Buffers::new(LAYOUT).unwrap();
    let mut port = sockets.open(lab.b(), &config(WHOLE), &buffers).unwrap();
    send(&lab, 100, 1);
    assert_eq!(port::receive(&mut port, 1).len(), 1);
}

#[test]
fn memory_that_may_not_be_locked_is_told_with_the_limit_to_raise() {
    needs_root!();
    let lab = Lab::new(shape(1)).unwrap();
    let sockets = ToSockets::attach(lab.b()).unwrap();
    let wrapper = [
        "prlimit",
        "--memlock=65536",
        "setpriv",
        "--bounding-set=-ipc_lock",
        "--inh-caps=-ipc_lock",
    ];
    let mut child = child(lab.b(), &sockets, &wrapper);
    let (line, _output) = first_line(&mut child);
    child.wait().unwrap();
    assert!(line.contains("open queue 0 of nic-b: No buffer space available"), "{line}");
    assert!(line.contains("8256 KiB of memory must be locked"), "{line}");
}
