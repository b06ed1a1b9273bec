//! Captures made to hurt: whatever they claim, memory stays bounded and the end comes.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

use crate::{assert_done, assert_refused, nicctl};

/// Far less than what the captures claim, and enough for the largest frame that is read.
const MEMORY: libc::rlim_t = 256 << 20;

const PCAP: &[u8] = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0";
const SECTION: &[u8] = b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\
    \xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0";

/// decode, in little memory.
fn decode(args: &[&str]) -> Command {
    let mut command = nicctl(&["decode"]);
    command.args(args);
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    let restrict = move || {
        // SAFETY: setrlimit(2) reads `limit`, which outlives the call.
        match unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure only makes a system call, as is permitted between fork and exec.
    unsafe { command.pre_exec(restrict) };
    command
}

fn decode_bytes(parts: &[&[u8]]) -> Output {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("capture");
    fs::write(&path, parts.concat()).unwrap();
    decode_file(&path)
}

fn decode_file(path: &Path) -> Output {
    decode(&[path.to_str().unwrap()]).output().unwrap()
}

#[test]
fn lengths_that_no_frame_has_are_told_and_not_believed() {
    let packet = |len: u32| [&[0; 8], &len.to_le_bytes()[..], &len.to_le_bytes()].concat();
    for len in [u32::MAX, 1 << 31, (16 << 20) + 1] {
        let message = format!("byte 24: packet 0: {len} bytes captured, but no frame exceeds");
        assert_refused(&decode_bytes(&[PCAP, &packet(len)]), 1, &message);
    }
    let block = |kind: u32, len: u32| [kind.to_le_bytes(), len.to_le_bytes()].concat();
    for (kind, name) in [
        (1, "interface description"),
        (2, "packet block"),
        (3, "simple packet block"),
        (6, "enhanced packet block"),
    ] {
        let output = decode_bytes(&[SECTION, &block(kind, 0xffff_fffc)]);
        let message = format!("byte 28: {name}: 4294967280 bytes, but no frame exceeds");
        assert_refused(&output, 1, &message);
    }
    // Of a kind that is passed over.
    let output = decode_bytes(&[SECTION, &block(0x0bad, 0xffff_fffc), &[0; 100]]);
    assert_refused(&output, 1, "it ends inside a block");
    for len in [0, 4, 11, 13, u32::MAX] {
        let output = decode_bytes(&[SECTION, &block(6, len)]);
        assert_refused(
            &output,
            1,
            &format!("byte 28: enhanced packet block: its length of {len} bytes is "),
        );
    }
}

#[test]
fn a_frame_of_the_largest_size_is_read() {
    let len: u32 = 16 << 20;
    let header = [&[0; 8], &len.to_le_bytes()[..], &len.to_le_bytes()].concat();
    assert_done(&decode_bytes(&[PCAP, &header, &vec![0; len as usize]]));
    // The file ends before the frame does.
    assert_refused(&decode_bytes(&[PCAP, &header, &[0; 9]]), 1, "it ends inside a packet");
}

#[test]
fn interfaces_without_end_stay_small() {
    let interface = [[20, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [20, 0, 0, 0]].concat();
    let block = [&[1, 0, 0, 0][..], &interface].concat();
    assert_done(&decode_bytes(&[SECTION, &block.repeat(500_000)]));
}

#[test]
fn what_is_no_capture_is_told() {
    assert_refused(&decode_bytes(&[]), 1, "capture");
    assert_refused(&decode_file(Path::new("/")), 1, "Is a directory");
    assert_refused(&decode_file(Path::new("/dev/null")), 1, "/dev/null");
    assert_refused(&decode_file(Path::new("/dev/zero")), 1, "/dev/zero");
    assert_refused(&decode_file(Path::new("/nonexistent")), 1, "open /nonexistent: No such file");
}

#[test]
fn a_line_without_end_stops_somewhere() {
    let zeros = File::open("/dev/zero").unwrap();
    let output = decode(&["--hex", "-"]).stdin(zeros).output().unwrap();
    assert_refused(&output, 2, "standard input, line 1: ");
}

#[test]
fn a_pipe_that_is_closed_in_between_is_told() {
    let directory = TempDir::new().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut command = decode(&[fifo.to_str().unwrap()]);
    let reader = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    File::options().write(true).open(&fifo).unwrap().write_all(&PCAP[..10]).unwrap();
    let output = reader.wait_with_output().unwrap();
    assert_refused(&output, 1, "fifo: byte 10: it ends inside the file header");
}

#[test]
fn a_megabyte_of_hex_is_a_frame() {
    // A single argument may be 128 KiB long.
    let argument = "00".repeat(60_000);
    assert!(assert_done(&decode(&["--hex", &argument]).output().unwrap()).contains("60000"));
    let mut command = decode(&["--hex", "-"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut reader = piped.spawn().unwrap();
    reader.stdin.take().unwrap().write_all("00".repeat(1_000_000).as_bytes()).unwrap();
    assert!(assert_done(&reader.wait_with_output().unwrap()).contains("1000000"));
}
