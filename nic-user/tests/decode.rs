//! `nicctl decode` as a user runs it, against the kernel's own header lengths and against captures
//! that are damaged in every way.

mod captures;
mod common;
#[path = "../../nic-common/tests/headlen/mod.rs"]
mod headlen;

use std::{
    ffi::OsStr,
    fs,
    io::{Cursor, Read, Write},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use captures::{
    Order, ng_block, ng_interface, ng_interface_with_fcs, ng_packet, ng_section, pcap, pcap_packet,
};
use headlen::{Known, hex};
use nic_user::decode::{self, Input};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

const ETHERNET: u32 = 1;

/// TCP over IPv4 with 26 bytes of payload; 66 bytes of headers.
const TCP: &str = "02000000000202000000000108004500004e000100004006f6a5c0000201c00002029c4001bb000003\
                   e8000007d08018fde8ae4e00000101080a00000002000000010001020304050607\
                   08090a0b0c0d0e0f10111213141516171819";

fn nicctl() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nicctl"))
}

fn decode(args: &[impl AsRef<OsStr>]) -> Output {
    nicctl().arg("decode").args(args).stdin(Stdio::null()).output().unwrap()
}

fn decode_stdin(args: &[&str], input: &[u8]) -> Output {
    let mut child = nicctl()
        .arg("decode")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn assert_fails(output: &Output, code: i32, message: &str) {
    assert_eq!(stderr(output), format!("nicctl: {message}\n"));
    assert_eq!(output.status.code(), Some(code));
}

/// The rows of a run that went well.
#[track_caller]
fn rows(output: &Output) -> Vec<Value> {
    assert_eq!(stderr(output), "");
    assert_eq!(output.status.code(), Some(0));
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(dir: &TempDir, name: impl AsRef<OsStr>, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name.as_ref());
    fs::write(&path, bytes).unwrap();
    path
}

/// `frames` through `nicctl decode`: each has its header length, and nothing is unparsed.
#[track_caller]
fn assert_header_lengths(frames: &[Known]) {
    let dir = TempDir::new().unwrap();
    let file = write(&dir, "frames.pcap", &pcap(ETHERNET, frames.iter().map(|known| &known.frame)));
    let rows = rows(&decode(&[OsStr::new("--json"), file.as_os_str()]));
    assert_eq!(rows.len(), frames.len());
    for (index, (row, Known { frame, header_len, .. })) in rows.iter().zip(frames).enumerate() {
        assert_eq!(row["index"], index);
        assert_eq!(row["len"], frame.len());
        assert_eq!(row["header_len"], *header_len, "{row}");
        assert_eq!(row["unparsed"], false, "{row}");
    }
    // The kernel program says the same, field by field.
    if nix::unistd::geteuid().is_root() {
        let args = [OsStr::new("--json"), OsStr::new("--bpf"), file.as_os_str()];
        assert_eq!(self::rows(&decode(&args)), rows);
    } else {
        common::say_skipped("decode --bpf needs root");
    }
}

#[test]
fn named_frames_have_the_kernels_header_lengths() {
    assert_header_lengths(&headlen::named());
}

#[test]
fn mutated_frames_have_the_kernels_header_lengths() {
    assert_header_lengths(&headlen::mutated());
}

#[test]
fn frames_cut_anywhere_have_the_kernels_header_lengths() {
    let frames = headlen::cut();
    assert!(frames.len() > 50_000);
    assert_header_lengths(&frames);
}

#[test]
fn jumbo_frames_are_split() {
    let mut jumbo = hex(TCP);
    jumbo.resize(9014, 0);
    let dir = TempDir::new().unwrap();
    let file = write(&dir, "jumbo.pcap", &pcap(ETHERNET, [&jumbo]));
    let row = &rows(&decode(&[OsStr::new("--json"), file.as_os_str()]))[0];
    assert_eq!((&row["len"], &row["header_len"]), (&9014.into(), &66.into()));
    assert_eq!(row["verdict"], "split");
}

#[test]
fn a_row_says_everything_about_a_frame() {
    let output = decode(&["--json", "--hex", TCP]);
    let expected = r#"{"version":1,"index":0,"len":92,"original_len":92,"header_len":66,"l3":"ipv4","l4":"tcp","l3_offset":14,"l4_offset":34,"vlan_depth":0,"verdict":"copy","vlan":false,"tunnel":false,"first_fragment":false,"later_fragment":false,"jumbo":false,"malformed":false,"unparsed":false,"truncated":false}"#;
    assert_eq!(stdout(&output), format!("{expected}\n"));
}

#[test]
fn text_has_a_heading_and_aligned_rows() {
    let lldp = "0180c200000e02000000000188cc0207";
    let output = decode(&["--hex", TCP, "--hex", lldp, "--hex", "0200"]);
    let expected = "FRAME      LEN  HEAD  L3         L4             VERDICT  NOTES
    0       92    66  ipv4@14    tcp@34         copy
    1       16    14  0x88cc@14  -              copy
    2        2     2  -          -              copy     malformed
";
    assert_eq!(stdout(&output), expected);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn no_row_is_wider_than_80_columns() {
    let dir = TempDir::new().unwrap();
    let frames = headlen::mutated().into_iter().map(|known| known.frame);
    let output = decode(&[write(&dir, "frames.pcap", &pcap(ETHERNET, frames))]);
    let widest = stdout(&output).lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest}");
}

#[test]
fn the_policy_decides_the_verdict() {
    let verdict = |args: &[&str]| {
        let output = decode(&[args, &["--json", "--hex", TCP]].concat());
        rows(&output)[0]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict(&["--rx-copybreak", "92"]), "copy");
    assert_eq!(verdict(&["--rx-copybreak", "91"]), "split");
    assert_eq!(verdict(&["--rx-copybreak", "0", "--max-linear", "66"]), "split");
    assert_eq!(verdict(&["--rx-copybreak", "0", "--max-linear", "65"]), "whole");
    assert_eq!(verdict(&["--rx-copybreak", "0", "--split", "off"]), "whole");
}

#[test]
fn hex_is_taken_as_people_write_it() {
    let colons: Vec<_> = hex(TCP).iter().map(|byte| format!("{byte:02X}")).collect();
    let spaced: Vec<_> = hex(TCP).iter().map(|byte| format!("0x{byte:02x}")).collect();
    let output = decode(&[
        "--json",
        "--hex",
        &colons.join(":"),
        "--hex",
        &spaced.join(" \n"),
        "--hex",
        &format!("0x{TCP}"),
    ]);
    assert_eq!(rows(&output).iter().filter(|row| row["header_len"] == 66).count(), 3);
}

#[test]
fn hex_lines_come_from_standard_input() {
    let output = decode_stdin(&["--json", "--hex", "-"], format!("{TCP}\n\n{TCP}").as_bytes());
    assert_eq!(rows(&output).len(), 2);
}

#[test]
fn bad_hex_is_a_usage_error_that_names_the_place() {
    let output = decode(&["--hex", "0200", "--hex", "02zz"]);
    assert_eq!(stdout(&output).lines().count(), 2, "the frame before it is shown");
    assert_fails(&output, 2, "hex frame 2: 'z' at character 3 is not a hex digit");
    assert_fails(&decode(&["--hex", "020"]), 2, "hex frame 1: half a byte at the end, character 3");
    assert_fails(&decode(&["--hex", ""]), 2, "hex frame 1: no hex digits");
    assert_fails(
        &decode_stdin(&["--hex", "-"], b"0200\n\n0g"),
        2,
        "standard input, line 3: 'g' at character 2 is not a hex digit",
    );
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for args in [
        &[][..],
        &["x.pcap", "--hex", "00"],
        &["--hex", "00", "--rx-copybreak", "2049"],
        &["--hex", "00", "--rx-copybreak", "-1"],
        &["--hex", "00", "--max-linear", "x"],
        &["--hex", "00", "--split", "maybe"],
        &["--nonsense"],
    ] {
        let output = decode(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).starts_with("error: "), "{args:?}");
        assert_eq!(stdout(&output), "");
    }
    let not_utf8 = decode(&[OsStr::new("--hex"), OsStr::from_bytes(b"\xff")]);
    assert_eq!(not_utf8.status.code(), Some(2));
}

#[test]
fn files_that_cannot_be_opened_get_the_systems_words() {
    assert_fails(
        &decode(&["/nonexistent/x.pcap"]),
        1,
        "open /nonexistent/x.pcap: No such file or directory (os error 2)",
    );
    assert_fails(&decode(&["/"]), 1, "read /: Is a directory (os error 21)");
}

#[test]
fn a_file_name_need_not_be_utf8() {
    let dir = TempDir::new().unwrap();
    let name = OsStr::from_bytes(b"trace\xff.pcap");
    let file = write(&dir, name, &pcap(ETHERNET, [hex(TCP)]));
    assert_eq!(rows(&decode(&[OsStr::new("--json"), file.as_os_str()])).len(), 1);
    fs::remove_file(&file).unwrap();
    assert_eq!(decode(&[file]).status.code(), Some(1));
}

#[test]
fn captures_in_every_format_and_byte_order() {
    let tcp = hex(TCP);
    let header = |magic: [u8; 4], order: Order| {
        [&magic[..], &order.u16(2), &order.u16(4), &[0; 8], &order.u32(65535), &order.u32(ETHERNET)]
            .concat()
    };
    let record = |order: Order, more: usize| {
        let len = order.u32(tcp.len() as u32);
        [&[0; 8], &len[..], &len, &vec![0; more], &tcp].concat()
    };
    let nanoseconds =
        [header([0x4d, 0x3c, 0xb2, 0xa1], Order::Little), record(Order::Little, 0)].concat();
    let big = [header([0xa1, 0xb2, 0xc3, 0xd4], Order::Big), record(Order::Big, 0)].concat();
    let modified =
        [header([0x34, 0xcd, 0xb2, 0xa1], Order::Little), record(Order::Little, 8)].concat();
    let ng = |order: Order| {
        let simple = [&order.u32(tcp.len() as u32)[..], &tcp].concat();
        let old = [&[0; 12], &order.u32(tcp.len() as u32)[..], &order.u32(92), &tcp].concat();
        [
            ng_section(order),
            ng_interface(order, ETHERNET),
            ng_block(order, 5, &[0; 12]),
            ng_packet(order, 0, &tcp, 92),
            ng_block(order, 3, &simple),
            ng_block(order, 2, &old),
        ]
        .concat()
    };
    let both = [ng(Order::Little), ng(Order::Big)].concat();
    for (capture, frames) in [(nanoseconds, 1), (big, 1), (modified, 1), (both, 6)] {
        let rows = rows(&decode_stdin(&["--json", "-"], &capture));
        assert_eq!(rows.len(), frames);
        assert!(rows.iter().all(|row| row["len"] == 92 && row["header_len"] == 66), "{rows:?}");
    }
}

#[test]
fn what_was_captured_in_part_is_decoded_and_marked() {
    let tcp = hex(TCP);
    let interface = [&1u16.to_le_bytes()[..], &[0; 2], &60u32.to_le_bytes()].concat();
    let capture = [
        ng_section(Order::Little),
        ng_block(Order::Little, 1, &interface),
        ng_packet(Order::Little, 0, &tcp[..60], 92),
        ng_block(Order::Little, 3, &[&92u32.to_le_bytes()[..], &tcp[..60]].concat()),
    ]
    .concat();
    let rows = rows(&decode_stdin(&["--json", "-"], &capture));
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((&row["len"], &row["original_len"]), (&60.into(), &92.into()));
        assert_eq!((&row["header_len"], &row["truncated"]), (&66.into(), &true.into()));
        assert_eq!((&row["malformed"], &row["verdict"]), (&false.into(), &"copy".into()));
    }
    let text = decode_stdin(&["-"], &capture);
    assert!(stdout(&text).ends_with("copy     truncated\n"));
}

#[test]
fn a_snap_length_changes_no_verdict_and_damages_no_frame() {
    let mut long = hex(TCP);
    long.resize(1514, 0);
    long[16..18].copy_from_slice(&1500_u16.to_be_bytes());
    for (snap, header_len, unparsed) in [(96, 66, false), (47, 66, false), (46, 34, true)] {
        let capture = [pcap(ETHERNET, [[0; 0]; 0]), pcap_packet(&long[..snap], 1514)].concat();
        let output = decode_stdin(&["--json", "-"], &capture);
        let row = &rows(&output)[0];
        assert_eq!(row["verdict"], "split", "{row}");
        assert_eq!((&row["header_len"], &row["unparsed"]), (&header_len.into(), &unparsed.into()));
        assert_eq!((&row["malformed"], &row["truncated"]), (&false.into(), &true.into()), "{row}");
    }
    // What is wrong with the frame itself is still told.
    long[14] = 0x41;
    let capture = [pcap(ETHERNET, [[0; 0]; 0]), pcap_packet(&long[..96], 1514)].concat();
    assert_eq!(rows(&decode_stdin(&["--json", "-"], &capture))[0]["malformed"], true);
}

#[test]
fn the_fcs_is_no_part_of_a_frame() {
    let mut frame = hex(TCP);
    frame.resize(256, 0);
    let with_fcs = [&frame[..], b"fcs!"].concat();
    let known = 1 << 26;
    let ng = |interface: Vec<u8>, captured: &[u8], len| {
        [ng_section(Order::Big), interface, ng_packet(Order::Big, 0, captured, len)].concat()
    };
    let with_option = |fcs| ng_interface_with_fcs(Order::Big, ETHERNET, fcs);
    // `epb_flags`, which says what is so for this one packet.
    let flags = |fcs: u32| {
        let order = Order::Big;
        let packet =
            [&order.u32(0)[..], &[0; 8], &order.u32(260), &order.u32(260), &with_fcs].concat();
        let options = [&order.u16(2)[..], &order.u16(4), &order.u32(fcs << 5), &[0; 4]].concat();
        let block = ng_block(order, 6, &[packet, options].concat());
        [ng_section(order), with_option(0), block].concat()
    };
    for (capture, len, captured) in [
        (pcap(ETHERNET | known | 4 << 28, [&with_fcs]), 256, 256),
        (pcap(ETHERNET | known | 2 << 28, [&with_fcs]), 256, 256),
        (pcap(ETHERNET | known, [&with_fcs]), 260, 260),
        (pcap(ETHERNET | 4 << 28, [&with_fcs]), 260, 260),
        (ng(with_option(4), &with_fcs, 260), 256, 256),
        (ng(with_option(32), &with_fcs, 260), 256, 256),
        (ng(with_option(0), &with_fcs, 260), 260, 260),
        // Cut where the FCS begins, in it, and before it.
        (ng(with_option(4), &with_fcs[..256], 260), 256, 256),
        (ng(with_option(4), &with_fcs[..258], 260), 256, 256),
        (ng(with_option(4), &with_fcs[..100], 260), 256, 100),
        (flags(4), 256, 256),
        (flags(0), 260, 260),
    ] {
        let row = &rows(&decode_stdin(&["--json", "-"], &capture))[0];
        assert_eq!((&row["original_len"], &row["len"]), (&len.into(), &captured.into()), "{row}");
        assert_eq!(row["verdict"], if len == 256 { "copy" } else { "split" });
        assert_eq!(row["truncated"], captured < len);
    }
}

/// The packet of [`TCP`] behind a link's header.
fn behind(link_header: &[u8]) -> Vec<u8> {
    [link_header, &hex(TCP)[14..]].concat()
}

#[test]
fn packets_behind_other_links_are_read() {
    let sll = [&[0; 14][..], &[8, 0]].concat();
    let sll2 = [&[8, 0][..], &[0; 18]].concat();
    let links: [(u32, &[u8]); 10] = [
        (113, &sll),
        (276, &sll2),
        (101, &[]),
        (12, &[]),
        (14, &[]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (0, &[0, 0, 0, 2]),
        (108, &[0, 0, 0, 2]),
        (ETHERNET, &hex(TCP)[..14]),
    ];
    for (link, header) in links {
        let row = &rows(&decode_stdin(&["--json", "-"], &pcap(link, [behind(header)])))[0];
        let at = header.len();
        assert_eq!((&row["l3"], &row["l3_offset"]), (&"ipv4".into(), &at.into()), "{link}: {row}");
        assert_eq!((&row["l4"], &row["l4_offset"]), (&"tcp".into(), &(at + 20).into()), "{row}");
        assert_eq!((&row["header_len"], &row["malformed"]), (&(at + 52).into(), &false.into()));
        assert_eq!(row["len"], at + 78);
    }
    let ipv6 = [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &[1; 32], &[0, 1, 0, 2, 0, 8, 0, 0]].concat();
    for (link, header) in [(101, &[][..]), (229, &[]), (0, &[30, 0, 0, 0]), (108, &[0, 0, 0, 24])] {
        let packet = [header, &ipv6].concat();
        let row = &rows(&decode_stdin(&["--json", "-"], &pcap(link, [packet])))[0];
        assert_eq!((&row["l3"], &row["l4"]), (&"ipv6".into(), &"udp".into()), "{link}: {row}");
        assert_eq!(
            (&row["header_len"], &row["malformed"]),
            (&(header.len() + 48).into(), &false.into())
        );
    }
    for link in [113, 276, 0, 108, 101] {
        let row = &rows(&decode_stdin(&["--json", "-"], &pcap(link, [[0; 0]])))[0];
        assert_eq!((&row["header_len"], &row["original_len"]), (&0.into(), &0.into()), "{link}");
    }
}

#[test]
fn frames_of_unknown_links_are_counted_and_passed_over() {
    let order = Order::Little;
    let (tcp, other) = (hex(TCP), [0; 20]);
    let capture = [
        ng_section(order),
        ng_interface(order, 1),
        ng_interface(order, 105),
        ng_interface(order, 999),
        ng_packet(order, 1, &other, 20),
        ng_packet(order, 0, &tcp, 92),
        ng_packet(order, 1, &other, 20),
        ng_packet(order, 2, &other, 20),
        ng_packet(order, 0, &tcp, 92),
    ]
    .concat();
    let said = "nicctl: skipped frames that nicctl cannot decode: 2 of link type IEEE 802.11 \
                (105), 1 of link type 999\n";
    let output = decode_stdin(&["--json", "-"], &capture);
    assert_eq!((stderr(&output), output.status.code()), (said, Some(0)));
    let indices = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["index"].as_u64().unwrap());
    assert_eq!(indices.collect::<Vec<_>>(), [1, 4]);
    let text = decode_stdin(&["-"], &capture);
    assert_eq!(stdout(&text).lines().count(), 3, "a heading and two rows");
    assert_eq!(stderr(&text), said);
}

#[test]
fn frames_that_the_kernel_does_not_run_are_told() {
    needs_root!();
    let mut huge = hex(TCP);
    huge.resize(256 << 10, 0);
    let capture = pcap(ETHERNET, [&huge, &hex(TCP)]);
    let output = decode_stdin(&["--bpf", "--json", "-"], &capture);
    assert!(
        stderr(&output).starts_with("nicctl: 1 frames that the kernel cannot run"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), stdout(&decode_stdin(&["--json", "-"], &capture)));
    let raw = decode_stdin(&["--bpf", "--json", "-"], &pcap(101, [behind(&[])]));
    assert!(stderr(&raw).starts_with("nicctl: 1 frames"), "{}", stderr(&raw));
}

#[test]
fn a_damaged_capture_is_shown_up_to_where_it_is_damaged() {
    let tcp = hex(TCP);
    let good = pcap(ETHERNET, [&tcp, &tcp]);
    let too_long = [&good[..], &[0; 8], &(20u32 << 20).to_le_bytes(), &[0; 4]].concat();
    let ng = [
        ng_section(Order::Little),
        ng_interface(Order::Little, 1),
        ng_packet(Order::Little, 0, &tcp, 92),
    ]
    .concat();
    let mut lengths_differ = ng.clone();
    *lengths_differ.last_mut().unwrap() ^= 1;
    let no_interface = [&ng[..], &ng_packet(Order::Little, 7, &tcp, 92)].concat();
    let odd_block = [&ng[..], &[9, 0, 0, 0, 13, 0, 0, 0]].concat();
    let old = ng_section(Order::Little);
    let version = |major: u8| [&old[..12], &[major], &old[13..]].concat();
    let (version, no_magic) = (version(2), [&old[..8], &[0; 4], &old[12..]].concat());
    let short = ng_block(Order::Little, 0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
    let mut overlong = ng.clone();
    overlong[68] = 200;
    let simple = [ng_section(Order::Little), ng_block(Order::Little, 3, &[92, 0, 0, 0])].concat();
    let short_interface = [ng_section(Order::Little), ng_block(Order::Little, 1, &[0; 4])].concat();
    let mut pcap_version = good.clone();
    pcap_version[4] = 3;
    let cases: [(&[u8], usize, &str); 16] = [
        (b"", 0, "it is empty"),
        (b"hello world", 0, "neither pcap nor pcapng"),
        (&good[..good.len() - 1], 1, "byte 239: it ends inside a packet"),
        (&good[..135], 1, "byte 135: it ends inside a packet's header"),
        (
            &too_long,
            2,
            "byte 240: packet 2: 20971520 bytes captured, but no frame exceeds 16777216",
        ),
        (
            &lengths_differ,
            0,
            "byte 48: enhanced packet block: its length is 124 at its start and 16777340 at its end",
        ),
        (
            &no_interface,
            1,
            "byte 172: enhanced packet block: it belongs to interface 7, but its section has 1",
        ),
        (&odd_block, 1, "byte 172: block of type 9: its length of 13 bytes is not a multiple of 4"),
        (
            &[&ng[..], &[9, 0, 0, 0, 8, 0, 0, 0]].concat(),
            1,
            "byte 172: block of type 9: its length of 8 bytes is less than the 12 of an empty one",
        ),
        (&version, 0, "byte 0: section header: version 2.0 is not supported, only 1"),
        (&no_magic, 0, "byte 0: section header: 0x00000000 is not the byte-order magic 0x1a2b3c4d"),
        (&short, 0, "byte 0: section header: 8 bytes, but its fields need 16"),
        (&overlong, 0, "byte 48: enhanced packet block: 200 bytes captured, but it holds only 92"),
        (
            &simple,
            0,
            "byte 28: simple packet block: it belongs to interface 0, but its section has 0",
        ),
        (&short_interface, 0, "byte 28: interface description: 4 bytes, but its fields need 8"),
        (&pcap_version, 0, "byte 4: file header: version 3 is not supported, only 2"),
    ];
    for (capture, frames, message) in cases {
        let output = decode_stdin(&["--json", "-"], capture);
        // Where there is no frame, the error is the document.
        assert_eq!(stdout(&output).lines().count(), frames.max(1), "{message}");
        assert_eq!(stdout(&output).contains(r#""error":"#), frames == 0, "{message}");
        assert_fails(&output, 1, &format!("standard input: {message}"));
    }
}

#[test]
fn a_compressed_capture_is_recognized() {
    assert_fails(
        &decode_stdin(&["-"], &[0x1f, 0x8b, 8, 0]),
        1,
        "standard input: neither pcap nor pcapng\n  \
         fix: it is compressed: gzip -dc FILE | nicctl decode -",
    );
}

#[test]
fn other_link_types_are_refused_by_name() {
    let fix = "\n  fix: capture on one Ethernet interface: tcpdump -i IFACE -w FILE";
    for (link, name) in [(105, "IEEE 802.11 (105)"), (999, "999")] {
        let message =
            format!("standard input: its link type is {name}, which nicctl cannot decode{fix}");
        assert_fails(&decode_stdin(&["-"], &pcap(link, [hex(TCP)])), 1, &message);
        let ng = [
            ng_section(Order::Little),
            ng_interface(Order::Little, link),
            ng_packet(Order::Little, 0, &hex(TCP), 92),
        ];
        let message =
            format!("skipped frames that nicctl cannot decode: 1 of link type {name}{fix}");
        assert_fails(&decode_stdin(&["-"], &ng.concat()), 1, &message);
    }
}

#[test]
fn rows_come_while_the_capture_goes_on() {
    let mut child = nicctl()
        .args(["decode", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&pcap(ETHERNET, [hex(TCP)])).unwrap();
    let mut first = [0; 12];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"{\"version\":1");
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_has_had_enough_is_a_success() {
    let dir = TempDir::new().unwrap();
    let frames = vec![hex(TCP); 50_000];
    let file = write(&dir, "big.pcap", &pcap(ETHERNET, &frames));
    let file = file.to_str().unwrap();
    for args in [&["decode", file][..], &["decode", "--json", file], &["man"], &["schema"]] {
        let mut child =
            nicctl().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = nicctl().args(["decode", "--hex", TCP]).stdout(full).output().unwrap();
    let message =
        "done, but standard output could not be written: No space left on device (os error 28)";
    assert_fails(&output, 6, message);
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        format in 0..4usize,
        noise in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let start = match format {
            0 => Vec::new(),
            1 => pcap(ETHERNET, [[0; 0]; 0]),
            2 => [ng_section(Order::Little), ng_interface(Order::Little, 1)].concat(),
            _ => [ng_section(Order::Big), ng_interface(Order::Big, 1)].concat(),
        };
        read_all([start, noise].concat());
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        format in 0..3usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let tcp = hex(TCP);
        let ng = |order| {
            [ng_section(order), ng_interface(order, 1), ng_packet(order, 0, &tcp, 92)].concat()
        };
        let mut capture = match format {
            0 => pcap(ETHERNET, [&tcp, &tcp]),
            1 => ng(Order::Little),
            _ => ng(Order::Big),
        };
        for (at, byte) in damage {
            *at.get_mut(&mut capture) = byte;
        }
        capture.truncate(cut.index(capture.len()) + 1);
        read_all(capture);
    }
}

fn read_all(capture: Vec<u8>) {
    let input = Input::new("noise", Box::new(Cursor::new(capture)));
    if let Ok(mut frames) = decode::open(input) {
        while let Ok(Some(_)) = frames.next() {}
    }
}
