//! Checksums that a sender on this machine left to its device, which never saw the packet.

use super::{
    checksum::Sum,
    headers::{Layout, be16, chunk, put},
    packet::Packet,
};

/// Fills in the checksum of a TCP or UDP packet whose sender left that to its device: the field
/// holds the sum of the pseudo header then (`CHECKSUM_PARTIAL`, linux/skbuff.h). Whether it did.
///
/// A packet whose right checksum happens to be that sum stays as it is.
pub fn fill_in(packet: &mut Packet) -> bool {
    let Ok(layout) = Layout::of(&packet.linear, &packet.info) else { return false };
    let headers: &[u8] = &packet.linear;
    let ip_len = usize::from(be16(headers, layout.ip_length_at()));
    // Of a packet that is not all there, or longer than its header can say, nothing is known.
    let Some(payload_len) = ip_len.checked_sub(layout.ip_length_field(0)) else { return false };
    let field = layout.l4 + layout.transport.checksum_at();
    let unfinished = layout.pseudo_header(headers, payload_len).unfinished();
    if chunk::<2>(headers, field) != Some(&unfinished) {
        return false;
    }
    let Some(sum) = sum(packet, layout.l4, layout.len - layout.l4 + payload_len) else {
        return false;
    };
    put(&mut packet.linear, field, sum.udp_checksum());
    true
}

/// The sum of `len` bytes that start `at` bytes into the packet; `None` if they are not all there.
fn sum(packet: &Packet, at: usize, len: usize) -> Option<Sum> {
    let (mut skip, mut summed, mut sum) = (at, 0, Sum::default());
    for part in packet.parts() {
        let bytes = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        let bytes = bytes.get(..len - summed).unwrap_or(bytes);
        sum = sum.then(summed, Sum::of(bytes));
        summed += bytes.len();
    }
    (summed == len).then_some(sum)
}

#[cfg(test)]
mod tests {
    use nic_common::{headers::HeaderInfo, policy::Verdict};

    use super::*;
    use crate::{
        driver::{
            packet::{Frag, Frags},
            pool::Pool,
            umem::{Memory, Region},
        },
        lab::{
            frames::Ends,
            traffic::IpVersion::{V4, V6},
        },
    };

    fn packet(pool: &Pool, bytes: &[u8], first: usize) -> Packet {
        let frag = |bytes: &[u8]| {
            let mut frag = Frag::empty(pool.take().unwrap(), 0);
            assert!(frag.append(bytes));
            frag
        };
        let (linear, rest) = bytes.split_at(first);
        let frags: Frags = rest.chunks(100).map(frag).collect();
        let info = HeaderInfo::of(bytes);
        Packet { linear: frag(linear), frags, info, verdict: Verdict::Whole }
    }

    #[test]
    fn what_was_left_to_the_device_is_filled_in_as_the_sender_would_have() {
        let pool = Pool::new(Region::whole(Memory::new(1 << 16).unwrap()), 2048).unwrap();
        let ends = Ends::default();
        let payload: Vec<u8> = (0..=255).collect();
        for (right, protocol) in [
            (ends.ethernet(ends.ipv4(ends.tcp(V4, &payload))), 16),
            (ends.ethernet(ends.ipv6(ends.tcp(V6, &payload))), 16),
            (ends.ethernet(ends.ipv4(ends.udp(V4, &payload))), 6),
            (ends.ethernet(ends.ipv6(ends.udp(V6, &payload[..31]))), 6),
        ] {
            let info = HeaderInfo::of(&right[..]);
            let layout = Layout::of(&right, &info).unwrap();
            let at = layout.l4 + protocol;
            let mut left = right.clone();
            let unfinished = layout.pseudo_header(&right, right.len() - layout.len).unfinished();
            left[at..at + 2].copy_from_slice(&unfinished);
            for first in [right.len(), layout.len, layout.len + 7] {
                for padding in [0, 9] {
                    let padded = |frame: &[u8]| [frame, &vec![0xaa; padding]].concat();
                    let mut filled = packet(&pool, &padded(&left), first);
                    assert!(fill_in(&mut filled));
                    assert_eq!(filled.to_vec(), padded(&right));
                    assert!(!fill_in(&mut filled), "it is right by now");
                }
            }
            // Whoever else is wrong stays so.
            left[at] ^= 1;
            let mut wrong = packet(&pool, &left, left.len());
            assert!(!fill_in(&mut wrong));
            assert_eq!(wrong.to_vec(), left);
        }
    }
}
