//! TC ingress: what the stack gets, after GRO; and the verdict carried out.

use aya_ebpf::{bindings::__sk_buff, programs::TcContext};
use nic_common::{headers::HeaderInfo, metadata::Metadata, policy::Verdict};

use crate::{maps, packet::Direct, walk::Walkable};

/// Counts one packet, and pulls it together if that is what the policy says.
#[inline(always)]
pub fn count(ctx: &TcContext) {
    // SAFETY: the context is valid for the whole run of the program.
    let skb = unsafe { &*ctx.skb.skb };
    let metadata = metadata(ctx, skb);
    let queue = match &metadata {
        Some(metadata) => u32::from(metadata.queue),
        // `skb_record_rx_queue` (include/linux/skbuff.h) stores the queue plus one.
        None => skb.queue_mapping.saturating_sub(1),
    };
    let Some(counters) = maps::NIC_INGRESS.get_ptr_mut(queue) else { return };
    // SAFETY: the slot belongs to this CPU, and softirqs of one CPU do not interrupt each other.
    let counters = unsafe { &mut *counters };
    let linear = Direct::skb(ctx);
    let len = skb.len;
    let linear_len = linear.linear_len();
    let (header_len, verdict) = header_len_and_verdict(ctx, skb, &linear, metadata);
    counters.packets += 1;
    counters.bytes += u64::from(len);
    counters.linear_bytes += u64::from(linear_len);
    counters.linear_payload_bytes += u64::from(linear_len.saturating_sub(header_len));
    if skb.gso_size > 0 {
        counters.gro_packets += 1;
        counters.gro_segments += u64::from(skb.gso_segs);
    }
    if u64::from(len) > counters.largest {
        counters.largest = u64::from(len);
    }
    if maps::PULL.load() != 0 && linear_len < len && verdict == Verdict::Copy {
        match ctx.pull_data(len) {
            Ok(()) => counters.pulled += 1,
            Err(_) => counters.pull_failed += 1,
        }
    }
}

/// From XDP's metadata where it still fits the packet, else from the packet.
#[inline(always)]
fn header_len_and_verdict(
    ctx: &TcContext,
    skb: &__sk_buff,
    linear: &Direct,
    metadata: Option<Metadata>,
) -> (u32, Verdict) {
    // The stack takes a VLAN tag out of the packet on the way from XDP to here (`skb_vlan_untag`).
    if skb.vlan_present == 0
        && let Some(metadata) = metadata
    {
        // GRO made one packet of many that were each below the copybreak.
        let verdict = if skb.gso_size > 0 { Verdict::Whole } else { metadata.verdict };
        return (metadata.headers.header_len, verdict);
    }
    let info = match HeaderInfo::of_common(linear) {
        Some(info) => info,
        None => ctx.skb.skb.headers(skb.len),
    };
    (info.header_len, maps::policy().decide(skb.len, &info))
}

#[inline(always)]
fn metadata(ctx: &TcContext, skb: &__sk_buff) -> Option<Metadata> {
    let start = skb.data_meta as usize;
    if start + Metadata::SIZE > ctx.data() {
        return None;
    }
    // SAFETY: the bounds were just checked, and the verifier checks that.
    Metadata::from_words(unsafe { *(start as *const [u64; 2]) })
}
