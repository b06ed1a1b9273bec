//! What the frames of a connection look like on their way through the card.

use std::net::IpAddr;

use super::tap::{REMOTE_MAC, Tap};
use crate::{
    bench::tunnel::{self, Tunnel},
    error::Result,
    lab::{
        Host,
        frames::{Ends, IpPayload},
        traffic::IpVersion,
    },
};

/// Where packets through the tunnel come from; a NIC spreads flows by it.
const TUNNEL_SOURCE_PORT: u16 = 50_000;

const ETHERNET_LEN: usize = 14;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const TCP_LEN: usize = 20;
/// Ethernet, IPv4, UDP and VXLAN.
const TUNNEL_LEN: usize = ETHERNET_LEN + IPV4_LEN + 8 + 8;

/// What packets a connection goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain ones.
    Plain(IpVersion),
    /// IPv4 through VXLAN over IPv4.
    Tunnelled,
}

/// A way for connections from behind the card to an address of this host.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    kind: Kind,
    ends: Ends,
    /// The outer headers.
    tunnel: Option<Ends>,
}

impl Path {
    /// Prepares the way on `host`, which has the card.
    pub fn new(host: &Host, tap: &Tap, kind: Kind) -> Result<Self> {
        let outer = Ends {
            mac: [REMOTE_MAC, tap.mac],
            ipv4: [Tap::REMOTE.0, Tap::LOCAL.0],
            ipv6: [Tap::REMOTE.1, Tap::LOCAL.1],
            ports: [TUNNEL_SOURCE_PORT, 0],
        };
        if let Kind::Plain(_) = kind {
            return Ok(Self { kind, ends: outer, tunnel: None });
        }
        let [local, remote] = Tunnel::ADDRESSES;
        let link = tunnel::add_end(host, tap.ifindex, Tap::REMOTE.0, local)?;
        host.links(|links| links.add_neighbour(link.ifindex, IpAddr::V4(remote), REMOTE_MAC))?;
        let mac = [REMOTE_MAC, link.mac.unwrap_or_default()];
        let inner = Ends { mac, ipv4: [remote, local], ..outer };
        Ok(Self { kind, ends: inner, tunnel: Some(outer) })
    }

    /// The address to connect to.
    pub const fn target(&self) -> IpAddr {
        match self.kind {
            Kind::Plain(IpVersion::V6) => IpAddr::V6(self.ends.ipv6[1]),
            _ => IpAddr::V4(self.ends.ipv4[1]),
        }
    }

    /// Bytes in front of the TCP header.
    pub const fn tcp_at(&self) -> usize {
        match self.kind {
            Kind::Plain(IpVersion::V4) => ETHERNET_LEN + IPV4_LEN,
            Kind::Plain(IpVersion::V6) => ETHERNET_LEN + IPV6_LEN,
            Kind::Tunnelled => TUNNEL_LEN + ETHERNET_LEN + IPV4_LEN,
        }
    }

    /// Bytes of all headers.
    pub const fn headers_len(&self) -> usize {
        self.tcp_at() + TCP_LEN
    }

    /// A frame between these ports, and nothing in its TCP header yet.
    pub fn frame(&self, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let ends = Ends { ports, ..self.ends };
        let ip = match self.kind {
            Kind::Plain(ip) => ip,
            Kind::Tunnelled => IpVersion::V4,
        };
        let frame = ethernet(&ends, ip, ends.tcp(ip, payload));
        let Some(outer) = &self.tunnel else { return frame };
        let mut frame =
            ethernet(outer, IpVersion::V4, outer.vxlan(IpVersion::V4, tunnel::NETWORK, &frame));
        // What it is over changes with every frame; there need not be one.
        let checksum = ETHERNET_LEN + IPV4_LEN + 6;
        frame.iter_mut().skip(checksum).take(2).for_each(|byte| *byte = 0);
        frame
    }
}

fn ethernet(ends: &Ends, ip: IpVersion, payload: IpPayload) -> Vec<u8> {
    match ip {
        IpVersion::V4 => dont_fragment(ends.ethernet(ends.ipv4(payload))),
        IpVersion::V6 => ends.ethernet(ends.ipv6(payload)),
    }
}

/// GRO takes packets of one identification together only if they must not be fragmented.
pub fn dont_fragment(mut frame: Vec<u8>) -> Vec<u8> {
    const DONT_FRAGMENT: u8 = 0x40;
    if let Some(header) = frame.get_mut(ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN) {
        header[6] |= DONT_FRAGMENT;
        // RFC 1624: the checksum is the complement of the sum that has just grown.
        let sum = !u16::from_be_bytes([header[10], header[11]]);
        let (sum, carry) = sum.overflowing_add(u16::from(DONT_FRAGMENT) << 8);
        let checksum = !(sum + u16::from(carry));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_what_must_not_be_fragmented_is_right() {
        let ends = Ends::default();
        let frame = ethernet(&ends, IpVersion::V4, ends.tcp(IpVersion::V4, &[1; 100]));
        let header = &frame[ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN];
        let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(header[6], 0x40);
    }
}
