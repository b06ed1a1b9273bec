//! The header walk against the kernel's own answers.

use std::{collections::HashMap, fs, io::Read, path::PathBuf};

use nic_common::{frame::Frame, headers::HeaderInfo};
use serde::{Deserialize, de::DeserializeOwned};

#[derive(Deserialize)]
struct Row {
    name: String,
    hex: String,
    headlen: u32,
}

#[derive(Deserialize)]
struct Cut {
    name: String,
    from: usize,
    headlen: Vec<u32>,
}

fn rows<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/headlen").join(file);
    let bytes = fs::read(&path).unwrap();
    let mut text = String::new();
    if file.ends_with(".zst") {
        let mut reader = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).unwrap();
        reader.read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

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

#[test]
fn equals_the_kernel_on_named_frames() {
    for row in rows::<Row>("basic.jsonl") {
        assert_eq!(header_len(&row.name, &bytes(&row.hex)), row.headlen, "{}", row.name);
    }
}

#[test]
fn equals_the_kernel_on_mutated_frames() {
    for row in rows::<Row>("mutated.jsonl.zst") {
        assert_eq!(header_len(&row.name, &bytes(&row.hex)), row.headlen, "{}", row.name);
    }
}

#[test]
fn equals_the_kernel_on_frames_cut_anywhere() {
    let frames: HashMap<String, Vec<u8>> =
        rows::<Row>("basic.jsonl").into_iter().map(|row| (row.name, bytes(&row.hex))).collect();
    for cut in rows::<Cut>("truncated.jsonl.zst") {
        let frame = &frames[&cut.name];
        for (i, expected) in cut.headlen.iter().enumerate() {
            let len = cut.from + i;
            assert_eq!(
                header_len(&cut.name, &frame[..len]),
                *expected,
                "{} cut to {len}",
                cut.name
            );
        }
    }
}

#[test]
fn a_frame_shorter_than_ethernet_is_all_header() {
    for len in 0..14 {
        assert_eq!(header_len("short", &vec![0xff; len]), u32::try_from(len).unwrap());
    }
}
