//! The headers that segmentation and GRO understand: Ethernet, up to two VLAN tags, IPv4 or IPv6,
//! then TCP or UDP. No tunnels, no fragments.

use nic_common::headers::{Flags, HeaderInfo, ethertype, protocol};

use super::checksum::Sum;

/// The most bytes that all headers together may have: those of a linear part.
pub const MAX_HEADERS: usize = 256;

const ETHERNET_LEN: u32 = 14;
const VLAN_TAG_LEN: u32 = 4;
const MAX_VLAN_DEPTH: u8 = 2;
pub(super) const IPV6_LEN: usize = 40;
pub(super) const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;

/// Version of the Internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(super) const fn protocol(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp => protocol::UDP,
        }
    }

    /// Where in its header the checksum is.
    pub(super) const fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }
}

/// Bits of a TCP header's flags byte, its byte 13.
pub(super) mod tcp_flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const URG: u8 = 0x20;
    pub const CWR: u8 = 0x80;
}

/// Where each header starts, in bytes from the start of the frame.
///
/// `l3 + 20 <= l4`, `l4 + 8 <= len` (20 for TCP), and `len` is at most [`MAX_HEADERS`] and the
/// length of the bytes that it is the layout of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) l3: usize,
    pub(super) l4: usize,
    /// Length of all headers.
    pub(super) len: usize,
    pub(super) ip: Ip,
    pub(super) transport: Transport,
}

/// Why headers have no [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLayout {
    /// Other headers, or some that contradict themselves.
    Unknown,
    /// More than [`MAX_HEADERS`] bytes of them.
    TooLong,
    /// A part of an IP packet.
    Fragment,
    /// IPv6 extension headers that say something about one packet, not about each of a run.
    Extension,
}

impl Layout {
    /// The layout of the headers at the start of `frame`, of which `info` is known.
    #[inline]
    pub(super) fn of(frame: &[u8], info: &HeaderInfo) -> Result<Self, NoLayout> {
        if info.flags.any(Flags::FIRST_FRAGMENT.with(Flags::LATER_FRAGMENT)) {
            return Err(NoLayout::Fragment);
        }
        let layout = Self::of_kind(info).ok_or(NoLayout::Unknown)?;
        let headers = frame.get(..layout.len).ok_or(NoLayout::Unknown)?;
        if layout.len > MAX_HEADERS {
            return Err(NoLayout::TooLong);
        }
        if !layout.is_sound(headers) {
            return Err(NoLayout::Unknown);
        }
        let extensions = headers.get(layout.l3 + IPV6_LEN..layout.l4).unwrap_or_default();
        if layout.ip == Ip::V6 && !extensions.is_empty() && !only_plain_options(headers, layout) {
            return Err(NoLayout::Extension);
        }
        Ok(layout)
    }

    #[inline]
    fn of_kind(info: &HeaderInfo) -> Option<Self> {
        let ip = match info.l3 {
            ethertype::IPV4 => Ip::V4,
            ethertype::IPV6 => Ip::V6,
            _ => return None,
        };
        let transport = match info.l4.raw() {
            protocol::TCP => Transport::Tcp,
            protocol::UDP => Transport::Udp,
            _ => return None,
        };
        let outermost = ETHERNET_LEN + VLAN_TAG_LEN * u32::from(info.vlan_depth);
        let known = info.vlan_depth <= MAX_VLAN_DEPTH && info.l3_offset == outermost;
        let [l3, l4, len] =
            [info.l3_offset, info.l4_offset, info.header_len].map(|offset| offset as usize);
        known.then_some(Self { l3, l4, len, ip, transport })
    }

    /// Whether version and lengths in the headers are what the walk took them for.
    #[inline]
    fn is_sound(&self, headers: &[u8]) -> bool {
        let network_len = self.l4.saturating_sub(self.l3);
        let transport_len = self.len.saturating_sub(self.l4);
        let byte = |at: usize| headers.get(at).copied().unwrap_or_default();
        let network = match self.ip {
            Ip::V4 => usize::from(byte(self.l3)) == 0x40 + network_len / 4 && network_len >= 20,
            Ip::V6 => byte(self.l3) >> 4 == 6 && network_len >= IPV6_LEN,
        };
        let transport = match self.transport {
            Transport::Tcp => {
                transport_len >= TCP_LEN
                    && usize::from(byte(self.l4 + 12) >> 4) * 4 == transport_len
            }
            Transport::Udp => transport_len == UDP_LEN,
        };
        network && transport
    }

    /// Length from the IP header on of a packet with these headers.
    pub(super) const fn ip_len(&self, payload_len: usize) -> usize {
        self.len - self.l3 + payload_len
    }

    /// What an IPv4 header calls total length and an IPv6 header payload length.
    pub(super) const fn ip_length_field(&self, payload_len: usize) -> usize {
        match self.ip {
            Ip::V4 => self.ip_len(payload_len),
            Ip::V6 => self.ip_len(payload_len) - IPV6_LEN,
        }
    }

    /// Where that field is.
    pub(super) const fn ip_length_at(&self) -> usize {
        match self.ip {
            Ip::V4 => self.l3 + 2,
            Ip::V6 => self.l3 + 4,
        }
    }

    /// Makes `headers` those of a packet with `payload_len` bytes behind them, whose transport
    /// checksum is still to be finished: lengths, IPv4's checksum, and the sum of the
    /// pseudo-header. The IP length is 0 where it does not fit its field.
    pub(super) fn set_lengths(&self, headers: &mut [u8], payload_len: usize) {
        let &Self { l3, l4, len, ip, transport } = self;
        let ip_length = u16::try_from(self.ip_length_field(payload_len)).unwrap_or(0);
        put(headers, self.ip_length_at(), ip_length.to_be_bytes());
        let transport_len = len - l4 + payload_len;
        if transport == Transport::Udp {
            let udp_length = u16::try_from(transport_len).unwrap_or(0);
            put(headers, l4 + 4, udp_length.to_be_bytes());
        }
        if ip == Ip::V4 {
            put(headers, l3 + 10, [0; 2]);
            let checksum = Sum::of(headers.get(l3..l4).unwrap_or_default()).checksum();
            put(headers, l3 + 10, checksum);
        }
        let sum = self.pseudo_header(headers, payload_len);
        put(headers, l4 + transport.checksum_at(), sum.unfinished());
    }

    /// The sum of the pseudo-header.
    #[inline]
    pub(super) fn pseudo_header(&self, headers: &[u8], payload_len: usize) -> Sum {
        let addresses = match self.ip {
            Ip::V4 => chunk::<8>(headers, self.l3 + 12).map(Sum::of_header),
            Ip::V6 => chunk::<32>(headers, self.l3 + 8).map(Sum::of_header),
        };
        let transport_len = self.len - self.l4 + payload_len;
        addresses
            .unwrap_or_default()
            .with_u16(self.transport.protocol().into())
            .with_u32(transport_len as u32)
    }
}

/// Whether IPv6 extension headers are hop-by-hop and destination options that every packet of a
/// run may carry. A routing header and the home address option change the addresses in the
/// checksum; a jumbo payload option has the length of one packet.
fn only_plain_options(headers: &[u8], layout: Layout) -> bool {
    let mut at = layout.l3 + IPV6_LEN;
    let mut next = headers.get(layout.l3 + 6).copied();
    while at < layout.l4 {
        if !matches!(next, Some(protocol::HOP_BY_HOP | protocol::DESTINATION)) {
            return false;
        }
        let Some(&[following, units]) = headers.get(at..at + 2) else { return false };
        let end = at + 8 * (usize::from(units) + 1);
        let Some(options) = headers.get(at + 2..end) else { return false };
        if !are_plain(options) {
            return false;
        }
        (at, next) = (end, Some(following));
    }
    at == layout.l4
}

fn are_plain(mut options: &[u8]) -> bool {
    const PAD1: u8 = 0;
    const JUMBO_PAYLOAD: u8 = 0xc2;
    const HOME_ADDRESS: u8 = 0xc9;
    loop {
        options = match *options {
            [] => return true,
            [PAD1, ref rest @ ..] => rest,
            [JUMBO_PAYLOAD | HOME_ADDRESS, ..] => return false,
            [_, len, ref rest @ ..] => match rest.get(usize::from(len)..) {
                Some(rest) => rest,
                None => return false,
            },
            [_] => return false,
        };
    }
}

/// The `N` bytes at `at`; `None` if they are not all there.
#[inline]
pub(super) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// The big-endian 16-bit field at `at`; 0 beyond the end.
#[inline]
pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    chunk(bytes, at).map_or(0, |field| u16::from_be_bytes(*field))
}

/// The big-endian 32-bit field at `at`; 0 beyond the end.
#[inline]
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    chunk(bytes, at).map_or(0, |field| u32::from_be_bytes(*field))
}

/// Stores `field` at `at`, if that is inside.
#[inline]
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = field;
    }
}
