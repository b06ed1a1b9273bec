//! Where the kernel would send a packet: routes, neighbours and addresses (linux/rtnetlink.h,
//! linux/neighbour.h).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use serde::{Deserialize, Serialize};

use super::attribute::{Attribute, Attributes};
use super::request::Request;
use super::socket::Socket;
use super::{Error, Result};

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_UID: u16 = 25;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;

const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;

/// IPv4 and IPv6.
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// Fixed header of a route, `struct rtmsg`.
const RTMSG_LEN: usize = 12;
/// Fixed header of a neighbour, `struct ndmsg`.
const NDMSG_LEN: usize = 12;
/// Fixed header of an address, `struct ifaddrmsg`.
const IFADDRMSG_LEN: usize = 8;

/// The kernel's answer for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Interface that the packet leaves through.
    pub ifindex: u32,
    /// Who gets it there: a gateway, or the destination itself.
    pub next_hop: IpAddr,
}

/// A packet that arrived and may have to be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrived {
    /// Where it is from.
    pub from: IpAddr,
    /// Where it goes.
    pub to: IpAddr,
    /// Index of the interface that it came in by.
    pub ifindex: u32,
    /// IPv4's type of service, IPv6's traffic class, without the two bits of ECN.
    pub tos: u8,
}

/// What routes say that a lookup by itself does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// The least MTU of any, in bytes; `None` if none has one.
    pub mtu: Option<u32>,
    /// Whether any leads over one of several ways.
    pub has_several_ways: bool,
}

/// What kinds of rules there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleKinds {
    /// Some look at more of a packet than [`Arrived`] has: protocol, ports, IPv6's flow label.
    pub look_deeper: bool,
    /// Some pass over routes that their table has (`suppress_prefixlength`, `suppress_ifgroup`).
    pub suppress: bool,
}

impl RuleKinds {
    fn note(&mut self, message: &[u8]) -> Result<()> {
        // Protocol, ports; flow label, and masks of it and of ports (linux/fib_rules.h).
        const DEEPER: [u16; 7] = [22, 23, 24, 26, 27, 28, 29];
        const FRA_SUPPRESS_IFGROUP: u16 = 13;
        const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
        let (_, attributes) = split::<RTMSG_LEN>(message, "rule")?;
        for attribute in Attributes::new(attributes) {
            let attribute = attribute?;
            self.look_deeper |= DEEPER.contains(&attribute.kind);
            self.suppress |= match attribute.kind {
                FRA_SUPPRESS_IFGROUP | FRA_SUPPRESS_PREFIXLEN => attribute.u32()? != u32::MAX,
                _ => false,
            };
        }
        Ok(())
    }
}

impl Special {
    fn and(self, other: Self) -> Self {
        Self {
            mtu: self.mtu.into_iter().chain(other.mtu).min(),
            has_several_ways: self.has_several_ways || other.has_several_ways,
        }
    }
}

/// How the kernel sends a packet on that it has nothing else to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Where to.
    pub route: Route,
    /// Longest packet that the route takes, from the IP header on; `None` if it does not say.
    pub mtu: Option<u32>,
}

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its Ethernet address, if that is known and believed.
    pub mac: Option<[u8; 6]>,
    /// Whether it has been heard of lately, or needs not to be.
    pub confirmed: bool,
}

/// Asks about routes in the network namespace in which it was opened.
pub struct Routes {
    socket: Socket,
}

impl Routes {
    /// Opens a socket.
    pub fn open() -> Result<Self> {
        Socket::open(libc::NETLINK_ROUTE).map(|socket| Self { socket })
    }

    /// The route to `destination`; `None` if there is none, or it is not one to another host.
    pub fn route(&mut self, destination: IpAddr) -> Result<Option<Route>> {
        let (family, bytes) = family_and_bytes(destination);
        let mut header = [0; RTMSG_LEN];
        (header[0], header[1]) = (family, bytes.len() as u8 * 8);
        let request = Request::with_header(&header).bytes(RTA_DST, &bytes);
        match self.socket.request(libc::RTM_GETROUTE, 0, request.as_bytes()) {
            Ok(reply) => reply
                .messages
                .first()
                .map_or(Ok(None), |message| decode_route(message, destination)),
            Err(error) if is_unreachable(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How the kernel would send on a packet that arrived: by all its rules, if it takes the source
    /// for a possible one (`rp_filter`). `None` if it would do something else with it, or sends it
    /// through a tunnel, by one way of several, or by a route with a locked MTU.
    pub fn onward(&mut self, packet: &Arrived) -> Result<Option<Onward>> {
        const FIB_MATCH: u32 = 0x2000;
        // The route tells of all its ways; what is cached, of what was learnt of the way since
        // (RFC 8201).
        match self.ask(packet, FIB_MATCH)? {
            Some(_) => self.ask(packet, 0),
            None => Ok(None),
        }
    }

    fn ask(&mut self, packet: &Arrived, flags: u32) -> Result<Option<Onward>> {
        let (family, from) = family_and_bytes(packet.from);
        let (_, to) = family_and_bytes(packet.to);
        let bits = to.len() as u8 * 8;
        let [f0, f1, f2, f3] = flags.to_ne_bytes();
        let header: [u8; RTMSG_LEN] = [family, bits, bits, packet.tos, 0, 0, 0, 0, f0, f1, f2, f3];
        let request = Request::with_header(&header)
            .bytes(RTA_DST, &to)
            .bytes(RTA_SRC, &from)
            .u32(RTA_IIF, packet.ifindex)
            // Whose what arrives is taken for by rules.
            .u32(RTA_UID, 0);
        match self.socket.request(libc::RTM_GETROUTE, 0, request.as_bytes()) {
            Ok(reply) => reply.messages.first().map_or(Ok(None), |it| decode_onward(it, packet.to)),
            Err(error) if is_unreachable(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the rules of routing, of IPv4 and of IPv6, are like.
    pub fn rules(&mut self) -> Result<[RuleKinds; 2]> {
        let [ipv4, ipv6] = FAMILIES.map(|family| self.rules_of(family));
        Ok([ipv4?, ipv6?])
    }

    fn rules_of(&mut self, family: u8) -> Result<RuleKinds> {
        let mut header = [0; RTMSG_LEN];
        header[0] = family;
        let mut kinds = RuleKinds::default();
        for message in &self.socket.dump(libc::RTM_GETRULE, &header)?.messages {
            kinds.note(message)?;
        }
        Ok(kinds)
    }

    /// What any route of IPv4 and of IPv6 says beside where it leads.
    pub fn specials(&mut self) -> Result<[Special; 2]> {
        let mut specials = [Special::default(); 2];
        for message in &self.socket.dump(libc::RTM_GETROUTE, &[0; RTMSG_LEN])?.messages {
            let Some(family) = FAMILIES.iter().position(|family| Some(family) == message.first())
            else {
                continue;
            };
            specials[family] = specials[family].and(special(message)?);
        }
        Ok(specials)
    }

    /// Has the kernel confirm the neighbours at some interfaces of which it has not heard lately, as
    /// it does with those that it sends to itself.
    pub fn confirm_neighbours(&mut self, ifindices: &[u32]) -> Result<()> {
        let reply = self.socket.dump(libc::RTM_GETNEIGH, &[0; NDMSG_LEN])?;
        for message in &reply.messages {
            if let Some((ifindex, address)) = stale_neighbour(message)?
                && ifindices.contains(&ifindex)
            {
                self.probe(ifindex, address)?;
            }
        }
        Ok(())
    }

    /// What is known of the neighbour `address` at an interface.
    pub fn neighbour(&mut self, ifindex: u32, address: IpAddr) -> Result<Neighbour> {
        let request = neighbour_request(ifindex, address, 0);
        match self.socket.request(libc::RTM_GETNEIGH, 0, request.as_bytes()) {
            Ok(reply) => reply.messages.first().map_or(Ok(UNKNOWN), |it| decode_neighbour(it)),
            Err(error) if error.errno == libc::ENOENT => Ok(UNKNOWN),
            Err(error) => Err(error),
        }
    }

    /// Has the kernel find out, or confirm, the Ethernet address of a neighbour.
    pub fn probe(&mut self, ifindex: u32, address: IpAddr) -> Result<()> {
        const NTF_USE: u8 = 1;
        let request = neighbour_request(ifindex, address, NTF_USE);
        self.socket.request(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE, request.as_bytes())?;
        Ok(())
    }

    /// All addresses at which this host takes packets for itself, broadcast addresses included.
    pub fn local_addresses(&mut self) -> Result<Vec<IpAddr>> {
        let reply = self.socket.dump(libc::RTM_GETADDR, &[0; IFADDRMSG_LEN])?;
        let mut addresses = Vec::new();
        for message in &reply.messages {
            addresses.extend(decode_addresses(message)?);
        }
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }
}

/// Tells when something changes by which the kernel routes: links, addresses, routes, rules, next
/// hops, neighbours, and the sysctls of forwarding and `rp_filter`.
pub struct Changes {
    socket: netlink_sys::Socket,
}

impl Changes {
    /// From now on, in the network namespace of this thread.
    pub fn open() -> Result<Self> {
        // RTNLGRP_LINK, NEIGH, then IPv4's IFADDR, ROUTE, RULE; IPv6's IFADDR, ROUTE, RULE;
        // IPV4_NETCONF, IPV6_NETCONF, NEXTHOP (linux/rtnetlink.h)
        const GROUPS: [u32; 11] = [1, 3, 5, 7, 8, 9, 11, 19, 24, 25, 32];
        let mut socket = netlink_sys::Socket::new(libc::NETLINK_ROUTE as isize)?;
        socket.bind_auto()?;
        GROUPS.into_iter().try_for_each(|group| socket.add_membership(group))?;
        Ok(Self { socket })
    }

    /// What has changed since the last call.
    pub fn take(&mut self) -> Changed {
        let mut changed = Changed::default();
        // Longer ones are cut off, and taken for special.
        let mut bytes = [0; 4096];
        loop {
            match recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => changed.note(&bytes[..len]),
                // There were more than it could hold.
                Err(Errno::ENOBUFS) => changed = Changed { any: true, specials: true, ..changed },
                Err(Errno::EINTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

/// What has changed of that by which the kernel routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Anything but neighbours. What it was is to be asked for.
    pub any: bool,
    /// Routes of which [`Routes::specials`] tells.
    pub specials: bool,
    /// Neighbours: the indices of their interfaces, and their addresses.
    pub neighbours: Vec<(u32, IpAddr)>,
}

impl Changed {
    /// Of a message with its header, `struct nlmsghdr`.
    fn note(&mut self, message: &[u8]) {
        const HEADER_LEN: usize = 16;
        let Some((header, body)) = message.split_first_chunk::<HEADER_LEN>() else { return };
        match u16::from_ne_bytes([header[4], header[5]]) {
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => match neighbour_key(body) {
                Ok(neighbour) => self.neighbours.extend(neighbour),
                Err(_) => self.any = true,
            },
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                self.any = true;
                self.specials |= special(body) != Ok(Special::default());
            }
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => (self.any, self.specials) = (true, true),
            _ => self.any = true,
        }
    }
}

impl AsFd for Changes {
    /// Readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An address of an interface, with everything that the kernel says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address(Vec<u8>);

impl Address {
    /// The address itself.
    pub fn ip(&self) -> Option<IpAddr> {
        decode_addresses(&self.0).ok()?.first().copied()
    }
}

impl Routes {
    /// The addresses of an interface.
    pub fn addresses_of(&mut self, ifindex: u32) -> Result<Vec<Address>> {
        const INDEX_AT: usize = 4;
        let reply = self.socket.dump(libc::RTM_GETADDR, &[0; IFADDRMSG_LEN])?;
        let is_its = |message: &Vec<u8>| {
            message.get(INDEX_AT..IFADDRMSG_LEN) == Some(ifindex.to_ne_bytes().as_slice())
        };
        Ok(reply.messages.into_iter().filter(is_its).map(Address).collect())
    }

    /// Gives an interface an address that was read before, as `ip address restore` does.
    pub fn add_address(&mut self, ifindex: u32, address: &Address) -> Result<()> {
        let (header, attributes) = split::<IFADDRMSG_LEN>(&address.0, "address")?;
        let [family, prefix_len, flags, scope, ..] = *header;
        let [i0, i1, i2, i3] = ifindex.to_ne_bytes();
        let request = Request::with_header(&[family, prefix_len, flags, scope, i0, i1, i2, i3]);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.socket.request(libc::RTM_NEWADDR, flags, request.raw(attributes).as_bytes())?;
        Ok(())
    }

    /// How many routes lead out of an interface that the kernel has not made by itself, and
    /// whether one of them is for everything.
    pub fn made_routes(&mut self, ifindex: u32) -> Result<MadeRoutes> {
        let reply = self.socket.dump(libc::RTM_GETROUTE, &[0; RTMSG_LEN])?;
        let mut made = MadeRoutes::default();
        for message in &reply.messages {
            let (header, attributes) = split::<RTMSG_LEN>(message, "route")?;
            let [_, dst_len, _, _, _, protocol, ..] = *header;
            if protocol == libc::RTPROT_KERNEL || !leads_out_of(ifindex, attributes)? {
                continue;
            }
            made.routes += 1;
            made.has_default |= dst_len == 0;
        }
        Ok(made)
    }
}

/// Routes that somebody made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadeRoutes {
    /// How many.
    pub routes: usize,
    /// Whether one of them is for everything.
    pub has_default: bool,
}

/// Whether one of a route's ways is an interface.
fn leads_out_of(ifindex: u32, attributes: &[u8]) -> Result<bool> {
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        let leads = match attribute.kind {
            RTA_OIF => attribute.u32()? == ifindex,
            RTA_MULTIPATH => next_hops(attribute.value).any(|next_hop| next_hop == ifindex),
            _ => false,
        };
        if leads {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The interfaces of `struct rtnexthop`, one after the other.
fn next_hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let (header, _) = bytes.split_first_chunk::<8>()?;
        let [l0, l1, _, _, i0, i1, i2, i3] = *header;
        let len = usize::from(u16::from_ne_bytes([l0, l1])).next_multiple_of(4).max(header.len());
        bytes = bytes.get(len..).unwrap_or_default();
        Some(u32::from_ne_bytes([i0, i1, i2, i3]))
    })
}

const UNKNOWN: Neighbour = Neighbour { mac: None, confirmed: false };

fn is_unreachable(error: &Error) -> bool {
    // Those of unreachable, prohibit, blackhole and throw routes, and of none at all.
    matches!(
        error.errno,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL | libc::EAGAIN
    )
}

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

fn neighbour_request(ifindex: u32, address: IpAddr, flags: u8) -> Request {
    let (family, bytes) = family_and_bytes(address);
    let [i0, i1, i2, i3] = ifindex.to_ne_bytes();
    let header: [u8; NDMSG_LEN] = [family, 0, 0, 0, i0, i1, i2, i3, 0, 0, flags, 0];
    Request::with_header(&header).bytes(NDA_DST, &bytes)
}

fn decode_route(message: &[u8], destination: IpAddr) -> Result<Option<Route>> {
    const TYPE_AT: usize = 7;
    let (header, attributes) = split::<RTMSG_LEN>(message, "route")?;
    if header[TYPE_AT] != libc::RTN_UNICAST {
        return Ok(None);
    }
    let mut route = Route { ifindex: 0, next_hop: destination };
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        match attribute.kind {
            RTA_OIF => route.ifindex = attribute.u32()?,
            RTA_GATEWAY => route.next_hop = address(attribute.value)?,
            // `struct rtvia`: a family in front of the address.
            RTA_VIA => route.next_hop = address(attribute.value.get(2..).unwrap_or_default())?,
            _ => {}
        }
    }
    Ok((route.ifindex != 0).then_some(route))
}

fn decode_onward(message: &[u8], destination: IpAddr) -> Result<Option<Onward>> {
    let Some(route) = decode_route(message, destination)? else { return Ok(None) };
    let (_, attributes) = split::<RTMSG_LEN>(message, "route")?;
    let mut mtu = None;
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        match attribute.kind {
            RTA_ENCAP | RTA_ENCAP_TYPE | RTA_MULTIPATH => return Ok(None),
            RTA_METRICS => match decode_mtu(attribute.value)? {
                RouteMtu::Locked => return Ok(None),
                RouteMtu::Free(bytes) => mtu = bytes,
            },
            _ => {}
        }
    }
    Ok(Some(Onward { route, mtu }))
}

/// An MTU among the metrics of a route.
enum RouteMtu {
    Locked,
    Free(Option<u32>),
}

fn decode_mtu(metrics: &[u8]) -> Result<RouteMtu> {
    const RTAX_LOCK: u16 = 1;
    const RTAX_MTU: u16 = 2;
    let mut mtu = None;
    for metric in Attributes::new(metrics) {
        let metric = metric?;
        match metric.kind {
            RTAX_LOCK => return Ok(RouteMtu::Locked),
            RTAX_MTU => mtu = Some(metric.u32()?),
            _ => {}
        }
    }
    Ok(RouteMtu::Free(mtu))
}

/// What a route says beside where it leads. Lookups know of a locked MTU.
fn special(message: &[u8]) -> Result<Special> {
    let (_, attributes) = split::<RTMSG_LEN>(message, "route")?;
    let mut special = Special::default();
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        match attribute.kind {
            RTA_MULTIPATH => special.has_several_ways = true,
            RTA_METRICS => {
                if let RouteMtu::Free(mtu) = decode_mtu(attribute.value)? {
                    special.mtu = mtu;
                }
            }
            _ => {}
        }
    }
    Ok(special)
}

/// The interface and the address of a neighbour.
fn neighbour_key(message: &[u8]) -> Result<Option<(u32, IpAddr)>> {
    let (header, attributes) = split::<NDMSG_LEN>(message, "neighbour")?;
    let ifindex = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    for attribute in Attributes::new(attributes) {
        let Attribute { kind, value } = attribute?;
        if kind == NDA_DST {
            return address(value).map(|address| Some((ifindex, address)));
        }
    }
    Ok(None)
}

/// The interface and the address of a neighbour that the kernel would confirm before long.
fn stale_neighbour(message: &[u8]) -> Result<Option<(u32, IpAddr)>> {
    const STATE_AT: usize = 8;
    let (header, _) = split::<NDMSG_LEN>(message, "neighbour")?;
    match u16::from_ne_bytes([header[STATE_AT], header[STATE_AT + 1]]) {
        libc::NUD_STALE => neighbour_key(message),
        _ => Ok(None),
    }
}

fn decode_neighbour(message: &[u8]) -> Result<Neighbour> {
    const STATE_AT: usize = 8;
    const CONFIRMED: u16 = libc::NUD_REACHABLE | libc::NUD_PERMANENT | libc::NUD_NOARP;
    const BELIEVED: u16 = CONFIRMED | libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE;
    let (header, attributes) = split::<NDMSG_LEN>(message, "neighbour")?;
    let state = u16::from_ne_bytes([header[STATE_AT], header[STATE_AT + 1]]);
    let mut mac = None;
    for attribute in Attributes::new(attributes) {
        let Attribute { kind, value } = attribute?;
        if kind == NDA_LLADDR && state & BELIEVED != 0 {
            mac = value.try_into().ok();
        }
    }
    Ok(Neighbour { mac, confirmed: state & CONFIRMED != 0 })
}

fn decode_addresses(message: &[u8]) -> Result<Vec<IpAddr>> {
    let (_, attributes) = split::<IFADDRMSG_LEN>(message, "address")?;
    let (mut local, mut other, mut broadcast) = (None, None, None);
    for attribute in Attributes::new(attributes) {
        let Attribute { kind, value } = attribute?;
        match kind {
            IFA_LOCAL => local = Some(address(value)?),
            IFA_ADDRESS => other = Some(address(value)?),
            IFA_BROADCAST => broadcast = Some(address(value)?),
            _ => {}
        }
    }
    // On a point-to-point link the other one is the far end's.
    Ok(local.or(other).into_iter().chain(broadcast).collect())
}

fn split<'a, const N: usize>(message: &'a [u8], what: &str) -> Result<(&'a [u8; N], &'a [u8])> {
    let too_short = || Error::malformed(&format!("{what} shorter than its header"));
    message.split_first_chunk().ok_or_else(too_short)
}

fn address(bytes: &[u8]) -> Result<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    let octets: [u8; 16] =
        bytes.try_into().map_err(|_| Error::malformed("length of an address"))?;
    Ok(Ipv6Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

    fn route(kind: u8) -> Request {
        Request::with_header(&[libc::AF_INET as u8, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0])
            .u32(RTA_OIF, 3)
    }

    #[test]
    fn a_route_is_direct_or_through_a_gateway() {
        let direct = route(libc::RTN_UNICAST);
        let decoded = decode_route(direct.as_bytes(), FAR).unwrap();
        assert_eq!(decoded, Some(Route { ifindex: 3, next_hop: FAR }));
        let far = route(libc::RTN_UNICAST).bytes(RTA_GATEWAY, &[192, 0, 2, 1]);
        let decoded = decode_route(far.as_bytes(), FAR).unwrap();
        assert_eq!(decoded, Some(Route { ifindex: 3, next_hop: GATEWAY }));
        assert_eq!(decode_route(route(libc::RTN_LOCAL).as_bytes(), FAR), Ok(None));
    }

    #[test]
    fn what_only_the_kernel_does_is_not_onward() {
        let onward = |request: Request| decode_onward(request.as_bytes(), FAR).unwrap();
        let plain = Route { ifindex: 3, next_hop: FAR };
        let unicast = || route(libc::RTN_UNICAST);
        assert_eq!(onward(unicast()), Some(Onward { route: plain, mtu: None }));
        let with_mtu = unicast().nest(RTA_METRICS, |it| it.u32(2, 1400));
        assert_eq!(onward(with_mtu), Some(Onward { route: plain, mtu: Some(1400) }));
        for request in [
            route(libc::RTN_LOCAL),
            route(libc::RTN_BROADCAST),
            unicast().nest(RTA_METRICS, |it| it.u32(1, 4).u32(2, 1400)),
            unicast().bytes(RTA_ENCAP_TYPE, &[5, 0]),
            unicast().bytes(RTA_MULTIPATH, &[8, 0, 0, 0, 3, 0, 0, 0]),
        ] {
            assert_eq!(onward(request), None);
        }
    }

    #[test]
    fn rules_tell_what_they_look_at() {
        let kinds = |request: Request| {
            let mut kinds = RuleKinds::default();
            kinds.note(request.as_bytes()).unwrap();
            [kinds.look_deeper, kinds.suppress]
        };
        let rule = || Request::with_header(&[0; RTMSG_LEN]).u32(14, u32::MAX);
        assert_eq!(kinds(rule()), [false, false]);
        assert_eq!(kinds(rule().bytes(22, &[17])), [true, false]);
        assert_eq!(kinds(rule().u32(14, 0)), [false, true]);
        assert_eq!(kinds(rule().u32(13, 7)), [false, true]);
    }

    #[test]
    fn changes_tell_what_is_to_be_asked_again() {
        let noted = |kind: u16, body: &[u8]| {
            let mut message = [0; 16].to_vec();
            message[4..6].copy_from_slice(&kind.to_ne_bytes());
            message.extend(body);
            let mut changed = Changed::default();
            changed.note(&message);
            changed
        };
        let any = Changed { any: true, ..Changed::default() };
        let special = Changed { specials: true, ..any.clone() };
        let with_mtu = route(libc::RTN_UNICAST).nest(RTA_METRICS, |it| it.u32(2, 1400));
        let several = route(libc::RTN_UNICAST).bytes(RTA_MULTIPATH, &[8, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(noted(libc::RTM_NEWROUTE, route(libc::RTN_UNICAST).as_bytes()), any);
        assert_eq!(noted(libc::RTM_NEWROUTE, with_mtu.as_bytes()), special);
        assert_eq!(noted(libc::RTM_DELROUTE, several.as_bytes()), special);
        assert_eq!(noted(libc::RTM_NEWROUTE, &[1, 2]), special);
        assert_eq!(noted(RTM_NEWNEXTHOP, &[]), special);
        assert_eq!(noted(libc::RTM_NEWLINK, &[]), any);
        let neighbour = neighbour_request(3, FAR, 0);
        let neighbours = Changed { neighbours: vec![(3, FAR)], ..Changed::default() };
        assert_eq!(noted(libc::RTM_NEWNEIGH, neighbour.as_bytes()), neighbours);
    }

    #[test]
    fn a_neighbour_that_failed_has_no_address() {
        let neighbour = |state: u16| {
            let [low, high] = state.to_ne_bytes();
            let header = [libc::AF_INET as u8, 0, 0, 0, 3, 0, 0, 0, low, high, 0, 1];
            let message = Request::with_header(&header).bytes(NDA_LLADDR, &[2, 0, 0, 0, 0, 1]);
            decode_neighbour(message.as_bytes()).unwrap()
        };
        let mac = Some([2, 0, 0, 0, 0, 1]);
        assert_eq!(neighbour(libc::NUD_REACHABLE), Neighbour { mac, confirmed: true });
        assert_eq!(neighbour(libc::NUD_STALE), Neighbour { mac, confirmed: false });
        assert_eq!(neighbour(libc::NUD_FAILED), UNKNOWN);
    }

    #[test]
    fn of_a_point_to_point_address_the_own_end_counts() {
        let message = Request::with_header(&[libc::AF_INET as u8, 24, 0, 0, 3, 0, 0, 0])
            .bytes(IFA_ADDRESS, &[192, 0, 2, 1])
            .bytes(IFA_LOCAL, &[198, 51, 100, 7]);
        assert_eq!(decode_addresses(message.as_bytes()).unwrap(), [FAR]);
    }

    proptest! {
        #[test]
        fn no_message_makes_the_decoders_panic(message: Vec<u8>) {
            let _ = decode_route(&message, FAR);
            let _ = decode_onward(&message, FAR);
            let _ = stale_neighbour(&message);
            let _ = special(&message);
            let _ = RuleKinds::default().note(&message);
            Changed::default().note(&message);
            let _ = decode_neighbour(&message);
            let _ = decode_addresses(&message);
            let _ = leads_out_of(3, &message);
        }

        #[test]
        fn every_way_of_a_route_counts(ways: Vec<u32>) {
            let hop = |way: &u32| [&[8, 0, 0, 0][..], &way.to_ne_bytes()].concat();
            let hops: Vec<u8> = ways.iter().flat_map(hop).collect();
            prop_assert_eq!(next_hops(&hops).collect::<Vec<_>>(), ways);
        }
    }
}
