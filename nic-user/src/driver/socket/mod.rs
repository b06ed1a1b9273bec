//! One AF_XDP socket: the rings of one queue, and the frames in them.
//!
//! What goes into a ring is lent to the kernel, what comes out is reclaimed; nobody else sees a
//! ring. So a frame that the kernel may touch is never anybody's value.

mod open;
mod sys;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use nix::errno::Errno;
pub use open::{Access, BusyPoll, Interface, Mode, Options};
use sys::{MappedRing, Mapping};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use super::{
    buffers::Buffers,
    packet::Frag,
    pool::{Borrower, Frame},
    ring::{Consumer, Parts, Producer},
    sync::AtomicU32,
};
use crate::error::Result;

/// How often who waits looks whether the interface is still there: its end wakes nobody, because
/// `xsk_poll` (net/xdp/xsk.c) tells nothing about a socket that has lost it.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A ring, mapped as long as it is used.
#[derive(Debug)]
struct Mapped<R> {
    ring: R,
    flags: NonNull<AtomicU32>,
    _mapping: Mapping,
}

impl<R> Mapped<R> {
    /// `end` makes one end of the ring of its parts.
    fn new<T>(mapped: MappedRing<T>, end: impl FnOnce(Parts<T>) -> R) -> Self {
        let MappedRing { parts, flags, mapping } = mapped;
        Self { ring: end(parts), flags, _mapping: mapping }
    }

    /// Whether the kernel only looks at the ring when it is told to.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: the mapping is here as long as this is.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The four rings.
#[derive(Debug)]
struct Rings {
    rx: Mapped<Consumer<libc::xdp_desc>>,
    tx: Mapped<Producer<libc::xdp_desc>>,
    fill: Mapped<Producer<u64>>,
    completion: Mapped<Consumer<u64>>,
}

/// A socket that is bound to a queue.
#[derive(Debug)]
pub(super) struct Socket {
    // These go in this order: the kernel uses frames as long as there is a mapping or a
    // descriptor.
    watch: Option<AsyncFd<Rc<OwnedFd>>>,
    rings: Rings,
    fd: Rc<OwnedFd>,
    loans: Loans,
    access: Access,
    queue: u32,
    /// Frames in the fill ring, and how many there are to be.
    filled: u32,
    fill_target: u32,
}

/// What was asked of the kernel for a frame to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TxFlags {
    /// The packet goes on in the next frame.
    pub more: bool,
    /// There is `xsk_tx_metadata` in front of the frame.
    pub metadata: bool,
}

impl TxFlags {
    const fn options(self) -> u32 {
        let more = if self.more { libc::XDP_PKT_CONTD } else { 0 };
        let metadata = if self.metadata { libc::XDP_TX_METADATA } else { 0 };
        more | metadata
    }
}

/// Why the kernel did not look at a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwoken {
    /// It has no room or memory for now.
    Busy,
    /// Anything else.
    Failed(Errno),
}

impl Socket {
    /// Opens a socket in the interface's namespace, and binds it to `queue`.
    pub fn open(
        interface: &Interface<'_>,
        queue: u32,
        options: &Options,
        buffers: &Rc<Buffers>,
    ) -> Result<Self> {
        open::open(interface, queue, options, buffers)
    }

    /// Lends free frames to the kernel for what arrives, up to the number that was asked for.
    #[inline]
    pub fn fill(&mut self) {
        let wanted = self.fill_target - self.filled;
        if wanted > 0 {
            self.fill_up(wanted);
        }
    }

    fn fill_up(&mut self, wanted: u32) {
        let mut reserved = self.rings.fill.ring.reserve(wanted);
        while reserved.left() > 0
            && let Some(address) = self.loans.lend_free()
        {
            reserved.push(address);
            self.filled += 1;
        }
    }

    /// Hands out up to `max` frames that arrived, each with whether its packet goes on in the next
    /// one; returns how many.
    #[inline]
    pub fn receive(&mut self, max: u32, mut each: impl FnMut(Frag, bool)) -> u32 {
        let mut received = 0;
        for descriptor in self.rings.rx.ring.peek(max) {
            received += 1;
            // SAFETY: the kernel has put it into the RX ring, and is done with it.
            if let Some((frame, offset)) = unsafe { self.loans.reclaim(descriptor.addr) } {
                let more = descriptor.options & libc::XDP_PKT_CONTD != 0;
                each(Frag::new(frame, offset, descriptor.len), more);
            }
        }
        self.filled = self.filled.saturating_sub(received);
        received
    }

    /// Whether `frames` more fit into the TX ring.
    #[inline]
    pub fn has_room(&mut self, frames: u32) -> bool {
        self.rings.tx.ring.reserve(frames).left() == frames
    }

    /// Puts a frame into the TX ring. Gives it back if the ring is full or the frame is from
    /// another memory.
    #[inline]
    pub fn send(&mut self, frag: Frag, flags: TxFlags) -> Result<(), Frag> {
        let mut reserved = self.rings.tx.ring.reserve(1);
        if reserved.left() == 0 {
            return Err(frag);
        }
        let len = frag.len() as u32;
        let addr = self.loans.lend(frag)?;
        reserved.push(libc::xdp_desc { addr, len, options: flags.options() });
        Ok(())
    }

    /// Puts up to `max` free frames into the TX ring that `write` has written to, as long as it
    /// says how many bytes it wrote; returns how many. It is not asked when there is no room.
    #[inline]
    pub fn send_written(
        &mut self,
        max: u32,
        mut write: impl FnMut(&mut [u8]) -> Option<u32>,
    ) -> u32 {
        let headroom = self.loans.buffers.layout().tx_headroom();
        let mut reserved = self.rings.tx.ring.reserve(max);
        let mut sent = 0;
        while reserved.left() > 0
            && let Some(mut frame) = self.loans.buffers.frames().take()
            && let Some(room) = frame.get_mut(headroom as usize..)
            && let Some(len) = write(room)
            && let Ok(addr) = self.loans.lend(Frag::new(frame, headroom, len))
        {
            reserved.push(libc::xdp_desc { addr, len, options: TxFlags::default().options() });
            sent += 1;
        }
        sent
    }

    /// Whether `frag` is from this socket's memory.
    pub fn owns(&self, frag: &Frag) -> bool {
        let frame = frag.frame();
        self.loans.buffers.frames().owns(frame) || self.loans.buffers.copies().owns(frame)
    }

    /// Takes back the frames that were sent; returns how many.
    #[inline]
    pub fn complete(&mut self) -> u32 {
        let completed = self.rings.completion.ring.peek(u32::MAX);
        let count = completed.len() as u32;
        for address in completed {
            // SAFETY: the kernel has put it into the completion ring, and is done with it.
            drop(unsafe { self.loans.reclaim(address) });
        }
        count
    }

    /// Frames in the TX ring that the kernel has not taken yet.
    #[inline]
    pub fn unsent(&self) -> u32 {
        self.rings.tx.ring.pending()
    }

    /// Has the kernel look at the TX ring, if it must be told.
    #[inline]
    pub fn wake_tx(&self) -> Result<(), Unwoken> {
        if self.rings.tx.needs_wakeup() { woken(sys::wake_tx(self.as_fd())) } else { Ok(()) }
    }

    /// Has the kernel receive, for as long as busy polling allows.
    pub fn poll_rx(&self) -> Result<(), Unwoken> {
        woken(sys::wake_rx(self.as_fd()))
    }

    /// Has the kernel look at the fill ring, if it must be told.
    #[inline]
    pub fn wake_rx(&self) -> Result<(), Unwoken> {
        if self.rings.fill.needs_wakeup() { woken(sys::wake_rx(self.as_fd())) } else { Ok(()) }
    }

    /// The error that the kernel left, once: the interface is gone.
    pub fn take_error(&self) -> io::Result<()> {
        sys::take_error(self.as_fd())
    }

    /// What the kernel counted.
    pub fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        sys::statistics(self.as_fd())
    }

    /// Waits until there is something to receive, or the interface is gone; under tokio with its
    /// timers.
    pub async fn arrived(&mut self) -> io::Result<()> {
        if self.watch.is_none() {
            let fd = Rc::clone(&self.fd);
            // SAFETY: the descriptor is open as long as `fd`, which is never replaced.
            let watch = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
            self.watch = Some(watch?);
        }
        while !self.has_arrived() {
            self.take_error()?;
            let Some(watch) = &self.watch else { return Ok(()) };
            let Ok(ready) = timeout(CHECK_INTERVAL, watch.readable()).await else { continue };
            let mut ready = ready?;
            if self.rings.rx.ring.peek(1).len() == 0 {
                ready.clear_ready();
            }
        }
        Ok(())
    }

    /// Whether there is anything to receive.
    fn has_arrived(&mut self) -> bool {
        self.rings.rx.ring.peek(1).len() > 0
    }

    /// Number of its queue.
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// How the kernel reaches the memory.
    pub const fn access(&self) -> &Access {
        &self.access
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn woken(result: io::Result<()>) -> Result<(), Unwoken> {
    let Err(error) = result else { return Ok(()) };
    match error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw) {
        Errno::EAGAIN | Errno::EBUSY | Errno::ENOBUFS | Errno::EINTR => Err(Unwoken::Busy),
        errno => Err(Unwoken::Failed(errno)),
    }
}

/// What is in the rings of one socket. When this goes, all of it comes back.
#[derive(Debug)]
struct Loans {
    buffers: Rc<Buffers>,
    frames: Borrower,
    copies: Borrower,
}

impl Loans {
    fn new(buffers: &Rc<Buffers>) -> Result<Self> {
        let (frames, copies) = (buffers.frames().borrower()?, buffers.copies().borrower()?);
        Ok(Self { buffers: Rc::clone(buffers), frames, copies })
    }

    /// A free frame's address in the memory.
    #[inline]
    fn lend_free(&self) -> Option<u64> {
        self.buffers.frames().lend_free(self.frames)
    }

    /// The address of the first byte.
    #[inline]
    fn lend(&self, frag: Frag) -> Result<u64, Frag> {
        let len = frag.len() as u32;
        let (frame, offset) = frag.into_frame();
        self.buffers
            .frames()
            .lend(frame, self.frames)
            .or_else(|frame| self.buffers.copies().lend(frame, self.copies))
            .map(|address| address + u64::from(offset))
            .map_err(|frame| Frag::new(frame, offset, len))
    }

    /// The frame or buffer at an address, and where in it the address is.
    ///
    /// # Safety
    ///
    /// The kernel is done with it.
    #[inline]
    unsafe fn reclaim(&self, address: u64) -> Option<(Frame, u32)> {
        // SAFETY: the caller's promise.
        unsafe {
            let frame = self.buffers.frames().reclaim(address, self.frames);
            frame.or_else(|| self.buffers.copies().reclaim(address, self.copies))
        }
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        // SAFETY: the socket's last descriptor and mapping went before. The kernel's release of it
        // has waited until nothing uses the memory (`xsk_release`, net/xdp/xsk.c).
        unsafe {
            self.buffers.frames().reclaim_all(self.frames);
            self.buffers.copies().reclaim_all(self.copies);
        }
    }
}
