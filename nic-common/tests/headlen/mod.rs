//! The frames whose header lengths the kernel has told, as the README beside this describes.

use std::{collections::HashMap, fs, io::Read};

use serde::{Deserialize, de::DeserializeOwned};

/// A frame, and how long the kernel says its headers are.
pub struct Known {
    pub name: String,
    pub frame: Vec<u8>,
    pub header_len: u32,
}

/// Stacks of headers, each with its name.
pub fn named() -> Vec<Known> {
    whole("basic.jsonl")
}

/// Frames with bytes changed, and others that make no sense.
pub fn mutated() -> Vec<Known> {
    whole("mutated.jsonl.zst")
}

/// The named frames, cut anywhere.
pub fn cut() -> Vec<Known> {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        from: usize,
        headlen: Vec<u32>,
    }
    let named: HashMap<_, _> = named().into_iter().map(|one| (one.name, one.frame)).collect();
    let cuts = rows::<Row>("truncated.jsonl.zst").into_iter().flat_map(|row| {
        let whole = &named[&row.name];
        (row.from..).zip(row.headlen).map(move |(len, header_len)| Known {
            name: format!("{} cut to {len}", row.name),
            frame: whole[..len].to_vec(),
            header_len,
        })
    });
    cuts.collect()
}

fn whole(file: &str) -> Vec<Known> {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        hex: String,
        headlen: u32,
    }
    let known = |row: Row| Known { name: row.name, frame: hex(&row.hex), header_len: row.headlen };
    rows(file).into_iter().map(known).collect()
}

fn rows<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../nic-common/tests/headlen");
    let bytes = fs::read(format!("{directory}/{file}")).unwrap();
    let mut text = String::new();
    if file.ends_with(".zst") {
        let mut reader = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).unwrap();
        reader.read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bytes that are written as `text`.
pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
