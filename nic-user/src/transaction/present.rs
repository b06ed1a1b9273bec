//! What the XDP program that is on an interface means for its settings.

use nic_common::record::AttachRecord;

use crate::{
    control::plan::Xdp,
    error::Result,
    netlink::link::XdpMode,
    nic::{Nic, preflight, setting::Key},
    offload::{Attachment, Slot},
};

/// The XDP program that settings have to do with, and how far they may go with it.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// What it reads.
    pub xdp: Xdp,
    /// The most that settings may be.
    pub limits: Vec<(Key, u64)>,
}

impl Present {
    /// The one that is on the interface. Of one that is not nicctl's, only the kernel knows what it
    /// reads, and has the last word.
    ///
    /// # Errors
    ///
    /// The network namespace cannot be told from others.
    pub fn on(nic: &Nic) -> Result<Self> {
        let Some(program) = nic.xdp().first() else { return Ok(Self::default()) };
        let slot = Slot::of(&nic.link)?;
        let ours = Attachment::of(slot).ok().flatten();
        let single = ours.is_some_and(|attachment| !attachment.record().has(AttachRecord::FRAGS));
        Ok(Self::reading(nic, program.mode, !single))
    }

    /// The one that would be attached in this mode.
    pub fn expected(nic: &Nic, mode: XdpMode) -> Self {
        Self::reading(nic, mode, preflight::takes_frags(nic, mode))
    }

    fn reading(nic: &Nic, mode: XdpMode, frags: bool) -> Self {
        Self {
            xdp: if frags { Xdp::Frags } else { Xdp::SingleBuffer },
            limits: preflight::limits(nic, mode, frags),
        }
    }
}
