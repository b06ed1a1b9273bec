//! TC ingress: what the stack gets, after GRO; and the verdict carried out.

use aya_ebpf::{bindings::__sk_buff, programs::TcContext};
use nic_common::{headers::HeaderInfo, metadata::Metadata, policy::Verdict};

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
    let packet = Received::of(ctx, skb);
    let Some(counters) = maps::NIC_INGRESS.get_ptr_mut(packet.queue) else { return };
    // SAFETY: the slot belongs to this CPU, and softirqs of one CPU do not interrupt each other.
    let counters = unsafe { &mut *counters };
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
    queue: u32,
    len: u32,
    linear_len: u32,
    header_len: u32,
    verdict: Verdict,
}

impl Received {
    #[inline(always)]
    fn of(ctx: &TcContext, skb: &__sk_buff) -> Self {
        let whole = Skb::new(ctx.skb.skb);
        // One way on for all that have to be parsed: the compiler would copy it for each.
        let (packet, queue) = match InFront::of(ctx, skb) {
            // The stack takes a VLAN tag out of the packet between XDP and here, and the header is
            // then no longer as XDP saw it (`skb_vlan_untag`).
            InFront::Ours(metadata) if skb.vlan_present == 0 => {
                return Self::as_xdp_saw_it(ctx, skb, metadata);
            }
            InFront::Ours(metadata) => (whole, metadata.queue.into()),
            InFront::Nothing => (whole, recorded_queue(skb)),
            InFront::Something => (Skb::behind_generic_xdp(ctx.skb.skb), recorded_queue(skb)),
        };
        let hidden = maps::hide(packet.hidden.into()) as u32;
        Self::parsed(ctx, skb, Skb { hidden, ..packet }, maps::hide(queue.into()) as u32)
    }

    #[inline(always)]
    fn as_xdp_saw_it(ctx: &TcContext, skb: &__sk_buff, metadata: Metadata) -> Self {
        Self {
            queue: metadata.queue.into(),
            len: skb.len,
            linear_len: Direct::skb(ctx).linear_len(),
            header_len: metadata.headers.header_len,
            // GRO made one packet of many that were each below the copybreak.
            verdict: if skb.gso_size > 0 { Verdict::Whole } else { metadata.verdict },
        }
    }

    #[inline(always)]
    fn parsed(ctx: &TcContext, skb: &__sk_buff, packet: Skb, queue: u32) -> Self {
        let linear = Direct::skb(ctx);
        let len = skb.len + packet.hidden;
        let common = if packet.hidden == 0 { HeaderInfo::of_common(&linear) } else { None };
        let info = match common {
            Some(info) => info,
            None => packet.headers(len),
        };
        Self {
            queue,
            len,
            linear_len: linear.linear_len() + packet.hidden,
            header_len: info.header_len,
            verdict: maps::policy().decide(len, &info),
        }
    }
}

/// `skb_record_rx_queue` (include/linux/skbuff.h) stores the queue plus one.
#[inline(always)]
fn recorded_queue(skb: &__sk_buff) -> u32 {
    skb.queue_mapping.saturating_sub(1)
}

/// What lies in front of a packet.
enum InFront {
    Nothing,
    Ours(Metadata),
    /// Metadata of somebody else, or ours where TC does not find it.
    Something,
}

impl InFront {
    #[inline(always)]
    fn of(ctx: &TcContext, skb: &__sk_buff) -> Self {
        let start = skb.data_meta as usize;
        if start + Metadata::SIZE > ctx.data() {
            return Self::Nothing;
        }
        // SAFETY: the bounds were just checked, and the verifier checks that.
        match Metadata::from_words(unsafe { *(start as *const [u64; 2]) }) {
            Some(metadata) => Self::Ours(metadata),
            None => Self::Something,
        }
    }
}
