//! The kernel's own software segmentation: a super-packet goes into a tap device by a packet
//! socket, and comes out of the device's file as what goes on the wire. A tap device has no
//! offloads unless asked for.

use std::{
    io::{self, Read},
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use nic_user::lab::{Host, Lab, Shape};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::{
    super_packets::{MACS, Spec},
    tap::Tap,
};

/// The most segments that a tap device keeps for its reader (`TUN_READQ_SIZE`).
pub const MAX_SEGMENTS: usize = 400;

/// A packet that is one segment has to fit.
const MTU: u32 = 10_000;

/// The longest segment: 65535 bytes from the IP header on.
const MAX_FRAME: usize = 65_535 + 22;

/// How long the kernel may take for a segment.
const PATIENCE_MS: i32 = 5000;

/// A tap device in a namespace of its own, and a packet socket on it.
pub struct KernelSegmenter {
    socket: OwnedFd,
    tap: Tap,
    buffer: Vec<u8>,
    _lab: Lab,
}

/// `struct virtio_net_hdr` (linux/virtio_net.h).
#[repr(C)]
struct VirtioNetHeader {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl VirtioNetHeader {
    const NEEDS_CSUM: u8 = 1;
    const NONE: u8 = 0;
    const TCPV4: u8 = 1;
    const TCPV6: u8 = 4;
    const UDP_L4: u8 = 5;

    fn of(spec: &Spec, headers_len: usize) -> Self {
        Self {
            flags: Self::NEEDS_CSUM,
            gso_type: match (spec.is_tcp(), spec.is_v4()) {
                // The kernel refuses to segment what is one segment.
                _ if spec.segments() == 1 => Self::NONE,
                (true, true) => Self::TCPV4,
                (true, false) => Self::TCPV6,
                (false, _) => Self::UDP_L4,
            },
            hdr_len: headers_len as u16,
            gso_size: spec.segment_size as u16,
            csum_start: (headers_len - spec.transport_header_len()) as u16,
            csum_offset: if spec.is_tcp() { 16 } else { 6 },
        }
    }

    fn bytes(&self) -> [u8; 10] {
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&[self.flags, self.gso_type]);
        for (to, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl KernelSegmenter {
    pub fn new() -> Self {
        let lab = Lab::new(Shape::default()).unwrap();
        let tap = Tap::new(lab.a());
        fcntl(tap.file.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        lab.a()
            .links(|links| {
                links.set_no_link_local(tap.ifindex)?;
                links.set_mtu(tap.ifindex, MTU)?;
                links.set_up(tap.ifindex, true)
            })
            .unwrap();
        let socket = packet_socket(lab.a(), tap.ifindex);
        Self { socket, tap, buffer: vec![0; MAX_FRAME], _lab: lab }
    }

    /// What the kernel makes of a super-packet; `None` if its memory is too fragmented for one of
    /// this length: it needs 17 pieces at most.
    pub fn segment(&mut self, spec: &Spec, payload: &[u8]) -> Option<Vec<Vec<u8>>> {
        let headers = spec.headers();
        let virtio = VirtioNetHeader::of(spec, headers.len());
        let packet = [&virtio.bytes()[..], &headers, payload].concat();
        // SAFETY: the pointer and length are those of `packet`.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        if sent != packet.len() as isize {
            let error = io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS), "{error}: {spec:?}");
            return None;
        }
        let mut segment = |index| match self.receive() {
            Some(segment) => segment,
            None => panic!("no segment {index} of {spec:?}"),
        };
        Some((0..spec.segments()).map(&mut segment).collect())
    }

    /// The next frame that has our addresses; `None` if none comes.
    fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.tap.file.read(&mut self.buffer) {
                Ok(len) if self.buffer.starts_with(&MACS) => {
                    return Some(self.buffer[..len].to_vec());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait() {
                        return None;
                    }
                }
                Err(error) => panic!("read tap: {error}"),
            }
        }
    }

    fn wait(&self) -> bool {
        let (fd, events) = (self.tap.file.as_raw_fd(), libc::POLLIN);
        let mut tap = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: it is one descriptor.
        unsafe { libc::poll(&mut tap, 1, PATIENCE_MS) == 1 }
    }
}

/// A packet socket that sends with a `virtio_net_hdr` in front, and receives nothing.
fn packet_socket(host: &Host, ifindex: u32) -> OwnedFd {
    const PACKET_VNET_HDR: i32 = 15;
    let open = || {
        // SAFETY: plain system call.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: `fd` is open and nobody else's.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    let socket = host.run(open).unwrap();
    for (level, option, value) in [
        (libc::SOL_PACKET, PACKET_VNET_HDR, 1),
        // Room for the longest packet.
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4 << 20),
    ] {
        let value: i32 = value;
        let pointer = (&raw const value).cast();
        // SAFETY: `value` is as long as the call is told.
        let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, 4) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
    // SAFETY: `sockaddr_ll` is plain data for which all zeroes are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = ifindex as i32;
    let len = size_of_val(&address) as u32;
    // SAFETY: `address` is as long as the call is told.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    socket
}
