//! Merging packets of a flow, and taking them apart again.

mod super_packets;

use std::rc::Rc;

use nic_common::{
    headers::HeaderInfo,
    policy::{CopyPolicy, Verdict},
};
use nic_user::driver::{
    buffers::{Buffers, Layout},
    gro::{Counters, Gro, Limits, Merged, Received},
    packet::{Frag, Frags, Packet},
    receive::{Builder, Building},
    segment::{Ids, MAX_LEN},
};
use proptest::prelude::*;
use super_packets::{Ip, Spec, Transport, segment, specs, write_all};

/// Where a packet's payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// Small packets are copied, of others the headers.
    Policy,
    /// Headers are copied out of the frame.
    Split,
    /// All of it in its frame.
    Whole,
    /// The first 256 bytes are copied out of the frame, payload or not.
    Fixed,
}

struct Receiver {
    buffers: Rc<Buffers>,
    split: Builder,
    policy: Builder,
    whole: Builder,
}

impl Receiver {
    fn new() -> Self {
        let layout = Layout { frames: 1024, frame_size: 4096, ..Layout::default() };
        let buffers = Buffers::new(layout).unwrap();
        let builder = |rx_copybreak, split| {
            let policy = CopyPolicy { rx_copybreak, max_linear: 256, split };
            Builder::new(Building { policy, bounce_below: 0 }, &buffers).unwrap()
        };
        let (split, policy, whole) = (builder(0, true), builder(256, true), builder(0, false));
        Self { buffers, split, policy, whole }
    }

    /// The packet that arrived as `bytes`.
    fn packet(&mut self, bytes: &[u8], placement: Placement) -> Packet {
        let mut pieces = bytes.chunks(3000).map(|piece| {
            let mut frag = Frag::empty(self.buffers.frames().take().unwrap(), 256);
            assert!(frag.append(piece));
            frag
        });
        let first = pieces.next().unwrap();
        let rest: Frags = pieces.collect();
        match placement {
            Placement::Split => self.split.build_of(first, rest),
            Placement::Policy => self.policy.build_of(first, rest),
            Placement::Whole => self.whole.build_of(first, rest),
            Placement::Fixed => self.fixed(first, rest),
        }
    }

    fn fixed(&self, mut first: Frag, rest: Frags) -> Packet {
        let info = HeaderInfo::of(&*first);
        let mut linear = Frag::empty(self.buffers.copies().take().unwrap(), 0);
        let len = first.len().min(256);
        assert!(linear.append(&first[..len]));
        first.advance(len as u32);
        let first = if first.is_empty() { None } else { Some(first) };
        let frags = first.into_iter().chain(rest).collect();
        Packet { linear, frags, info, verdict: Verdict::Split }
    }

    fn assert_all_frames_are_back(&self) {
        for pool in [self.buffers.frames(), self.buffers.copies()] {
            let account = pool.account();
            assert!(account.is_whole() && account.held == 0, "{account:?}");
        }
    }
}

/// What leaves GRO, as the packets that came in; and of how many each was made.
#[derive(Default)]
struct Left {
    frames: Vec<Vec<u8>>,
    packets: Vec<u32>,
}

impl Left {
    fn add(&mut self, received: Received<'_>) {
        match received {
            Received::Packet(packet) => {
                self.frames.push(packet.to_vec());
                self.packets.push(1);
            }
            Received::Merged(merged) => {
                let segments = write_all(merged.super_packet().unwrap().segments());
                assert_eq!(segments.len(), merged.packets as usize);
                assert_eq!(merged.payload().map(<[u8]>::len).sum::<usize>(), merged.payload_len);
                self.frames.extend(segments);
                self.packets.push(merged.packets);
            }
        }
    }
}

/// Sends frames through; what left, and what was counted.
fn run(frames: &[Vec<u8>], placement: Placement, limits: Limits) -> (Left, Counters) {
    let mut receiver = Receiver::new();
    let mut gro = Gro::new(limits);
    let mut left = Left::default();
    for frame in frames {
        gro.receive(receiver.packet(frame, placement), |received| left.add(received));
    }
    gro.flush(|received| left.add(received));
    receiver.assert_all_frames_are_back();
    (left, gro.counters())
}

/// Three packets of one flow with 1000 bytes each.
fn stream(tcp: bool, v4: bool) -> Vec<Vec<u8>> {
    let spec = spec(tcp, v4);
    segment(&spec, &spec.payload(), Ids::Increment)
}

fn spec(tcp: bool, v4: bool) -> Spec {
    let options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let transport = if tcp {
        Transport::Tcp {
            sequence: u32::MAX - 1500,
            acknowledged: 7,
            flags: 0x10,
            window: 9,
            options,
        }
    } else {
        Transport::Udp
    };
    let ip = if v4 {
        Ip::V4 { tos: 0, id: u16::MAX, dont_fragment: true, ttl: 64, options: 0 }
    } else {
        let extensions = vec![];
        Ip::V6 { class_and_label: 5, hop_limit: 64, extensions, jumbo_option: false }
    };
    let (segment_size, payload_len) = (1000, 3000);
    Spec { vlans: vec![], ip, transport, ports: [1, 2], segment_size, payload_len, seed: 3 }
}

/// Changes a frame and makes its checksums right.
fn changed(frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    finish_checksums(&mut frame);
    frame
}

fn finish_checksums(frame: &mut [u8]) {
    let v4 = frame[12..14] == [8, 0];
    let (l4, protocol, addresses) = if v4 {
        let l4 = 14 + 4 * usize::from(frame[14] & 15);
        frame[24..26].fill(0);
        let checksum = !super_packets::ones_sum(&frame[14..l4]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        (l4, frame[23], frame[26..34].to_vec())
    } else {
        (54, frame[20], frame[22..54].to_vec())
    };
    let at = l4 + if protocol == 6 { 16 } else { 6 };
    frame[at..at + 2].fill(0);
    let len = ((frame.len() - l4) as u32).to_be_bytes();
    let all = [&addresses[..], &len, &[0, 0, 0, protocol], &frame[l4..]].concat();
    let checksum = !super_packets::ones_sum(&all);
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

const KINDS: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

#[test]
fn packets_of_a_flow_become_one() {
    for (tcp, v4) in KINDS {
        let frames = stream(tcp, v4);
        for (placement, chained) in [
            (Placement::Split, 0),
            (Placement::Policy, 0),
            (Placement::Whole, 0),
            (Placement::Fixed, 2),
        ] {
            let (left, counters) = run(&frames, placement, Limits::default());
            assert_eq!((left.packets, &left.frames), (vec![3], &frames));
            let by_frags = 2 - chained;
            let expected = Counters { received: 3, by_frags, chained, alone: 0, merged: 1 };
            assert_eq!(counters, expected, "tcp {tcp}, v4 {v4}, {placement:?}");
        }
    }
}

#[test]
fn headers_of_a_large_packet_are_those_of_all() {
    let end = |frames: &mut [Vec<u8>]| {
        frames[2] = changed(&frames[2], |frame| frame[14 + 20 + 13] |= 0x09);
    };
    let mut frames = stream(true, true);
    end(&mut frames);
    let mut receiver = Receiver::new();
    let mut gro = Gro::new(Limits::default());
    let mut headers = Vec::new();
    for frame in &frames {
        gro.receive(receiver.packet(frame, Placement::Split), |received| {
            if let Received::Merged(merged) = received {
                headers = merged.headers().to_vec();
            }
        });
    }
    assert_eq!(headers.len(), 14 + 20 + 32);
    assert_eq!(headers[16..18], 3052_u16.to_be_bytes());
    assert_eq!(super_packets::ones_sum(&headers[14..34]), 0xffff);
    assert_eq!(headers[14 + 20 + 13], 0x19);
    // The sum of the pseudo-header.
    let pseudo = [&headers[26..34], &[0, 6], &3032_u16.to_be_bytes()].concat();
    assert_eq!(headers[50..52], super_packets::ones_sum(&pseudo).to_be_bytes());
}

type Edit = fn(&mut Vec<u8>);

/// What is changed in the second of three packets, and of how many packets each is made that
/// leaves then.
type Change<'a> = (&'a str, Edit, &'a [u32]);

#[test]
fn what_does_not_follow_starts_anew_or_stays_alone() {
    let tcp4: [Change; 15] = [
        ("nothing", |_| {}, &[3]),
        ("PSH", |frame| frame[47] |= 0x08, &[2, 1]),
        ("FIN", |frame| frame[47] |= 0x01, &[2, 1]),
        ("CWR", |frame| frame[47] |= 0x80, &[1, 2]),
        ("ECE", |frame| frame[47] |= 0x40, &[1, 1, 1]),
        ("URG", |frame| frame[47] |= 0x20, &[1, 1, 1]),
        ("SYN", |frame| frame[47] |= 0x02, &[1, 1, 1]),
        ("RST", |frame| frame[47] |= 0x04, &[1, 1, 1]),
        ("urgent pointer", |frame| frame[53] = 1, &[1, 1, 1]),
        ("sequence number", |frame| frame[41] ^= 1, &[1, 1, 1]),
        ("acknowledged", |frame| frame[45] ^= 1, &[1, 1, 1]),
        ("window", |frame| frame[49] ^= 1, &[1, 1, 1]),
        ("time stamp", |frame| frame[61] ^= 1, &[1, 1, 1]),
        ("identification", |frame| frame[19] ^= 2, &[1, 1, 1]),
        ("DF", |frame| frame[20] = 0, &[1, 1, 1]),
    ];
    check_changes(&stream(true, true), &tcp4);
    let udp4: [Change; 7] = [
        ("type of service", |frame| frame[15] = 4, &[1, 1, 1]),
        ("time to live", |frame| frame[22] = 3, &[1, 1, 1]),
        ("reserved flag", |frame| frame[20] |= 0x80, &[1, 1, 1]),
        ("more fragments", |frame| frame[20] |= 0x20, &[1, 1, 1]),
        ("another port", |frame| frame[35] = 9, &[1, 1, 1]),
        ("another address", |frame| frame[29] = 9, &[1, 1, 1]),
        ("another Ethernet address", |frame| frame[11] = 9, &[1, 1, 1]),
    ];
    check_changes(&stream(false, true), &udp4);
    let tcp6: [Change; 4] = [
        ("traffic class", |frame| frame[14] = 0x61, &[1, 1, 1]),
        ("flow label", |frame| frame[17] = 6, &[1, 1, 1]),
        ("hop limit", |frame| frame[21] = 1, &[1, 1, 1]),
        ("data offset", |frame| frame[54 + 12] = 0x70, &[1, 1, 1]),
    ];
    check_changes(&stream(true, false), &tcp6);
}

fn check_changes(frames: &[Vec<u8>], changes: &[Change]) {
    for (what, change, expected) in changes {
        let mut frames = frames.to_vec();
        frames[1] = changed(&frames[1], change);
        let (mut left, _) = run(&frames, Placement::Split, Limits::default());
        assert_eq!(left.packets, *expected, "{what}");
        left.frames.sort();
        frames.sort();
        assert_eq!(left.frames, frames, "{what}");
    }
}

#[test]
fn an_interrupted_udp_flow_goes_on() {
    // UDP has no sequence numbers, IPv6 no identification: what lies in between does not matter.
    let mut frames = stream(false, false);
    frames[1] = changed(&frames[1], |frame| frame[55] = 9);
    let (left, _) = run(&frames, Placement::Split, Limits::default());
    assert_eq!(left.packets.iter().max(), Some(&2));
}

#[test]
fn packets_with_wrong_checksums_lengths_or_padding_are_passed_on() {
    let wrong: [(&str, Edit); 5] = [
        ("IPv4 checksum", |frame| frame[24] ^= 1),
        ("transport checksum", |frame| frame[50] ^= 1),
        ("payload", |frame| frame[500] ^= 1),
        ("padding", |frame| frame.push(0)),
        ("length beyond the frame", |frame| frame.truncate(1000)),
    ];
    for (what, change) in wrong {
        for placement in [Placement::Split, Placement::Whole, Placement::Fixed] {
            let mut frames = stream(true, true);
            change(&mut frames[1]);
            let (left, _) = run(&frames, placement, Limits::default());
            assert_eq!((left.packets, left.frames), (vec![1, 1, 1], frames), "{what}");
        }
    }
    let mut frames = stream(false, true);
    frames[1][40..42].fill(0);
    let (left, _) = run(&frames, Placement::Split, Limits::default());
    assert_eq!((left.packets, left.frames), (vec![1, 1, 1], frames), "no UDP checksum");
}

#[test]
fn a_checksum_that_would_come_out_otherwise_is_not_merged() {
    let mut frames = stream(true, true);
    // A payload with which the checksum is 0, for which 0xffff is as good.
    let checksum = u16::from_be_bytes([frames[1][50], frames[1][51]]);
    let word = u16::from_be_bytes([frames[1][100], frames[1][101]]);
    let sum = u32::from(word) + u32::from(checksum);
    let sum = (sum & 0xffff) + (sum >> 16);
    frames[1][100..102].copy_from_slice(&(sum as u16).to_be_bytes());
    frames[1][50..52].copy_from_slice(&[0, 0]);
    let (left, _) = run(&frames, Placement::Split, Limits::default());
    assert_eq!((left.packets, &left.frames), (vec![3], &frames));
    frames[1][50..52].copy_from_slice(&[0xff, 0xff]);
    let (left, _) = run(&frames, Placement::Split, Limits::default());
    assert_eq!((left.packets, left.frames), (vec![1, 1, 1], frames));
}

#[test]
fn shorter_packets_end_and_longer_ones_start() {
    for (tcp, v4) in KINDS {
        let long = Spec { payload_len: 2500, ..spec(tcp, v4) };
        let frames = segment(&long, &long.payload(), Ids::Increment);
        let (left, _) = run(&frames, Placement::Policy, Limits::default());
        assert_eq!((left.packets, &left.frames), (vec![3], &frames));
        // The short one first.
        let short = Spec { payload_len: 500, ..spec(tcp, v4) };
        let mut then = spec(tcp, v4);
        if let Transport::Tcp { sequence, .. } = &mut then.transport {
            *sequence = sequence.wrapping_add(500);
        }
        if let Ip::V4 { id, .. } = &mut then.ip {
            *id = id.wrapping_add(1);
        }
        let mut frames = segment(&short, &short.payload(), Ids::Increment);
        frames.extend(segment(&then, &then.payload(), Ids::Increment));
        let (left, _) = run(&frames, Placement::Policy, Limits::default());
        assert_eq!((left.packets, left.frames), (vec![1, 3], frames));
    }
}

#[test]
fn identifications_may_stand_still_where_nothing_is_fragmented() {
    for tcp in [true, false] {
        let same = spec(tcp, true);
        let frames = segment(&same, &same.payload(), Ids::Fixed);
        let (left, _) = run(&frames, Placement::Split, Limits::default());
        assert_eq!((left.packets, left.frames), (vec![3], frames));
        let mut may_fragment = spec(tcp, true);
        if let Ip::V4 { dont_fragment, .. } = &mut may_fragment.ip {
            *dont_fragment = false;
        }
        let frames = segment(&may_fragment, &may_fragment.payload(), Ids::Fixed);
        let (left, _) = run(&frames, Placement::Split, Limits::default());
        assert_eq!((left.packets, left.frames), (vec![1, 1, 1], frames));
    }
}

#[test]
fn large_packets_have_limits() {
    let long = |tcp, v4| Spec { payload_len: 200_000, segment_size: 1000, ..spec(tcp, v4) };
    for v4 in [true, false] {
        let frames = segment(&long(true, v4), &long(true, v4).payload(), Ids::Increment);
        let (left, _) = run(&frames, Placement::Split, Limits::default());
        assert_eq!((left.packets, &left.frames), (vec![65, 65, 65, 5], &frames));
        let (left, _) = run(&frames, Placement::Split, Limits { max_len: MAX_LEN });
        assert_eq!((left.packets, &left.frames), (vec![200], &frames));
    }
    let udp = Spec { payload_len: 30_000, segment_size: 300, ..spec(false, true) };
    let frames = segment(&udp, &udp.payload(), Ids::Increment);
    let (left, _) = run(&frames, Placement::Split, Limits { max_len: MAX_LEN });
    assert_eq!((left.packets, left.frames), (vec![64, 36], frames));
    let udp = Spec { payload_len: 60_000, segment_size: 1400, ..spec(false, true) };
    let frames = segment(&udp, &udp.payload(), Ids::Increment);
    let (left, _) = run(&frames, Placement::Split, Limits { max_len: 10_000 });
    assert_eq!(left.packets, [7, 7, 7, 7, 7, 7, 1]);
}

#[test]
fn more_flows_than_are_held_lose_nothing() {
    let flows: Vec<_> = (0..300)
        .map(|port| Spec { ports: [port, 2], ..spec(true, port % 2 == 0) })
        .map(|spec| segment(&spec, &spec.payload(), Ids::Increment))
        .collect();
    let mut frames: Vec<_> =
        (0..3).flat_map(|index| flows.iter().map(move |flow| flow[index].clone())).collect();
    let (mut left, counters) = run(&frames, Placement::Split, Limits::default());
    left.frames.sort();
    frames.sort();
    assert_eq!(left.frames, frames);
    assert_eq!(counters.received, 900);
    assert_eq!(counters.received, counters.alone + counters.merged + counters.by_frags);
}

#[test]
fn frames_can_be_kept() {
    let mut receiver = Receiver::new();
    let mut gro = Gro::new(Limits::default());
    let mut kept = Vec::new();
    for placement in [Placement::Split, Placement::Fixed] {
        for frame in stream(true, true) {
            gro.receive(receiver.packet(&frame, placement), |_| unreachable!());
        }
        gro.flush(|received| {
            let Received::Merged(Merged { frags, chain, .. }) = received else { unreachable!() };
            kept.append(frags);
            kept.extend(chain.drain(..).map(|packet| packet.linear));
        });
    }
    assert_eq!(kept.len(), 4);
    assert_eq!(receiver.buffers.frames().account().held, 2);
    drop(kept);
    receiver.assert_all_frames_are_back();
}

/// What happens to a frame on its way.
#[derive(Clone, Copy, Debug)]
enum Accident {
    None,
    Lost,
    Twice,
    Late,
    Changed(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Flush,
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
}

fn accidents() -> impl Strategy<Value = Accident> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        20 => Just(Accident::None),
        1 => Just(Accident::Lost),
        1 => Just(Accident::Twice),
        1 => Just(Accident::Late),
        1 => (index(), 1_u8..).prop_map(|(at, bits)| Accident::Changed(at, bits)),
        1 => index().prop_map(Accident::Cut),
        1 => Just(Accident::Flush),
    ]
}

fn placements() -> impl Strategy<Value = Placement> {
    use Placement::{Fixed, Policy, Split, Whole};
    prop_oneof![Just(Policy), Just(Split), Just(Whole), Just(Fixed)]
}

/// Several flows, whose number is in the Ethernet address.
fn flows() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let flow = (specs(12), any::<bool>()).prop_map(|(mut spec, fixed)| {
        spec.payload_len = spec.payload_len.min(30_000);
        let ids = if fixed { Ids::Fixed } else { Ids::Increment };
        segment(&spec, &spec.payload(), ids)
    });
    prop::collection::vec(flow, 1..4).prop_map(|mut flows| {
        for (number, frames) in flows.iter_mut().enumerate() {
            frames.iter_mut().for_each(|frame| frame[11] = number as u8);
        }
        flows
    })
}

/// Frames on their way through GRO.
struct Way {
    receiver: Receiver,
    gro: Gro,
    sent: Vec<Vec<u8>>,
    /// Frames that came to harm: they may belong to another flow now.
    harmed: Vec<Vec<u8>>,
    late: Vec<Vec<u8>>,
    left: Left,
}

impl Way {
    fn new(limits: Limits) -> Self {
        Self {
            receiver: Receiver::new(),
            gro: Gro::new(limits),
            sent: Vec::new(),
            harmed: Vec::new(),
            late: Vec::new(),
            left: Left::default(),
        }
    }

    fn send(&mut self, frame: &[u8], placement: Placement) {
        self.sent.push(frame.to_vec());
        let packet = self.receiver.packet(frame, placement);
        self.gro.receive(packet, |received| self.left.add(received));
    }

    fn go(&mut self, mut frame: Vec<u8>, accident: Accident, placement: Placement) {
        match accident {
            Accident::None => self.send(&frame, placement),
            Accident::Lost => {}
            Accident::Twice => {
                self.send(&frame, placement);
                self.send(&frame, placement);
            }
            Accident::Late => self.late.push(frame),
            Accident::Changed(at, bits) => {
                let at = 12 + at.index(frame.len() - 12);
                frame[at] ^= bits;
                self.send(&frame, placement);
                self.harmed.push(frame);
            }
            Accident::Cut(len) => {
                frame.truncate(12 + len.index(frame.len() - 12));
                self.send(&frame, placement);
                self.harmed.push(frame);
            }
            Accident::Flush => {
                for frame in std::mem::take(&mut self.late) {
                    self.send(&frame, placement);
                }
                self.send(&frame, placement);
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.gro.flush(|received| self.left.add(received));
    }

    /// The unharmed ones of a flow.
    fn of_flow(&self, frames: &[Vec<u8>], number: u8) -> Vec<Vec<u8>> {
        let unharmed = frames.iter().filter(|frame| !self.harmed.contains(frame));
        unharmed.filter(|frame| frame[11] == number).cloned().collect()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn segmented_again_it_is_what_came_in(
        flows in flows(),
        order in prop::collection::vec((0_usize..4, accidents(), placements()), 60),
        big: bool,
    ) {
        let mut way = Way::new(Limits { max_len: if big { MAX_LEN } else { 65535 } });
        let mut waiting: Vec<_> = flows.iter().map(|frames| frames.iter().cloned()).collect();
        for (flow, accident, placement) in order {
            let flow = flow % waiting.len();
            if let Some(frame) = waiting[flow].next() {
                way.go(frame, accident, placement);
            }
        }
        way.flush();
        way.receiver.assert_all_frames_are_back();
        for number in 0..flows.len() as u8 {
            prop_assert_eq!(
                way.of_flow(&way.left.frames, number),
                way.of_flow(&way.sent, number)
            );
        }
        let sorted = |frames: &[Vec<u8>]| {
            let mut frames = frames.to_vec();
            frames.sort();
            frames
        };
        prop_assert_eq!(sorted(&way.left.frames), sorted(&way.sent));
        let counters = way.gro.counters();
        prop_assert_eq!(counters.received, way.sent.len() as u64);
        let joined = counters.by_frags + counters.chained;
        prop_assert_eq!(counters.received, counters.alone + counters.merged + joined);
    }
}
