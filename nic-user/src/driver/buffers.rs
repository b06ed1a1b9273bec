//! The memory of one UMEM: frames for the rings, and smaller buffers for what is copied.

use std::{
    cell::RefCell,
    os::fd::OwnedFd,
    rc::{Rc, Weak},
};

use super::{
    pool::Pool,
    umem::{Memory, Region},
};
use crate::error::{Error, Result};

/// What the kernel leaves free in front of what it receives (`XDP_PACKET_HEADROOM`).
pub const KERNEL_HEADROOM: u32 = 256;

/// Bytes of `struct xsk_tx_metadata` (linux/if_xdp.h).
pub(super) const TX_METADATA_LEN: u32 = 24;

/// The measures of [`Buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Frames for the rings.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096. The kernel uses 256 of them as headroom. igb's zero copy
    /// takes whole KiB only, and so 1024 of 2048 (`igb_setup_srrctl`): it wants 4096.
    pub frame_size: u32,
    /// Further bytes that the kernel leaves free in front of what it receives.
    pub headroom: u32,
    /// Buffers for what is copied: headers, small packets, fragments that are bounced.
    pub copies: u32,
    /// Bytes of such a buffer, a power of two: the most that is ever copied.
    pub copy_size: u32,
    /// Whether what is sent may ask the kernel or the NIC for a checksum (Linux 6.11).
    pub tx_metadata: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            frames: 4096,
            frame_size: 2048,
            headroom: 0,
            copies: 4096,
            copy_size: 256,
            tx_metadata: false,
        }
    }
}

impl Layout {
    /// Refuses what the kernel would, with the reason (`xdp_umem_reg`, net/xdp/xdp_umem.c).
    fn check(&self) -> Result<()> {
        let fail = |why: String| Err(Error::usage(format!("invalid UMEM layout: {why}")));
        let &Self { frames, frame_size, headroom, copy_size, .. } = self;
        if !matches!(frame_size, 2048 | 4096) {
            return fail(format!("frames of {frame_size} bytes; the kernel supports 2048 or 4096"));
        }
        if frames == 0 {
            return fail("no frames".into());
        }
        if headroom >= frame_size - KERNEL_HEADROOM {
            return fail(format!("a headroom of {headroom} bytes leaves no room in {frame_size}"));
        }
        if !copy_size.is_power_of_two() || copy_size > frame_size {
            return fail(format!(
                "copy buffers of {copy_size} bytes; the size must be a power of two up to \
                 {frame_size}"
            ));
        }
        Ok(())
    }

    /// Bytes in front of what is sent that the kernel counts to it: where a memory has metadata,
    /// every frame has to have room for it (`xp_aligned_validate_desc`, net/xdp/xsk_queue.h).
    pub(super) const fn tx_headroom(&self) -> u32 {
        if self.tx_metadata { TX_METADATA_LEN } else { 0 }
    }

    /// The most bytes of a frame that can be sent.
    pub(super) const fn tx_capacity(&self) -> usize {
        (self.frame_size - self.tx_headroom()) as usize
    }

    const fn frames_len(&self) -> usize {
        self.frames as usize * self.frame_size as usize
    }

    /// Bytes that the kernel gets to know: whole frames only.
    pub(super) const fn len(&self) -> usize {
        let copies = self.copies as usize * self.copy_size as usize;
        (self.frames_len() + copies).next_multiple_of(self.frame_size as usize)
    }
}

/// One memory for the rings of any number of sockets of one thread, on any queues and interfaces.
/// What was received on one can be sent on another without a copy.
#[derive(Debug)]
pub struct Buffers {
    layout: Layout,
    frames: Pool,
    copies: Pool,
    /// The sockets of this memory. As long as one of them is open, others join it.
    sockets: RefCell<Vec<Weak<OwnedFd>>>,
}

impl Buffers {
    /// Maps the memory and cuts it up.
    pub fn new(layout: Layout) -> Result<Rc<Self>> {
        layout.check()?;
        let (frames, rest) =
            Region::whole(Memory::new(layout.len())?).split_at(layout.frames_len());
        let (copies, _) = rest.split_at(layout.copies as usize * layout.copy_size as usize);
        Ok(Rc::new(Self {
            layout,
            frames: Pool::new(frames, layout.frame_size as usize)?,
            copies: Pool::new(copies, layout.copy_size as usize)?,
            sockets: RefCell::default(),
        }))
    }

    /// Its measures.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The frames.
    #[inline]
    pub const fn frames(&self) -> &Pool {
        &self.frames
    }

    /// The buffers for what is copied.
    #[inline]
    pub const fn copies(&self) -> &Pool {
        &self.copies
    }

    /// Bytes of a frame that the kernel can fill.
    pub const fn frame_capacity(&self) -> u32 {
        self.layout.frame_size - KERNEL_HEADROOM - self.layout.headroom
    }

    /// An open socket of this memory, if there is one.
    pub(super) fn socket(&self) -> Option<Rc<OwnedFd>> {
        self.sockets.borrow().iter().find_map(Weak::upgrade)
    }

    /// Remembers a socket that was bound.
    pub(super) fn add_socket(&self, socket: &Rc<OwnedFd>) {
        let mut sockets = self.sockets.borrow_mut();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Rc::downgrade(socket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_copies_share_one_memory() {
        let layout = Layout { frames: 3, copies: 5, ..Layout::default() };
        let buffers = Buffers::new(layout).unwrap();
        assert_eq!((buffers.frames().total(), buffers.copies().total()), (3, 5));
        assert_eq!(layout.len(), 4 * 2048);
        assert!(std::ptr::eq(buffers.frames().memory(), buffers.copies().memory()));
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused_with_the_reason() {
        let good = Layout::default();
        let cases = [
            (Layout { frame_size: 1024, ..good }, "1024 bytes; the kernel supports 2048 or 4096"),
            (Layout { frames: 0, ..good }, "no frames"),
            (Layout { headroom: 1792, ..good }, "leaves no room in 2048"),
            (Layout { copy_size: 300, ..good }, "power of two"),
        ];
        for (layout, why) in cases {
            let error = Buffers::new(layout).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
