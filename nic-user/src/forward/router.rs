//! Routing of IP packets in userspace, by the kernel's routes and neighbours.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use nic_common::{
    headers::{ethertype, protocol},
    steer::{MAX_RULES, Rule, Rules},
};

use super::{
    Reason,
    surroundings::{Now, Surroundings},
};
use crate::{
    driver::{checksum::Sum, packet::Packet},
    error::Result,
    netlink::route::{Arrived, Changed, Neighbour, Onward, Routes},
    nic::Nic,
};

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// The bits of a type of service that routes may depend on.
const NOT_ECN: u8 = 0xfc;

/// How long an answer of the kernel is good for: some of what it depends on changes without a word.
const FRESH: Duration = Duration::from_secs(1);
/// How long it takes until the kernel is asked again for a neighbour that it does not know yet.
const PATIENCE: Duration = Duration::from_millis(10);
/// Ways that are remembered: more, and all are forgotten.
const MOST: usize = 65_536;

/// Knows where packets go.
pub struct Router {
    routes: Routes,
    around: Surroundings,
    known: HashMap<Arrived, Known>,
    now: Instant,
}

/// Where packets go.
#[derive(Clone, Copy, Debug)]
struct Hop {
    end: usize,
    next_hop: IpAddr,
    mac: [u8; 6],
    /// The longest that get there, from the IP header on.
    mtu: u32,
}

#[derive(Clone, Copy)]
struct Known {
    hop: Result<Hop, Reason>,
    until: Instant,
}

impl Router {
    /// Between these interfaces of the present network namespace.
    pub fn new(nics: [&Nic; 2]) -> Result<Self> {
        let around = Surroundings::of(nics)?;
        let routes = Routes::open().map_err(|error| error.while_doing("look up routes"))?;
        Ok(Self { routes, around, known: HashMap::new(), now: Instant::now() })
    }

    /// The addresses of packets that are for this host itself.
    pub fn local_addresses(&mut self) -> Result<Vec<IpAddr>> {
        self.routes
            .local_addresses()
            .map_err(|error| error.while_doing("read this host's addresses"))
    }

    /// Forgets what the kernel said if anything has changed since, or some time has passed.
    pub fn look_around(&mut self) -> Result<()> {
        self.now = Instant::now();
        let Changed { any, neighbours, .. } = self.around.look()?;
        let ends = &self.around.now().ends;
        if any {
            self.known.clear();
        } else if !neighbours.is_empty() {
            self.known.retain(|_, known| match known.hop {
                Ok(hop) => !neighbours.contains(&(ends[hop.end].ifindex, hop.next_hop)),
                Err(_) => true,
            });
        }
        Ok(())
    }

    /// Addresses a packet that arrived at one interface to its next hop; through which interface
    /// it gets there. A packet that is not forwarded stays as it is.
    pub fn route(&mut self, packet: &mut Packet, from: usize) -> Result<usize, Reason> {
        let Now { ends, routes, .. } = self.around.now();
        let Header { from: source, to, tos, len } = Header::of(packet, ends[from].mac)?;
        if !routes[usize::from(to.is_ipv6())] {
            return Err(|drops| &mut drops.kernel_only);
        }
        let ifindex = ends[from].ifindex;
        let hop = self.hop(Arrived { from: source, to, ifindex, tos })?;
        // The stack tells the sender of the shorter way.
        if hop.end == from {
            return Err(|drops| &mut drops.kernel_only);
        }
        if len > hop.mtu as usize {
            return Err(|drops| &mut drops.too_long);
        }
        cut(packet, ETHERNET_LEN + len);
        readdress(&mut packet.linear, hop.mac, self.around.now().ends[hop.end].mac);
        Ok(hop.end)
    }

    fn hop(&mut self, packet: Arrived) -> Result<Hop, Reason> {
        if let Some(known) = self.known.get(&packet)
            && known.until > self.now
        {
            return known.hop;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let (hop, fresh) = self.ask(&packet);
        self.known.insert(packet, Known { hop, until: self.now + fresh });
        hop
    }

    /// Asks the kernel for the next hop; also, for how long the answer is good.
    fn ask(&mut self, packet: &Arrived) -> (Result<Hop, Reason>, Duration) {
        let Ok(Some(Onward { route, mtu })) = self.routes.onward(packet) else {
            return (Err(|drops| &mut drops.no_route), FRESH);
        };
        let ends = &self.around.now().ends;
        let Some(end) = ends.iter().position(|end| end.ifindex == route.ifindex) else {
            return (Err(|drops| &mut drops.no_route), FRESH);
        };
        let mtu = mtu.unwrap_or(u32::MAX).min(ends[end].mtu);
        let neighbour = self.routes.neighbour(route.ifindex, route.next_hop).ok();
        let Some(Neighbour { mac: Some(mac), confirmed }) = neighbour else {
            // The stack looks for it, and keeps the packet meanwhile.
            return (Err(|drops| &mut drops.no_neighbour), PATIENCE);
        };
        if !confirmed {
            // It fails where there is no room for another neighbour; the stack tries again then.
            let _ = self.routes.probe(route.ifindex, route.next_hop);
        }
        (Ok(Hop { end, next_hop: route.next_hop, mac, mtu }), FRESH)
    }
}

/// What routing needs to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    from: IpAddr,
    to: IpAddr,
    tos: u8,
    /// Length from the IP header on.
    len: usize,
}

impl Header {
    /// Of a packet that is sound, addressed to `mac`, and may go on.
    fn of(packet: &Packet, mac: [u8; 6]) -> Result<Self, Reason> {
        let malformed: Reason = |drops| &mut drops.malformed;
        let bytes: &[u8] = &packet.linear;
        if !bytes.starts_with(&mac) {
            return Err(|drops| &mut drops.not_ours);
        }
        let (ethernet, network) = bytes.split_first_chunk::<ETHERNET_LEN>().ok_or(malformed)?;
        let [.., high, low] = *ethernet;
        let (header, hops, is_plain) = match u16::from_be_bytes([high, low]) {
            ethertype::IPV4 => Self::of_ipv4(network),
            ethertype::IPV6 => Self::of_ipv6(network),
            _ => None,
        }
        .ok_or(malformed)?;
        if header.len + ETHERNET_LEN > packet.len() {
            return Err(malformed);
        }
        if hops <= 1 {
            return Err(|drops| &mut drops.expired);
        }
        if !is_plain || !is_routed(header.from) || !is_routed(header.to) {
            return Err(|drops| &mut drops.kernel_only);
        }
        Ok(header)
    }

    /// With it comes the hop limit, and whether there are no options.
    fn of_ipv4(network: &[u8]) -> Option<(Self, u8, bool)> {
        let fixed = network.first_chunk::<IPV4_LEN>()?;
        let header_len = usize::from(fixed[0] & 0xf) * 4;
        let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let header = network.get(..header_len.max(IPV4_LEN))?;
        let is_sound = fixed[0] >> 4 == 4 && (IPV4_LEN..=len).contains(&header_len);
        let &[.., s0, s1, s2, s3, d0, d1, d2, d3] = fixed;
        let from = Ipv4Addr::new(s0, s1, s2, s3).into();
        let to = Ipv4Addr::new(d0, d1, d2, d3).into();
        let header_is_sound = is_sound && Sum::of(header).is_valid();
        let tos = fixed[1] & NOT_ECN;
        header_is_sound.then_some((Self { from, to, tos, len }, fixed[8], header_len == IPV4_LEN))
    }

    /// With it comes the hop limit, and whether every router passes over what follows.
    fn of_ipv6(network: &[u8]) -> Option<(Self, u8, bool)> {
        // What is said to neighbours may be for one that this host stands in for (`proxy_ndp`).
        const TO_NEIGHBOURS: RangeInclusive<u8> = 133..=137;
        let fixed = network.first_chunk::<IPV6_LEN>()?;
        let address = |at: usize| {
            let octets: [u8; 16] = fixed.get(at..at + 16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        };
        let payload_len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let is_to_neighbours = fixed[6] == protocol::ICMPV6
            && network.get(IPV6_LEN).is_none_or(|kind| TO_NEIGHBOURS.contains(kind));
        let is_plain = fixed[6] != protocol::HOP_BY_HOP && payload_len > 0 && !is_to_neighbours;
        let tos = (fixed[0] << 4 | fixed[1] >> 4) & NOT_ECN;
        let len = IPV6_LEN + payload_len;
        let header = Self { from: address(8)?, to: address(24)?, tos, len };
        (fixed[0] >> 4 == 6).then_some((header, fixed[7], is_plain))
    }
}

/// Whether packets from and to an address are ever routed. What is said only of either is left to
/// the kernel for both.
fn is_routed(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, ..] = address.octets();
            first != 0
                && !address.is_loopback()
                && !address.is_multicast()
                && !address.is_broadcast()
        }
        IpAddr::V6(address) => {
            !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !address.is_unicast_link_local()
                && address.to_ipv4_mapped().is_none()
        }
    }
}

/// Leaves out what is behind the first `len` bytes: short frames are padded.
fn cut(packet: &mut Packet, len: usize) {
    packet.linear.truncate(len as u32);
    let mut left = len - packet.linear.len();
    packet.frags.retain(|frag| {
        frag.truncate(left as u32);
        left -= frag.len();
        !frag.is_empty()
    });
}

/// Takes one off the hop limit of a packet whose header is sound, and puts in the Ethernet
/// addresses.
fn readdress(bytes: &mut [u8], to: [u8; 6], from: [u8; 6]) {
    let Some((ethernet, network)) = bytes.split_first_chunk_mut::<ETHERNET_LEN>() else { return };
    let [t0, t1, t2, t3, t4, t5] = to;
    let [f0, f1, f2, f3, f4, f5] = from;
    let [.., high, low] = *ethernet;
    *ethernet = [t0, t1, t2, t3, t4, t5, f0, f1, f2, f3, f4, f5, high, low];
    let Some(fixed) = network.first_chunk_mut::<IPV4_LEN>() else { return };
    if fixed[0] >> 4 == 6 {
        fixed[7] -= 1;
        return;
    }
    fixed[8] -= 1;
    // `ip_decrease_ttl` (include/net/ip.h)
    let checksum = u32::from(u16::from_be_bytes([fixed[10], fixed[11]])) + 0x0100;
    let checksum = (checksum + u32::from(checksum >= 0xffff)) as u16;
    [fixed[10], fixed[11]] = checksum.to_be_bytes();
}

/// Rules that take IP packets to other hosts and leave the kernel what is for this one: its own
/// addresses, broadcast, multicast, and what never leaves a link. Of more addresses than there may be
/// rules, packets to the last ones are taken, and given back.
pub fn rules_for_routing(local: &[IpAddr]) -> Rules {
    let never_routed = [
        (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4),
        (IpAddr::V4(Ipv4Addr::BROADCAST), 32),
        (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
        (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    ];
    let is_on_the_wire = |address: &&IpAddr| {
        let link_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
        !address.is_loopback() && !link_local
    };
    let own =
        local.iter().filter(is_on_the_wire).map(|&it| (it, if it.is_ipv4() { 32 } else { 128 }));
    let passed = never_routed.into_iter().chain(own);
    let taken = [ethertype::IPV4, ethertype::IPV6].map(|it| Rule::TAKE.ethertype(it));
    let mut rules: Vec<Rule> = passed
        .filter_map(|(address, prefix)| Rule::PASS.to(address, prefix))
        .take(MAX_RULES - taken.len())
        .collect();
    rules.extend(taken);
    Rules::new(&rules).unwrap_or(Rules::NONE)
}

#[cfg(test)]
mod tests {
    use nic_common::{headers::HeaderInfo, policy::Verdict, steer::Flow};

    use super::*;
    use crate::{
        driver::{
            packet::{Frag, Frags},
            pool::Pool,
            umem::{Memory, Region},
        },
        forward::Drops,
        lab::{
            frames::Ends,
            traffic::IpVersion::{V4, V6},
        },
    };

    fn pool() -> Pool {
        Pool::new(Region::whole(Memory::new(4096).unwrap()), 2048).unwrap()
    }

    fn packet(pool: &Pool, frame: &[u8]) -> Packet {
        let mut linear = Frag::empty(pool.take().unwrap(), 0);
        assert!(linear.append(frame));
        let info = HeaderInfo::of(frame);
        Packet { linear, frags: Frags::new(), info, verdict: Verdict::Whole }
    }

    fn frames() -> [Vec<u8>; 2] {
        let ends = Ends::default();
        [ends.ipv4(ends.udp(V4, b"payload")), ends.ipv6(ends.udp(V6, b"payload"))]
            .map(|packet| ends.ethernet(packet))
    }

    fn mac(frame: &[u8]) -> [u8; 6] {
        *frame.first_chunk().unwrap()
    }

    fn refused(frame: &[u8]) -> &'static str {
        let reason = Header::of(&packet(&pool(), frame), mac(frame)).unwrap_err();
        let mut drops = Drops::default();
        *reason(&mut drops) += 1;
        drops.by_name().iter().find(|(_, count)| *count == 1).unwrap().0
    }

    #[test]
    fn a_hop_is_taken_off_and_the_checksum_stays_right() {
        let pool = pool();
        for (frame, hops_at) in frames().into_iter().zip([22, 21]) {
            let mut forwarded = packet(&pool, &frame);
            for passed in 1..frame[hops_at] {
                readdress(&mut forwarded.linear, [2; 6], [4; 6]);
                let header = Header::of(&forwarded, [2; 6]);
                assert_eq!(forwarded.linear[hops_at], frame[hops_at] - passed);
                assert_eq!(header.is_ok(), forwarded.linear[hops_at] > 1, "{passed} hops");
            }
            assert_eq!(forwarded.linear[..12], [[2; 6], [4; 6]].concat());
        }
    }

    #[test]
    fn packets_that_lie_or_are_for_others_go_nowhere() {
        for frame in frames() {
            let with = |at: usize, value: u8| {
                let mut frame = frame.clone();
                frame[at] = value;
                frame
            };
            assert_eq!(refused(&with(14, 0x50)), "malformed");
            assert_eq!(refused(&frame[..30]), "malformed");
            assert_eq!(refused(&frame[..frame.len() - 1]), "malformed");
            let other = Header::of(&packet(&pool(), &frame), [9; 6]).unwrap_err();
            let mut drops = Drops::default();
            *other(&mut drops) += 1;
            assert_eq!(drops.not_ours, 1);
        }
        let [mut ipv4, mut ipv6] = frames();
        ipv4[20] ^= 0x40;
        assert_eq!(refused(&ipv4), "malformed", "the checksum is of another header");
        ipv6[21] = 1;
        assert_eq!(refused(&ipv6), "expired");
    }

    #[test]
    fn what_is_never_routed_is_the_kernels() {
        let [ipv4, ipv6] = frames();
        let with = |frame: &[u8], at: usize, bytes: &[u8]| {
            let mut frame = frame.to_vec();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            if frame[14] >> 4 == 4 {
                frame[24..26].fill(0);
                let checksum = Sum::of(&frame[14..34]).checksum();
                frame[24..26].copy_from_slice(&checksum);
            }
            frame
        };
        for first in [0, 127, 224, 239] {
            for at in [26, 30] {
                let frame = with(&ipv4, at, &[first]);
                assert_eq!(refused(&frame), "for the kernel alone", "{first} at {at}");
            }
        }
        assert!(Header::of(&packet(&pool(), &with(&ipv4, 30, &[240])), mac(&ipv4)).is_ok());
        for address in ["::", "::1", "fe80::1", "ff02::1", "::ffff:192.0.2.1"] {
            let address: Ipv6Addr = address.parse().unwrap();
            for at in [22, 38] {
                let frame = with(&ipv6, at, &address.octets());
                assert_eq!(refused(&frame), "for the kernel alone", "{address} at {at}");
            }
        }
        assert_eq!(refused(&with(&ipv6, 20, &[0])), "for the kernel alone");
    }

    #[test]
    fn what_is_behind_a_packet_is_cut_off_all_its_parts() {
        let pool = pool();
        let mut padded = packet(&pool, b"abcdef");
        let mut rest = Frag::empty(pool.take().unwrap(), 0);
        assert!(rest.append(b"ghi"));
        padded.frags.push(rest);
        for (len, left) in [(8, "abcdefgh"), (6, "abcdef"), (2, "ab")] {
            cut(&mut padded, len);
            assert_eq!(padded.to_vec(), left.as_bytes());
        }
        assert!(padded.frags.is_empty());
    }

    #[test]
    fn what_is_for_this_host_is_left_to_the_kernel() {
        let [ipv4, ipv6] = frames();
        let take = |rules: &Rules, frame: &[u8]| {
            rules.take(&Flow::of(frame, &HeaderInfo::of(frame)).unwrap())
        };
        let own = |frame: &[u8]| Header::of(&packet(&pool(), frame), mac(frame)).unwrap().to;
        let rules = rules_for_routing(&[own(&ipv4)]);
        assert!(!take(&rules, &ipv4) && take(&rules, &ipv6));
        let rules = rules_for_routing(&[own(&ipv6), IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        assert!(take(&rules, &ipv4) && !take(&rules, &ipv6));
        let ends = Ends::default();
        assert!(!take(&rules, &ends.ethernet(ends.arp())));
        let many: Vec<_> = (0..40_u8).map(|it| IpAddr::V4(Ipv4Addr::new(10, 0, 0, it))).collect();
        let rules = rules_for_routing(&many);
        assert!(take(&rules, &ipv4) && take(&rules, &ipv6));
    }
}
