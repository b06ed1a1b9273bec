//! The first attachment of an interface.

use std::time::{SystemTime, UNIX_EPOCH};

use aya::programs::links::FdLink;
use nic_common::{policy::CopyPolicy, record::AttachRecord};

use super::{
    Attached, Choice, Effect, Hooks, Options, Switches, TX_QUEUE_GUESS, blocked, builds,
    hooks::{attach_tc, link_xdp, pin_link},
    unchanged::loaded_as,
    warnings,
};
use crate::{
    error::{Kind, Result},
    netlink::{self, link::XdpMode},
    nic::{Nic, mode::Mode, namespace, preflight},
    offload::{
        object::{Build, Object, Parameters, XdpPrograms},
        slot::{self, Slot},
    },
};

/// An attachment in the making.
pub(super) struct Attaching<'a> {
    pub nic: &'a Nic,
    pub options: &'a Options<'a>,
    pub slot: &'a Slot,
    pub switches: Switches,
    pub why: Option<String>,
    pub notes: Vec<String>,
}

impl Attaching<'_> {
    pub fn fresh(mut self, choice: &Choice) -> Result<Attached> {
        let policy = (self.options.policy)(CopyPolicy::DEFAULT);
        let mut object = Object::load_pinned(
            &parameters(self.nic, self.switches, policy, false),
            self.slot,
            &[],
        )?;
        self.load_first(&mut object, choice)?;
        let (link, hooks) = object.while_loading_tc(|xdp| self.attach_first(xdp, choice))?;
        let mut record = self.record(hooks)?;
        object.write_record(&record)?;
        if let Some(link) = link {
            pin_link(link, self.slot, slot::XDP_LINK)?;
        }
        attach_tc(&mut object, self.nic, self.slot, &mut record, self.options.clsact)?;
        Ok(self.attached(hooks, policy, Effect::Attached))
    }

    pub fn attached(self, hooks: Hooks, policy: CopyPolicy, effect: Effect) -> Attached {
        Attached {
            name: self.nic.name().to_owned(),
            ifindex: self.nic.ifindex(),
            hooks,
            why: self.why,
            policy,
            switches: self.switches,
            effect,
            tx_queue_guess: guesses_tx_queue(self.nic).then_some(TX_QUEUE_GUESS),
            notes: self.notes,
        }
    }

    /// Loads the XDP program that is tried first, if any: it need not share the processors with the
    /// TC programs then.
    pub fn load_first(&self, object: &mut Object, choice: &Choice) -> Result<()> {
        match choice.first {
            Mode::Xdp(_) => object.xdp(builds(self.nic)[0]).map(drop),
            Mode::Tc => Ok(()),
        }
    }

    /// Attaches XDP in the first mode of the choice that the device takes; nothing at TC alone.
    pub fn attach_first(
        &mut self,
        xdp: &mut XdpPrograms<'_>,
        choice: &Choice,
    ) -> Result<(Option<FdLink>, Hooks)> {
        let refused = match (self.attach_as(xdp, choice.first), choice.then) {
            (Err(error), Some(_)) if error.kind() != Kind::NotPermitted => error,
            (attached, _) => return attached,
        };
        self.why = Some(refused.to_string());
        choice.then.map_or(Err(refused), |mode| self.attach_as(xdp, mode))
    }

    fn attach_as(
        &mut self,
        xdp: &mut XdpPrograms<'_>,
        mode: Mode,
    ) -> Result<(Option<FdLink>, Hooks)> {
        let Mode::Xdp(mode) = mode else { return Ok((None, Hooks::Tc)) };
        let (link, build) = self.attach_xdp_as(xdp, mode)?;
        self.notes.extend(warnings(self.nic, mode));
        Ok((Some(link), Hooks::Xdp { mode, build }))
    }

    /// Says why it is the frags build, where that is known beforehand.
    fn explain_frags(&mut self) {
        if self.nic.splits_headers {
            self.notes.push("frags build: the device splits headers from data".to_owned());
        } else if let Some(preflight::Exceeded { mtu, limit }) = preflight::exceeded_limit(self.nic)
        {
            self.notes.push(format!(
                "frags build: MTU {mtu} is more than a single buffer holds: {limit}"
            ));
        }
    }

    /// Attaches XDP in one mode, with the first build that the device takes.
    pub fn attach_xdp_as(
        &mut self,
        xdp: &mut XdpPrograms<'_>,
        mode: XdpMode,
    ) -> Result<(FdLink, Build)> {
        let mut refusals = Vec::new();
        for &build in builds(self.nic) {
            match link_xdp(xdp.get(build)?, self.nic, mode) {
                Ok(link) => {
                    self.explain_frags();
                    if let Some(refused) = refusals.pop() {
                        self.notes.push(format!("frags build: {refused}"));
                    }
                    return Ok((link, build));
                }
                Err(error) if error.kind() == Kind::NotPermitted => return Err(error),
                Err(error) => refusals.push(error),
            }
        }
        // The first is of the build that suits the interface best.
        let refused = refusals.swap_remove(0);
        Err(match blocked(self.nic, mode) {
            Some(reason) => reason.while_doing(refused),
            None => refused,
        })
    }
}

pub(super) fn parameters(
    nic: &Nic,
    switches: Switches,
    policy: CopyPolicy,
    steering: bool,
) -> Parameters {
    Parameters {
        rx_queues: nic.max_rx_queues().max(1),
        tx_queues: nic.max_tx_queues().max(1),
        real_tx_queues: nic.tx_queues().max(1),
        policy,
        steering,
        pull: switches.pull,
        log: switches.log,
    }
}

impl Attaching<'_> {
    fn record(&self, hooks: Hooks) -> Result<AttachRecord> {
        let (nic, now) = (self.nic, now());
        Ok(AttachRecord {
            layout: AttachRecord::LAYOUT,
            attached_at: now,
            loaded_at: now,
            netns: namespace::current_cookie()?,
            ifindex: nic.ifindex(),
            mode: hooks.mode().flag(),
            rx_queues: nic.max_rx_queues().max(1),
            tx_queues: nic.max_tx_queues().max(1),
            options: self.option_bits(hooks) | bit(self.options.for_rings, AttachRecord::FOR_RINGS),
            loaded_as: loaded_as(nic, self.switches),
            name: padded(&netlink::name::bytes(nic.name())),
            version: padded(env!("CARGO_PKG_VERSION").as_bytes()),
        })
    }

    pub fn option_bits(&self, hooks: Hooks) -> u64 {
        bit(self.switches.pull, AttachRecord::PULL)
            | bit(self.switches.log, AttachRecord::LOG)
            | bit(hooks.build() == Some(Build::Frags), AttachRecord::FRAGS)
            | bit(guesses_tx_queue(self.nic), AttachRecord::GUESSES_TX_QUEUE)
    }
}

/// Whether TC egress cannot be sure of a packet's transmit queue.
pub(super) fn guesses_tx_queue(nic: &Nic) -> bool {
    nic.tx_queues() > 1
}

pub(super) const fn bit(set: bool, bit: u64) -> u64 {
    if set { bit } else { 0 }
}

/// Nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn padded(text: &[u8]) -> [u8; 16] {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(text) {
        *to = *from;
    }
    padded
}
