//! Who says what is in a frame.

use nic_common::{
    frame::Frame,
    headers::{Flags, HeaderInfo},
    policy::{CopyPolicy, Verdict},
};

use crate::error::Result;

/// What nicctl sees in a frame and decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Length of all headers in bytes.
    pub header_len: u32,
    /// Ethertype where the walk stopped; `None` if the Ethernet header is cut off.
    pub l3: Option<u16>,
    /// IP protocol where the walk stopped; `None` if there was no IP header.
    pub l4: Option<u8>,
    /// What the walk noticed.
    pub flags: Flags,
    /// What the policy decided.
    pub verdict: Verdict,
    /// Where the headers are, from a walker that tells.
    pub layout: Option<Layout>,
}

/// Where the headers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where the innermost network header starts, in bytes.
    pub l3_offset: u32,
    /// Where what follows that header starts, in bytes.
    pub l4_offset: u32,
    /// VLAN tags in the frame's bytes.
    pub vlan_depth: u8,
}

/// Walks the headers of frames.
pub trait Walker {
    /// The headers of `frame`, and what `policy` decides for it.
    ///
    /// # Errors
    ///
    /// The walker cannot be asked.
    fn headers(&mut self, frame: &[u8], policy: CopyPolicy) -> Result<Answer>;
}

/// The walk that this program does itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Native;

impl Walker for Native {
    fn headers(&mut self, frame: &[u8], policy: CopyPolicy) -> Result<Answer> {
        const ETHERNET_LEN: usize = 14;
        let info = HeaderInfo::of(frame);
        Ok(Answer {
            header_len: info.header_len,
            l3: (frame.len() >= ETHERNET_LEN).then_some(info.l3),
            l4: info.l4.number(),
            flags: info.flags,
            verdict: policy.decide(Frame::len(frame), &info),
            layout: Some(Layout {
                l3_offset: info.l3_offset,
                l4_offset: info.l4_offset,
                vlan_depth: info.vlan_depth,
            }),
        })
    }
}
