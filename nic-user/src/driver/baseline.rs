//! The ways that drivers received before, to measure against. Each takes the frames that
//! [`super::queue::Queue::receive_frames`] hands out. The way without a bounce path is
//! [`super::receive::Building::bounce_below`] 0.

use std::{collections::VecDeque, mem::MaybeUninit, rc::Rc};

use nic_common::{headers::HeaderInfo, policy::Verdict};

use super::{
    buffers::Buffers,
    packet::{Frag, Frags, Packet},
    receive::headers,
};

/// Bytes that were copied of every packet, as mlx5's `MLX5E_RX_MAX_HEAD` was.
pub const FIXED_COPY: usize = 256;

/// Always copies the first 256 bytes, headers or not; what is behind them stays in the frame.
#[derive(Debug)]
pub struct FixedCopy {
    buffers: Rc<Buffers>,
}

impl FixedCopy {
    /// Copies go to `buffers`.
    pub fn new(buffers: &Rc<Buffers>) -> Self {
        Self { buffers: Rc::clone(buffers) }
    }

    /// The packet in `frag`, left whole if there is no buffer for the copy.
    pub fn build(&self, mut frag: Frag) -> Packet {
        let info = headers(&frag);
        let len = frag.len().min(FIXED_COPY);
        let mut linear = self.buffers.copies().take().map(|buffer| Frag::empty(buffer, 0));
        let copied = linear.as_mut().is_some_and(|linear| linear.append(&frag[..len]));
        match linear.filter(|_| copied) {
            Some(linear) if len == frag.len() => {
                Packet { linear, frags: Frags::new(), info, verdict: Verdict::Copy }
            }
            Some(linear) => {
                frag.advance(len as u32);
                Packet { linear, frags: Frags::from_buf([frag]), info, verdict: Verdict::Split }
            }
            None => Packet { linear: frag, frags: Frags::new(), info, verdict: Verdict::Whole },
        }
    }
}

/// A packet object with a buffer of its own, made before anything has arrived.
#[derive(Debug)]
pub struct OldPacket {
    buffer: Vec<u8>,
    /// The headers.
    pub info: HeaderInfo,
}

impl OldPacket {
    fn new(size: usize) -> Box<Self> {
        Box::new(Self { buffer: Vec::with_capacity(size), info: HeaderInfo::of(&[][..]) })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }
}

/// A ring of packets made beforehand: what arrives is copied into the oldest one, and another one
/// is made in its place at once.
#[derive(Debug)]
pub struct Preallocated {
    ring: VecDeque<Box<OldPacket>>,
    size: usize,
}

impl Preallocated {
    /// A ring of `packets` of up to `size` bytes.
    pub fn new(packets: usize, size: usize) -> Self {
        Self { ring: (0..packets).map(|_| OldPacket::new(size)).collect(), size }
    }

    /// The packet in `frag`, cut to the size of the ring's packets. The frame goes straight back.
    pub fn build(&mut self, frag: &Frag) -> Box<OldPacket> {
        self.ring.push_back(OldPacket::new(self.size));
        let mut packet = self.ring.pop_front().unwrap_or_else(|| OldPacket::new(self.size));
        packet.buffer.extend_from_slice(&frag[..frag.len().min(self.size)]);
        packet.info = headers(packet.bytes());
        packet
    }
}

/// A packet around its page, without a cache of pages: each is taken from the system's allocator
/// and given back to it.
///
/// Frames of AF_XDP cannot leave its memory one by one. So the bytes stay in their frame, and the
/// page beside them is there for its price.
#[derive(Debug)]
pub struct Uncached {
    /// The packet.
    pub packet: Packet,
    _page: Box<[MaybeUninit<u8>]>,
}

impl Uncached {
    /// The packet in `frag`, and a page of its own.
    pub fn build(frag: Frag) -> Self {
        let page = Box::new_uninit_slice(frag.frame().len());
        let info = headers(&frag);
        let packet = Packet { linear: frag, frags: Frags::new(), info, verdict: Verdict::Whole };
        Self { packet, _page: page }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        driver::buffers::Layout,
        lab::{frames::Ends, traffic::IpVersion::V4},
    };

    fn frag(buffers: &Buffers, payload: usize) -> Frag {
        let ends = Ends::default();
        let frame = ends.ethernet(ends.ipv4(ends.tcp(V4, &vec![1; payload])));
        let mut frag = Frag::empty(buffers.frames().take().unwrap(), 256);
        assert!(frag.append(&frame));
        frag
    }

    #[test]
    fn fixed_copies_put_payload_into_the_linear_part() {
        let buffers = Buffers::new(Layout::default()).unwrap();
        let old = FixedCopy::new(&buffers);
        for (payload, parts) in [(100, (154, 0)), (202, (256, 0)), (203, (256, 1))] {
            let bytes = frag(&buffers, payload).to_vec();
            let packet = old.build(frag(&buffers, payload));
            assert_eq!((packet.linear.len(), packet.frags.len()), parts);
            assert_eq!((packet.to_vec(), packet.info.header_len), (bytes, 54));
        }
    }

    #[test]
    fn preallocated_packets_are_cut_to_their_size() {
        let buffers = Buffers::new(Layout::default()).unwrap();
        let mut old = Preallocated::new(4, 1000);
        for payload in [0, 100, 1400] {
            let frag = frag(&buffers, payload);
            let packet = old.build(&frag);
            assert_eq!(packet.bytes(), &frag[..frag.len().min(1000)]);
            assert_eq!(packet.info.header_len, 54);
        }
        assert_eq!(buffers.frames().account().held, 0);
    }

    #[test]
    fn uncached_packets_give_their_frame_back() {
        let buffers = Buffers::new(Layout::default()).unwrap();
        assert_eq!(Uncached::build(frag(&buffers, 10)).packet.len(), 64);
        assert_eq!(buffers.frames().account().held, 0);
    }
}
