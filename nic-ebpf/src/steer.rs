//! Steering: frames that a user asked for go to the AF_XDP socket of their queue.
//!
//! A global function, so that the verifier checks it once, and frames that nobody asked for pay for
//! one branch only.

use aya_ebpf::{
    EbpfContext,
    bindings::{
        xdp_action::{XDP_PASS, XDP_REDIRECT},
        xdp_md,
    },
    programs::XdpContext,
};
use nic_common::{
    headers::{Flags, HeaderInfo},
    metadata::Metadata,
    steer::Flow,
};

use crate::{
    maps,
    packet::{Buffers, Direct, Fragmented, Loaded, opaque},
    walk::Walkable,
};

/// The farthest that a transport header lies in a frame, all bits set. The verifier follows pointers
/// into packets only up to 64 KiB.
const FARTHEST: u32 = 0x3fff;

/// `XDP_REDIRECT` if the frame goes to a socket, else `XDP_PASS`: also if the user who asked for it
/// is gone.
///
/// It gets nothing that the program knows by now, so that nothing has to be kept for it.
#[inline(always)]
pub fn redirect(ctx: &XdpContext) -> u32 {
    nic_rx_steer(ctx.as_ptr().cast()) as u32
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nic_rx_steer(ctx: *mut xdp_md) -> u64 {
    let ctx = XdpContext::new(ctx.cast());
    let pass = u64::from(XDP_PASS);
    let queue = ctx.rx_queue_index();
    let Some(rules) = maps::NIC_STEER.get(queue) else { return pass };
    if !rules.take(&flow(&ctx, headers(&ctx))) {
        return pass;
    }
    let (Ok(action) | Err(action)) = maps::NIC_XSKS.redirect(queue, pass);
    if action == XDP_REDIRECT
        && let Some(counters) = maps::NIC_RX.get_ptr_mut(queue)
    {
        // SAFETY: the slot belongs to this CPU, and XDP programs of one CPU do not interrupt each
        // other.
        unsafe { (*counters).redirected += 1 };
    }
    action.into()
}

/// The headers as they lie in front of the frame, or walked again where there was no room for them.
#[inline(always)]
fn headers(ctx: &XdpContext) -> HeaderInfo {
    let start = ctx.metadata();
    if start + Metadata::SIZE <= ctx.metadata_end() {
        // SAFETY: the bounds were just checked, and the verifier checks that.
        let words = unsafe { *(start as *const [u64; 2]) };
        if let Some(Metadata { headers, .. }) = Metadata::from_words(words) {
            return headers;
        }
    }
    ctx.ctx.headers(Fragmented::frame_len(ctx))
}

#[inline(always)]
fn flow(ctx: &XdpContext, mut headers: HeaderInfo) -> Flow {
    if headers.l4_offset > FARTHEST {
        headers.flags = Flags::UNPARSED;
    }
    // The compiler would leave out what it knows, and the verifier does not know it.
    headers.l4_offset = opaque(headers.l4_offset) & FARTHEST;
    // Whatever the length, each read checks where the bytes end.
    let direct = Direct::xdp(ctx, u32::MAX);
    Flow::of(&direct, &headers)
        .or_else(|| Flow::of(&Loaded { ctx: ctx.ctx, len: u32::MAX }, &headers))
        .unwrap_or(Flow::UNKNOWN)
}
