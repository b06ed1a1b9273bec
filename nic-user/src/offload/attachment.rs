//! What is attached to an interface, as found in its slot.

use std::{
    os::fd::AsFd,
    time::{Duration, SystemTime},
};

use nic_common::{
    counters::{Counters, IngressCounters, RxCounters, TxCounters},
    policy::CopyPolicy,
    record::AttachRecord,
};

use super::{
    bpffs,
    pinned::{self, PolicyWord},
    slot::{self, Slot},
    sys::{self, LinkState},
};
use crate::{
    error::{Error, Result},
    netlink::link::XdpMode,
};

/// An attachment that this nicctl can read.
#[derive(Debug)]
pub struct Attachment {
    slot: Slot,
    record: AttachRecord,
    xdp: Option<LinkState>,
    /// One of TC's links that is still attached.
    tc: Option<LinkState>,
}

/// The counters of an attachment; the index is the queue.
#[derive(Debug)]
pub struct Readings {
    /// Receive queues at XDP.
    pub rx: Vec<RxCounters>,
    /// Receive queues at TC ingress.
    pub ingress: Vec<IngressCounters>,
    /// Transmit queues at TC egress.
    pub tx: Vec<TxCounters>,
}

impl Attachment {
    /// The [`state`](Self::state) of one whose interface is gone.
    pub const GONE: &str = "gone";

    /// What is attached to the interface of this slot, if anything.
    ///
    /// # Errors
    ///
    /// It was attached by a nicctl with other counters, or its pins cannot be read.
    pub fn of(slot: Slot) -> Result<Option<Self>> {
        if !slot.exists()? {
            return Ok(None);
        }
        let record = match pinned::read_record(&slot) {
            // It is being detached.
            Err(_) if !slot.exists()? => return Ok(None),
            record => record?,
        };
        let xdp = attached_link(&slot, slot::XDP_LINK);
        let tc = attached_link(&slot, slot::INGRESS_LINK)
            .or_else(|| attached_link(&slot, slot::EGRESS_LINK));
        Ok(Some(Self { slot, record, xdp, tc }))
    }

    /// Where its pins are.
    pub const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// What was noted when it was attached.
    pub const fn record(&self) -> &AttachRecord {
        &self.record
    }

    /// The name that the interface had then.
    pub fn recorded_name(&self) -> String {
        text(&self.record.name)
    }

    /// The version of nicctl that loaded the programs.
    pub fn version(&self) -> String {
        text(&self.record.version)
    }

    /// Whether the interface is gone; what is left is only pins.
    pub const fn is_stale(&self) -> bool {
        self.xdp.is_none() && self.tc.is_none()
    }

    /// The mode of XDP; `gone` if the interface is, `partial` if only XDP is.
    pub fn state(&self) -> &'static str {
        match (self.xdp, self.tc) {
            (Some(_), _) => self.mode().name(),
            (None, Some(_)) => "partial",
            (None, None) => Self::GONE,
        }
    }

    /// Id of the XDP program, while there is one.
    pub fn xdp_program(&self) -> Option<u32> {
        self.xdp.map(|link| link.prog_id)
    }

    /// Ids of the TC ingress and egress programs where they are TCX links.
    pub fn tc_programs(&self) -> [Option<u32>; 2] {
        [slot::INGRESS_LINK, slot::EGRESS_LINK].map(|name| {
            let link = sys::open_pin(&self.slot.pin(name)).ok()?;
            sys::link_state(link.as_fd()).ok().map(|link| link.prog_id)
        })
    }

    /// The XDP mode that was obtained.
    pub fn mode(&self) -> XdpMode {
        let recorded = self.record.mode;
        XdpMode::ALL.into_iter().find(|mode| mode.flag() == recorded).unwrap_or(XdpMode::Generic)
    }

    /// When it was first attached.
    pub fn attached_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.record.attached_at)
    }

    /// The copy policy in force.
    pub fn policy(&self) -> Result<CopyPolicy> {
        PolicyWord::of(&self.slot)?.policy()
    }

    /// Reads all counters.
    pub fn read(&self) -> Result<Readings> {
        let cpus = aya::util::nr_cpus().map_err(|(what, error)| Error::io(what, &error))?;
        Ok(Readings {
            rx: self.counters(slot::RX, self.record.rx_queues, cpus)?,
            ingress: self.counters(slot::INGRESS, self.record.rx_queues, cpus)?,
            tx: self.counters(slot::TX, self.record.tx_queues, cpus)?,
        })
    }

    fn counters<C: Counters + aya::Pod>(
        &self,
        pin: &str,
        queues: u32,
        cpus: usize,
    ) -> Result<Vec<C>> {
        let path = self.slot.pin(pin);
        let action = || format!("read counters of {}: {}", self.recorded_name(), path.display());
        let map = sys::open_pin(&path).map_err(|error| bpffs::error(action(), &error))?;
        sys::read_per_cpu(map.as_fd(), queues as usize, cpus)
            .map_err(|error| Error::io(action(), &error))
    }
}

/// A link of a slot, while it is attached to something.
fn attached_link(slot: &Slot, name: &str) -> Option<LinkState> {
    let link = sys::open_pin(&slot.pin(name)).ok()?;
    sys::link_state(link.as_fd()).ok().filter(|link| link.ifindex != 0)
}

/// Text padded with zeros.
fn text(padded: &[u8]) -> String {
    let text = padded.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
