//! TC egress: what the stack sends, before segmentation.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_get_hash_recalc, programs::TcContext};
use nic_common::{
    frame::{Fields, Frame},
    headers::{Flags, HeaderInfo, ethertype, protocol, tunnel_port},
};

use crate::{
    maps,
    packet::{Anywhere, Direct, Skb, anew},
    walk::Walkable,
};

/// Above this a packet is a BIG TCP one (`GSO_LEGACY_MAX_SIZE`, include/linux/netdevice.h).
const LEGACY_MAX_SIZE: u32 = 65536;
const UDP_LEN: u32 = 8;
/// Of VXLAN, VXLAN-GPE, GENEVE and GTP-U, without options.
const TUNNEL_LEN: u32 = 8;
const ETHERNET_LEN: u32 = 14;
const TCP: u32 = protocol::TCP as u32;
const UDP: u32 = protocol::UDP as u32;

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
    let option = if skb.len > LEGACY_MAX_SIZE && info.l3 == ethertype::IPV6 {
        jumbo_option_len(ctx.skb.skb, info.l3_offset)
    } else {
        0
    };
    counters.packets += 1;
    counters.bytes += u64::from(skb.len - option);
    counters.header_bytes += u64::from(info.header_len - option);
    if skb.gso_size > 0 {
        let segments = u64::from(skb.gso_segs);
        let is_tunnel = info.l4.raw() == protocol::UDP && info.flags.any(Flags::TUNNEL);
        let segmented = match is_tunnel {
            true => inner_protocol(ctx.skb.skb, info.l4_offset),
            false => info.l4.raw().into(),
        };
        match segmented {
            TCP => {
                counters.gso_tcp_packets += 1;
                counters.gso_tcp_segments += segments;
            }
            UDP => {
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

/// Bytes of the hop-by-hop header that the stack puts into BIG TCP packets over IPv6 before Linux
/// 7.0, and that is taken out again in front of the wire (`ipv6_has_hopopt_jumbo`,
/// include/net/ipv6.h). Not inlined, as [`inner_protocol`]: few packets pay for the call, and others
/// have the registers.
#[inline(never)]
fn jumbo_option_len(skb: *mut __sk_buff, l3_offset: u32) -> u32 {
    const LEN: u32 = 8;
    const JUMBO: u8 = 0xc2;
    let headers = linear(skb).header::<44>(l3_offset);
    let is_jumbo = headers.is_some_and(|it| {
        it.u8(6) == protocol::HOP_BY_HOP
            && it.u8(40) == protocol::TCP
            && it.u8(41) == 0
            && it.u8(42) == JUMBO
    });
    if is_jumbo { LEN } else { 0 }
}

/// The IP protocol in the tunnel whose UDP header starts at `at`; UDP if it is not to be seen.
///
/// A super-packet in a tunnel is segmented by it. The kernel does not tell a program which it is
/// (`gso_type`), but its tunnels have all their headers in the linear part, and what a socket
/// segments (`UDP_SEGMENT`) has its payload elsewhere (`__ip_append_data`, net/ipv4/ip_output.c).
#[inline(never)]
fn inner_protocol(skb: *mut __sk_buff, at: u32) -> u32 {
    inner(|| linear(skb), at).map_or(UDP, u32::from)
}

/// The linear part, from the context itself: the compiler would hand over numbers read from it, not
/// the pointer, and the verifier knows nothing of those.
#[inline(always)]
fn linear(skb: *mut __sk_buff) -> Anywhere {
    Anywhere(Direct::skb(&TcContext::new(anew(skb))))
}

#[inline(always)]
fn inner<F: Frame>(frame: impl Fn() -> F, at: u32) -> Option<u8> {
    let outer = frame().header::<{ (UDP_LEN + TUNNEL_LEN) as usize }>(at)?;
    let mut at = at + UDP_LEN + TUNNEL_LEN;
    let mut ethertype = match outer.be16(2) {
        tunnel_port::VXLAN | tunnel_port::OLD_VXLAN => ethertype::TEB,
        tunnel_port::VXLAN_GPE => match outer.u8(11) {
            1 => ethertype::IPV4,
            2 => ethertype::IPV6,
            3 => ethertype::TEB,
            _ => return None,
        },
        tunnel_port::GENEVE => {
            at += u32::from(outer.u8(8) & 0x3f) * 4;
            outer.be16(10)
        }
        tunnel_port::GTP_U => {
            // Sequence number, N-PDU number and next extension come together, if at all.
            at += if outer.u8(8) & 7 != 0 { 4 } else { 0 };
            match frame().header::<1>(at)?.u8(0) >> 4 {
                4 => ethertype::IPV4,
                6 => ethertype::IPV6,
                _ => return None,
            }
        }
        _ => return None,
    };
    if ethertype == ethertype::TEB {
        ethertype = frame().header::<{ ETHERNET_LEN as usize }>(at)?.be16(12);
        at += ETHERNET_LEN;
    }
    match ethertype {
        ethertype::IPV4 => Some(frame().header::<20>(at)?.u8(9)),
        ethertype::IPV6 => Some(frame().header::<40>(at)?.u8(6)),
        _ => None,
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
