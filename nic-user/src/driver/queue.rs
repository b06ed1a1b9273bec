//! One queue of a port: packets in, packets out.

mod checksum;
mod super_packets;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

pub use checksum::{Checksum, Checksummer};
use nix::errno::Errno;

use super::{
    buffers::Buffers,
    packet::{Frag, Frags, Packet},
    receive::{Builder, Building, Built},
    socket::{Access, Interface, Options, Socket, TxFlags, Unwoken},
};
use crate::error::{Error, Result};

/// A queue's rings. It stays on the thread that opened it.
#[derive(Debug)]
pub struct Queue {
    socket: Socket,
    buffers: Rc<Buffers>,
    builder: Builder,
    /// A packet whose last frame has not arrived yet.
    unfinished: Option<(Frag, Frags)>,
    options: Options,
    sent: Sent,
    checksummer: Checksummer,
    label: String,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames put into the TX ring.
    pub frames: u64,
    /// Frames that came back from it, sent or not.
    pub completed: u64,
    /// Times that something was given back to the caller because the TX ring was full.
    pub full: u64,
    /// Packets that had to be copied to be sent: from another memory, or of several parts.
    pub copied: u64,
}

/// What the kernel counted (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStatistics {
    /// Frames dropped for other reasons than those below, such as their length.
    pub rx_dropped: u64,
    /// Frames dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// Times that the fill ring was empty.
    pub rx_fill_empty: u64,
    /// Addresses in the fill ring that the kernel refused.
    pub rx_invalid: u64,
    /// Descriptors in the TX ring that the kernel refused.
    pub tx_invalid: u64,
    /// Times that the TX ring was empty.
    pub tx_ring_empty: u64,
}

/// What happened at a queue since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the queue.
    pub queue: u32,
    /// Packets received, by how they were built.
    pub built: Built,
    /// What was sent.
    pub sent: Sent,
    /// What the kernel counted.
    pub kernel: KernelStatistics,
}

/// What was not sent.
#[derive(Debug)]
pub struct Unsent<T> {
    /// It, as it was.
    pub what: T,
    /// Why not.
    pub why: Refusal,
}

/// Why something was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The TX ring is full, or there is no frame to copy to: try again after [`Queue::flush`].
    Full,
    /// It is longer than a frame, and the queue was opened without `multi_buffer`.
    TooLong,
    /// Its checksum would be beyond its end.
    NoChecksum,
}

impl Queue {
    /// Opens the rings of queue `number`, and lends the kernel frames to fill.
    pub(super) fn open(
        interface: &Interface<'_>,
        number: u32,
        options: Options,
        building: Building,
        buffers: &Rc<Buffers>,
    ) -> Result<Self> {
        let builder = Builder::new(building, buffers)?;
        let mut socket = Socket::open(interface, number, &options, buffers)?;
        socket.fill();
        // Bound without a frame to fill, a NIC with zero copy waits to be told of them; what arrives
        // until then is lost.
        let _ = socket.wake_rx();
        let checksummer = Checksummer::of(socket.access(), buffers.layout(), interface);
        Ok(Self {
            socket,
            buffers: Rc::clone(buffers),
            builder,
            unfinished: None,
            options,
            sent: Sent::default(),
            checksummer,
            label: format!("queue {number} of {}", interface.name),
        })
    }

    /// Hands out packets that arrived, of up to `max` frames; returns how many frames that was.
    #[inline]
    pub fn receive(&mut self, max: u32, mut each: impl FnMut(Packet)) -> u32 {
        let Self { socket, builder, unfinished, .. } = self;
        let received = socket.receive(max, |frag, more| {
            let packet = if !more && unfinished.is_none() {
                builder.build(frag)
            } else {
                let Some((first, rest)) = finish(unfinished, frag, more) else { return };
                builder.build_of(first, rest)
            };
            each(packet);
        });
        self.refill(received);
        received
    }

    /// Hands out up to `max` frames as they arrived, each with whether its packet goes on in the
    /// next one; returns how many. For those who only pass frames on.
    #[inline]
    pub fn receive_frames(&mut self, max: u32, each: impl FnMut(Frag, bool)) -> u32 {
        let received = self.socket.receive(max, each);
        self.refill(received);
        received
    }

    #[inline]
    fn refill(&mut self, received: u32) {
        self.socket.fill();
        // With busy polling it is this call that receives.
        if received == 0 && self.options.busy_poll.is_some() {
            let _ = self.socket.poll_rx();
        } else {
            let _ = self.socket.wake_rx();
        }
    }

    /// Puts a packet into the TX ring; [`Queue::flush`] sends it.
    #[inline]
    pub fn send(&mut self, packet: Packet) -> Result<(), Unsent<Packet>> {
        if !packet.frags.is_empty() {
            return self.send_parts(packet);
        }
        let Packet { linear, frags, info, verdict } = packet;
        self.send_frame(linear, false).map_err(|Unsent { what, why }| {
            let what = Packet { linear: what, frags, info, verdict };
            Unsent { what, why }
        })
    }

    /// Puts a frame into the TX ring; `more` says that its packet goes on in the next one.
    #[inline]
    pub fn send_frame(&mut self, frag: Frag, more: bool) -> Result<(), Unsent<Frag>> {
        self.push(frag, TxFlags { more, metadata: false })
    }

    #[inline]
    fn push(&mut self, frag: Frag, flags: TxFlags) -> Result<(), Unsent<Frag>> {
        let sent = if self.has_headroom(&frag) { self.socket.send(frag, flags) } else { Err(frag) };
        let pushed = sent.or_else(|frag| self.push_late(frag, flags));
        match pushed {
            Ok(()) => self.sent.frames += 1,
            Err(_) => self.sent.full += 1,
        }
        pushed
    }

    /// A second try, after what was in the way: frames that are long sent, or another memory.
    #[cold]
    fn push_late(&mut self, frag: Frag, flags: TxFlags) -> Result<(), Unsent<Frag>> {
        self.complete();
        let full = |what| Unsent { what, why: Refusal::Full };
        if self.can_send(&frag) {
            return self.socket.send(frag, flags).map_err(full);
        }
        let copy = match self.copy(frag.len(), [&*frag].into_iter()) {
            Ok(copy) => copy,
            Err(why) => return Err(Unsent { what: frag, why }),
        };
        self.socket.send(copy, flags).map_err(|_| full(frag))
    }

    /// Sends a packet of several parts: in one descriptor each if the kernel takes that, else in
    /// one copy.
    #[cold]
    fn send_parts(&mut self, packet: Packet) -> Result<(), Unsent<Packet>> {
        let parts = 1 + packet.frags.len() as u32;
        let can_send = |frag| self.can_send(frag);
        let sound = can_send(&packet.linear) && packet.frags.iter().all(can_send);
        if !(self.options.multi_buffer && sound) {
            return self.send_copy(packet);
        }
        if !self.socket.has_room(parts) {
            self.complete();
        }
        if !self.socket.has_room(parts) {
            self.sent.full += 1;
            return Err(Unsent { what: packet, why: Refusal::Full });
        }
        let mut left = parts;
        for frag in std::iter::once(packet.linear).chain(packet.frags) {
            left -= 1;
            let flags = TxFlags { more: left > 0, metadata: false };
            // There is room, and the frame is ours.
            drop(self.socket.send(frag, flags));
        }
        self.sent.frames += u64::from(parts);
        Ok(())
    }

    fn send_copy(&mut self, packet: Packet) -> Result<(), Unsent<Packet>> {
        let sent = self
            .copy(packet.len(), packet.parts())
            .and_then(|copy| self.send_frame(copy, false).map_err(|unsent| unsent.why));
        sent.map_err(|why| Unsent { what: packet, why })
    }

    /// Whether `frag` can be sent where it is.
    fn can_send(&self, frag: &Frag) -> bool {
        self.socket.owns(frag) && self.has_headroom(frag)
    }

    #[inline]
    fn has_headroom(&self, frag: &Frag) -> bool {
        frag.headroom() >= self.buffers.layout().tx_headroom()
    }

    /// `parts`, `len` bytes together, in one frame of our memory.
    fn copy<'a>(
        &mut self,
        len: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Frag, Refusal> {
        let layout = self.buffers.layout();
        if len > layout.tx_capacity() {
            return Err(Refusal::TooLong);
        }
        let free = self.buffers.frames().take().ok_or(Refusal::Full)?;
        let mut copy = Frag::empty(free, layout.tx_headroom());
        for part in parts {
            // It fits: a frame is as long as was asked for.
            copy.append(part);
        }
        self.sent.copied += 1;
        Ok(copy)
    }

    /// Has the kernel send what is in the TX ring, and takes back what was sent. What the kernel
    /// has no room for stays in the ring.
    ///
    /// Fails if the interface is down or gone; what is in the ring stays there then.
    pub fn flush(&mut self) -> Result<()> {
        let mut unsent = self.socket.unsent();
        while unsent > 0 {
            let woken = self.socket.wake_tx();
            self.complete();
            if let Err(Unwoken::Failed(errno)) = woken {
                return Err(self.failed("send through", errno));
            }
            let left = self.socket.unsent();
            if left >= unsent {
                return Ok(());
            }
            unsent = left;
        }
        self.complete();
        Ok(())
    }

    #[inline]
    fn complete(&mut self) {
        self.sent.completed += u64::from(self.socket.complete());
    }

    /// Frames that were put into the TX ring and did not come back yet.
    pub const fn in_flight(&self) -> u64 {
        self.sent.frames - self.sent.completed
    }

    /// Waits until something has arrived, under tokio with its timers. Fails if the interface is
    /// gone.
    pub async fn readable(&mut self) -> Result<()> {
        self.socket.arrived().await.map_err(|error| self.gone(&error))
    }

    /// Fails if the interface is gone. An interface that is only down comes back, and so does what
    /// it receives.
    pub fn check(&self) -> Result<()> {
        self.socket.take_error().map_err(|error| self.gone(&error))
    }

    fn gone(&self, error: &io::Error) -> Error {
        Error::not_found(format!("{} is gone: {error}", self.label))
            .with_fix("open the port again when the interface is back")
    }

    /// How the kernel reaches the memory, and why so.
    pub const fn access(&self) -> &Access {
        self.socket.access()
    }

    /// Its number.
    pub const fn number(&self) -> u32 {
        self.socket.queue()
    }

    /// What happened since it was opened.
    pub fn statistics(&self) -> Result<Statistics> {
        let kernel = self.socket.statistics();
        let kernel = kernel.map_err(|error| {
            Error::io(format_args!("read the statistics of {}", self.label), &error)
        })?;
        Ok(Statistics {
            queue: self.number(),
            built: self.builder.built(),
            sent: self.sent,
            kernel: KernelStatistics {
                rx_dropped: kernel.rx_dropped,
                rx_ring_full: kernel.rx_ring_full,
                rx_fill_empty: kernel.rx_fill_ring_empty_descs,
                rx_invalid: kernel.rx_invalid_descs,
                tx_invalid: kernel.tx_invalid_descs,
                tx_ring_empty: kernel.tx_ring_empty_descs,
            },
        })
    }

    fn failed(&self, action: &str, errno: Errno) -> Error {
        let error = Error::io(format_args!("{action} {}", self.label), &errno.into());
        match errno {
            Errno::ENETDOWN => error.with_fix("bring the interface up"),
            Errno::ENXIO => error.with_fix("the interface is gone; open the port again"),
            _ => error,
        }
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Adds a frame to the packet that is `unfinished`, if any; the frames of the packet if that was
/// its last one.
fn finish(unfinished: &mut Option<(Frag, Frags)>, frag: Frag, more: bool) -> Option<(Frag, Frags)> {
    match unfinished {
        Some((_, rest)) => rest.push(frag),
        None => *unfinished = Some((frag, Frags::new())),
    }
    if more { None } else { unfinished.take() }
}
