//! Packets at a steady rate, each with the time when it was sent.

use std::{
    io::{self, ErrorKind},
    net::UdpSocket,
    time::Duration,
};

use super::{latency::now, sizes::Sizes};
use crate::{
    bench::round::{Count, Over},
    driver::packet::Packet,
    error::{Error, Result},
    lab::Host,
};

/// Ethernet, IPv4 and UDP headers.
const HEADERS_LEN: usize = 14 + 20 + 8;
/// Nobody listens there: the port is what tells these packets from others.
const PORT: u16 = 9;
/// The time when it was sent, in front of the payload.
const STAMP_LEN: usize = 8;
/// How far the sender may fall behind without giving up what it missed.
const PATIENCE: u64 = 1_000_000;

/// Sends to another host, whose stack never sees it.
pub struct Sender {
    socket: UdpSocket,
    sizes: Vec<usize>,
    /// ns from one packet to the next.
    interval: u64,
}

impl Sender {
    /// From one host to another, so many a second.
    pub fn new(from: &Host, to: &Host, sizes: &Sizes, rate: u32) -> Result<Self> {
        let fail = |error: io::Error| Error::io("open a UDP socket", &error);
        from.links(|links| links.add_neighbour(from.ifindex(), to.ipv4().into(), to.mac()))?;
        let socket = from.run(|| UdpSocket::bind((from.ipv4(), 0)))?.map_err(fail)?;
        socket.connect((to.ipv4(), PORT)).map_err(fail)?;
        socket.set_write_timeout(Some(Duration::from_millis(20))).map_err(fail)?;
        Ok(Self { socket, sizes: sizes.sequence(), interval: 1_000_000_000 / u64::from(rate) })
    }

    /// Sends until the round is over; it gives up what it had no time for.
    pub fn run(&self, over: &Over, sent: &Count) -> io::Result<()> {
        let largest = self.sizes.iter().copied().max().unwrap_or_default();
        let mut payload = vec![0xa5; largest.max(HEADERS_LEN + STAMP_LEN)];
        let mut next = now();
        for size in self.sizes.iter().cycle() {
            let mut time = now();
            while time < next {
                std::hint::spin_loop();
                time = now();
            }
            if over.is_over() {
                break;
            }
            next = if time - next > PATIENCE { time } else { next } + self.interval;
            let len = size.saturating_sub(HEADERS_LEN).max(STAMP_LEN);
            let Some(payload) = payload.get_mut(..len) else { continue };
            payload[..STAMP_LEN].copy_from_slice(&time.to_ne_bytes());
            match self.socket.send(payload) {
                Ok(_) => sent.add(1),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                // One that came before the receiver was there went on to the kernel.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// When a packet of a [`Sender`] was sent; nothing if it is somebody else's.
pub fn sent_at(packet: &Packet) -> Option<u64> {
    const DESTINATION_PORT: usize = HEADERS_LEN - 6;
    let mut start = [0; HEADERS_LEN + STAMP_LEN];
    let bytes = packet.parts().flatten();
    let copied = start.iter_mut().zip(bytes).map(|(to, from)| *to = *from).count();
    let port = [start[DESTINATION_PORT], start[DESTINATION_PORT + 1]];
    if copied < start.len() || u16::from_be_bytes(port) != PORT {
        return None;
    }
    start.last_chunk().map(|stamp| u64::from_ne_bytes(*stamp))
}
