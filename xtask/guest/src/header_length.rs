//! The header walk, against the kernel's own and against itself in BPF.

use std::time::{Duration, Instant};

use nic_common::{headers::HeaderInfo, policy::CopyPolicy};
use nic_user::{
    decode::{Native, Walker},
    offload::BpfWalker,
};

use crate::{Guest, Outcome, frames::Frames, kernel_answers::KernelAnswers};

/// An Ethernet header: the kernel takes no shorter frame.
pub const SHORTEST: usize = 14;

const SEED: u64 = 0x6e69_6363_746c;
const BATCH: usize = 1000;
const FRAMES: usize = 200_000;
const BPF_FRAMES: usize = 20_000;
/// Emulation may be slow: what was not compared by then is not.
const TIME: Duration = Duration::from_secs(30);

/// PPPoE, IPv4 by a protocol field of one byte ([`ppp_in_one_byte`]).
const COMPRESSED: &[u8] = &[
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0x64, 0x11, 0, 0, 1, 0, 29, 0x21, 0x45, 0, 0, 28, 0,
    1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 1, 0, 8, 0, 0,
];

pub fn header_lengths_are_the_kernels(_: &Guest) -> Outcome {
    let mut kernel = KernelAnswers::new();
    let follows_compressed = kernel.header_lengths(&[COMPRESSED.to_vec()])[0] > 14 + 8;
    let mut frames = Frames::new(SEED);
    let (mut compared, mut left_out) = (0, 0);
    let start = Instant::now();
    while compared < FRAMES && start.elapsed() < TIME {
        let mut batch: Vec<_> = frames.by_ref().take(BATCH).collect();
        if follows_compressed {
            batch.retain(|frame| !ppp_in_one_byte(frame));
            left_out += BATCH - batch.len();
        }
        for (frame, theirs) in batch.iter().zip(kernel.header_lengths(&batch)) {
            let ours = HeaderInfo::of(frame.as_slice()).header_len;
            assert_eq!(ours, theirs, "ours and the kernel's, of {}", hex(frame));
        }
        compared += batch.len();
    }
    println!(
        "{compared} frames in {:.1} s: no difference to eth_get_headlen",
        start.elapsed().as_secs_f32()
    );
    if follows_compressed {
        println!("{left_out} frames left out: this kernel walks on behind compressed PPP");
    }
    Outcome::Passed
}

/// PPPoE with a PPP protocol field of one byte: releases differ in whether they walk on behind it
/// ("flow_dissector: do not dissect PPPoE PFC frames").
fn ppp_in_one_byte(frame: &[u8]) -> bool {
    frame.windows(9).any(|bytes| bytes[..4] == [0x88, 0x64, 0x11, 0] && bytes[8] & 1 == 1)
}

pub fn bpf_walks_like_the_native_code(_: &Guest) -> Outcome {
    let start = Instant::now();
    let mut bpf = BpfWalker::load().unwrap();
    println!("program loaded in {:.2} s", start.elapsed().as_secs_f32());
    let policy = CopyPolicy::DEFAULT;
    let start = Instant::now();
    let (mut compared, mut unparsed) = (0, 0);
    for frame in Frames::new(SEED).take(BPF_FRAMES) {
        let theirs = bpf.headers(&frame, policy).unwrap().unwrap();
        if theirs.headers.is_unparsed() {
            unparsed += 1;
        } else {
            let ours = Native.headers(&frame, policy).unwrap().unwrap();
            assert_eq!(theirs, ours, "by BPF and by the native code, of {}", hex(&frame));
        }
        compared += 1;
    }
    let seconds = start.elapsed().as_secs_f32();
    println!("{compared} frames in {seconds:.1} s: no difference, {unparsed} unparsed");
    Outcome::Passed
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}
