//! TC egress: what the stack sends, before segmentation.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_get_hash_recalc, programs::TcContext};
use nic_common::headers::{HeaderInfo, protocol};

use crate::{
    maps,
    packet::{Direct, Skb},
    walk::Walkable,
};

/// Above this a packet is a BIG TCP one (`GSO_LEGACY_MAX_SIZE`, include/linux/netdevice.h).
const LEGACY_MAX_SIZE: u32 = 65536;

/// Counts one packet.
#[inline(always)]
pub fn count(ctx: &TcContext) {
    // SAFETY: the context is valid for the whole run of the program.
    let skb = unsafe { &*ctx.skb.skb };
    let Some(counters) = maps::NIC_TX.get_ptr_mut(queue(ctx, skb)) else { return };
    // SAFETY: the slot belongs to this CPU; a lost increment under preemption is the worst case.
    let counters = unsafe { &mut *counters };
    let info = match HeaderInfo::of_common(&Direct::skb(ctx)) {
        Some(info) => info,
        None => Skb::new(ctx.skb.skb).uncommon_headers(skb.len),
    };
    counters.packets += 1;
    counters.bytes += u64::from(skb.len);
    counters.header_bytes += u64::from(info.header_len);
    if skb.gso_size > 0 {
        let segments = u64::from(skb.gso_segs);
        match info.l4.raw() {
            protocol::TCP => {
                counters.gso_tcp_packets += 1;
                counters.gso_tcp_segments += segments;
            }
            protocol::UDP => {
                counters.gso_udp_packets += 1;
                counters.gso_udp_segments += segments;
            }
            _ => {}
        }
    }
    if skb.len > LEGACY_MAX_SIZE {
        counters.over_64k += 1;
    }
}

/// The transmit queue that the stack is about to choose (`netdev_pick_tx`, net/core/dev.c): it does
/// so only after this hook, from the recorded receive queue or else from the flow's hash. XPS and a
/// driver's own `ndo_select_queue` are not foreseen.
#[inline(always)]
fn queue(ctx: &TcContext, skb: &__sk_buff) -> u32 {
    let queues = maps::TX_QUEUES.load();
    if queues <= 1 {
        return 0;
    }
    if skb.queue_mapping > 0 {
        return (skb.queue_mapping - 1) % queues;
    }
    let hash = match skb.hash {
        // SAFETY: computes and keeps the hash that the stack is about to compute.
        0 => unsafe { bpf_get_hash_recalc(ctx.skb.skb) },
        // The call costs more than everything else where returns are mitigated.
        hash => hash,
    };
    // `reciprocal_scale`
    ((u64::from(hash) * u64::from(queues)) >> 32) as u32
}
