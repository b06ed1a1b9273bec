//! Routing of IP packets in userspace, by the kernel's routes and neighbours.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

use nic_common::{
    headers::ethertype,
    steer::{MAX_RULES, Rule, Rules},
};

use super::Reason;
use crate::{
    driver::{checksum::Sum, packet::Packet},
    error::{Error, Result},
    netlink::route::Routes,
    nic::Nic,
};

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;

/// How long an answer of the kernel is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How long it takes until the kernel is asked again for a neighbour that it does not know yet.
const PATIENCE: Duration = Duration::from_millis(10);
/// Destinations that are remembered: more, and all are forgotten.
const MOST: usize = 65_536;

/// Knows where packets go.
pub struct Router {
    routes: Routes,
    ends: [End; 2],
    known: HashMap<IpAddr, Known>,
    now: Instant,
}

/// An interface that is routed to.
#[derive(Clone, Copy, Debug)]
struct End {
    ifindex: u32,
    mac: [u8; 6],
    mtu: usize,
}

/// Where packets to one destination go.
#[derive(Clone, Copy, Debug)]
struct Hop {
    end: usize,
    mac: [u8; 6],
}

#[derive(Clone, Copy)]
struct Known {
    hop: Result<Hop, Reason>,
    until: Instant,
}

impl Router {
    /// Between these interfaces of the present network namespace.
    pub fn new(nics: [&Nic; 2]) -> Result<Self> {
        let routes = Routes::open().map_err(|error| error.while_doing("ask for routes"))?;
        let [first, second] = nics;
        let ends = [End::of(first)?, End::of(second)?];
        Ok(Self { routes, ends, known: HashMap::new(), now: Instant::now() })
    }

    /// The addresses of packets that are for this host itself.
    pub fn local_addresses(&mut self) -> Result<Vec<IpAddr>> {
        self.routes
            .local_addresses()
            .map_err(|error| error.while_doing("ask for this host's addresses"))
    }

    /// What the kernel said some time ago is asked again from now on.
    pub fn look_at_the_clock(&mut self) {
        self.now = Instant::now();
    }

    /// Addresses a packet that arrived at one interface to its next hop; through which interface
    /// it gets there.
    pub fn route(&mut self, packet: &mut Packet, from: usize) -> Result<usize, Reason> {
        let header = Header::of(packet, self.ends[from].mac)?;
        let hop = self.hop(header.to)?;
        let end = self.ends[hop.end];
        if header.len > end.mtu {
            return Err(|drops| &mut drops.too_long);
        }
        if packet.frags.is_empty() {
            // Short frames are padded.
            packet.linear.truncate((ETHERNET_LEN + header.len) as u32);
        }
        readdress(&mut packet.linear, hop.mac, end.mac);
        Ok(hop.end)
    }

    fn hop(&mut self, to: IpAddr) -> Result<Hop, Reason> {
        if let Some(known) = self.known.get(&to)
            && known.until > self.now
        {
            return known.hop;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let (hop, fresh) = self.ask(to);
        self.known.insert(to, Known { hop, until: self.now + fresh });
        hop
    }

    /// Asks the kernel for the next hop; also, for how long the answer is good.
    fn ask(&mut self, to: IpAddr) -> (Result<Hop, Reason>, Duration) {
        let route = self.routes.route(to).ok().flatten();
        let through = route.and_then(|route| {
            let end = self.ends.iter().position(|end| end.ifindex == route.ifindex)?;
            Some((end, route))
        });
        let Some((end, route)) = through else {
            return (Err(|drops| &mut drops.no_route), FRESH);
        };
        let neighbour = self.routes.neighbour(route.ifindex, route.next_hop).ok();
        if !neighbour.is_some_and(|neighbour| neighbour.confirmed) {
            // It fails where there is no room for another neighbour; packets are dropped then.
            let _ = self.routes.probe(route.ifindex, route.next_hop);
        }
        match neighbour.and_then(|neighbour| neighbour.mac) {
            Some(mac) => (Ok(Hop { end, mac }), FRESH),
            None => (Err(|drops| &mut drops.no_neighbour), PATIENCE),
        }
    }
}

impl End {
    fn of(nic: &Nic) -> Result<Self> {
        let mac = nic.link.mac.ok_or_else(|| {
            Error::failed(format!("route through {}: it has no Ethernet address", nic.name()))
        })?;
        Ok(Self { ifindex: nic.ifindex(), mac, mtu: nic.mtu() as usize })
    }
}

/// What routing needs to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    to: IpAddr,
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
        let (header, hops) = match u16::from_be_bytes([high, low]) {
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
        Ok(header)
    }

    fn of_ipv4(network: &[u8]) -> Option<(Self, u8)> {
        let fixed = network.first_chunk::<IPV4_LEN>()?;
        let header_len = usize::from(fixed[0] & 0xf) * 4;
        let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let header = network.get(..header_len.max(IPV4_LEN))?;
        let is_sound = fixed[0] >> 4 == 4 && (IPV4_LEN..=len).contains(&header_len);
        let &[.., a, b, c, d] = fixed;
        let to = Ipv4Addr::new(a, b, c, d).into();
        (is_sound && Sum::of(header).is_valid()).then_some((Self { to, len }, fixed[8]))
    }

    fn of_ipv6(network: &[u8]) -> Option<(Self, u8)> {
        let fixed = network.first_chunk::<IPV6_LEN>()?;
        let to = Ipv6Addr::from(*fixed.last_chunk::<16>()?).into();
        let len = IPV6_LEN + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        (fixed[0] >> 4 == 6).then_some((Self { to, len }, fixed[7]))
    }
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
/// addresses, broadcast, multicast, and what never leaves a link.
pub fn rules_for_routing(local: &[IpAddr]) -> Result<Rules> {
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
    let mut rules: Vec<Rule> =
        passed.filter_map(|(address, prefix)| Rule::PASS.to(address, prefix)).collect();
    rules.extend([ethertype::IPV4, ethertype::IPV6].map(|it| Rule::TAKE.ethertype(it)));
    Rules::new(&rules).ok_or_else(|| {
        Error::failed(format!(
            "this host has {} addresses, and {MAX_RULES} rules do not tell them all from others",
            local.len()
        ))
        .with_fix("forward in the kernel, which knows them: --in-kernel")
    })
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
    fn what_is_for_this_host_is_left_to_the_kernel() {
        let [ipv4, ipv6] = frames();
        let take = |rules: &Rules, frame: &[u8]| {
            rules.take(&Flow::of(frame, &HeaderInfo::of(frame)).unwrap())
        };
        let own = |frame: &[u8]| Header::of(&packet(&pool(), frame), mac(frame)).unwrap().to;
        let rules = rules_for_routing(&[own(&ipv4)]).unwrap();
        assert!(!take(&rules, &ipv4) && take(&rules, &ipv6));
        let rules = rules_for_routing(&[own(&ipv6), IpAddr::V4(Ipv4Addr::LOCALHOST)]).unwrap();
        assert!(take(&rules, &ipv4) && !take(&rules, &ipv6));
        let ends = Ends::default();
        assert!(!take(&rules, &ends.ethernet(ends.arp())));
        let many: Vec<_> = (0..40_u8).map(|it| IpAddr::V4(Ipv4Addr::new(10, 0, 0, it))).collect();
        assert!(rules_for_routing(&many).unwrap_err().to_string().contains("40 addresses"));
    }
}
