//! Super-packets through a queue: segmented on their way into the TX ring, merged on their way out
//! of the RX ring.

use super::{
    super::{
        gro::{Gro, Received},
        segment::Segments,
    },
    Queue, Refusal,
};

impl Queue {
    /// Puts segments into the TX ring, written straight into frames of its memory;
    /// [`Queue::flush`] sends them.
    ///
    /// # Errors
    ///
    /// - [`Refusal::Full`]: the segments that are left did not fit. They still are in `segments`:
    ///   try again with the same after [`Queue::flush`].
    /// - [`Refusal::TooLong`]: a segment is longer than a frame. Nothing was sent.
    #[inline]
    pub fn send_segments<'p, I: Iterator<Item = &'p [u8]>>(
        &mut self,
        segments: &mut Segments<'p, I>,
    ) -> Result<(), Refusal> {
        // The first segment is the longest.
        let longest = segments.next_len().unwrap_or_default();
        if longest > self.buffers.layout().tx_capacity() {
            return Err(Refusal::TooLong);
        }
        self.push_segments(segments);
        if segments.left() > 0 {
            self.complete();
            self.push_segments(segments);
        }
        if segments.left() > 0 {
            self.sent.full += 1;
            return Err(Refusal::Full);
        }
        Ok(())
    }

    #[inline]
    fn push_segments<'p, I: Iterator<Item = &'p [u8]>>(&mut self, segments: &mut Segments<'p, I>) {
        let left = u32::try_from(segments.left()).unwrap_or(u32::MAX);
        let sent = self.socket.send_written(left, |frame| {
            // Every segment fits into a frame.
            let len = segments.write(frame).ok()??;
            u32::try_from(len).ok()
        });
        self.sent.frames += u64::from(sent);
    }

    /// Hands out packets that arrived, of up to `max` frames, merged by `gro`; returns how many
    /// frames that was. Nothing is held beyond the batch, as at the end of NAPI's poll.
    #[inline]
    pub fn receive_merged(
        &mut self,
        max: u32,
        gro: &mut Gro,
        mut each: impl FnMut(Received<'_>),
    ) -> u32 {
        let received = self.receive(max, |packet| gro.receive(packet, &mut each));
        gro.flush(each);
        received
    }
}
