//! The XDP and TC programs that are compared.

use crate::{
    error::Result,
    lab::bpf::{
        Hook, Program, TC_ACT_SHOT, XDP_DROP, XDP_PASS,
        insn::{
            Body, EXIT, FP, Helper, Insn, R0, R1, R2, R3, R4, R6, R7, R8, Size, add, add_reg, call,
            copy, from_big_endian_half, if_less, if_more, if_not, load, mov, packet, shift_right,
            store, store_reg,
        },
    },
};

/// In `struct xdp_md` (linux/bpf.h).
const INGRESS_IFINDEX: i16 = 12;

/// In an IPv4 packet behind an Ethernet header.
const ETHER_TYPE: i16 = 12;
const TOTAL_LEN: i16 = 16;
const TTL: i16 = 22;
const CHECKSUM: i16 = 24;
const SOURCE: i16 = 26;
const DESTINATION: i16 = 30;
const HEADERS_LEN: i32 = 34;
/// 0x0800 in network byte order, as a little-endian processor reads it.
const IPV4: i32 = u16::from_ne_bytes([0x08, 0x00]) as i32;

/// `struct bpf_fib_lookup` (linux/bpf.h) at the top of the stack.
mod fib {
    pub const SIZE: i32 = 64;
    const START: i16 = -(SIZE as i16);
    pub const FAMILY: i16 = START;
    pub const TOTAL_LEN: i16 = START + 6;
    pub const IFINDEX: i16 = START + 8;
    pub const SOURCE: i16 = START + 16;
    pub const DESTINATION: i16 = START + 32;
    pub const SOURCE_MAC: i16 = START + 52;
    pub const DESTINATION_MAC: i16 = START + 58;
}

/// XDP that drops.
pub fn xdp_drop() -> Result<Program> {
    Program::returning(Hook::Xdp, XDP_DROP)
}

/// XDP that lets everything pass.
pub fn xdp_pass() -> Result<Program> {
    Program::returning(Hook::Xdp, XDP_PASS)
}

/// TC that drops.
pub fn tc_drop() -> Result<Program> {
    Program::returning(Hook::TcIngress, TC_ACT_SHOT)
}

/// XDP that forwards IPv4 by the kernel's routes (`bpf_fib_lookup`), as `xdp-forward` does.
pub fn xdp_forward() -> Result<Program> {
    let from_packet = |size, to, at| [load(size, R1, R7, at), store_reg(size, FP, to, R1)];
    let to_packet = |at, from| [load(Size::Half, R1, FP, from), store_reg(Size::Half, R7, at, R1)];
    let program = Body::default()
        .then([copy(R6, R1)])
        .then(packet(HEADERS_LEN))
        .end_if(if_more(R1, R3))
        .then([copy(R7, R2), load(Size::Half, R1, R7, ETHER_TYPE)])
        .end_if(if_not(R1, IPV4))
        .then([load(Size::Byte, R8, R7, TTL)])
        .end_if(if_less(R8, 2))
        .then((1..=8).map(|word| store(Size::Double, FP, -8 * word, 0)))
        .then([store(Size::Byte, FP, fib::FAMILY, libc::AF_INET)])
        .then([load(Size::Half, R1, R7, TOTAL_LEN)])
        .then([from_big_endian_half(R1)])
        .then([store_reg(Size::Half, FP, fib::TOTAL_LEN, R1)])
        .then([load(Size::Word, R1, R6, INGRESS_IFINDEX)])
        .then([store_reg(Size::Word, FP, fib::IFINDEX, R1)])
        .then(from_packet(Size::Word, fib::SOURCE, SOURCE))
        .then(from_packet(Size::Word, fib::DESTINATION, DESTINATION))
        .then([copy(R1, R6), copy(R2, FP), add(R2, -fib::SIZE), mov(R3, fib::SIZE), mov(R4, 0)])
        .then([call(Helper::FibLookup)])
        .end_if(if_not(R0, 0))
        .then([add(R8, -1), store_reg(Size::Byte, R7, TTL, R8)])
        .then(checksum_of_less_ttl())
        .then((0..3).flat_map(|half| to_packet(2 * half, fib::DESTINATION_MAC + 2 * half)))
        .then((0..3).flat_map(|half| to_packet(6 + 2 * half, fib::SOURCE_MAC + 2 * half)))
        .then([load(Size::Word, R1, FP, fib::IFINDEX), mov(R2, 0), call(Helper::Redirect), EXIT])
        .ending_in(XDP_PASS);
    Program::load(Hook::Xdp, &program)
}

/// `ip_decrease_ttl` (include/net/ip.h): the sum grows by what the TTL's byte loses.
const fn checksum_of_less_ttl() -> [Insn; 7] {
    const ONE: i32 = u16::from_ne_bytes([0x01, 0x00]) as i32;
    [
        load(Size::Half, R1, R7, CHECKSUM),
        add(R1, ONE),
        // One more if it reaches 0xffff: its carry.
        copy(R2, R1),
        add(R2, 1),
        shift_right(R2, 16),
        add_reg(R1, R2),
        store_reg(Size::Half, R7, CHECKSUM, R1),
    ]
}
