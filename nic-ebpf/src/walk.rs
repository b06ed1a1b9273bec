//! The whole header walk, for frames that the fast path leaves.
//!
//! Most of them, tunnels above all, are walked without a call ([`linear`]), as far as pointers
//! reach. Behind that every step is a global function, and so is the walk: the verifier checks each
//! once, for any input, instead of following every stack of headers through every step.

use aya_ebpf::{
    bindings::{__sk_buff, xdp_md},
    programs::{TcContext, XdpContext},
};
use nic_common::headers::{Flags, HeaderInfo, IpProtocol, Walk};

use crate::{
    maps,
    packet::{Anywhere, Buffers, Direct, LoadBytes, Loaded, Skb, anew, opaque},
};

/// Steps that are taken without a call: VLAN tag, IP header, its payload, and the same again in a
/// tunnel.
const LINEAR_STEPS: u32 = 6;

/// A context whose packet can be walked.
pub trait Walkable: LoadBytes {
    /// Takes one step of a walk; 0 if it ends there.
    fn step(self, len: u32, walk: &mut Walk) -> u64;
    /// Walks the packet of `len` bytes.
    fn walk(self, len: u32, info: &mut HeaderInfo);

    /// The headers of the packet of `len` bytes.
    #[inline(always)]
    fn headers(self, len: u32) -> HeaderInfo {
        let mut info = UNPARSED;
        self.walk(len, &mut info);
        info
    }

    /// The linear part of the packet of `len` bytes.
    fn linear(self, len: u32) -> Direct;

    /// The same, for a packet that lies in its linear part as far as its headers reach.
    #[inline(always)]
    fn uncommon_headers(self, len: u32) -> HeaderInfo {
        match linear(self, len) {
            Some(info) => info.through(maps::hide),
            None => self.headers(len),
        }
    }
}

/// The headers of a packet, if there are not too many and all lie in its linear part.
///
/// All steps look alike to the verifier, which then follows each once, not every stack of them:
/// pointers are made anew for each, and numbers hidden.
#[inline(always)]
fn linear<C: Walkable>(ctx: C, len: u32) -> Option<HeaderInfo> {
    let frame = || Anywhere(ctx.linear(len));
    let mut walk = Walk::start(&frame());
    let mut steps = 0;
    loop {
        walk = walk.through(maps::hide);
        if !walk.step(&frame()) {
            break;
        }
        steps = opaque(steps + 1);
        if steps == LINEAR_STEPS {
            return None;
        }
    }
    let info = walk.through(maps::hide).end(&frame());
    (!info.is_unparsed()).then_some(info)
}

/// What a global function leaves in place if the kernel hands it no memory, which it never does.
const UNPARSED: HeaderInfo = HeaderInfo {
    header_len: 0,
    l3_offset: 0,
    l4_offset: 0,
    l3: 0,
    l4: IpProtocol::NONE,
    vlan_depth: 0,
    flags: Flags::UNPARSED,
};

impl Walkable for *mut xdp_md {
    #[inline(always)]
    fn step(self, len: u32, walk: &mut Walk) -> u64 {
        nic_rx_step(self, len, walk)
    }

    #[inline(always)]
    fn walk(self, len: u32, info: &mut HeaderInfo) {
        nic_rx_walk(self, len, info);
    }

    #[inline(always)]
    fn linear(self, len: u32) -> Direct {
        Direct::of(&XdpContext::new(anew(self))).of_packet(len)
    }
}

impl Walkable for Skb {
    #[inline(always)]
    fn step(self, len: u32, walk: &mut Walk) -> u64 {
        nic_tc_step(self.ctx, self.hidden, len, walk)
    }

    #[inline(always)]
    fn walk(self, len: u32, info: &mut HeaderInfo) {
        nic_tc_walk(self.ctx, self.hidden, len, info);
    }

    #[inline(always)]
    fn linear(self, len: u32) -> Direct {
        Direct::skb(&TcContext::new(anew(self.ctx))).of_packet(len)
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nic_rx_step(ctx: *mut xdp_md, len: u32, walk: *mut Walk) -> u64 {
    step(ctx, len, walk)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nic_rx_walk(ctx: *mut xdp_md, len: u32, info: *mut HeaderInfo) -> u64 {
    walk(ctx, len, info)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nic_tc_step(ctx: *mut __sk_buff, hidden: u32, len: u32, walk: *mut Walk) -> u64 {
    step(Skb { ctx, hidden }, len, walk)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn nic_tc_walk(
    ctx: *mut __sk_buff,
    hidden: u32,
    len: u32,
    info: *mut HeaderInfo,
) -> u64 {
    walk(Skb { ctx, hidden }, len, info)
}

#[inline(always)]
fn step<C: LoadBytes>(ctx: C, len: u32, walk: *mut Walk) -> u64 {
    // SAFETY: the verifier lets only a whole `Walk` or null be passed.
    match unsafe { walk.as_mut() } {
        Some(walk) => u64::from(walk.step(&Loaded { ctx, len })),
        None => 0,
    }
}

#[inline(always)]
fn walk<C: Walkable>(ctx: C, len: u32, info: *mut HeaderInfo) -> u64 {
    let frame = Loaded { ctx, len };
    let mut walk = Walk::start(&frame);
    let mut steps = 0;
    while steps < Walk::MAX_STEPS && ctx.step(len, &mut walk) != 0 {
        // Unrolled, there would be a call for every step, and the verifier of Linux 7 looks through
        // the function called again for every call (`analyze_subprog`, kernel/bpf/liveness.c).
        steps = opaque(steps + 1);
    }
    // SAFETY: the verifier lets only a whole `HeaderInfo` or null be passed.
    if let Some(info) = unsafe { info.as_mut() } {
        *info = walk.end(&frame);
    }
    0
}
