//! The payload of a super-packet, wherever its parts lie.

use super::super::checksum::Sum;

/// Bytes in parts, of which the next ones can be copied out.
#[derive(Clone, Debug)]
pub(super) struct Payload<'a, I> {
    part: &'a [u8],
    parts: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Payload<'a, I> {
    pub(super) const fn new(parts: I) -> Self {
        Self { part: &[], parts }
    }

    /// Fills `to` with the next bytes; the sum of them. What there is no byte for stays as it is.
    #[inline]
    pub(super) fn copy_to(&mut self, to: &mut [u8]) -> Sum {
        // Mostly one part holds all of a segment.
        if let Some((now, later)) = self.part.split_at_checked(to.len()) {
            self.part = later;
            return Sum::of_copy(now, to);
        }
        self.gather(to)
    }

    fn gather(&mut self, to: &mut [u8]) -> Sum {
        let mut sum = Sum::default();
        let mut done = 0;
        while let Some(to) = to.get_mut(done..).filter(|to| !to.is_empty()) {
            let Some(now) = self.next_up_to(to.len()) else { break };
            sum = sum.then(done, Sum::of_copy(now, to));
            done += now.len();
        }
        sum
    }

    /// Leaves out the next `bytes`.
    pub(super) fn skip(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let Some(skipped) = self.next_up_to(bytes) else { break };
            bytes -= skipped.len();
        }
    }

    /// Some of the next bytes, at most `limit` of them; `None` behind the last.
    fn next_up_to(&mut self, limit: usize) -> Option<&'a [u8]> {
        while self.part.is_empty() {
            self.part = self.parts.next()?;
        }
        let (now, later) = self.part.split_at(limit.min(self.part.len()));
        self.part = later;
        Some(now)
    }
}
