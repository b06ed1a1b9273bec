//! Our segmentation beside the kernel's.

mod common;
mod kernel_segmenter;
mod super_packets;
mod tap;

use kernel_segmenter::{KernelSegmenter, MAX_SEGMENTS};
use nic_user::driver::segment::Ids;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use super_packets::{Ip, Spec, segment, specs};

const PACKETS: usize = 10_000;

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
        let (payload, kernels) = loop {
            let payload = spec.payload();
            match kernel.segment(&spec, &payload) {
                Some(segments) => break (payload, segments),
                None => spec.payload_len /= 2,
            }
        };
        assert_same(&spec, &segment(&spec, &payload, Ids::Increment), &kernels);
        segments += kernels.len();
        big += usize::from(payload.len() > 65_535);
    }
    assert!(segments > 8 * PACKETS && big > PACKETS / 50, "{segments} segments, {big} big");
}
