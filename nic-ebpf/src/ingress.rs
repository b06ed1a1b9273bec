//! TC ingress: what the stack gets, after GRO; and the verdict carried out.

use aya_ebpf::{bindings::__sk_buff, programs::TcContext};
use nic_common::{
    frame::{Fields, Frame},
    headers::{HeaderInfo, ethertype},
    policy::{CopyPolicy, Verdict},
};

use crate::{
    maps,
    packet::{Direct, Skb},
    walk::Walkable,
};

/// Counts one packet, and pulls it together if that is what the policy says.
#[inline(always)]
pub fn count(ctx: &TcContext) {
    // SAFETY: the context is valid for the whole run of the program.
    let skb = unsafe { &*ctx.skb.skb };
    let Some(counters) = maps::NIC_INGRESS.get_ptr_mut(recorded_queue(skb)) else { return };
    // SAFETY: the slot belongs to this CPU, and softirqs of one CPU do not interrupt each other.
    let counters = unsafe { &mut *counters };
    let packet = Received::of(ctx, skb);
    counters.packets += 1;
    counters.bytes += u64::from(packet.len);
    counters.linear_bytes += u64::from(packet.linear_len);
    counters.linear_payload_bytes += u64::from(packet.linear_len.saturating_sub(packet.header_len));
    if skb.gso_size > 0 {
        counters.gro_packets += 1;
        counters.gro_segments += u64::from(skb.gso_segs);
    }
    if u64::from(packet.len) > counters.largest {
        counters.largest = u64::from(packet.len);
    }
    let pull = packet.linear_len < packet.len && packet.verdict == Verdict::Copy;
    if maps::PULL.load() != 0 && pull {
        match ctx.pull_data(skb.len) {
            Ok(()) => counters.pulled += 1,
            Err(_) => counters.pull_failed += 1,
        }
    }
}

/// A packet as the stack gets it, lengths from the Ethernet header on.
struct Received {
    len: u32,
    linear_len: u32,
    header_len: u32,
    verdict: Verdict,
}

impl Received {
    #[inline(always)]
    fn of(ctx: &TcContext, skb: &__sk_buff) -> Self {
        let linear = Direct::skb(ctx);
        let packet = if is_doubtful(&linear, skb) {
            Skb::behind_generic_xdp(ctx.skb.skb)
        } else {
            Skb::new(ctx.skb.skb)
        };
        let packet = Skb { hidden: maps::hide(packet.hidden.into()) as u32, ..packet };
        let len = skb.len + packet.hidden;
        // Now, so that no pointer has to be kept for it, of which the verifier knows more on one
        // path than on the other.
        let linear_len = maps::hide(u64::from(linear.linear_len() + packet.hidden)) as u32;
        let info = if packet.hidden != 0 {
            packet.headers(len)
        } else if let Some(info) = HeaderInfo::of_common(&linear) {
            info
        } else {
            packet.uncommon_headers(len)
        };
        Self {
            len,
            linear_len,
            header_len: info.header_len,
            verdict: CopyPolicy::from_word(maps::policy_word()).decide(len, &info),
        }
    }
}

/// Whether what TC takes for the start of a packet may be its IP header (see
/// [`Skb::behind_generic_xdp`]): the ethertype is not where it should be, or there is an IP header
/// whose length is that of the packet.
#[inline(always)]
fn is_doubtful(linear: &Direct, skb: &__sk_buff) -> bool {
    let Some(start) = linear.header::<14>(0) else { return true };
    let protocol = u16::from_be(skb.protocol as u16);
    let ip_len = match protocol {
        ethertype::IPV4 => u32::from(start.be16(2)),
        ethertype::IPV6 => u32::from(start.be16(4)) + 40,
        _ => 0,
    };
    start.be16(12) != protocol || ip_len == skb.len
}

/// `skb_record_rx_queue` (include/linux/skbuff.h) stores the queue plus one.
#[inline(always)]
fn recorded_queue(skb: &__sk_buff) -> u32 {
    skb.queue_mapping.saturating_sub(1)
}
