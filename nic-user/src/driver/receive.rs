//! How a packet is built of the frames that it arrived in: copied, split, or left whole; and
//! bounced, when too many frames are held.

use std::rc::Rc;

use nic_common::{
    headers::HeaderInfo,
    policy::{CopyPolicy, Verdict},
};

use super::{
    buffers::Buffers,
    packet::{Frag, Frags, Packet},
};
use crate::error::{Error, Result};

/// How packets are to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Building {
    /// Which bytes are copied.
    pub policy: CopyPolicy,
    /// Bounce, while fewer frames than this are not held by users: copy what would stay in a
    /// frame to a smaller buffer, as far as one is large enough, and recycle the frame at once. 0
    /// turns it off.
    pub bounce_below: u32,
}

/// What was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Packets copied whole.
    pub copied: u64,
    /// Packets whose headers were copied out.
    pub split: u64,
    /// Packets left in their frames.
    pub whole: u64,
    /// Packets that the policy wanted copied or split, had there been a buffer.
    pub copy_failed: u64,
    /// Frames recycled at once because their bytes were bounced.
    pub frag_alloc: u64,
    /// Times that there was no buffer to bounce to, so that the frame was kept.
    pub frag_alloc_err: u64,
}

impl Built {
    /// All packets.
    pub const fn packets(&self) -> u64 {
        self.copied + self.split + self.whole
    }
}

/// Builds packets.
#[derive(Debug)]
pub struct Builder {
    building: Building,
    buffers: Rc<Buffers>,
    built: Built,
}

impl Builder {
    /// A builder that takes its copies from `buffers`; refuses a policy that asks for larger ones.
    pub fn new(building: Building, buffers: &Rc<Buffers>) -> Result<Self> {
        let CopyPolicy { rx_copybreak, max_linear, split } = building.policy;
        let largest = rx_copybreak.max(if split { max_linear } else { 0 });
        let size = buffers.layout().copy_size;
        if u32::from(largest) > size {
            return Err(Error::usage(format!(
                "the policy copies up to {largest} bytes, but copy buffers have {size}"
            ))
            .with_fix("create the UMEM with a larger copy size"));
        }
        Ok(Self { building, buffers: Rc::clone(buffers), built: Built::default() })
    }

    /// What it built so far.
    pub const fn built(&self) -> Built {
        self.built
    }

    /// The packet that arrived in `frag` alone.
    // Called, it takes twice as long: packets are large to move. For the same reason the frame goes
    // by value only to what is rare.
    #[inline(always)]
    pub fn build(&mut self, frag: Frag) -> Packet {
        if self.is_low() { self.build_of(frag, Frags::new()) } else { self.of_one(frag) }
    }

    /// The packet that arrived in `first` and what follows it.
    #[inline(never)]
    pub fn build_of(&mut self, first: Frag, rest: Frags) -> Packet {
        let mut packet =
            if rest.is_empty() { self.of_one(first) } else { self.of_several(first, rest) };
        if self.is_low() {
            self.bounce(&mut packet);
        }
        packet
    }

    #[inline(always)]
    fn of_one(&mut self, mut frag: Frag) -> Packet {
        let info = headers(&frag);
        let verdict = self.building.policy.decide(frag.len() as u32, &info);
        let copied = verdict.copied(frag.len() as u32, info.header_len);
        let copy = match verdict {
            Verdict::Whole => None,
            _ => frag.get(..copied as usize).and_then(|bytes| self.copy_of(bytes)),
        };
        let Some(linear) = copy else {
            self.count_whole(verdict);
            return Packet { linear: frag, frags: Frags::new(), info, verdict: Verdict::Whole };
        };
        self.count_copied(verdict);
        frag.advance(copied);
        let frags = if frag.is_empty() { Frags::new() } else { Frags::from_buf([frag]) };
        Packet { linear, frags, info, verdict }
    }

    fn of_several(&mut self, mut first: Frag, mut rest: Frags) -> Packet {
        let info = headers(&first);
        let len = rest.iter().fold(first.len(), |len, frag| len + frag.len());
        let verdict = self.building.policy.decide(len as u32, &info);
        let copy = match verdict {
            Verdict::Whole => None,
            Verdict::Split => first.get(..info.header_len as usize).and_then(|it| self.copy_of(it)),
            Verdict::Copy => {
                rest.iter().fold(self.copy_of(&first), |copy, frag| appended(copy?, frag))
            }
        };
        let Some(linear) = copy else {
            self.count_whole(verdict);
            return Packet { linear: first, frags: rest, info, verdict: Verdict::Whole };
        };
        self.count_copied(verdict);
        if verdict == Verdict::Copy {
            return Packet { linear, frags: Frags::new(), info, verdict };
        }
        first.advance(info.header_len);
        if !first.is_empty() {
            rest.insert(0, first);
        }
        Packet { linear, frags: rest, info, verdict }
    }

    #[inline]
    fn count_copied(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Copy => self.built.copied += 1,
            _ => self.built.split += 1,
        }
    }

    /// Counts a packet that stays in its frames, as wished or for want of a buffer.
    #[inline]
    fn count_whole(&mut self, wished: Verdict) {
        self.built.whole += 1;
        self.built.copy_failed += u64::from(wished != Verdict::Whole);
    }

    /// Whether users hold so many frames that what arrives is to be bounced.
    #[inline]
    fn is_low(&self) -> bool {
        let frames = self.buffers.frames();
        if frames.not_held() >= self.building.bounce_below {
            return false;
        }
        // Some may have come back from other threads.
        frames.collect();
        frames.not_held() < self.building.bounce_below
    }

    #[cold]
    fn bounce(&mut self, packet: &mut Packet) {
        if packet.verdict == Verdict::Whole {
            self.bounce_frag(&mut packet.linear);
        }
        for frag in &mut packet.frags {
            self.bounce_frag(frag);
        }
    }

    /// As `hns3_handle_rx_copybreak` (drivers/net/ethernet/hisilicon/hns3/hns3_enet.c) does.
    fn bounce_frag(&mut self, frag: &mut Frag) {
        if frag.len() > self.buffers.copies().chunk_size() {
            return;
        }
        match self.copy_of(frag) {
            Some(copy) => {
                self.built.frag_alloc += 1;
                *frag = copy;
            }
            None => self.built.frag_alloc_err += 1,
        }
    }

    /// A copy; `None` if there is no buffer that is large enough.
    #[inline]
    fn copy_of(&self, bytes: &[u8]) -> Option<Frag> {
        appended(Frag::empty(self.buffers.copies().take()?, 0), bytes)
    }
}

#[inline]
fn appended(mut frag: Frag, bytes: &[u8]) -> Option<Frag> {
    frag.append(bytes).then_some(frag)
}

/// The headers of a packet whose first frame is `bytes`.
#[inline]
pub(super) fn headers(bytes: &[u8]) -> HeaderInfo {
    HeaderInfo::of_common(bytes).unwrap_or_else(|| uncommon_headers(bytes))
}

/// Its own function, so that the whole walk does not weigh on what is common.
#[cold]
#[inline(never)]
fn uncommon_headers(bytes: &[u8]) -> HeaderInfo {
    HeaderInfo::of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        driver::buffers::Layout,
        lab::{frames::Ends, traffic::IpVersion::V4},
    };

    const POLICY: CopyPolicy = CopyPolicy { rx_copybreak: 100, max_linear: 256, split: true };

    fn buffers(copies: u32) -> Rc<Buffers> {
        Buffers::new(Layout { frames: 8, copies, ..Layout::default() }).unwrap()
    }

    fn builder(buffers: &Rc<Buffers>, bounce_below: u32) -> Builder {
        Builder::new(Building { policy: POLICY, bounce_below }, buffers).unwrap()
    }

    /// A TCP packet with `payload` bytes behind 54 bytes of headers.
    fn packet(payload: usize) -> Vec<u8> {
        let ends = Ends::default();
        ends.ethernet(ends.ipv4(ends.tcp(V4, &vec![1; payload])))
    }

    fn frag(buffers: &Buffers, bytes: &[u8]) -> Frag {
        let mut frag = Frag::empty(buffers.frames().take().unwrap(), 256);
        assert!(frag.append(bytes));
        frag
    }

    /// Builds a packet that arrives in frames of `size` bytes; its parts' lengths.
    fn build(builder: &mut Builder, bytes: &[u8], size: usize) -> (Packet, Vec<usize>) {
        let buffers = Rc::clone(&builder.buffers);
        let mut frags = bytes.chunks(size).map(|part| frag(&buffers, part));
        let (first, rest) = (frags.next().unwrap(), Frags::from_iter(frags));
        let packet =
            if rest.is_empty() { builder.build(first) } else { builder.build_of(first, rest) };
        assert_eq!(packet.to_vec(), bytes);
        let parts = packet.parts().map(<[u8]>::len).collect();
        (packet, parts)
    }

    #[test]
    fn headers_are_copied_exactly_and_payload_stays() {
        let buffers = buffers(8);
        let mut builder = builder(&buffers, 0);
        let cases = [
            (packet(46), Verdict::Copy, vec![100], 0),
            (packet(47), Verdict::Split, vec![54, 47], 1),
        ];
        for (bytes, verdict, parts, frames) in cases {
            let (packet, lens) = build(&mut builder, &bytes, 1500);
            assert_eq!((packet.verdict, lens), (verdict, parts));
            assert_eq!(buffers.frames().account().held, frames);
        }
    }

    #[test]
    fn a_later_pull_needs_no_other_buffer() {
        let buffers = buffers(8);
        let (packet, _) = build(&mut builder(&buffers, 0), &packet(1000), 1500);
        assert_eq!(packet.linear.tailroom(), 256 - 54);
    }

    #[test]
    fn a_packet_of_several_frames_is_split_in_its_first() {
        let buffers = buffers(8);
        let mut builder = builder(&buffers, 0);
        assert_eq!(build(&mut builder, &packet(1000), 600).1, [54, 546, 454]);
        // Nothing of the payload is in the first frame, so nothing keeps it.
        assert_eq!(build(&mut builder, &packet(100), 54).1, [54, 54, 46]);
        assert_eq!(build(&mut builder, &packet(46), 60).1, [100]);
        assert_eq!(buffers.frames().account().held, 0);
    }

    #[test]
    fn without_buffers_packets_stay_whole() {
        let buffers = buffers(0);
        let mut builder = builder(&buffers, 0);
        for payload in [0, 1000] {
            assert_eq!(build(&mut builder, &packet(payload), 1500).0.verdict, Verdict::Whole);
        }
        assert_eq!((builder.built().copy_failed, builder.built().whole), (2, 2));
    }

    #[test]
    fn payload_is_bounced_while_frames_are_low() {
        let buffers = buffers(8);
        let mut builder = builder(&buffers, 8);
        // The frame that it arrived in is held itself.
        let (small, parts) = build(&mut builder, &packet(200), 1500);
        assert_eq!((parts, small.verdict), (vec![54, 200], Verdict::Split));
        assert_eq!(buffers.frames().account().held, 0);
        // Longer than a buffer.
        let (long, _) = build(&mut builder, &packet(257), 1500);
        assert_eq!(buffers.frames().account().held, 1);
        assert_eq!((builder.built().frag_alloc, builder.built().frag_alloc_err), (1, 0));
        let held: Vec<_> = std::iter::from_fn(|| buffers.copies().take()).collect();
        let (_kept, _) = build(&mut builder, &packet(200), 1500);
        assert_eq!((builder.built().frag_alloc, builder.built().frag_alloc_err), (1, 1));
        drop((long, held));
    }

    #[test]
    fn frames_that_came_back_from_another_thread_end_the_bouncing() {
        let buffers = buffers(8);
        let mut builder = builder(&buffers, 4);
        let held: Vec<_> = (0..5).map(|_| buffers.frames().take().unwrap()).collect();
        std::thread::spawn(move || drop(held)).join().unwrap();
        build(&mut builder, &packet(200), 1500);
        assert_eq!(builder.built().frag_alloc, 0);
    }
}
