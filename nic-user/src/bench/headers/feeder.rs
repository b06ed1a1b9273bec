//! A TCP sender behind the card: as much as the receiver's window allows, and no congestion
//! control.

use std::{io, time::Duration};

use super::{
    path::Path,
    tap::{Tap, VNET_HEADER_LEN, vnet_header},
};
use crate::bench::round::{Count, Over};

/// The port that it sends from.
const PORT: u16 = 40_000;
const SYN: u8 = 0x02;
/// Without PSH, after which GRO takes nothing more into a packet.
const ACK: u8 = 0x10;
/// Maximum segment size, and a window scale of 7.
const SYN_OPTIONS: [u8; 8] = [2, 4, 0x23, 0, 1, 3, 3, 7];
const MAX_SCALE: u8 = 14;

/// How long to wait for an acknowledgement before sending again what it is missing for.
const PATIENCE: Duration = Duration::from_millis(20);
/// Attempts to connect, each of which takes that long.
const ATTEMPTS: usize = 100;
/// Segments sent between two looks for acknowledgements.
const LOOK_EVERY: usize = 16;

/// A connection, as its sender sees it.
pub struct Feeder<'t> {
    tap: &'t Tap,
    tcp_at: usize,
    ports: [u16; 2],
    /// Headers of every segment, with the card's own in front.
    headers: Vec<u8>,
    payload: Vec<u8>,
    /// Sequence number of the next segment.
    next: u32,
    /// What is acknowledged.
    acked: u32,
    /// Bytes that the receiver takes beyond that.
    window: u32,
    scale: u8,
    buffer: Vec<u8>,
}

/// What it sent, in bytes of payload.
#[derive(Debug, Default)]
pub struct Fed {
    /// All.
    pub sent: Count,
    /// Again, because no acknowledgement came.
    pub again: Count,
}

/// The part of a TCP header that matters here.
struct Answer {
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    /// Window scale, in a SYN.
    scale: u8,
}

impl<'t> Feeder<'t> {
    /// Connects to `port`, to send segments of `size` bytes, of whose frames `linear` bytes go into
    /// the linear part.
    pub fn connect(
        tap: &'t Tap,
        path: &Path,
        port: u16,
        size: usize,
        linear: u16,
    ) -> io::Result<Self> {
        let ports = [PORT, port];
        let tcp_at = path.tcp_at();
        let payload = vec![0xa5; size];
        let frame = path.frame(ports, &payload);
        let mut headers = vnet_header(linear, tcp_at as u16).to_vec();
        headers.extend(frame.iter().take(path.headers_len()));
        let buffer = vec![0; 64 << 10];
        let mut feeder = Self {
            tap,
            tcp_at,
            ports,
            headers,
            payload,
            next: 0,
            acked: 0,
            window: 0,
            scale: 0,
            buffer,
        };
        feeder.shake_hands(path)?;
        Ok(feeder)
    }

    fn shake_hands(&mut self, path: &Path) -> io::Result<()> {
        let mut syn = vnet_header(0, self.tcp_at as u16).to_vec();
        syn.extend(path.frame(self.ports, &SYN_OPTIONS));
        let header_words = (20 + SYN_OPTIONS.len() as u8) / 4;
        write_tcp(&mut syn, self.tcp_at, 0, 0, [header_words << 4, SYN]);
        for _ in 0..ATTEMPTS {
            self.tap.send(&syn, &[])?;
            while self.tap.wait(PATIENCE)? {
                let Some(answer) = self.answer()? else { continue };
                if answer.flags & (SYN | ACK) == SYN | ACK {
                    self.scale = answer.scale.min(MAX_SCALE);
                    self.window = answer.window.into();
                    (self.next, self.acked) = (answer.ack, answer.ack);
                    let peer = answer.seq.wrapping_add(1);
                    let mut ack = vnet_header(0, self.tcp_at as u16).to_vec();
                    ack.extend(path.frame(self.ports, &[]));
                    for frame in [&mut ack, &mut self.headers] {
                        write_tcp(frame, self.tcp_at, self.next, peer, [0x50, ACK]);
                    }
                    return self.tap.send(&ack, &[]);
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "nobody answers behind the tap device"))
    }

    /// Sends until the round is over.
    pub fn feed(&mut self, over: &Over, fed: &Fed) -> io::Result<()> {
        while !over.is_over() {
            let mut sent = 0;
            while sent < LOOK_EVERY && self.fits() {
                self.send(fed)?;
                sent += 1;
            }
            let waited = sent > 0 || self.tap.wait(PATIENCE)?;
            let acked = self.acked;
            while let Some(answer) = self.answer()? {
                self.take(&answer);
            }
            if !waited && self.acked == acked {
                self.again(fed)?;
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> u32 {
        self.next.wrapping_sub(self.acked)
    }

    fn fits(&self) -> bool {
        self.in_flight() as usize + self.payload.len() <= self.window as usize
    }

    fn send(&mut self, fed: &Fed) -> io::Result<()> {
        let seq_at = VNET_HEADER_LEN + self.tcp_at + 4;
        if let Some(seq) = self.headers.get_mut(seq_at..seq_at + 4) {
            seq.copy_from_slice(&self.next.to_be_bytes());
        }
        self.tap.send(&self.headers, &self.payload)?;
        self.next = self.next.wrapping_add(self.payload.len() as u32);
        fed.sent.add(self.payload.len() as u64);
        Ok(())
    }

    /// Starts again from what is acknowledged, and tries whether the window is open again.
    fn again(&mut self, fed: &Fed) -> io::Result<()> {
        fed.again.add(self.in_flight().into());
        self.next = self.acked;
        self.send(fed)
    }

    fn take(&mut self, answer: &Answer) {
        let advance = answer.ack.wrapping_sub(self.acked);
        // More would be an acknowledgement of long ago.
        if advance <= self.in_flight() {
            self.acked = answer.ack;
            self.window = u32::from(answer.window) << self.scale;
        } else if answer.ack.wrapping_sub(self.next) < u32::MAX / 2 {
            // Of what was sent before it was sent again.
            (self.acked, self.next) = (answer.ack, answer.ack);
            self.window = u32::from(answer.window) << self.scale;
        }
    }

    /// The next answer on this connection; nothing if there is none yet.
    fn answer(&mut self) -> io::Result<Option<Answer>> {
        while let Some(frame) = self.tap.receive(&mut self.buffer)? {
            let tcp = frame.get(self.tcp_at..).unwrap_or_default();
            if let Some(answer) = Answer::parse(tcp, self.ports) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }
}

impl Answer {
    fn parse(tcp: &[u8], [local, remote]: [u16; 2]) -> Option<Self> {
        let (header, rest) = tcp.split_first_chunk::<20>()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if word(0) != u32::from(remote) << 16 | u32::from(local) {
            return None;
        }
        let options_len = (usize::from(header[12] >> 4) * 4).checked_sub(20)?;
        Some(Self {
            seq: word(4),
            ack: word(8),
            flags: header[13],
            window: u16::from_be_bytes([header[14], header[15]]),
            scale: window_scale(rest.get(..options_len)?),
        })
    }
}

/// The window scale among TCP options; 0 if there is none.
fn window_scale(mut options: &[u8]) -> u8 {
    const NOP: u8 = 1;
    const WINDOW_SCALE: u8 = 3;
    loop {
        options = match options {
            [NOP, rest @ ..] => rest,
            [WINDOW_SCALE, 3, scale, ..] => return *scale,
            [_, len, ..] if *len >= 2 => options.get(usize::from(*len)..).unwrap_or_default(),
            _ => return 0,
        };
    }
}

/// Fills in sequence numbers, header length and flags of a frame that has the card's header in
/// front.
fn write_tcp(frame: &mut [u8], tcp_at: usize, seq: u32, ack: u32, words_and_flags: [u8; 2]) {
    let start = VNET_HEADER_LEN + tcp_at + 4;
    if let Some(fields) = frame.get_mut(start..start + 10) {
        fields[..4].copy_from_slice(&seq.to_be_bytes());
        fields[4..8].copy_from_slice(&ack.to_be_bytes());
        fields[8..].copy_from_slice(&words_and_flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_scale_is_found_among_the_options() {
        assert_eq!(window_scale(&[2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 9]), 9);
        assert_eq!(window_scale(&[1, 1, 1]), 0);
        assert_eq!(window_scale(&[2, 0, 3, 3, 9]), 0);
        assert_eq!(window_scale(&[8, 10, 1]), 0);
    }

    #[test]
    fn an_answer_is_one_on_this_connection() {
        let mut tcp = [0; 20];
        tcp[..4].copy_from_slice(&[0, 80, 0x9c, 0x40]);
        tcp[11] = 7;
        tcp[12] = 0x50;
        assert_eq!(Answer::parse(&tcp, [40_000, 80]).unwrap().ack, 7);
        assert!(Answer::parse(&tcp, [40_000, 81]).is_none());
        assert!(Answer::parse(&tcp[..19], [40_000, 80]).is_none());
        tcp[12] = 0x40;
        assert!(Answer::parse(&tcp, [40_000, 80]).is_none());
    }
}
