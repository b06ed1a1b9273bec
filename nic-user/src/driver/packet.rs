//! A received packet: its parts, its headers, and how it was built.

use std::ops::{Deref, DerefMut};

use nic_common::{headers::HeaderInfo, policy::Verdict};
use smallvec::SmallVec;

use super::pool::Frame;

/// Bytes of a frame.
#[derive(Debug)]
pub struct Frag {
    frame: Frame,
    offset: u32,
    len: u32,
}

/// Parts of a packet. Up to one lies in the packet itself.
pub type Frags = SmallVec<[Frag; 1]>;

/// A packet. Dropping it gives its frames back.
#[derive(Debug)]
pub struct Packet {
    /// The first bytes, with all headers that the walk knows in them.
    pub linear: Frag,
    /// What follows.
    pub frags: Frags,
    /// The headers.
    pub info: HeaderInfo,
    /// How it was built.
    pub verdict: Verdict,
}

impl Frag {
    /// The `len` bytes of `frame` that start at `offset`; what is beyond its end is left out.
    #[inline]
    pub fn new(frame: Frame, offset: u32, len: u32) -> Self {
        let size = frame.len() as u32;
        let offset = offset.min(size);
        Self { frame, offset, len: len.min(size - offset) }
    }

    /// No bytes of `frame`, with all of it behind them but `headroom` bytes.
    #[inline]
    pub fn empty(frame: Frame, headroom: u32) -> Self {
        Self::new(frame, headroom, 0)
    }

    /// Leaves out the first `bytes`, or all there are. They are headroom then.
    #[inline]
    pub fn advance(&mut self, bytes: u32) {
        let bytes = bytes.min(self.len);
        self.offset += bytes;
        self.len -= bytes;
    }

    /// Takes `bytes` of the headroom in front of the others; false if there is not so much.
    #[inline]
    pub fn push_front(&mut self, bytes: u32) -> bool {
        let enough = bytes <= self.offset;
        if enough {
            self.offset -= bytes;
            self.len += bytes;
        }
        enough
    }

    /// Leaves out what is behind the first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: u32) {
        self.len = self.len.min(len);
    }

    /// Appends bytes; false, and nothing appended, if they do not fit.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let end = (self.offset + self.len) as usize;
        let Some(room) = self.frame.get_mut(end..).and_then(|room| room.get_mut(..bytes.len()))
        else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.len += bytes.len() as u32;
        true
    }

    /// Bytes in front of the first one.
    #[inline]
    pub const fn headroom(&self) -> u32 {
        self.offset
    }

    /// Bytes of the frame behind the last one.
    #[inline]
    pub fn tailroom(&self) -> u32 {
        self.frame.len() as u32 - self.offset - self.len
    }

    /// The frame that the bytes are in.
    #[inline]
    pub const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// The frame, and where in it the bytes start.
    #[inline]
    pub fn into_frame(self) -> (Frame, u32) {
        (self.frame, self.offset)
    }
}

impl Deref for Frag {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.offset as usize;
        &self.frame[start..start + self.len as usize]
    }
}

impl DerefMut for Frag {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.offset as usize;
        &mut self.frame[start..start + self.len as usize]
    }
}

impl Packet {
    /// Length of the whole packet in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.linear.len() + self.frags.iter().map(|frag| frag.len()).sum::<usize>()
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its parts, from the first byte to the last.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&*self.linear).chain(self.frags.iter().map(|frag| &**frag))
    }

    /// A copy of all its bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{
        pool::Pool,
        umem::{Memory, Region},
    };

    fn pool() -> Pool {
        Pool::new(Region::whole(Memory::new(4096).unwrap()), 256).unwrap()
    }

    #[test]
    fn a_frag_never_leaves_its_frame() {
        let pool = pool();
        for (offset, len) in [(0, 257), (256, 1), (300, 1), (u32::MAX, u32::MAX)] {
            let frag = Frag::new(pool.take().unwrap(), offset, len);
            assert_eq!(frag.headroom() as usize + frag.len() + frag.tailroom() as usize, 256);
        }
    }

    #[test]
    fn bytes_are_taken_off_and_put_back() {
        let pool = pool();
        let mut frag = Frag::empty(pool.take().unwrap(), 16);
        assert!(frag.append(b"headerspayload") && !frag.append(&[0; 240]));
        frag.advance(7);
        assert_eq!(&*frag, b"payload");
        frag.truncate(3);
        assert!(frag.push_front(7) && !frag.push_front(17));
        assert_eq!(&*frag, b"headerspay");
    }

    #[test]
    fn a_packet_is_its_parts_in_order() {
        let pool = pool();
        let frag = |bytes: &[u8]| {
            let mut frag = Frag::empty(pool.take().unwrap(), 0);
            assert!(frag.append(bytes));
            frag
        };
        let packet = Packet {
            linear: frag(b"ab"),
            frags: [frag(b"cd"), frag(b"e")].into_iter().collect(),
            info: HeaderInfo::of(&b"ab"[..]),
            verdict: Verdict::Split,
        };
        assert_eq!((packet.len(), packet.to_vec()), (5, b"abcde".to_vec()));
        drop(packet);
        assert_eq!(pool.account().held, 0);
    }
}
