//! The first attachment of an interface.

use std::time::{SystemTime, UNIX_EPOCH};

use aya::programs::links::FdLink;
use nic_common::{policy::CopyPolicy, record::AttachRecord};

use super::{
    Attached, ModeWanted, Options, Switches, blocked, builds,
    hooks::{attach_tc, link_xdp, pin_link},
    warnings,
};
use crate::{
    error::{Kind, Result},
    netlink::{self, link::XdpMode},
    nic::{Nic, namespace, preflight},
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
    pub notes: Vec<String>,
}

impl Attaching<'_> {
    pub fn fresh(mut self) -> Result<Attached> {
        let policy = (self.options.policy)(CopyPolicy::DEFAULT);
        let mut object = Object::load_pinned(
            &parameters(self.nic, self.switches, policy, false),
            self.slot,
            &[],
        )?;
        // First, so that it need not share the processors with the TC programs.
        object.xdp(builds(self.nic)[0])?;
        let (link, mode, build) = object.while_loading_tc(|xdp| self.attach_xdp(xdp))?;
        self.notes.extend(warnings(self.nic, mode));
        let mut record = self.record(mode, build)?;
        object.write_record(&record)?;
        pin_link(link, self.slot, slot::XDP_LINK)?;
        attach_tc(&mut object, self.nic, self.slot, &mut record, self.options.clsact)?;
        Ok(self.attached(mode, build, policy, false))
    }

    pub fn attached(
        self,
        mode: XdpMode,
        build: Build,
        policy: CopyPolicy,
        upgraded: bool,
    ) -> Attached {
        Attached {
            name: self.nic.name().to_owned(),
            ifindex: self.nic.ifindex(),
            mode,
            build,
            policy,
            switches: self.switches,
            upgraded,
            notes: self.notes,
        }
    }

    /// Attaches XDP in the mode that is wanted, or in the best that the device takes.
    pub fn attach_xdp(&mut self, xdp: &mut XdpPrograms<'_>) -> Result<(FdLink, XdpMode, Build)> {
        if self.nic.splits_headers {
            self.notes.push("frags build: the device splits headers from data".to_owned());
        } else if let Some(limit) = preflight::exceeded_limit(self.nic) {
            self.notes.push(format!(
                "frags build: MTU {} is more than a single buffer holds: {limit}",
                self.nic.mtu()
            ));
        }
        let native = match self.options.mode {
            ModeWanted::Only(mode) => {
                if let Some(reason) = blocked(self.nic, mode) {
                    return Err(reason);
                }
                let (link, build) = self.attach_xdp_as(xdp, mode)?;
                return Ok((link, mode, build));
            }
            ModeWanted::Auto => self.attach_xdp_as(xdp, XdpMode::Native),
        };
        let refused = match native {
            Ok((link, build)) => return Ok((link, XdpMode::Native, build)),
            Err(error) if error.kind() == Kind::NotPermitted => return Err(error),
            Err(error) => error,
        };
        self.notes.push(format!("generic mode: {refused}"));
        let (link, build) = self.attach_xdp_as(xdp, XdpMode::Generic)?;
        Ok((link, XdpMode::Generic, build))
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
    fn record(&self, mode: XdpMode, build: Build) -> Result<AttachRecord> {
        let (nic, now) = (self.nic, now());
        Ok(AttachRecord {
            layout: AttachRecord::LAYOUT,
            attached_at: now,
            loaded_at: now,
            netns: namespace::current_cookie()?,
            ifindex: nic.ifindex(),
            mode: mode.flag(),
            rx_queues: nic.max_rx_queues().max(1),
            tx_queues: nic.max_tx_queues().max(1),
            options: self.option_bits(build),
            name: padded(&netlink::name::bytes(nic.name())),
            version: padded(env!("CARGO_PKG_VERSION").as_bytes()),
        })
    }

    pub fn option_bits(&self, build: Build) -> u64 {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        bit(self.switches.pull, AttachRecord::PULL)
            | bit(self.switches.log, AttachRecord::LOG)
            | bit(build == Build::Frags, AttachRecord::FRAGS)
            | bit(self.options.for_rings, AttachRecord::FOR_RINGS)
    }
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
