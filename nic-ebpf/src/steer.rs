//! Steering: frames that a user asked for go to the AF_XDP socket of their queue.
//!
//! A global function, so that the verifier checks it once, and frames that nobody asked for pay for
//! one branch only.

use aya_ebpf::{
    EbpfContext,
    bindings::{xdp_action::XDP_PASS, xdp_md},
    programs::XdpContext,
};
use nic_common::{
    headers::{Flags, HeaderInfo},
    metadata::Metadata,
    steer::Flow,
};

use crate::{
    maps,
    packet::{Direct, Loaded},
    walk::opaque,
};

/// The farthest that a transport header lies in a frame, all bits set. The verifier follows pointers
/// into packets only up to 64 KiB.
const FARTHEST: u32 = 0x3fff;

/// `XDP_REDIRECT` if the frame goes to a socket, else `XDP_PASS`: also if the user who asked for it
/// is gone.
#[inline(always)]
pub fn redirect(ctx: &XdpContext, metadata: Metadata) -> u32 {
    let [first, second] = metadata.to_words();
    nic_rx_steer(ctx.as_ptr().cast(), first, second) as u32
}

/// The headers are those of [`Metadata::to_words`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nic_rx_steer(ctx: *mut xdp_md, first: u64, second: u64) -> u64 {
    let ctx = XdpContext::new(ctx.cast());
    let pass = u64::from(XDP_PASS);
    let Some(Metadata { mut headers, .. }) = Metadata::from_words([first, second]) else {
        return pass;
    };
    if headers.l4_offset > FARTHEST {
        headers.flags = Flags::UNPARSED;
    }
    // The compiler would leave out what it knows, and the verifier does not know it.
    headers.l4_offset = opaque(headers.l4_offset) & FARTHEST;
    let queue = ctx.rx_queue_index();
    let Some(rules) = maps::NIC_STEER.get(queue) else { return pass };
    if !rules.take(&flow(&ctx, &headers)) {
        return pass;
    }
    match maps::NIC_XSKS.redirect(queue, pass) {
        Ok(action) | Err(action) => action.into(),
    }
}

#[inline(always)]
fn flow(ctx: &XdpContext, headers: &HeaderInfo) -> Flow {
    // Whatever the length, each read checks where the bytes end.
    let direct = Direct::xdp(ctx, u32::MAX);
    Flow::of(&direct, headers)
        .or_else(|| Flow::of(&Loaded { ctx: ctx.ctx, len: u32::MAX }, headers))
        .unwrap_or(Flow::UNKNOWN)
}
