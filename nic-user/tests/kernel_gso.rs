//! Our segmentation beside the kernel's, and GRO of what the kernel has segmented.

mod common;
mod kernel_segmenter;
mod super_packets;
mod tap;

use kernel_segmenter::{KernelSegmenter, MAX_SEGMENTS};
use nic_common::policy::CopyPolicy;
use nic_user::driver::{
    buffers::{Buffers, Layout},
    gro::{Gro, Limits, Received},
    packet::Frag,
    receive::{Builder, Building},
    segment::{Ids, MAX_LEN},
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use super_packets::{Ip, Spec, Transport, segment, specs};

const PACKETS: usize = 10_000;

/// Packets that are merged again.
const MERGED_PACKETS: usize = 1000;

/// The most datagrams that GRO merges.
const MAX_MERGED_DATAGRAMS: usize = 64;

/// Bytes of a packet in one frame.
const FRAME_ROOM: usize = 4096;

/// The most datagrams that the kernel makes of one packet (`UDP_MAX_SEGMENTS`).
const MAX_UDP_SEGMENTS: usize = 128;

/// The next of `specs` that the kernel accepts: with at most `limit` segments.
fn next_spec(specs: &impl Strategy<Value = Spec>, random: &mut TestRunner, limit: usize) -> Spec {
    let mut spec = specs.new_tree(random).unwrap().current();
    let limit = if spec.is_tcp() { limit } else { limit.min(MAX_UDP_SEGMENTS) };
    spec.payload_len = spec.payload_len.min(limit * spec.segment_size);
    if let (Ip::V6 { jumbo_option, .. }, false) = (&mut spec.ip, spec.vlans.is_empty()) {
        // Behind a VLAN tag in the frame's bytes the kernel does not recognise its own option
        // (`ipv6_has_hopopt_jumbo` looks at the packet's ethertype) and leaves it in.
        *jumbo_option = false;
    }
    spec
}

/// Payload and segments of a packet, which becomes shorter if the kernel has no memory for it.
fn segment_by(kernel: &mut KernelSegmenter, spec: &mut Spec) -> (Vec<u8>, Vec<Vec<u8>>) {
    loop {
        let payload = spec.payload();
        match kernel.segment(spec, &payload) {
            Some(segments) => return (payload, segments),
            None => spec.payload_len /= 2,
        }
    }
}

fn assert_same(spec: &Spec, ours: &[Vec<u8>], kernels: &[Vec<u8>]) {
    const SHOWN: usize = 160;
    assert_eq!(ours.len(), kernels.len(), "{spec:?}");
    for (index, (ours, kernels)) in ours.iter().zip(kernels).enumerate() {
        let start = |frame: &[u8]| frame[..frame.len().min(SHOWN)].to_vec();
        assert!(
            ours == kernels,
            "segment {index} of {spec:?}\nours   {} {:02x?}\nkernel {} {:02x?}",
            ours.len(),
            start(ours),
            kernels.len(),
            start(kernels),
        );
    }
}

#[test]
fn the_kernel_makes_the_same_segments_of_ten_thousand_packets() {
    needs_root!();
    let mut kernel = KernelSegmenter::new();
    let mut random = TestRunner::deterministic();
    let specs = specs(MAX_SEGMENTS);
    let (mut segments, mut big) = (0, 0);
    for number in 0..PACKETS {
        let limit = if number % 20 == 0 { MAX_SEGMENTS } else { 20 };
        let mut spec = next_spec(&specs, &mut random, limit);
        let (payload, kernels) = segment_by(&mut kernel, &mut spec);
        assert_same(&spec, &segment(&spec, &payload, Ids::Increment), &kernels);
        segments += kernels.len();
        big += usize::from(payload.len() > 65_535);
    }
    assert!(segments > 8 * PACKETS && big > PACKETS / 50, "{segments} segments, {big} big");
}

/// Makes a packet one whose segments GRO may merge into it again.
fn make_mergeable(spec: &mut Spec) {
    const URG: u8 = 0x20;
    match &mut spec.ip {
        Ip::V4 { options, .. } => *options = 0,
        Ip::V6 { jumbo_option, .. } => *jumbo_option = false,
    }
    match &mut spec.transport {
        Transport::Tcp { flags, .. } => *flags &= !URG,
        Transport::Udp => {
            spec.payload_len = spec.payload_len.min(MAX_MERGED_DATAGRAMS * spec.segment_size);
        }
    }
}

#[test]
fn gro_gives_back_what_the_kernel_has_segmented() {
    needs_root!();
    let mut kernel = KernelSegmenter::new();
    let buffers = Buffers::new(Layout { frame_size: 4096, ..Layout::default() }).unwrap();
    let policy = CopyPolicy { rx_copybreak: 0, ..CopyPolicy::DEFAULT };
    let mut builder = Builder::new(Building { policy, bounce_below: 0 }, &buffers).unwrap();
    let mut gro = Gro::new(Limits { max_len: MAX_LEN });
    let mut random = TestRunner::deterministic();
    let specs = specs(MAX_SEGMENTS);
    for number in 0..MERGED_PACKETS {
        let limit = if number % 20 == 0 { MAX_SEGMENTS } else { 20 };
        let mut spec = next_spec(&specs, &mut random, limit);
        make_mergeable(&mut spec);
        let (payload, kernels) = segment_by(&mut kernel, &mut spec);
        let mut left = Vec::new();
        let mut add = |received: Received<'_>| match received {
            Received::Packet(packet) => left.push((packet.to_vec(), 1)),
            Received::Merged(merged) => {
                let parts = std::iter::once(merged.headers()).chain(merged.payload());
                left.push((parts.flatten().copied().collect(), merged.packets));
            }
        };
        for segment in &kernels {
            let mut pieces = segment.chunks(FRAME_ROOM).map(|piece| {
                let mut frag = Frag::empty(buffers.frames().take().unwrap(), 0);
                assert!(frag.append(piece));
                frag
            });
            let first = pieces.next().unwrap();
            gro.receive(builder.build_of(first, pieces.collect()), &mut add);
        }
        gro.flush(&mut add);
        let packets = kernels.len() as u32;
        let whole = match &kernels[..] {
            [alone] => alone.clone(),
            _ => [&spec.headers()[..], &payload].concat(),
        };
        assert!(left == [(whole, packets)], "{spec:?}: {} packets left", left.len());
    }
}
