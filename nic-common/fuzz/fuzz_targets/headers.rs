//! Any bytes as a frame: the walk, the decision and the metadata keep their promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nic_common::{
    frame::Frame,
    headers::HeaderInfo,
    metadata::Metadata,
    policy::{CopyPolicy, Verdict},
};

fuzz_target!(|bytes: &[u8]| {
    // The last bytes choose the policy, so that a frame as it is on the wire is good input.
    let Some((frame, policy)) = bytes.split_last_chunk::<4>() else { return };
    let info = HeaderInfo::of(frame);
    check_walk(frame, &info);
    check_decision(policy_of(*policy), Frame::len(frame), &info);
    check_metadata(info);
});

fn policy_of([copybreak, copybreak_high, linear, linear_high]: [u8; 4]) -> CopyPolicy {
    CopyPolicy {
        rx_copybreak: u16::from_le_bytes([copybreak, copybreak_high & 0x0f]),
        max_linear: u16::from_le_bytes([linear, linear_high & 0x0f]),
        split: linear_high & 0x80 == 0,
    }
}

/// Offsets in order and inside the frame; the fast walk says what the whole walk says.
fn check_walk(frame: &[u8], info: &HeaderInfo) {
    assert!(info.l3_offset <= info.l4_offset, "{info:?}");
    assert!(info.header_len <= Frame::len(frame), "{info:?}");
    assert!(!info.is_unparsed(), "every byte of a slice can be read: {info:?}");
    if let Some(common) = HeaderInfo::of_common(frame) {
        assert_eq!(common, *info, "fast walk against whole walk");
    }
}

/// The verdict is what the policy's documentation says, also after its way through the map.
fn check_decision(policy: CopyPolicy, len: u32, info: &HeaderInfo) {
    assert_eq!(CopyPolicy::from_word(policy.to_word()), policy);
    let verdict = policy.decide(len, info);
    let copied = verdict.copied(len, info.header_len);
    match verdict {
        Verdict::Copy => assert!(len <= u32::from(policy.rx_copybreak) && copied == len),
        Verdict::Split => {
            assert!(policy.split && len > u32::from(policy.rx_copybreak));
            assert!(copied <= u32::from(policy.max_linear) && copied < len);
        }
        Verdict::Whole => {
            assert!(len > u32::from(policy.rx_copybreak) && copied == 0);
            let fits = info.header_len <= u32::from(policy.max_linear) && info.header_len < len;
            assert!(!policy.split || !fits);
        }
    }
}

/// What goes in front of a frame comes out again; no input here has headers beyond 65,535 bytes.
fn check_metadata(headers: HeaderInfo) {
    let metadata = Metadata { headers, queue: 3 };
    assert_eq!(Metadata::from_words(metadata.to_words()), Some(metadata));
}
