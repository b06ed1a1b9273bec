//! Traffic between two hosts of a lab. Every wait has a limit.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::Instant;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

use super::{Host, PATIENCE};
use crate::error::{Error, Result};

/// Bytes of datagrams on their way at once: what a socket's receive buffer surely holds, even
/// when the kernel spends a page on each.
const UDP_WINDOW: usize = 32 << 10;
const UDP_OVERHEAD: usize = 1 << 10;

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// `host`'s address of this version.
    pub const fn address(self, host: &Host) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(host.ipv4()),
            Self::V6 => IpAddr::V6(host.ipv6()),
        }
    }
}

/// Sends `bytes` over each of `connections` TCP connections at once; returns how many arrived
/// in all. More connections than queues use most of the queues.
pub fn tcp(from: &Host, to: &Host, ip: IpVersion, connections: u32, bytes: u64) -> Result<u64> {
    let action = "send over TCP";
    let pairs = connect(from, to, ip, connections)?;
    thread::scope(|scope| {
        let transfers: Vec<_> = pairs
            .iter()
            .map(|(sender, receiver)| {
                let sending = thread::Builder::new()
                    .spawn_scoped(scope, move || send_bytes(sender, bytes))?;
                let receiving = thread::Builder::new().spawn_scoped(scope, || drain(receiver))?;
                Ok((sending, receiving))
            })
            .collect::<io::Result<_>>()
            .map_err(|error| Error::io(action, &error))?;
        let mut received = 0;
        for (sender, receiver) in transfers {
            joined(sender).map_err(|error| Error::io(action, &error))?;
            received += joined(receiver).map_err(|error| Error::io(action, &error))?;
        }
        Ok(received)
    })
}

/// Sends `count` datagrams of `size` bytes of payload over UDP, in turn from `flows` ports;
/// returns how many arrived. It waits for those on their way before it sends more, so that none
/// is lost for lack of buffer.
pub fn udp(
    from: &Host,
    to: &Host,
    ip: IpVersion,
    flows: u32,
    count: u64,
    size: usize,
) -> Result<u64> {
    let fail = |error: io::Error| Error::io("send over UDP", &error);
    let receiver = to.run(|| UdpSocket::bind((ip.address(to), 0)))?.map_err(fail)?;
    receiver.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    let target = receiver.local_addr().map_err(fail)?;
    let source = SocketAddr::new(ip.address(from), 0);
    let senders = from.run(|| udp_senders(source, target, flows))?.map_err(fail)?;

    let window = (UDP_WINDOW / size.saturating_add(UDP_OVERHEAD)).max(1) as u64;
    let payload = vec![0xa5; size];
    let mut senders = senders.iter().cycle();
    let mut received = 0;
    let mut left = count;
    while left > 0 {
        let burst = left.min(window);
        for sender in senders.by_ref().take(burst as usize) {
            sender.send(&payload).map_err(fail)?;
        }
        let arrived = receive_datagrams(&receiver, burst).map_err(fail)?;
        received += arrived;
        if arrived < burst {
            break;
        }
        left -= burst;
    }
    Ok(received)
}

/// Sends Ethernet frames through `from`'s interface as they are; returns how many it took.
///
/// A frame longer than MTU and link header is refused (`EMSGSIZE`), and so is one shorter than
/// an Ethernet header (`EINVAL`).
pub fn send_frames<F: AsRef<[u8]> + Sync>(from: &Host, frames: &[F]) -> Result<u64> {
    let fail =
        |error: io::Error| Error::io(format!("send frames through {}", from.interface()), &error);
    let socket = from.run(|| packet_socket(from.ifindex()))?.map_err(fail)?;
    let mut sent = 0;
    for frame in frames {
        send_frame(&socket, frame.as_ref()).map_err(fail)?;
        sent += 1;
    }
    Ok(sent)
}

/// Connects over TCP, as often as is asked for: the sockets of `from`, and those of `to`.
/// Reading at `to` and writing at `from` have a limit.
pub fn connect(
    from: &Host,
    to: &Host,
    ip: IpVersion,
    connections: u32,
) -> Result<Vec<(TcpStream, TcpStream)>> {
    let fail = |error: io::Error| Error::io("connect over TCP", &error);
    let listener = to.run(|| TcpListener::bind((ip.address(to), 0)))?.map_err(fail)?;
    // For a listener this limits accept(2).
    limit_receive(&listener).map_err(fail)?;
    let target = listener.local_addr().map_err(fail)?;
    from.run(|| {
        (0..connections)
            .map(|_| {
                let sender = TcpStream::connect_timeout(&target, PATIENCE)?;
                let (receiver, _) = listener.accept()?;
                sender.set_write_timeout(Some(PATIENCE))?;
                receiver.set_read_timeout(Some(PATIENCE))?;
                Ok((sender, receiver))
            })
            .collect::<io::Result<_>>()
    })?
    .map_err(fail)
}

fn send_bytes(mut stream: &TcpStream, bytes: u64) -> io::Result<()> {
    let block = [0xa5; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(block.len() as u64);
        stream.write_all(&block[..len as usize])?;
        left -= len;
    }
    stream.shutdown(Shutdown::Write)
}

fn drain(mut stream: &TcpStream) -> io::Result<u64> {
    let mut block = vec![0; 256 << 10];
    let mut received = 0;
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(received),
            len => received += len as u64,
        }
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn udp_senders(source: SocketAddr, target: SocketAddr, flows: u32) -> io::Result<Vec<UdpSocket>> {
    (0..flows.max(1))
        .map(|_| {
            let sender = UdpSocket::bind(source)?;
            sender.connect(target)?;
            sender.set_write_timeout(Some(PATIENCE))?;
            Ok(sender)
        })
        .collect()
}

/// Takes up to `count` datagrams; fewer, when none comes for a while.
fn receive_datagrams(receiver: &UdpSocket, count: u64) -> io::Result<u64> {
    for received in 0..count {
        match receiver.recv(&mut []) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(received),
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn limit_receive(socket: &impl AsFd) -> io::Result<()> {
    let limit = TimeVal::new(PATIENCE.as_secs() as i64, 0);
    Ok(setsockopt(socket, sockopt::ReceiveTimeout, &limit)?)
}

/// A socket that sends frames through the interface and receives none (protocol 0).
fn packet_socket(ifindex: u32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `sockaddr_ll` is plain data for which all zeroes are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = ifindex as i32;
    // SAFETY: `address` outlives the call, and its true size is given.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Sends one frame; a full queue is tried again for a while.
fn send_frame(socket: &OwnedFd, frame: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // SAFETY: the pointer and length are those of `frame`, which outlives the call.
        let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        let full = error.raw_os_error() == Some(libc::ENOBUFS);
        if !(full || error.kind() == io::ErrorKind::Interrupted) || Instant::now() > deadline {
            return Err(error);
        }
        thread::yield_now();
    }
}
