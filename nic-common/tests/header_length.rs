//! The header walk against the kernel's own answers.

mod headlen;

use headlen::Known;
use nic_common::{frame::Frame, headers::HeaderInfo};

/// Both walks of one frame; the fast one, where it answers, says the same.
fn header_len(name: &str, frame: &[u8]) -> u32 {
    let info = HeaderInfo::of(frame);
    assert!(!info.is_unparsed(), "{name}: unparsed");
    if let Some(common) = HeaderInfo::of_common(frame) {
        assert_eq!(common, info, "{name}: fast walk against whole walk");
    }
    assert!(info.header_len <= Frame::len(frame), "{name}: longer than the frame");
    info.header_len
}

fn assert_equal_the_kernel(frames: &[Known]) {
    for Known { name, frame, header_len: expected } in frames {
        assert_eq!(header_len(name, frame), *expected, "{name}");
    }
}

#[test]
fn equals_the_kernel_on_named_frames() {
    assert_equal_the_kernel(&headlen::named());
}

#[test]
fn equals_the_kernel_on_mutated_frames() {
    assert_equal_the_kernel(&headlen::mutated());
}

#[test]
fn equals_the_kernel_on_frames_cut_anywhere() {
    assert_equal_the_kernel(&headlen::cut());
}

#[test]
fn a_frame_shorter_than_ethernet_is_all_header() {
    for len in 0..14 {
        assert_eq!(header_len("short", &vec![0xff; len]), u32::try_from(len).unwrap());
    }
}
