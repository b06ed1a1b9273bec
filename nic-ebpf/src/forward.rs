//! Forwarding in the kernel, between two interfaces. What cannot be forwarded is the stack's, which
//! answers with ICMP, resolves neighbours, or takes it for itself.
//!
//! A packet is routed here only if the stack, too, would send it on unchanged but for its hop limit
//! and addresses: what `ip_rcv`, `ip_route_input` and `ip_forward` check (net/ipv4), and their
//! counterparts in net/ipv6, is checked before, or left to them. ICMP is left to them, as what an
//! error quotes may decide over its way.

use aya_ebpf::{
    EbpfContext,
    bindings::{
        BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS, bpf_fib_lookup,
        xdp_action::{XDP_PASS, XDP_REDIRECT},
    },
    helpers::{
        bpf_probe_read_kernel,
        generated::{bpf_fib_lookup as fib_lookup, bpf_xdp_adjust_tail},
    },
    programs::{RawTracePointContext, XdpContext},
};
use nic_common::{
    forward::Gate,
    headers::{ethertype, protocol},
};

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
    let key = ctx.ingress_ifindex() as u32;
    if let Some(counters) = maps::NIC_FORWARD.get_ptr_mut(is_second(ctx)) {
        // SAFETY: as in `counted`.
        let counters = unsafe { &mut *counters };
        if counters.packets & SAMPLED == 0 {
            look_for_loop(ctx, key);
        }
        if counters.packets < FIRST || counters.packets & SAMPLED == 0 {
            counters.unfinished += u64::from(is_unfinished(ctx));
        }
    }
    counted(ctx, key)
}

/// One frame of so many is looked at, all bits set.
const SAMPLED: u64 = 0x1f;
/// So many frames are looked at for their checksum in any case: where none is filled in, few follow.
const FIRST: u64 = 1024;

/// Whether a frame is an IP packet without a checksum.
#[inline(always)]
fn is_unfinished(ctx: &XdpContext) -> bool {
    let (data, end) = (ctx.data(), ctx.data_end());
    let network = data + ETHERNET_LEN;
    if network + IPV4_LEN > end {
        return false;
    }
    // SAFETY: the bounds were just checked, and the verifier checks that.
    let start = unsafe { &*(data as *const [u8; ETHERNET_LEN + IPV4_LEN]) };
    match u16::from_be_bytes([start[12], start[13]]) {
        ethertype::IPV4 if start[14] == PLAIN_IPV4 => {
            // SAFETY: as above.
            let ip = unsafe { &*(network as *const [u8; IPV4_LEN]) };
            !is_fragment(ip) && !is_finished(ctx, ETHERNET_LEN + IPV4_LEN, ip[9], pseudo_ipv4(ip))
        }
        ethertype::IPV6 if network + IPV6_LEN <= end => {
            // SAFETY: as above.
            let ip = unsafe { &*(network as *const [u8; IPV6_LEN]) };
            !is_finished(ctx, ETHERNET_LEN + IPV6_LEN, ip[6], pseudo_ipv6(ip))
        }
        _ => false,
    }
}

/// Counts what a driver did not take of the frames that it was handed: `xdp_devmap_xmit`, which
/// tells from where, to where, how many it took, and how many not (include/trace/events/xdp.h).
#[inline(always)]
pub fn sent(ctx: &RawTracePointContext) {
    let not_taken: i32 = ctx.arg(3);
    if not_taken <= 0 {
        return;
    }
    let [first, second] = [maps::FORWARD_FIRST.load(), maps::FORWARD_SECOND.load()];
    match (ifindex_of(ctx.arg(0)), ifindex_of(ctx.arg(1))) {
        (from, to) if from == first && to == second => count_not_taken(0, not_taken as u64),
        (from, to) if from == second && to == first => count_not_taken(1, not_taken as u64),
        _ => {}
    }
}

/// Counts a frame that could not be handed to a driver, as to a veth whose peer takes none:
/// `xdp_redirect_err`, which tells from where (include/trace/events/xdp.h).
#[inline(always)]
pub fn failed(ctx: &RawTracePointContext) {
    let from = ifindex_of(ctx.arg(0));
    if from == maps::FORWARD_FIRST.load() {
        count_not_taken(0, 1);
    } else if from == maps::FORWARD_SECOND.load() {
        count_not_taken(1, 1);
    }
}

#[inline(always)]
fn count_not_taken(direction: u32, frames: u64) {
    if let Some(counters) = maps::NIC_FORWARD.get_ptr_mut(direction) {
        // SAFETY: as in `counted`; both tracepoints are passed where the programs run.
        unsafe { (*counters).not_taken += frames };
    }
}

/// The index of a `struct net_device`; [`NOWHERE`] if it cannot be read, or is of another network
/// namespace.
#[inline(always)]
fn ifindex_of(device: *const u8) -> u32 {
    let Some(net) = read::<*const u8>(device, maps::NET_AT.load()) else { return NOWHERE };
    match read::<u64>(net, maps::COOKIE_AT.load()) {
        Some(cookie) if cookie == maps::FORWARD_NETNS.load() => {
            read(device, maps::IFINDEX_AT.load()).unwrap_or(NOWHERE)
        }
        _ => NOWHERE,
    }
}

/// What the kernel has so many bytes behind an address.
#[inline(always)]
fn read<T>(from: *const u8, at: u32) -> Option<T> {
    // SAFETY: the helper reads whatever the address, or fails; `T` is a number or an address.
    unsafe { bpf_probe_read_kernel(from.wrapping_add(at as usize).cast::<T>()) }.ok()
}

/// Remembers at which interface a station's frames arrive, and counts when that changes: where
/// there is a loop it does so with every round.
#[inline(always)]
fn look_for_loop(ctx: &XdpContext, ifindex: u32) {
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + ETHERNET_LEN > end {
        return;
    }
    // SAFETY: the bounds were just checked, and the verifier checks that.
    let ethernet = unsafe { &*(data as *const [u8; ETHERNET_LEN]) };
    let station = mac(ethernet, 6);
    // SAFETY: nobody holds on to a value; a torn one would be of one word.
    match unsafe { maps::NIC_STATIONS.get(station) } {
        Some(known) if *known == ifindex => {}
        known => {
            if known.is_some()
                && let Some(counters) = maps::NIC_FORWARD.get_ptr_mut(is_second(ctx))
            {
                // SAFETY: as in `counted`.
                unsafe { (*counters).moved += 1 };
            }
            // Full, it forgets the oldest.
            let _ = maps::NIC_STATIONS.insert(station, ifindex, 0);
        }
    }
}

/// Routes an IP packet to an interface that is forwarded to.
#[inline(always)]
pub fn packet(ctx: &XdpContext) -> u32 {
    counted(ctx, route(ctx))
}

#[inline(always)]
fn is_second(ctx: &XdpContext) -> u32 {
    u32::from(ctx.ingress_ifindex() as u32 != maps::FORWARD_FIRST.load())
}

/// Counts a frame, and hands it to the interface under this key, if it is not [`NOWHERE`].
#[inline(always)]
fn counted(ctx: &XdpContext, key: u32) -> u32 {
    let Some(counters) = maps::NIC_FORWARD.get_ptr_mut(is_second(ctx)) else { return XDP_PASS };
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

/// Addresses the packet to its next hop, and cuts off what is behind it; through which interface
/// that is.
#[inline(always)]
fn route(ctx: &XdpContext) -> u32 {
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + ETHERNET_LEN > end {
        return NOWHERE;
    }
    let Some(gate) = maps::NIC_GATES.get(is_second(ctx)) else { return NOWHERE };
    // SAFETY: the bounds were just checked, and the verifier checks that.
    let ethernet = unsafe { &*(data as *const [u8; ETHERNET_LEN]) };
    if mac(ethernet, 0) != gate.mac {
        return NOWHERE;
    }
    let network = data + ETHERNET_LEN;
    match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ethertype::IPV4 if network + IPV4_LEN <= end => {
            // SAFETY: as above.
            route_ipv4(ctx, gate.longest[0], unsafe { &*(network as *const [u8; IPV4_LEN]) })
        }
        ethertype::IPV6 if network + IPV6_LEN <= end => {
            // SAFETY: as above.
            route_ipv6(ctx, gate.longest[1], unsafe { &*(network as *const [u8; IPV6_LEN]) })
        }
        _ => NOWHERE,
    }
}

#[inline(always)]
fn route_ipv4(ctx: &XdpContext, longest: u32, ip: &[u8; IPV4_LEN]) -> u32 {
    let total_len = u16::from_be_bytes([ip[2], ip[3]]);
    if ip[9] == protocol::ICMP || u32::from(total_len) > longest {
        return NOWHERE;
    }
    let is_sound = ip[0] == PLAIN_IPV4 && total_len >= IPV4_LEN as u16 && sum(ip, 0) == 0xffff;
    if !is_sound || ip[8] <= 1 || !is_inside(ctx, total_len.into()) || !is_routed_ipv4(ip) {
        return NOWHERE;
    }
    let mut to = packet_to(ctx, AF_INET, ip[9], total_len);
    if !is_fragment(ip) && !is_finished(ctx, ETHERNET_LEN + IPV4_LEN, ip[9], pseudo_ipv4(ip)) {
        return NOWHERE;
    }
    to.__bindgen_anon_2.tos = ip[1];
    to.__bindgen_anon_3.ipv4_src = word(ip, 12);
    to.__bindgen_anon_4.ipv4_dst = word(ip, 16);
    let ifindex = next_hop(ctx, &mut to);
    if ifindex == NOWHERE {
        return NOWHERE;
    }
    let mut back = packet_to(ctx, AF_INET, 0, 0);
    back.ifindex = ifindex;
    back.__bindgen_anon_2.tos = ip[1];
    back.__bindgen_anon_3.ipv4_src = word(ip, 16);
    back.__bindgen_anon_4.ipv4_dst = word(ip, 12);
    if !leads_back(ctx, &mut back) {
        return NOWHERE;
    }
    let Some(packet) = trimmed::<{ ETHERNET_LEN + IPV4_LEN }>(ctx, total_len.into()) else {
        return NOWHERE;
    };
    // SAFETY: its bounds were checked, which the verifier sees, and nothing else points into it.
    let packet = unsafe { &mut *packet };
    packet[22] -= 1;
    // `ip_decrease_ttl` (include/net/ip.h)
    let checksum = u32::from(u16::from_be_bytes([packet[24], packet[25]])) + 0x0100;
    let checksum = (checksum + u32::from(checksum >= 0xffff)) as u16;
    [packet[24], packet[25]] = checksum.to_be_bytes();
    address(packet, &to);
    ifindex
}

/// Whether the source and the destination are such as may be routed: this network, loopback,
/// multicast and broadcast are the stack's.
#[inline(always)]
fn is_routed_ipv4(ip: &[u8; IPV4_LEN]) -> bool {
    let is_martian = |first: u8| first == 0 || first == 127 || first & 0xf0 == 0xe0;
    let is_routed = |at| !is_martian(ip[at]) && word(ip, at) != u32::MAX;
    is_routed(12) && is_routed(16)
}

#[inline(always)]
fn route_ipv6(ctx: &XdpContext, longest: u32, ip: &[u8; IPV6_LEN]) -> u32 {
    let payload_len = u16::from_be_bytes([ip[4], ip[5]]);
    let len = u32::from(payload_len) + IPV6_LEN as u32;
    // Every router reads hop-by-hop options; what is behind other extension headers decides, too.
    let is_plain = ip[0] >> 4 == 6
        && !matches!(
            ip[6],
            protocol::HOP_BY_HOP
                | protocol::ROUTING
                | protocol::FRAGMENT
                | protocol::DESTINATION
                | protocol::ICMPV6
        )
        && payload_len != 0;
    let is_routed = is_routed_ipv6(ip, 8) && is_routed_ipv6(ip, 24);
    if !is_plain || !is_routed || ip[7] <= 1 || !is_inside(ctx, len) || len > longest.min(0xffff) {
        return NOWHERE;
    }
    let mut to = packet_to(ctx, AF_INET6, ip[6], len as u16);
    if !is_finished(ctx, ETHERNET_LEN + IPV6_LEN, ip[6], pseudo_ipv6(ip)) {
        return NOWHERE;
    }
    to.__bindgen_anon_2.flowinfo = word(ip, 0) & u32::from_ne_bytes([0x0f, 0xff, 0xff, 0xff]);
    to.__bindgen_anon_3.ipv6_src = [word(ip, 8), word(ip, 12), word(ip, 16), word(ip, 20)];
    to.__bindgen_anon_4.ipv6_dst = [word(ip, 24), word(ip, 28), word(ip, 32), word(ip, 36)];
    let ifindex = next_hop(ctx, &mut to);
    if ifindex == NOWHERE {
        return NOWHERE;
    }
    let Some(packet) = trimmed::<{ ETHERNET_LEN + IPV6_LEN }>(ctx, len) else { return NOWHERE };
    // SAFETY: as in `route_ipv4`.
    let packet = unsafe { &mut *packet };
    packet[21] -= 1;
    address(packet, &to);
    ifindex
}

/// Whether the address at `at` is one that may be routed: unspecified and loopback, mapped,
/// link-local and multicast ones are the stack's.
#[inline(always)]
fn is_routed_ipv6(ip: &[u8; IPV6_LEN], at: usize) -> bool {
    // `::`, `::1`, `::ffff:192.0.2.1`, and whatever else is of no network
    let is_low = word(ip, at) | word(ip, at + 4) == 0;
    let is_link_local = ip[at] == 0xfe && ip[at + 1] & 0xc0 == 0x80;
    !is_low && !is_link_local && ip[at] != 0xff
}

/// Whether an IPv4 packet is only a part of one.
#[inline(always)]
fn is_fragment(ip: &[u8; IPV4_LEN]) -> bool {
    const ANY_FRAGMENT: u16 = 0x3fff;
    u16::from_be_bytes([ip[6], ip[7]]) & ANY_FRAGMENT != 0
}

/// The sum of the pseudo header of a packet without options, that of a shorter one than its header
/// is of no use.
#[inline(always)]
fn pseudo_ipv4(ip: &[u8; IPV4_LEN]) -> u32 {
    let len = u32::from(u16::from_be_bytes([ip[2], ip[3]])).saturating_sub(IPV4_LEN as u32);
    add(add(len, ip[9].into()), add(pair(ip, 12), pair(ip, 16)))
}

/// The sum of the pseudo header of a packet without extension headers.
#[inline(always)]
fn pseudo_ipv6(ip: &[u8; IPV6_LEN]) -> u32 {
    let mut sum = add(u16::from_be_bytes([ip[4], ip[5]]).into(), ip[6].into());
    let mut at = 8;
    while at < IPV6_LEN {
        sum = add(sum, pair(ip, at));
        at += 4;
    }
    sum
}

/// Whether a packet has its checksum. Where the sender left that to its device, which only the stack
/// can have done, the field holds `pseudo`, the sum of the pseudo header.
#[inline(always)]
fn is_finished(ctx: &XdpContext, at: usize, protocol: u8, pseudo: u32) -> bool {
    let checksum_at = match protocol {
        protocol::UDP => 6,
        protocol::TCP => 16,
        _ => return true,
    };
    let field = ctx.data() + at + checksum_at;
    if field + 2 > ctx.data_end() {
        return false;
    }
    // SAFETY: the bounds were just checked, and the verifier checks that.
    let field = unsafe { *(field as *const [u8; 2]) };
    u32::from(u16::from_be_bytes(field)) != pseudo
}

/// Whether the stack would find the source where the packet came from: who is there, is not this
/// host, and no broadcast address. It asks as if an answer arrived where the packet leaves
/// (`fib_validate_source`, net/ipv4/fib_frontend.c). Where it would not, it is the stack that knows
/// what that means (`rp_filter`).
#[inline(always)]
fn leads_back(ctx: &XdpContext, back: &mut bpf_fib_lookup) -> bool {
    let found = lookup(ctx, back);
    let is_known =
        found == BPF_FIB_LKUP_RET_SUCCESS as i64 || found == BPF_FIB_LKUP_RET_NO_NEIGH as i64;
    is_known && back.ifindex == ctx.ingress_ifindex() as u32
}

/// The interface to the next hop, if the kernel knows one and it is among those forwarded to, but
/// not the one that the packet came from: then the stack tells the sender of the shorter way.
#[inline(always)]
fn next_hop(ctx: &XdpContext, to: &mut bpf_fib_lookup) -> u32 {
    if lookup(ctx, to) != BPF_FIB_LKUP_RET_SUCCESS as i64
        || to.ifindex == ctx.ingress_ifindex() as u32
    {
        return NOWHERE;
    }
    maps::NIC_PORTS.get_ifindex(to.ifindex).unwrap_or(NOWHERE)
}

#[inline(always)]
fn lookup(ctx: &XdpContext, to: &mut bpf_fib_lookup) -> i64 {
    let len = size_of::<bpf_fib_lookup>() as i32;
    // SAFETY: `to` is valid for reading and writing `len` bytes.
    unsafe { fib_lookup(ctx.as_ptr(), &raw mut *to, len, 0) }
}

/// The first `N` bytes of a packet, behind which `len` bytes from its IP header on are left.
#[inline(always)]
fn trimmed<const N: usize>(ctx: &XdpContext, len: u32) -> Option<*mut [u8; N]> {
    let behind = Fragmented::frame_len(ctx) as i32 - (ETHERNET_LEN as u32 + len) as i32;
    if behind > 0 {
        // SAFETY: the helper moves the end; no pointer into the packet is used after it.
        let moved = unsafe { bpf_xdp_adjust_tail(ctx.as_ptr().cast(), -behind) };
        if moved != 0 {
            return None;
        }
    }
    let data = ctx.data();
    (data + N <= ctx.data_end()).then_some(data as *mut [u8; N])
}

/// Whether a packet of this length is all there.
#[inline(always)]
fn is_inside(ctx: &XdpContext, len: u32) -> bool {
    ETHERNET_LEN as u32 + len <= Fragmented::frame_len(ctx)
}

/// The Ethernet address at `at`.
#[inline(always)]
fn mac(ethernet: &[u8; ETHERNET_LEN], at: usize) -> u64 {
    Gate::mac(&[
        ethernet[at],
        ethernet[at + 1],
        ethernet[at + 2],
        ethernet[at + 3],
        ethernet[at + 4],
        ethernet[at + 5],
    ])
}

/// Four bytes of a header, in their order.
#[inline(always)]
fn word(header: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The sum of the two 16-bit words at `at`.
#[inline(always)]
fn pair(header: &[u8], at: usize) -> u32 {
    add(
        u16::from_be_bytes([header[at], header[at + 1]]).into(),
        u16::from_be_bytes([header[at + 2], header[at + 3]]).into(),
    )
}

/// The sum of a header, and `start`.
#[inline(always)]
fn sum(header: &[u8; IPV4_LEN], start: u32) -> u32 {
    let mut total = start;
    let mut at = 0;
    while at < IPV4_LEN {
        total = add(total, pair(header, at));
        at += 4;
    }
    total
}

/// The sum of two 16-bit words with end-around carry.
#[inline(always)]
const fn add(one: u32, other: u32) -> u32 {
    let sum = one + other;
    (sum & 0xffff) + (sum >> 16)
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

#[inline(always)]
fn address<const N: usize>(packet: &mut [u8; N], to: &bpf_fib_lookup) {
    packet[..6].copy_from_slice(&to.dmac);
    packet[6..12].copy_from_slice(&to.smac);
}
