//! Forwarding in the kernel, between two interfaces. What cannot be forwarded is the stack's, which
//! answers with ICMP, resolves neighbours, or takes it for itself.

use aya_ebpf::{
    EbpfContext,
    bindings::{
        bpf_fib_lookup,
        xdp_action::{XDP_PASS, XDP_REDIRECT},
    },
    helpers::generated::bpf_fib_lookup as fib_lookup,
    programs::XdpContext,
};
use nic_common::headers::{ethertype, protocol};

use crate::{
    maps,
    packet::{Buffers, Fragmented},
};

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// No interface has this index. Not an `Option`, whose empty half may hold anything: the verifier
/// refuses to let it be copied.
const NOWHERE: u32 = 0;
/// Version 4, and a header without options.
const PLAIN_IPV4: u8 = 0x45;

/// Hands a frame to the other interface, as it is.
#[inline(always)]
pub fn frame(ctx: &XdpContext) -> u32 {
    counted(ctx, ctx.ingress_ifindex() as u32)
}

/// Routes an IP packet to an interface that is forwarded to.
#[inline(always)]
pub fn packet(ctx: &XdpContext) -> u32 {
    counted(ctx, route(ctx))
}

/// Counts a frame, and hands it to the interface under this key, if it is not [`NOWHERE`].
#[inline(always)]
fn counted(ctx: &XdpContext, key: u32) -> u32 {
    let is_second = ctx.ingress_ifindex() as u32 != maps::FORWARD_FIRST.load();
    let Some(counters) = maps::NIC_FORWARD.get_ptr_mut(is_second.into()) else { return XDP_PASS };
    // SAFETY: the slot belongs to this CPU, and XDP programs of one CPU do not interrupt each other.
    let counters = unsafe { &mut *counters };
    counters.packets += 1;
    counters.bytes += u64::from(Fragmented::frame_len(ctx));
    if key == NOWHERE {
        return XDP_PASS;
    }
    let (Ok(action) | Err(action)) = maps::NIC_PORTS.redirect(key, XDP_PASS.into());
    if action == XDP_REDIRECT {
        counters.forwarded += 1;
    }
    action
}

/// Addresses the packet to its next hop; through which interface that is.
#[inline(always)]
fn route(ctx: &XdpContext) -> u32 {
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + ETHERNET_LEN > end {
        return NOWHERE;
    }
    // SAFETY: the bounds were just checked, and the verifier checks that.
    let ethernet = unsafe { &mut *(data as *mut [u8; ETHERNET_LEN]) };
    let network = data + ETHERNET_LEN;
    match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ethertype::IPV4 if network + IPV4_LEN <= end => {
            // SAFETY: as above.
            route_ipv4(ctx, ethernet, unsafe { &mut *(network as *mut [u8; IPV4_LEN]) })
        }
        ethertype::IPV6 if network + IPV6_LEN <= end => {
            // SAFETY: as above.
            route_ipv6(ctx, ethernet, unsafe { &mut *(network as *mut [u8; IPV6_LEN]) })
        }
        _ => NOWHERE,
    }
}

#[inline(always)]
fn route_ipv4(ctx: &XdpContext, ethernet: &mut [u8; ETHERNET_LEN], ip: &mut [u8; IPV4_LEN]) -> u32 {
    let total_len = u16::from_be_bytes([ip[2], ip[3]]);
    if ip[0] != PLAIN_IPV4 || ip[8] <= 1 || !is_inside(ctx, total_len.into()) {
        return NOWHERE;
    }
    let mut to = packet_to(ctx, AF_INET, ip[9], total_len);
    to.__bindgen_anon_2.tos = ip[1];
    to.__bindgen_anon_3.ipv4_src = word(ip, 12);
    to.__bindgen_anon_4.ipv4_dst = word(ip, 16);
    let ifindex = next_hop(ctx, &mut to);
    if ifindex == NOWHERE {
        return NOWHERE;
    }
    ip[8] -= 1;
    // `ip_decrease_ttl` (include/net/ip.h)
    let checksum = u32::from(u16::from_be_bytes([ip[10], ip[11]])) + 0x0100;
    let checksum = (checksum + u32::from(checksum >= 0xffff)) as u16;
    [ip[10], ip[11]] = checksum.to_be_bytes();
    address(ethernet, &to);
    ifindex
}

#[inline(always)]
fn route_ipv6(ctx: &XdpContext, ethernet: &mut [u8; ETHERNET_LEN], ip: &mut [u8; IPV6_LEN]) -> u32 {
    let payload_len = u16::from_be_bytes([ip[4], ip[5]]);
    let len = u32::from(payload_len) + IPV6_LEN as u32;
    // Every router reads hop-by-hop options.
    let is_plain = ip[0] >> 4 == 6 && ip[6] != protocol::HOP_BY_HOP && payload_len != 0;
    if !is_plain || ip[7] <= 1 || !is_inside(ctx, len) || len > u16::MAX.into() {
        return NOWHERE;
    }
    let mut to = packet_to(ctx, AF_INET6, ip[6], len as u16);
    to.__bindgen_anon_2.flowinfo = word(ip, 0) & u32::from_ne_bytes([0x0f, 0xff, 0xff, 0xff]);
    to.__bindgen_anon_3.ipv6_src = [word(ip, 8), word(ip, 12), word(ip, 16), word(ip, 20)];
    to.__bindgen_anon_4.ipv6_dst = [word(ip, 24), word(ip, 28), word(ip, 32), word(ip, 36)];
    let ifindex = next_hop(ctx, &mut to);
    if ifindex == NOWHERE {
        return NOWHERE;
    }
    ip[7] -= 1;
    address(ethernet, &to);
    ifindex
}

/// Whether a packet of this length is all there.
#[inline(always)]
fn is_inside(ctx: &XdpContext, len: u32) -> bool {
    ETHERNET_LEN as u32 + len <= Fragmented::frame_len(ctx)
}

/// Four bytes of a header, in their order.
#[inline(always)]
fn word(header: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[inline(always)]
fn packet_to(ctx: &XdpContext, family: u8, l4_protocol: u8, len: u16) -> bpf_fib_lookup {
    // SAFETY: plain data, for which all zeroes are valid.
    let mut to: bpf_fib_lookup = unsafe { core::mem::zeroed() };
    to.family = family;
    to.l4_protocol = l4_protocol;
    to.__bindgen_anon_1.tot_len = len;
    to.ifindex = ctx.ingress_ifindex() as u32;
    to
}

/// The interface to the next hop, if the kernel knows one and it is among those forwarded to.
#[inline(always)]
fn next_hop(ctx: &XdpContext, to: &mut bpf_fib_lookup) -> u32 {
    let len = size_of::<bpf_fib_lookup>() as i32;
    // SAFETY: `to` is valid for reading and writing `len` bytes.
    let found = unsafe { fib_lookup(ctx.as_ptr(), &raw mut *to, len, 0) };
    if found != 0 {
        return NOWHERE;
    }
    maps::NIC_PORTS.get_ifindex(to.ifindex).unwrap_or(NOWHERE)
}

#[inline(always)]
fn address(ethernet: &mut [u8; ETHERNET_LEN], to: &bpf_fib_lookup) {
    ethernet[..6].copy_from_slice(&to.dmac);
    ethernet[6..12].copy_from_slice(&to.smac);
}
