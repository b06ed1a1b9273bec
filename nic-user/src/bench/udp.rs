//! One stream of datagrams, sent and received in different ways.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::{AsRawFd, RawFd},
    time::Duration,
};

use nix::sys::socket::{setsockopt, sockopt};

use super::round::{Count, Over};
use crate::{
    error::{Error, Result},
    lab::Host,
};

/// How soon a thread that waits for datagrams sees that the round is over.
const GLANCE: Duration = Duration::from_millis(20);
/// Datagrams of one call: so few that a processor has all of their bytes in its nearest cache.
const BATCH: usize = 16;
/// What a receiving socket may hold, in bytes: what a processor has in its own cache. A receiver that
/// is behind always has a full queue, and from a longer one it would read from memory.
const RECEIVE_BUFFER: usize = 1 << 20;
/// The largest datagram, and so the largest super-packet, in bytes.
const MAX_DATAGRAM: usize = 65_507;
/// Segments of a super-packet that every kernel takes (`UDP_MAX_SEGMENTS`; since 6.9 it is 128).
pub const MAX_SEGMENTS: usize = 64;

/// How datagrams are handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// One a call: send(2).
    One,
    /// Many a call: sendmmsg(2).
    Many,
    /// As a super-packet: UDP_SEGMENT.
    Segmented,
}

/// How datagrams are taken from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// Many a call, each for itself: recvmmsg(2).
    Many,
    /// As super-packets: UDP_GRO.
    Merged,
}

/// A connected pair of sockets.
pub struct Stream {
    /// Where datagrams come from.
    pub sender: Sender,
    /// Where they go to.
    pub receiver: Receiver,
}

/// Bytes of payload so far.
#[derive(Debug, Default)]
pub struct Bytes {
    /// Handed to the kernel.
    pub sent: Count,
    /// Taken from the kernel.
    pub received: Count,
}

impl Stream {
    /// From one host's address to another's.
    pub fn open((from, source): (&Host, IpAddr), (to, target): (&Host, IpAddr)) -> Result<Self> {
        let fail = |error: io::Error| Error::io("open UDP sockets", &error);
        let receiver = to.run(|| Receiver::bind(target))?.map_err(fail)?;
        let sender = from.run(|| Sender::bind(source))?.map_err(fail)?;
        sender.connect(receiver.address().map_err(fail)?).map_err(fail)?;
        Ok(Self { sender, receiver })
    }

    /// Ports of sender and receiver.
    pub fn ports(&self) -> Result<[u16; 2]> {
        let ports = self.sender.address().and_then(|from| Ok([from, self.receiver.address()?]));
        let ports = ports.map_err(|error| Error::io("read the ports of UDP sockets", &error))?;
        Ok(ports.map(|address| address.port()))
    }
}

/// A socket that sends.
pub struct Sender(UdpSocket);

impl Sender {
    /// At an address of this host.
    pub fn bind(source: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((source, 0))?;
        socket.set_write_timeout(Some(GLANCE))?;
        Ok(Self(socket))
    }

    /// Says where datagrams go.
    pub fn connect(&self, target: SocketAddr) -> io::Result<()> {
        self.0.connect(target)
    }

    /// Where they come from.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Sends datagrams of `size` bytes until the round is over, and counts what the kernel took.
    pub fn send(&self, how: Sending, size: usize, over: &Over, bytes: &Count) -> io::Result<()> {
        match how {
            Sending::One => self.send_blocks(size, over, bytes),
            Sending::Many => {
                let mut batch = Batch::new(size);
                until(over, bytes, || batch.send(self.0.as_raw_fd()))
            }
            Sending::Segmented => {
                let segment = i32::try_from(size).map_err(io::Error::other)?;
                setsockopt(&self.0, sockopt::UdpGsoSegment, &segment)?;
                let segments = (MAX_DATAGRAM / size.max(1)).min(MAX_SEGMENTS);
                self.send_blocks(size * segments, over, bytes)
            }
        }
    }

    fn send_blocks(&self, len: usize, over: &Over, bytes: &Count) -> io::Result<()> {
        let block = vec![0xa5; len];
        until(over, bytes, || self.0.send(&block))
    }
}

/// A socket that receives.
pub struct Receiver(UdpSocket);

impl Receiver {
    /// At an address of this host.
    pub fn bind(target: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((target, 0))?;
        socket.set_read_timeout(Some(GLANCE))?;
        // Without the privilege the limit of the system holds (net.core.rmem_max).
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER))?;
        Ok(Self(socket))
    }

    /// Takes datagrams from nobody else.
    pub fn connect(&self, source: SocketAddr) -> io::Result<()> {
        self.0.connect(source)
    }

    /// Where datagrams are to be sent.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Takes datagrams of `size` bytes until the round is over, and counts what came.
    pub fn receive(
        &self,
        how: Receiving,
        size: usize,
        over: &Over,
        bytes: &Count,
    ) -> io::Result<()> {
        match how {
            Receiving::Many => {
                let mut batch = Batch::new(size);
                until(over, bytes, || batch.receive(self.0.as_raw_fd()))
            }
            Receiving::Merged => {
                setsockopt(&self.0, sockopt::UdpGroSegment, &true)?;
                let mut block = vec![0; MAX_DATAGRAM];
                until(over, bytes, || self.0.recv(&mut block))
            }
        }
    }
}

/// Calls until the round is over, and counts the bytes that the calls moved. A queue that is full
/// or empty is not an error.
fn until(
    over: &Over,
    count: &Count,
    mut call: impl FnMut() -> io::Result<usize>,
) -> io::Result<()> {
    while !over.is_over() {
        match call() {
            Ok(bytes) => count.add(bytes as u64),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            // Somebody says that a datagram before could not be delivered.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Datagrams of one call.
struct Batch {
    headers: Vec<libc::mmsghdr>,
    /// What the headers point to.
    _vectors: Vec<libc::iovec>,
    /// What the vectors point to.
    _buffers: Vec<u8>,
}

impl Batch {
    fn new(size: usize) -> Self {
        let mut buffers = vec![0xa5_u8; size * BATCH];
        let mut vectors: Vec<libc::iovec> = buffers
            .chunks_exact_mut(size)
            .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: size })
            .collect();
        let header = |vector: &mut libc::iovec| {
            // SAFETY: `mmsghdr` is plain data for which all zeroes are valid.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let headers = vectors.iter_mut().map(header).collect();
        Self { headers, _vectors: vectors, _buffers: buffers }
    }

    /// Sends all of them; the bytes that went.
    fn send(&mut self, socket: RawFd) -> io::Result<usize> {
        // SAFETY: every header points to a vector and it to a buffer, which live as long as the
        // batch and do not move with it; their number is given.
        let sent = unsafe { libc::sendmmsg(socket, self.headers.as_mut_ptr(), BATCH as u32, 0) };
        self.moved(sent)
    }

    /// Waits for one and takes what else is there; the bytes that came.
    fn receive(&mut self, socket: RawFd) -> io::Result<usize> {
        let flags = libc::MSG_WAITFORONE;
        let (headers, no_timeout) = (self.headers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: as for `send`; the kernel writes into the buffers, which nobody else has.
        let received = unsafe { libc::recvmmsg(socket, headers, BATCH as u32, flags, no_timeout) };
        self.moved(received)
    }

    fn moved(&self, datagrams: i32) -> io::Result<usize> {
        let datagrams = usize::try_from(datagrams).map_err(|_| io::Error::last_os_error())?;
        Ok(self.headers.iter().take(datagrams).map(|header| header.msg_len as usize).sum())
    }
}
