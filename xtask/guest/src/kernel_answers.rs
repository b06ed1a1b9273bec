//! What the kernel says about the length of headers: a tap whose driver calls `eth_get_headlen` for
//! every frame written (`IFF_NAPI_FRAGS`, drivers/net/tun.c), and a probe on that function's return.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    process,
};

use nic_user::netlink::link::Links;
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

const TRACING: &str = "/sys/kernel/tracing";
const PROBE: &str = "r:nic/header_len eth_get_headlen ret=$retval:u32";
const EVENT: &str = "events/nic/header_len";
const TAP: &str = "nic-tap";

/// Asks the kernel.
pub struct KernelAnswers {
    tap: File,
    trace: File,
    unread: Vec<u8>,
}

impl KernelAnswers {
    pub fn new() -> Self {
        // Events of one CPU come in order, and from one buffer.
        let mut cpu = CpuSet::new();
        cpu.set(0).unwrap();
        sched_setaffinity(Pid::from_raw(0), &cpu).unwrap();
        let tap = open_tap();
        let write = |file: &str, text: &str| {
            fs::write(format!("{TRACING}/{file}"), text).unwrap_or_else(|e| panic!("{file}: {e}"));
        };
        write("kprobe_events", PROBE);
        write("options/context-info", "0");
        write("options/sym-addr", "0");
        write("buffer_size_kb", "4096");
        write(&format!("{EVENT}/filter"), &format!("common_pid == {}", process::id()));
        write(&format!("{EVENT}/enable"), "1");
        let trace = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("{TRACING}/per_cpu/cpu0/trace_pipe"))
            .expect("trace_pipe");
        Self { tap, trace, unread: Vec::new() }
    }

    /// What `eth_get_headlen` returns for each of the frames, which have at least 14 bytes.
    pub fn header_lengths(&mut self, frames: &[Vec<u8>]) -> Vec<u32> {
        for frame in frames {
            self.tap.write_all(frame).expect("the tap takes every frame");
        }
        let mut lengths = Vec::with_capacity(frames.len());
        while lengths.len() < frames.len() {
            self.read_trace();
            let end = self.unread.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let lines: Vec<u8> = self.unread.drain(..end).collect();
            let lines = String::from_utf8_lossy(&lines).into_owned();
            lengths.extend(lines.lines().map(length));
            assert!(!lines.is_empty(), "{} answers to {} frames", lengths.len(), frames.len());
        }
        assert_eq!(lengths.len(), frames.len(), "answers");
        lengths
    }

    /// Takes what is there: the events of a write are there when it returns.
    fn read_trace(&mut self) {
        let mut block = [0; 16 << 10];
        loop {
            match self.trace.read(&mut block) {
                Ok(0) => return,
                Ok(len) => self.unread.extend_from_slice(&block[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("trace_pipe: {error}"),
            }
        }
    }
}

/// `(... <- ...) ret=54`
fn length(line: &str) -> u32 {
    let text = line.rsplit_once("ret=").map(|(_, text)| text);
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no event: {line:?}"))
}

fn open_tap() -> File {
    let tap = OpenOptions::new().read(true).write(true).open("/dev/net/tun").expect("tun");
    // SAFETY: `ifreq` is plain data for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(TAP.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_NAPI | libc::IFF_NAPI_FRAGS;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the kernel reads and writes one `ifreq`, which outlives the call.
    let done = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(done, 0, "make a tap: {}", std::io::Error::last_os_error());
    let mut links = Links::open().unwrap();
    let ifindex = links.by_name(TAP).unwrap().ifindex;
    links.set_no_link_local(ifindex).unwrap();
    links.set_up(ifindex, true).unwrap();
    tap
}
