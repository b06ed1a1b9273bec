//! What is attached to an interface, as found in its slot.

use std::time::{Duration, SystemTime};

use nic_common::{
    counters::{IngressCounters, RxCounters, TxCounters},
    policy::CopyPolicy,
    record::AttachRecord,
};

use super::{
    attach::TX_QUEUE_GUESS,
    layout::Counted,
    link::Link,
    lock::Lock,
    object::Build,
    pinned::{self, CounterPins, PolicyWord},
    slot::{self, Slot},
    sys::LinkState,
};
use crate::{
    error::{Error, Result},
    netlink,
    nic::mode::Mode,
};

/// An attachment that this nicctl can read.
#[derive(Debug)]
pub struct Attachment {
    slot: Slot,
    record: AttachRecord,
    /// Whether the layout of record and counters is ours.
    is_ours: bool,
    xdp: Option<LinkState>,
    /// The links of TC ingress and egress, while they are attached.
    tc: [Option<LinkState>; 2],
    /// Whether there are links at all: filters of a clsact qdisc are none.
    has_links: bool,
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
    /// The [`state`](Self::state) of one that is being attached or detached, or was when that was
    /// interrupted.
    pub const HALF_MADE: &str = "half-made";

    /// What is attached to the interface of this slot, if anything.
    ///
    /// # Errors
    ///
    /// Its pins cannot be read, or are not what they have to be.
    pub fn of(slot: Slot) -> Result<Option<Self>> {
        if !slot.exists()? {
            return Ok(None);
        }
        match Self::read_slot(slot.clone()) {
            // It is being detached.
            Err(_) if !slot.exists()? => Ok(None),
            attachment => attachment.map(Some),
        }
    }

    fn read_slot(slot: Slot) -> Result<Self> {
        let (record, is_ours) = pinned::read_record_and_layout(&slot)?;
        let mut has_links = false;
        let mut attached = |name| -> Result<Option<LinkState>> {
            let link = Link::open(&slot, name)?;
            has_links |= link.is_some();
            Ok(link.filter(Link::is_attached).map(|link| link.state()))
        };
        let xdp = attached(slot::XDP_LINK)?;
        let tc = [attached(slot::INGRESS_LINK)?, attached(slot::EGRESS_LINK)?];
        Ok(Self { slot, record, is_ours, xdp, tc, has_links })
    }

    /// Where its pins are.
    pub const fn slot(&self) -> &Slot {
        &self.slot
    }

    /// What was noted when it was attached.
    pub const fn record(&self) -> &AttachRecord {
        &self.record
    }

    /// Index of the interface in its network namespace: the present one, or the last that is known.
    pub fn ifindex(&self) -> u32 {
        let attached = self.xdp.iter().chain(self.tc.iter().flatten()).map(|link| link.ifindex);
        self.slot.ifindex.or_else(|| attached.max()).unwrap_or(self.record.ifindex)
    }

    /// The name that the interface had then.
    pub fn recorded_name(&self) -> String {
        netlink::name::text(unpadded(&self.record.name))
    }

    /// The version of nicctl that loaded the programs.
    pub fn version(&self) -> String {
        String::from_utf8_lossy(unpadded(&self.record.version)).into_owned()
    }

    /// Whether the interface is gone; what is left is only pins.
    pub fn is_stale(&self) -> bool {
        // Filters are not links: they are where their interface is.
        let has_filters = self.record.has(AttachRecord::CLSACT) && self.slot.ifindex.is_some();
        self.xdp.is_none() && self.tc == [None; 2] && !has_filters
    }

    /// Whether the kernel has taken its links away, as it does when the interface goes; `None`
    /// where it never had any.
    pub fn links_are_gone(&self) -> Option<bool> {
        self.has_links.then_some(self.xdp.is_none() && self.tc == [None; 2])
    }

    /// Why the transmit queues of packets are a guess, where they are.
    pub fn tx_queue_guess(&self) -> Option<&'static str> {
        self.record.has(AttachRecord::GUESSES_TX_QUEUE).then_some(TX_QUEUE_GUESS)
    }

    /// Why XDP counts nothing, where it does not.
    pub fn not_at_xdp(&self) -> Option<&'static str> {
        match (self.mode(), self.xdp) {
            (_, Some(_)) => None,
            (Mode::Tc, None) => Some("tc mode has no XDP program"),
            (Mode::Xdp(_), None) => Some("the XDP program is no longer attached"),
        }
    }

    /// The mode; `gone` if the interface is, `partial` if only XDP is.
    pub fn state(&self) -> &'static str {
        match (self.xdp, self.mode()) {
            _ if self.is_stale() => Self::GONE,
            _ if self.slot.is_stage() => Self::HALF_MADE,
            (None, Mode::Xdp(_)) => "partial",
            (_, mode) => mode.name(),
        }
    }

    /// Id of the XDP program, while there is one.
    pub fn xdp_program(&self) -> Option<u32> {
        self.xdp.map(|link| link.prog_id)
    }

    /// Ids of the TC ingress and egress programs where they are TCX links.
    pub fn tc_programs(&self) -> [Option<u32>; 2] {
        self.tc.map(|link| link.map(|link| link.prog_id))
    }

    /// The mode that was obtained.
    pub fn mode(&self) -> Mode {
        Mode::of_flag(self.record.mode)
    }

    /// The build of the XDP program, if there is to be one.
    pub fn build(&self) -> Option<Build> {
        let build =
            if self.record.has(AttachRecord::FRAGS) { Build::Frags } else { Build::SingleBuffer };
        self.mode().xdp().map(|_| build)
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
        Ok(Readings {
            rx: self.counters(slot::RX)?,
            ingress: self.counters(slot::INGRESS)?,
            tx: self.counters(slot::TX)?,
        })
    }

    fn counters<C: Counted>(&self, pin: &str) -> Result<Vec<C>> {
        let action = || format!("read counters of {}", self.recorded_name());
        let pins = CounterPins::open(&self.slot, pin, self.is_ours)
            .map_err(|error| error.while_doing(action()))?;
        let path = self.slot.pin(pin);
        let failed = |error| Error::io(format!("{}: {}", action(), path.display()), &error);
        pins.read().map_err(failed)
    }
}

/// Puts another copy policy in force, if anything is attached there.
///
/// # Errors
///
/// The pin of the policy is not there, or not what it has to be.
pub fn set_policy(_lock: &Lock, slot: &Slot, policy: CopyPolicy) -> Result<()> {
    match slot.exists()? {
        true => PolicyWord::of(slot)?.set_policy(policy),
        false => Ok(()),
    }
}

/// What is in front of the zeros that it is padded with.
fn unpadded(padded: &[u8]) -> &[u8] {
    padded.split(|byte| *byte == 0).next().unwrap_or_default()
}
