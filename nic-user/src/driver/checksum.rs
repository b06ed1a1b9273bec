//! The Internet checksum (RFC 1071): over bytes where they lie, or in one pass with copying them.
//!
//! A sum of 16-bit words with end-around carry does not care how many words are added at once, nor
//! in which byte order, as long as the result is stored in the same order. So all is added in the
//! machine's own order, in words as wide as the processor has.

/// A sum of 16-bit words that is still to be folded and inverted.
///
/// Sums of consecutive parts add up with [`Sum::then`], values of header fields with
/// [`Sum::with_u16`] and [`Sum::with_u32`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Below 2^36 when it comes from bytes: no number of additions that a packet needs overflows.
    total: u64,
}

impl Sum {
    /// The sum of `bytes`; a last single byte counts as if a zero followed.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        // For a few words it takes longer to fill wide registers and to add their lanes up.
        const FEW: usize = 64;
        let copy = &mut [];
        let total = if bytes.len() < FEW { scalar(bytes, copy) } else { sum_and_copy(bytes, copy) };
        Self { total: fold_to_33_bits(total) }
    }

    /// The sum of a header of `N` bytes, a multiple of 4.
    #[inline]
    pub fn of_header<const N: usize>(header: &[u8; N]) -> Self {
        const { assert!(N.is_multiple_of(4)) };
        let (words, _) = header.as_chunks();
        Self { total: words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum() }
    }

    /// Copies `from` to the start of `to`, which must not be shorter, and sums it up on the way.
    ///
    /// # Panics
    ///
    /// If `to` is shorter than `from`.
    pub fn of_copy(from: &[u8], to: &mut [u8]) -> Self {
        let to = &mut to[..from.len()];
        Self { total: fold_to_33_bits(sum_and_copy(from, to)) }
    }

    /// This sum and that of bytes behind it, where `at` is how many bytes this one is of: behind
    /// an odd number of them, high and low halves change places.
    #[must_use]
    pub const fn then(self, at: usize, next: Self) -> Self {
        let next =
            if at.is_multiple_of(2) { next.total } else { next.folded().swap_bytes() as u64 };
        Self { total: self.total + next }
    }

    /// This sum and that of other bytes, where this one is of an even number of them.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { total: self.total + other.total }
    }

    /// This sum and a header field of 16 bits.
    #[must_use]
    pub const fn with_u16(self, value: u16) -> Self {
        Self { total: self.total + value.to_be() as u64 }
    }

    /// This sum and a header field of 32 bits.
    #[must_use]
    pub const fn with_u32(self, value: u32) -> Self {
        Self { total: self.total + value.to_be() as u64 }
    }

    /// The checksum, as it is stored in a header.
    pub const fn checksum(self) -> [u8; 2] {
        (!self.folded()).to_ne_bytes()
    }

    /// The sum itself, as it is stored where the checksum is still to be finished.
    pub const fn unfinished(self) -> [u8; 2] {
        self.folded().to_ne_bytes()
    }

    /// The checksum of UDP, for which all zeroes would mean that there is none.
    pub const fn udp_checksum(self) -> [u8; 2] {
        match self.checksum() {
            [0, 0] => [0xff, 0xff],
            checksum => checksum,
        }
    }

    /// Whether this is the sum of bytes that contain their own checksum, and it is right.
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }

    const fn folded(self) -> u16 {
        let total = (self.total & 0xffff_ffff) + (self.total >> 32);
        let total = (total & 0xffff) + (total >> 16);
        let total = (total & 0xffff) + (total >> 16);
        ((total & 0xffff) + (total >> 16)) as u16
    }
}

const fn fold_to_33_bits(total: u64) -> u64 {
    (total & 0xffff_ffff) + (total >> 32)
}

/// The sum of all 32-bit words of `from`, which is copied to `to` unless that is empty.
///
/// `to` is empty or as long as `from`.
fn sum_and_copy(from: &[u8], to: &mut [u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: this processor has AVX-512BW.
            return unsafe { x86::avx512(from, to) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has AVX2.
            return unsafe { x86::avx2(from, to) };
        }
    }
    scalar(from, to)
}

/// Bytes of a word that is added at once.
const WORD: usize = 8;

#[inline]
fn scalar(from: &[u8], to: &mut [u8]) -> u64 {
    let (words, rest) = from.as_chunks::<WORD>();
    let (to_words, to_rest) = to.as_chunks_mut::<WORD>();
    let mut total = 0;
    for (index, word) in words.iter().enumerate() {
        let value = u64::from_ne_bytes(*word);
        total += (value & 0xffff_ffff) + (value >> 32);
        if let Some(to) = to_words.get_mut(index) {
            *to = *word;
        }
    }
    let mut last = [0; WORD];
    last[..rest.len()].copy_from_slice(rest);
    if to_rest.len() == rest.len() {
        to_rest.copy_from_slice(rest);
    }
    let last = u64::from_ne_bytes(last);
    total + (last & 0xffff_ffff) + (last >> 32)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Each lane of 64 bits holds two 32-bit words. Lanes are added as they are, overflow and all,
    //! and their upper halves once more on their own. That gives the sum of the upper halves, and
    //! from it what overflowed: the sum of the lower halves is the first less the second shifted
    //! up, which fits 64 bits.

    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_add_epi64, _mm256_extract_epi64, _mm256_loadu_si256,
        _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256,
        _mm256_sub_epi64, _mm512_add_epi64, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
        _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
        _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    };

    use super::scalar;

    #[target_feature(enable = "avx2")]
    pub fn avx2(from: &[u8], to: &mut [u8]) -> u64 {
        const LEN: usize = size_of::<__m256i>();
        let (blocks, rest) = from.as_chunks::<LEN>();
        let (to_blocks, to_rest) = to.as_chunks_mut::<LEN>();
        let (mut all, mut upper) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for (index, block) in blocks.iter().enumerate() {
            // SAFETY: a block is as long as the register; it need not be aligned.
            let lanes = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
            all = _mm256_add_epi64(all, lanes);
            upper = _mm256_add_epi64(upper, _mm256_srli_epi64::<32>(lanes));
            if let Some(to) = to_blocks.get_mut(index) {
                // SAFETY: as above.
                unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), lanes) };
            }
        }
        let lower = _mm256_sub_epi64(all, _mm256_slli_epi64::<32>(upper));
        let sums = _mm256_add_epi64(lower, upper);
        let lanes = [
            _mm256_extract_epi64::<0>(sums),
            _mm256_extract_epi64::<1>(sums),
            _mm256_extract_epi64::<2>(sums),
            _mm256_extract_epi64::<3>(sums),
        ];
        lanes.into_iter().map(i64::cast_unsigned).sum::<u64>() + scalar(rest, to_rest)
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn avx512(from: &[u8], to: &mut [u8]) -> u64 {
        const LEN: usize = size_of::<__m512i>();
        let mut sums = Sums512 { all: _mm512_setzero_si512(), upper: _mm512_setzero_si512() };
        let head = unaligned(from, to, LEN);
        let (from_head, from) = from.split_at(head);
        let (to_head, to) = to.split_at_mut(head.min(to.len()));
        sums.add_short(from_head, to_head);
        let (blocks, rest) = from.as_chunks::<LEN>();
        let (to_blocks, to_rest) = to.as_chunks_mut::<LEN>();
        for (index, block) in blocks.iter().enumerate() {
            // SAFETY: a block is as long as the register; it need not be aligned.
            let lanes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            sums.add(lanes);
            if let Some(to) = to_blocks.get_mut(index) {
                // SAFETY: as above.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), lanes) };
            }
        }
        sums.add_short(rest, to_rest);
        sums.total()
    }

    /// How many bytes lie in front of the first aligned block: of those written, if any are, since
    /// crossing cache lines costs more there. An even number: an odd one would swap bytes.
    #[inline]
    fn unaligned(from: &[u8], to: &[u8], block: usize) -> usize {
        let start = if to.is_empty() { from.as_ptr() } else { to.as_ptr() };
        let head = start.align_offset(block);
        if head.is_multiple_of(2) && head < from.len() { head } else { 0 }
    }

    struct Sums512 {
        all: __m512i,
        upper: __m512i,
    }

    impl Sums512 {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn add(&mut self, lanes: __m512i) {
            self.all = _mm512_add_epi64(self.all, lanes);
            self.upper = _mm512_add_epi64(self.upper, _mm512_srli_epi64::<32>(lanes));
        }

        /// Adds less than a register is long, and copies it unless `to` is shorter.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn add_short(&mut self, from: &[u8], to: &mut [u8]) {
            // Even where nothing is read or written, an address that is not mapped takes the
            // processor 100 ns.
            if from.is_empty() {
                return;
            }
            let mask = (1 << from.len()) - 1;
            // SAFETY: only the bytes of `from` are read, one for each bit of the mask.
            let lanes = unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) };
            self.add(lanes);
            if to.len() == from.len() {
                // SAFETY: only the bytes of `to` are written.
                unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, lanes) };
            }
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn total(self) -> u64 {
            let lower = _mm512_sub_epi64(self.all, _mm512_slli_epi64::<32>(self.upper));
            _mm512_reduce_add_epi64(_mm512_add_epi64(lower, self.upper)).cast_unsigned()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Word by word, as RFC 1071 has it.
    fn plain(bytes: &[u8]) -> [u8; 2] {
        let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        let mut sum: u64 = bytes.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    type Way = fn(&[u8], &mut [u8]) -> u64;

    /// Every way that this processor can take.
    fn ways() -> Vec<Way> {
        let mut ways: Vec<Way> = vec![scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                // SAFETY: it has AVX2.
                ways.push(|from, to| unsafe { x86::avx2(from, to) });
            }
            if is_x86_feature_detected!("avx512bw") {
                // SAFETY: it has AVX-512BW.
                ways.push(|from, to| unsafe { x86::avx512(from, to) });
            }
        }
        ways
    }

    proptest! {
        #[test]
        fn every_way_gives_the_checksum_and_the_copy(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            start in 0_usize..64,
        ) {
            let bytes = bytes.get(start..).unwrap_or_default();
            for way in ways() {
                let sum = |total| Sum { total: fold_to_33_bits(total) };
                prop_assert_eq!(sum(way(bytes, &mut [])).checksum(), plain(bytes));
                let mut copy = vec![0; bytes.len()];
                prop_assert_eq!(sum(way(bytes, &mut copy)).checksum(), plain(bytes));
                prop_assert_eq!(&copy, bytes);
            }
        }

        #[test]
        fn headers_are_summed_like_bytes(header: [u8; 20]) {
            prop_assert_eq!(Sum::of_header(&header).checksum(), plain(&header));
        }

        #[test]
        fn parts_add_up(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0_usize..200,
        ) {
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
            let sum = Sum::of(front).then(front.len(), Sum::of(back));
            prop_assert_eq!(sum.checksum(), plain(&bytes));
        }

        #[test]
        fn fields_add_up_like_their_bytes(bytes in any::<[u8; 8]>(), a: u16, b: u32) {
            let all = [&bytes[..], &a.to_be_bytes(), &b.to_be_bytes()].concat();
            prop_assert_eq!(Sum::of(&bytes).with_u16(a).with_u32(b).checksum(), plain(&all));
        }
    }

    #[test]
    fn the_longest_super_packet_of_ones_does_not_overflow() {
        let bytes = vec![0xff; 1 << 20];
        for way in ways() {
            assert_eq!(Sum { total: fold_to_33_bits(way(&bytes, &mut [])) }.checksum(), [0, 0]);
        }
    }

    #[test]
    fn a_packet_with_its_checksum_is_valid() {
        let mut header =
            *b"\x45\x00\x00\x1c\x00\x01\x00\x00\x40\x11\x00\x00\xc0\x00\x02\x01\xc0\x00\x02\x02";
        let checksum = Sum::of(&header).checksum();
        header[10..12].copy_from_slice(&checksum);
        assert!(Sum::of(&header).is_valid());
        header[0] ^= 1;
        assert!(!Sum::of(&header).is_valid());
    }

    #[test]
    fn a_udp_checksum_is_never_zero() {
        assert_eq!(Sum::of(&[0xff, 0xff]).checksum(), [0, 0]);
        assert_eq!(Sum::of(&[0xff, 0xff]).udp_checksum(), [0xff, 0xff]);
    }
}
