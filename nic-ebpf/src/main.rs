//! The kernel programs of nicctl.
//!
//! | program | hook | does |
//! | --- | --- | --- |
//! | `nic_rx`, `nic_rx_frags` | XDP | walk headers, decide, count; pass on, or steer |
//! | `nic_ingress` | TC ingress | count what the stack gets; pull small packets together |
//! | `nic_egress` | TC egress | count what the stack sends |
//! | `nic_forward_l2` | XDP | hand every frame to another interface |
//! | `nic_forward_l3` | XDP | route IP packets to another interface, pass on the rest |
//! | `nic_forward_sent` | tracepoint `xdp_devmap_xmit` | count what a driver did not take |
//! | `nic_forward_failed` | tracepoint `xdp_redirect_err` | count what it could not even be handed |
//! | `nic_pass` | XDP, run over one frame | hand it to the stack |
//!
//! None of them ever drops a packet, and only routing changes what is in it.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod egress;
mod forward;
mod ingress;
mod maps;
mod packet;
mod rx;
mod steer;
mod walk;

use aya_ebpf::{
    bindings::{TC_ACT_UNSPEC, xdp_action::XDP_PASS},
    macros::{classifier, raw_tracepoint, xdp},
    programs::{RawTracePointContext, TcContext, XdpContext},
};

/// XDP for devices whose frames fit into one buffer.
#[xdp]
pub fn nic_rx(ctx: XdpContext) -> u32 {
    rx::frame::<packet::Direct>(&ctx)
}

/// XDP for devices that may spread a frame over several buffers.
#[xdp(frags)]
pub fn nic_rx_frags(ctx: XdpContext) -> u32 {
    rx::frame::<packet::Fragmented>(&ctx)
}

/// Forwarding of whole frames.
#[xdp(frags)]
pub fn nic_forward_l2(ctx: XdpContext) -> u32 {
    forward::frame(&ctx)
}

/// Forwarding of IP packets.
#[xdp(frags)]
pub fn nic_forward_l3(ctx: XdpContext) -> u32 {
    forward::packet(&ctx)
}

/// A frame that could not be handed to an interface.
#[raw_tracepoint]
pub fn nic_forward_failed(ctx: RawTracePointContext) -> i32 {
    forward::failed(&ctx);
    0
}

/// What became of frames that were handed to an interface.
#[raw_tracepoint]
pub fn nic_forward_sent(ctx: RawTracePointContext) -> i32 {
    forward::sent(&ctx);
    0
}

/// What rings took and the stack is to have after all.
#[xdp]
pub fn nic_pass(_: XdpContext) -> u32 {
    XDP_PASS
}

/// TC ingress: what the stack gets, after GRO.
#[classifier]
pub fn nic_ingress(ctx: TcContext) -> i32 {
    ingress::count(&ctx);
    TC_ACT_UNSPEC
}

/// TC egress: what the stack sends, before segmentation.
#[classifier]
pub fn nic_egress(ctx: TcContext) -> i32 {
    egress::count(&ctx);
    TC_ACT_UNSPEC
}

/// The license under which the kernel loads the programs.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
