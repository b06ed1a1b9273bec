//! Who says what is in a frame.

use nic_common::{
    frame::Frame,
    headers::{Flags, HeaderInfo},
    policy::{CopyPolicy, Verdict},
};

use super::Captured;
use crate::error::Result;

/// What nicctl sees in a frame and decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the walk saw.
    pub headers: HeaderInfo,
    /// What the policy decided.
    pub verdict: Verdict,
}

impl Answer {
    /// Of a frame of which the first bytes may be all that is there: lengths are those on the wire.
    /// Where headers go on behind these bytes, the verdict is by the headers in them.
    pub fn of(frame: &Captured<'_>, policy: CopyPolicy) -> Self {
        let headers = HeaderInfo::of(frame);
        let seen = HeaderInfo { flags: Flags::NONE, ..headers };
        Self { headers, verdict: policy.decide(frame.len(), &seen) }
    }
}

/// Walks the headers of frames.
pub trait Walker {
    /// The headers of a whole `frame`, and what `policy` decides for it; `None` if this walker
    /// cannot walk a frame of this length.
    ///
    /// # Errors
    ///
    /// The walker cannot be asked.
    fn headers(&mut self, frame: &[u8], policy: CopyPolicy) -> Result<Option<Answer>>;
}

/// The walk that this program does itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Native;

impl Walker for Native {
    fn headers(&mut self, frame: &[u8], policy: CopyPolicy) -> Result<Option<Answer>> {
        Ok(Some(Answer::of(&Captured::whole(frame), policy)))
    }
}
