//! Who says what is in a frame.

use nic_common::{
    frame::Frame,
    headers::HeaderInfo,
    policy::{CopyPolicy, Verdict},
};

use crate::error::Result;

/// What nicctl sees in a frame and decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the walk saw.
    pub headers: HeaderInfo,
    /// What the policy decided.
    pub verdict: Verdict,
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
        let headers = HeaderInfo::of(frame);
        Ok(Answer { headers, verdict: policy.decide(Frame::len(frame), &headers) })
    }
}
