//! The headers of a super-packet: checked against its length, and made those of a part of it.

use nic_common::headers::{HeaderInfo, ethertype, protocol};

use super::super::headers::{
    IPV6_LEN, Ip, Layout, MAX_HEADERS, Transport, UDP_LEN, be16, be32, put,
};
use super::{MAX_LEN, SegmentError};

/// The longest packet whose length fits the field in its IP header.
const MAX_IP_LEN: usize = 0xffff;
/// Length of the temporary hop-by-hop header (`struct hop_jumbo_hdr`, net/ipv6.h).
const JUMBO_LEN: usize = 8;
/// Where an IPv6 header names the header behind it.
const NEXT_HEADER_AT: usize = 6;

/// Headers as they go on the wire: without the temporary hop-by-hop header.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    bytes: [u8; MAX_HEADERS],
    pub(super) layout: Layout,
}

impl Headers {
    /// The headers of a super-packet with `payload_len` bytes behind them.
    pub(super) fn of_super_packet(
        headers: &[u8],
        payload_len: usize,
    ) -> Result<Self, SegmentError> {
        let mut bytes = [0; MAX_HEADERS];
        let mut len = headers.len();
        bytes.get_mut(..len).ok_or(SegmentError::HeadersTooLong)?.copy_from_slice(headers);
        if let Some(Jumbo { ipv6, at }) = Jumbo::find(headers, payload_len)? {
            bytes.copy_within(at + JUMBO_LEN..len, at);
            put(&mut bytes, ipv6 + NEXT_HEADER_AT, [protocol::TCP]);
            len -= JUMBO_LEN;
        }
        let wire = bytes.get(..len).unwrap_or_default();
        let layout = Layout::of(wire, &HeaderInfo::of(wire))?;
        if layout.len != len {
            return Err(SegmentError::HeaderLength { headers: layout.len, given: len });
        }
        check_lengths(wire, layout, payload_len)?;
        Ok(Self { bytes, layout })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // The layout is that of these bytes.
        self.bytes.get(..self.layout.len).unwrap_or_default()
    }

    /// The byte with TCP's flags; 0 for UDP.
    pub(super) fn tcp_flags(&self) -> u8 {
        match self.layout.transport {
            Transport::Tcp => self.bytes.get(self.layout.l4 + 13).copied().unwrap_or_default(),
            Transport::Udp => 0,
        }
    }

    pub(super) fn set_tcp_flags(&mut self, flags: u8) {
        if self.layout.transport == Transport::Tcp {
            put(&mut self.bytes, self.layout.l4 + 13, [flags]);
        }
    }

    /// TCP's sequence number; 0 for UDP.
    pub(super) fn sequence(&self) -> u32 {
        match self.layout.transport {
            Transport::Tcp => be32(&self.bytes, self.layout.l4 + 4),
            Transport::Udp => 0,
        }
    }

    pub(super) fn set_sequence(&mut self, sequence: u32) {
        if self.layout.transport == Transport::Tcp {
            put(&mut self.bytes, self.layout.l4 + 4, sequence.to_be_bytes());
        }
    }

    /// IPv4's identification; 0 for IPv6.
    pub(super) fn id(&self) -> u16 {
        match self.layout.ip {
            Ip::V4 => be16(&self.bytes, self.layout.l3 + 4),
            Ip::V6 => 0,
        }
    }

    pub(super) fn set_id(&mut self, id: u16) {
        if self.layout.ip == Ip::V4 {
            put(&mut self.bytes, self.layout.l3 + 4, id.to_be_bytes());
        }
    }

    /// Makes these the headers of a packet with `payload_len` bytes behind them.
    pub(super) fn set_payload_len(&mut self, payload_len: usize) {
        self.layout.set_lengths(&mut self.bytes, payload_len);
    }

    /// Sets the fields that differ from segment to segment to zero, as checksums count them.
    pub(super) fn clear_variable_fields(&mut self) {
        let Layout { l3, l4, ip, transport, .. } = self.layout;
        self.set_id(0);
        self.set_sequence(0);
        self.set_tcp_flags(0);
        if ip == Ip::V4 {
            put(&mut self.bytes, l3 + 10, [0; 2]);
        }
        put(&mut self.bytes, l4 + transport.checksum_at(), [0; 2]);
    }
}

/// The temporary hop-by-hop header that the kernel puts into IPv6 packets of TCP whose length does
/// not fit its field.
struct Jumbo {
    /// Where the IPv6 header starts.
    ipv6: usize,
    /// Where the hop-by-hop header starts.
    at: usize,
}

impl Jumbo {
    /// The one in `headers`, if there is one. Asks for what `ipv6_has_hopopt_jumbo` (net/ipv6.h)
    /// asks for; then the length in its option has to be the packet's.
    fn find(headers: &[u8], payload_len: usize) -> Result<Option<Self>, SegmentError> {
        let info = HeaderInfo::of(headers);
        let ipv6 = info.l3_offset as usize;
        let at = ipv6 + IPV6_LEN;
        let Some(&[protocol::TCP, 0, 0xc2, 4, a, b, c, d]) = headers.get(at..at + JUMBO_LEN) else {
            return Ok(None);
        };
        let announced = headers.get(ipv6 + NEXT_HEADER_AT) == Some(&protocol::HOP_BY_HOP);
        if info.l3 != ethertype::IPV6 || !announced {
            return Ok(None);
        }
        let says = u32::from_be_bytes([a, b, c, d]) as usize;
        let expected = headers.len() - at + payload_len;
        if says == expected && expected - JUMBO_LEN > MAX_IP_LEN {
            Ok(Some(Self { ipv6, at }))
        } else {
            Err(SegmentError::LengthField { header: "jumbo payload", says, expected })
        }
    }
}

/// Whether the length fields are those of a packet with `payload_len` bytes behind its headers.
fn check_lengths(headers: &[u8], layout: Layout, payload_len: usize) -> Result<(), SegmentError> {
    let len = layout.ip_len(payload_len);
    let limit = match layout.transport {
        Transport::Tcp => MAX_LEN,
        Transport::Udp => MAX_IP_LEN,
    };
    if len > limit {
        return Err(SegmentError::TooLong { len, limit });
    }
    let name = match layout.ip {
        Ip::V4 => "IPv4",
        Ip::V6 => "IPv6",
    };
    let field = layout.ip_length_field(payload_len);
    let expected = if field > MAX_IP_LEN { 0 } else { field };
    check_field(name, be16(headers, layout.ip_length_at()), expected)?;
    match layout.transport {
        Transport::Tcp => Ok(()),
        Transport::Udp => check_field("UDP", be16(headers, layout.l4 + 4), UDP_LEN + payload_len),
    }
}

fn check_field(header: &'static str, says: u16, expected: usize) -> Result<(), SegmentError> {
    let says = usize::from(says);
    if says == expected {
        Ok(())
    } else {
        Err(SegmentError::LengthField { header, says, expected })
    }
}
