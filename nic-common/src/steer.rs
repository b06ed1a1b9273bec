//! Steering: which frames go to the rings of a user instead of to the kernel's stack.
//!
//! Every receive queue has a list of [`Rules`], and so its own user. The first rule that a frame
//! matches decides; what no rule matches is the kernel's.
//!
//! A rule looks at the outermost headers: a VLAN tag is an ethertype, with no IP header behind it,
//! and a tunnel is an IP protocol, with no port. Frames whose headers contradict themselves or
//! could not be walked to their end match only a rule without conditions.

use core::net::IpAddr;

use crate::{
    frame::{Fields, Frame},
    headers::{Flags, HeaderInfo, ethertype, protocol},
};

/// The most rules that a queue has.
pub const MAX_RULES: usize = 32;

const ETHERNET_BYTES: usize = 14;
const ETHERNET_LEN: u32 = ETHERNET_BYTES as u32;

/// What rules look at: three words of which a rule compares some bits.
///
/// | word | bits | what |
/// | --- | --- | --- |
/// | 0 | 0..16 | ethertype |
/// | 0 | 16..24 | IP protocol |
/// | 0 | 24..40 | destination port |
/// | 0 | 40 | whether there is an IP header |
/// | 0 | 41 | whether there is a port |
/// | 1, 2 | all | destination address, IPv4 in the lower half of word 2 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow([u64; 3]);

const PROTOCOL_AT: u32 = 16;
const PORT_AT: u32 = 24;
const HAS_IP: u64 = 1 << 40;
const HAS_PORT: u64 = 1 << 41;

impl Flow {
    /// A frame of which nothing is known: it matches only a rule without conditions.
    pub const UNKNOWN: Self = Self([0; 3]);

    /// What the rules look at in `frame`, whose headers are `info`; `None` if its bytes cannot be
    /// reached.
    #[inline(always)]
    pub fn of<F: Frame + ?Sized>(frame: &F, info: &HeaderInfo) -> Option<Self> {
        if info.flags.any(Flags::MALFORMED.with(Flags::UNPARSED)) {
            return Some(Self::UNKNOWN);
        }
        let at = ETHERNET_LEN;
        let ethertype = frame.header::<ETHERNET_BYTES>(0)?.be16(12);
        let (next, to) = match ethertype {
            ethertype::IPV4 => {
                let ip = frame.header::<20>(at)?;
                (ip.u8(9), [0, be32(&ip, 16)])
            }
            ethertype::IPV6 => {
                let ip = frame.header::<40>(at)?;
                (ip.u8(6), [be64(&ip, 24), be64(&ip, 32)])
            }
            _ => return Some(Self([ethertype as u64, 0, 0])),
        };
        // Behind a tunnel's header the walk stopped at an inner one.
        let is_outermost = info.l3_offset == at;
        let protocol = if is_outermost { info.l4.raw() } else { next };
        let port = if is_outermost { port(frame, info)? } else { 0 };
        let first = ethertype as u64 | (protocol as u64) << PROTOCOL_AT | port | HAS_IP;
        Some(Self([first, to[0], to[1]]))
    }
}

/// The destination port with [`HAS_PORT`], as they lie in the first word. A fragment has none, not
/// even the first: the others could not follow it.
#[inline(always)]
fn port<F: Frame + ?Sized>(frame: &F, info: &HeaderInfo) -> Option<u64> {
    let has_ports = matches!(
        info.l4.raw(),
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::DCCP
    );
    let is_fragment = info.flags.any(Flags::FIRST_FRAGMENT.with(Flags::LATER_FRAGMENT));
    if !has_ports || is_fragment {
        return Some(0);
    }
    let port = frame.header::<4>(info.l4_offset)?.be16(2);
    Some((port as u64) << PORT_AT | HAS_PORT)
}

#[inline(always)]
fn be32(header: &impl Fields, at: usize) -> u64 {
    (header.be16(at) as u64) << 16 | header.be16(at + 2) as u64
}

#[inline(always)]
fn be64(header: &impl Fields, at: usize) -> u64 {
    be32(header, at) << 32 | be32(header, at + 4)
}

/// One rule. It begins as one that every frame matches; each condition narrows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rule {
    value: [u64; 3],
    mask: [u64; 3],
    take: u64,
}

impl Rule {
    /// What matches goes to the rings.
    pub const TAKE: Self = Self { value: [0; 3], mask: [0; 3], take: 1 };
    /// What matches is the kernel's, whatever later rules say.
    pub const PASS: Self = Self { take: 0, ..Self::TAKE };

    /// Only frames with this ethertype, in host byte order.
    #[must_use]
    pub const fn ethertype(self, ethertype: u16) -> Self {
        self.narrowed(ethertype as u64, 0xffff)
    }

    /// Only IP packets of this protocol. Behind IPv6 extension headers it is the one that follows
    /// them.
    #[must_use]
    pub const fn protocol(self, protocol: u8) -> Self {
        self.narrowed((protocol as u64) << PROTOCOL_AT | HAS_IP, 0xff << PROTOCOL_AT | HAS_IP)
    }

    /// Only packets to this port of TCP, UDP, UDP-Lite, SCTP or DCCP. Fragments never match.
    #[must_use]
    pub const fn port(self, port: u16) -> Self {
        self.narrowed((port as u64) << PORT_AT | HAS_PORT, 0xffff << PORT_AT | HAS_PORT)
    }

    /// Only packets to addresses that begin with the first `prefix` bits of `address`; `None` if it
    /// has not so many.
    #[must_use]
    pub const fn to(self, address: IpAddr, prefix: u8) -> Option<Self> {
        let (ethertype, bits, address) = match address {
            IpAddr::V4(address) => (ethertype::IPV4, 32, address.to_bits() as u128),
            IpAddr::V6(address) => (ethertype::IPV6, 128, address.to_bits()),
        };
        if prefix > bits {
            return None;
        }
        let mask = match u128::MAX.checked_shl((bits - prefix) as u32) {
            Some(mask) if bits == 32 => mask & u32::MAX as u128,
            Some(mask) => mask,
            None => 0,
        };
        let mut rule = self.ethertype(ethertype).narrowed(HAS_IP, HAS_IP);
        let address = address & mask;
        (rule.value[1], rule.value[2]) = ((address >> 64) as u64, address as u64);
        (rule.mask[1], rule.mask[2]) = ((mask >> 64) as u64, mask as u64);
        Some(rule)
    }

    const fn narrowed(mut self, value: u64, mask: u64) -> Self {
        self.value[0] = self.value[0] & !mask | value;
        self.mask[0] |= mask;
        self
    }

    /// Whether every condition holds.
    #[inline(always)]
    const fn matches(&self, Flow(flow): &Flow) -> bool {
        // One branch a rule: what the verifier follows doubles with each.
        (flow[0] ^ self.value[0]) & self.mask[0]
            | (flow[1] ^ self.value[1]) & self.mask[1]
            | (flow[2] ^ self.value[2]) & self.mask[2]
            == 0
    }
}

/// The rules of one queue, as they lie in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rules {
    count: u64,
    rules: [Rule; MAX_RULES],
}

impl Rules {
    /// Nothing goes to the rings.
    pub const NONE: Self = Self { count: 0, rules: [Rule::PASS; MAX_RULES] };
    /// Everything goes to the rings.
    pub const ALL: Self = Self { count: 1, rules: [Rule::TAKE; MAX_RULES] };

    /// These rules; `None` if they are more than [`MAX_RULES`].
    pub fn new(rules: &[Rule]) -> Option<Self> {
        let mut all = Self { count: rules.len() as u64, ..Self::NONE };
        all.rules.get_mut(..rules.len())?.copy_from_slice(rules);
        Some(all)
    }

    /// Whether a frame goes to the rings.
    #[inline(always)]
    pub fn take(&self, flow: &Flow) -> bool {
        let mut at = 0;
        while at < MAX_RULES {
            if at as u64 >= self.count {
                break;
            }
            let rule = &self.rules[at];
            if rule.matches(flow) {
                return rule.take != 0;
            }
            at += 1;
        }
        false
    }
}

// SAFETY: a `repr(C)` struct of `u64` alone: no padding, every bit pattern valid.
#[cfg(feature = "user")]
unsafe impl aya::Pod for Rules {}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// A frame of UDP to port 7 of 192.0.2.1.
    const UDP: [u8; 42] = {
        let mut frame = [0; 42];
        let header = [8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 192, 0, 2, 1];
        let mut at = 0;
        while at < header.len() {
            frame[12 + at] = header[at];
            at += 1;
        }
        frame[37] = 7;
        frame[39] = 8;
        frame
    };

    fn flow(frame: &[u8]) -> Flow {
        Flow::of(frame, &HeaderInfo::of(frame)).unwrap()
    }

    fn takes(rules: &[Rule], frame: &[u8]) -> bool {
        Rules::new(rules).unwrap().take(&flow(frame))
    }

    fn to(rule: Rule, address: [u8; 4], prefix: u8) -> Rule {
        rule.to(IpAddr::V4(Ipv4Addr::from(address)), prefix).unwrap()
    }

    #[test]
    fn each_condition_narrows() {
        let udp = Rule::TAKE.protocol(17).port(7);
        assert!(takes(&[to(udp, [192, 0, 2, 1], 32).ethertype(ethertype::IPV4)], &UDP));
        let misses = [
            Rule::TAKE.ethertype(ethertype::ARP),
            Rule::TAKE.protocol(6),
            Rule::TAKE.protocol(17).port(8),
            to(udp, [192, 0, 2, 2], 32),
            to(udp, [192, 0, 3, 0], 24),
            udp.to(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0).unwrap(),
        ];
        for rule in misses {
            assert!(!takes(&[rule], &UDP), "{rule:?}");
        }
    }

    #[test]
    fn the_first_match_decides_and_nothing_is_taken_by_default() {
        let all = Rule::TAKE;
        let pass = to(Rule::PASS, [192, 0, 2, 1], 32);
        assert!(!takes(&[], &UDP) && !takes(&[pass, all], &UDP) && takes(&[all, pass], &UDP));
        assert!(!Rules::NONE.take(&flow(&UDP)) && Rules::ALL.take(&flow(&UDP)));
        assert!(Rules::new(&[all; MAX_RULES]).is_some());
        assert!(Rules::new(&[all; MAX_RULES + 1]).is_none());
    }

    #[test]
    fn a_port_is_of_a_whole_packet_only() {
        let mut fragment = UDP;
        fragment[20] = 0x20;
        let port = Rule::TAKE.port(7);
        assert!(takes(&[port], &UDP) && !takes(&[port], &fragment));
        assert!(takes(&[Rule::TAKE.protocol(17)], &fragment));
        // A later fragment, whose payload could be taken for a port.
        fragment[20..22].copy_from_slice(&[0, 1]);
        assert!(!takes(&[port], &fragment) && takes(&[Rule::TAKE.protocol(17)], &fragment));
    }

    #[test]
    fn lying_frames_match_only_a_rule_without_conditions() {
        let mut lying = UDP;
        lying[39] = 200;
        assert!(HeaderInfo::of(&lying[..]).flags.any(Flags::MALFORMED));
        let conditions = [
            Rule::TAKE.ethertype(ethertype::IPV4),
            Rule::TAKE.protocol(17),
            Rule::TAKE.protocol(0),
            Rule::TAKE.port(7),
            Rule::TAKE.port(0),
            to(Rule::TAKE, [0; 4], 0),
        ];
        for rule in conditions {
            assert!(!takes(&[rule], &lying), "{rule:?}");
        }
        assert!(takes(&[Rule::TAKE], &lying));
    }

    #[test]
    fn it_is_the_outermost_header_that_counts() {
        let mut tunnel = [[0; 20].as_slice(), &UDP[..]].concat();
        tunnel.copy_within(20..34, 0);
        tunnel[14..34]
            .copy_from_slice(&[0x45, 0, 0, 48, 0, 0, 0, 0, 64, 4, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(HeaderInfo::of(&tunnel[..]).l3_offset, 34);
        assert!(takes(&[to(Rule::TAKE, [10, 0, 0, 2], 32).protocol(4)], &tunnel));
        for rule in
            [Rule::TAKE.port(7), Rule::TAKE.protocol(17), to(Rule::TAKE, [192, 0, 2, 1], 32)]
        {
            assert!(!takes(&[rule], &tunnel), "{rule:?}");
        }
    }

    #[test]
    fn tagged_frames_are_of_another_network() {
        let tagged = [&UDP[..12], &[0x81, 0, 0, 5], &UDP[12..]].concat();
        for rule in [Rule::TAKE.port(7), Rule::TAKE.protocol(17), to(Rule::TAKE, [0; 4], 0)] {
            assert!(!takes(&[rule], &tagged), "{rule:?}");
        }
        assert!(takes(&[Rule::TAKE.ethertype(ethertype::VLAN)], &tagged));
    }

    #[test]
    fn a_prefix_is_no_longer_than_its_address() {
        assert_eq!(Rule::TAKE.to(IpAddr::V4(Ipv4Addr::LOCALHOST), 33), None);
        assert_eq!(Rule::TAKE.to(IpAddr::V6(Ipv6Addr::LOCALHOST), 129), None);
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<u32>().prop_map(|it| IpAddr::V4(it.into())),
            any::<u128>().prop_map(|it| IpAddr::V6(it.into()))
        ]
    }

    /// A frame of UDP to an address.
    fn udp_to(address: IpAddr, port: u16) -> [u8; 62] {
        let mut frame = [0; 62];
        match address {
            IpAddr::V4(address) => {
                frame[..42].copy_from_slice(&UDP);
                frame[30..34].copy_from_slice(&address.octets());
                frame[36..38].copy_from_slice(&port.to_be_bytes());
            }
            IpAddr::V6(address) => {
                frame[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
                frame[38..54].copy_from_slice(&address.octets());
                frame[56..58].copy_from_slice(&port.to_be_bytes());
                frame[59] = 8;
            }
        }
        frame
    }

    proptest! {
        #[test]
        fn a_prefix_matches_what_it_is_a_prefix_of(
            address in address(), prefix in 0..=128_u8, flipped in 0..128_u8, port: u16,
        ) {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let (prefix, flipped) = (prefix % (bits + 1), flipped % bits);
            let rule = Rule::TAKE.port(port).to(address, prefix).unwrap();
            prop_assert!(takes(&[rule], &udp_to(address, port)));
            prop_assert!(!takes(&[rule], &udp_to(address, port ^ 1)));
            let bit = 1_u128 << (bits - 1 - flipped);
            let other = match address {
                IpAddr::V4(address) => IpAddr::V4((address.to_bits() ^ bit as u32).into()),
                IpAddr::V6(address) => IpAddr::V6((address.to_bits() ^ bit).into()),
            };
            prop_assert_eq!(takes(&[rule], &udp_to(other, port)), flipped >= prefix);
        }

        #[test]
        fn any_frame_has_an_answer(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
            let info = HeaderInfo::of(&frame[..]);
            let flow = Flow::of(&frame[..], &info);
            prop_assert!(flow.is_some() || frame.len() < 54, "{info:?}");
            prop_assert!(flow.is_none_or(|flow| Rules::ALL.take(&flow)));
        }
    }
}
