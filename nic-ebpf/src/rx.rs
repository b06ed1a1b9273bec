//! XDP: walk the headers, decide, count; steer where somebody asked for it.

use aya_ebpf::{
    EbpfContext,
    bindings::{xdp_action::XDP_PASS, xdp_md},
    helpers::generated::{bpf_ktime_get_ns, bpf_xdp_adjust_meta},
    programs::XdpContext,
};
use aya_log_ebpf::warn;
use nic_common::{
    counters::{RxCounters, header_bin, size_bin},
    headers::{Flags, HeaderInfo},
    metadata::Metadata,
    policy::{CopyPolicy, STEERING},
};

use crate::{maps, packet::Buffers, steer, walk::Walkable};

/// At most one malformed frame per queue and CPU is logged in this time.
const LOG_INTERVAL_NS: u64 = 100_000_000;

/// Counts one frame; says where it goes.
#[inline(always)]
pub fn frame<B: Buffers>(ctx: &XdpContext) -> u32 {
    let queue = ctx.rx_queue_index();
    let Some(counters) = maps::NIC_RX.get_ptr_mut(queue) else { return XDP_PASS };
    // SAFETY: the slot belongs to this CPU, and XDP programs of one CPU do not interrupt each other.
    let counters = unsafe { &mut *counters };
    let (mut info, len) = headers::<B>(ctx);
    info.header_len = maps::hide(info.header_len.into()) as u32;
    let header_len = info.header_len;
    let word = maps::policy_word();
    let verdict = CopyPolicy::from_word(word).decide(len, &info);
    counters.verdicts[verdict as usize] += 1;
    counters.bytes += u64::from(len);
    counters.header_bytes += u64::from(header_len);
    counters.copied_bytes += u64::from(verdict.copied(len, header_len));
    count_bin(&mut counters.sizes, size_bin(len));
    count_bin(&mut counters.headers, header_bin(header_len));
    if info.flags != Flags::NONE {
        count_flags(ctx, counters, &info, len);
    }
    if word & STEERING == 0 {
        return XDP_PASS;
    }
    // Only here: a call of the kernel costs more than all of the above where returns are mitigated.
    if !leave_metadata(ctx, Metadata { headers: info, queue: queue as u16 }) {
        counters.no_metadata += 1;
    }
    steer::redirect(ctx)
}

#[inline(always)]
fn count_bin<const N: usize>(bins: &mut [u64; N], bin: usize) {
    if let Some(count) = bins.get_mut(maps::hide(bin as u64) as usize) {
        *count += 1;
    }
}

#[inline(always)]
fn headers<B: Buffers>(ctx: &XdpContext) -> (HeaderInfo, u32) {
    let frame = B::of(ctx);
    match HeaderInfo::of_common_with_len(&frame) {
        Some(found) => found,
        None => {
            let len = frame.len();
            (ctx.ctx.uncommon_headers(len), len)
        }
    }
}

#[inline(always)]
fn count_flags(ctx: &XdpContext, counters: &mut RxCounters, info: &HeaderInfo, len: u32) {
    let flags = info.flags;
    if flags.any(Flags::VLAN) {
        counters.vlan += 1;
    }
    if flags.any(Flags::VLAN.complement()) {
        count_rare_flags(ctx, counters, info, len);
    }
}

#[inline(always)]
fn count_rare_flags(ctx: &XdpContext, counters: &mut RxCounters, info: &HeaderInfo, len: u32) {
    let flags = info.flags;
    if flags.any(Flags::TUNNEL) {
        counters.tunnelled += 1;
    }
    if flags.any(Flags::FIRST_FRAGMENT.with(Flags::LATER_FRAGMENT)) {
        counters.fragments += 1;
    }
    if flags.any(Flags::UNPARSED) {
        counters.unparsed += 1;
    }
    if flags.any(Flags::MALFORMED) {
        counters.malformed += 1;
        if maps::LOG.load() != 0 && is_due(counters) {
            let (l3, l4) = (info.l3.into(), info.l4.raw().into());
            log_malformed(ctx.as_ptr().cast(), len, info.header_len, l3, l4);
        }
    }
}

/// Logs one frame of many. Its own function, because the log takes the address of all it prints,
/// and what has an address lives in memory, not in registers.
#[inline(never)]
fn log_malformed(ctx: *mut xdp_md, len: u32, header_len: u32, l3: u32, l4: u32) {
    let ctx = XdpContext::new(ctx);
    let ifindex = ctx.ingress_ifindex() as u32;
    let queue = ctx.rx_queue_index();
    warn!(
        &ctx,
        "malformed frame: ifindex {}, queue {}, {} bytes, headers up to {}, ethertype 0x{:x}, IP \
         protocol {} (255: none)",
        ifindex,
        queue,
        len,
        header_len,
        l3,
        l4
    );
}

/// Whether it is time to log a malformed frame again.
#[inline(always)]
fn is_due(counters: &mut RxCounters) -> bool {
    // SAFETY: the helper takes nothing and reads a clock.
    let now = unsafe { bpf_ktime_get_ns() };
    let due = now - counters.logged_at >= LOG_INTERVAL_NS;
    if due {
        counters.logged_at = now;
    }
    due
}

/// Puts the metadata in front of the frame; false if the driver has no room for it.
#[inline(always)]
fn leave_metadata(ctx: &XdpContext, metadata: Metadata) -> bool {
    // SAFETY: the helper moves `data_meta`; no pointer into the packet is used after it.
    let moved = unsafe { bpf_xdp_adjust_meta(ctx.as_ptr().cast(), -(Metadata::SIZE as i32)) };
    if moved != 0 {
        return false;
    }
    let place = ctx.metadata();
    if place + Metadata::SIZE > ctx.metadata_end() {
        return false;
    }
    // SAFETY: the bounds were just checked, and the verifier checks that.
    unsafe { *(place as *mut [u64; 2]) = metadata.to_words() };
    true
}
