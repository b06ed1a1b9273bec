//! A frame as a capture has it.

use nic_common::frame::Frame;

use super::LinkType;

/// Bytes of an Ethernet header.
pub(super) const ETHERNET_LEN: u32 = 14;

/// A frame as it was captured, without FCS. Its headers are walked as those of an Ethernet frame as
/// long as it was on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// The bytes that were captured, from the link's header on.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes; more than was captured if the capture had a snap length.
    pub original_len: u32,
    /// What its bytes begin with.
    pub link: Link,
}

/// What stands in front of a frame's network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// Another header, which may be of no bytes.
    Other {
        /// Its length in bytes.
        len: u32,
        /// What follows, in host byte order; `None` where that was not captured.
        ethertype: Option<u16>,
    },
    /// Nothing that can be read.
    Unknown(LinkType),
}

impl<'a> Captured<'a> {
    /// A frame whose last `fcs` bytes on the wire were its FCS.
    pub(super) fn new(link: LinkType, bytes: &'a [u8], original_len: u32, fcs: u32) -> Self {
        let original_len = original_len.max(Frame::len(bytes)).saturating_sub(fcs);
        let bytes = bytes.get(..original_len as usize).unwrap_or(bytes);
        Self { bytes, original_len, link: link.link(bytes) }
    }

    /// An Ethernet frame, all of it.
    pub(super) fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, original_len: Frame::len(bytes), link: Link::Ethernet }
    }

    /// Bytes in front of the network header.
    pub(super) const fn link_len(&self) -> u32 {
        match self.link {
            Link::Other { len, .. } => len,
            Link::Ethernet | Link::Unknown(_) => ETHERNET_LEN,
        }
    }

    /// Whether less was captured than was on the wire.
    pub fn is_cut(&self) -> bool {
        Frame::len(self.bytes) < self.original_len
    }
}

impl Frame for Captured<'_> {
    type Header<const N: usize> = [u8; N];

    fn len(&self) -> u32 {
        (self.original_len + ETHERNET_LEN).saturating_sub(self.link_len())
    }

    fn header<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let behind = at.checked_sub(ETHERNET_LEN);
        match (self.link, behind) {
            (Link::Other { ethertype, .. }, None) => {
                let mut header = [0; N];
                let protocol = header.get_mut(12..14)?;
                protocol.copy_from_slice(&ethertype?.to_be_bytes());
                (self.len() >= ETHERNET_LEN).then_some(header)
            }
            (Link::Other { len, .. }, Some(behind)) => self.bytes.header(behind.checked_add(len)?),
            _ => self.bytes.header(at),
        }
    }
}
