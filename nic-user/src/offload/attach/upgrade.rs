//! Attaching again.

use std::os::fd::AsFd;

use nic_common::{policy::CopyPolicy, record::AttachRecord};

use super::{
    Attached, Choice, Effect, Hooks, ModeWanted, Options, Switches,
    attaching::{Attaching, bit, now, padded, parameters},
    blocked, builds, carry,
    choice::asked_for,
    hooks::{attach_tc, pin_link},
    unchanged::loaded_as,
};
use crate::{
    error::{Error, Result},
    netlink,
    nic::{Nic, mode::Mode, namespace},
    offload::{
        attachment::Attachment,
        link::Link,
        object::{Build, Object, XdpPrograms},
        pinned::{self, PolicyWord},
        slot,
    },
};

/// Puts new programs into the links of `attachment`. Each replacement is atomic: every frame meets
/// the old program or the new one, and what either counts is read.
pub(super) fn upgrade(
    nic: &Nic,
    options: &Options<'_>,
    attachment: &Attachment,
    choice: &Choice,
) -> Result<Attached> {
    let before = attachment.policy()?;
    let upgraded = replace(nic, options, attachment, choice, (options.policy)(before));
    if upgraded.is_err() {
        // Loading has put the new one in force. The reason to fail is worth more than another.
        let _ = PolicyWord::of(attachment.slot()).and_then(|mut word| word.set_policy(before));
    }
    upgraded
}

fn replace(
    nic: &Nic,
    options: &Options<'_>,
    attachment: &Attachment,
    choice: &Choice,
    policy: CopyPolicy,
) -> Result<Attached> {
    let slot = attachment.slot();
    let switches = Switches::of(options, Some(attachment.record()));
    let steering = PolicyWord::of(slot)?.is_steering()?;
    pinned::check_maps(slot)?;
    let changed = carry::changed(slot)?;
    let parameters = parameters(nic, switches, policy, steering);
    let options_of_rings = for_rings(options, attachment)?;
    let mut object = Object::load_pinned(&parameters, slot, &changed)?;
    let why = choice.why.clone();
    let mut attaching = Attaching { nic, options, slot, switches, why, notes: Vec::new() };
    attaching.load_first(&mut object, choice)?;
    carry::carry(slot, &changed, attachment.record())?;
    let hooks = object.while_loading_tc(|xdp| attaching.upgrade_xdp(xdp, attachment, choice))?;
    let kept = attachment.record().options & (AttachRecord::CLSACT | AttachRecord::OWN_QDISC);
    let mut record = AttachRecord {
        layout: AttachRecord::LAYOUT,
        loaded_at: now(),
        netns: namespace::current_cookie()?,
        ifindex: nic.ifindex(),
        mode: hooks.mode().flag(),
        rx_queues: parameters.rx_queues,
        tx_queues: parameters.tx_queues,
        options: attaching.option_bits(hooks) | options_of_rings | kept,
        loaded_as: loaded_as(nic, switches),
        name: padded(&netlink::name::bytes(nic.name())),
        version: padded(env!("CARGO_PKG_VERSION").as_bytes()),
        ..*attachment.record()
    };
    object.write_record(&record)?;
    attach_tc(&mut object, nic, slot, &mut record, options.clsact)?;
    Ok(attaching.attached(hooks, policy, Effect::Upgraded))
}

/// For whose rings it is: a user of rings takes what is attached as it is, whoever else attaches
/// makes all of it his own, except for XDP where that was not what he asked for.
pub(super) fn for_rings(options: &Options<'_>, attachment: &Attachment) -> Result<u64> {
    let record = attachment.record();
    let is_borrowed = record.has(AttachRecord::XDP_FOR_RINGS);
    Ok(match (options.for_rings, options.mode) {
        (true, _) => {
            bit(record.has(AttachRecord::FOR_RINGS), AttachRecord::FOR_RINGS)
                | bit(is_borrowed || attachment.mode() == Mode::Tc, AttachRecord::XDP_FOR_RINGS)
        }
        (false, ModeWanted::Only(_)) => 0,
        (false, _) => {
            let asks_for_xdp = asked_for(options, Some(attachment))?.is_some();
            bit(is_borrowed && !asks_for_xdp, AttachRecord::XDP_FOR_RINGS)
        }
    })
}

impl Attaching<'_> {
    fn upgrade_xdp(
        &mut self,
        xdp: &mut XdpPrograms<'_>,
        attachment: &Attachment,
        choice: &Choice,
    ) -> Result<Hooks> {
        let old = attachment.mode();
        let is_there = attachment.xdp_program().is_some();
        match (choice.first, old) {
            (Mode::Tc, _) => self.remove_xdp(is_there),
            (Mode::Xdp(mode), _) if is_there && choice.first == old => {
                Ok(Hooks::Xdp { mode, build: self.replace_xdp(xdp)? })
            }
            (_, Mode::Xdp(_)) if is_there => self.change_xdp(xdp, old, choice),
            _ => self.add_xdp(xdp, old, choice),
        }
    }

    /// Leaves TC alone.
    fn remove_xdp(&mut self, was_there: bool) -> Result<Hooks> {
        self.slot.detach_link(slot::XDP_LINK)?;
        self.note_mode(Mode::Tc)?;
        if was_there {
            self.notes.push("XDP's counters stop here".to_owned());
        }
        Ok(Hooks::Tc)
    }

    /// Attaches XDP where only TC is: that was enough so far; or somebody detached it, or a change
    /// of mode was killed half-way.
    fn add_xdp(&mut self, xdp: &mut XdpPrograms<'_>, old: Mode, choice: &Choice) -> Result<Hooks> {
        self.slot.detach_link(slot::XDP_LINK)?;
        let hooks = self.attach_and_pin(xdp, choice)?;
        self.notes.push(match old {
            Mode::Tc => "XDP counts from now on".to_owned(),
            Mode::Xdp(_) => "XDP had been detached: some frames were not counted".to_owned(),
        });
        Ok(hooks)
    }

    /// The kernel fixes the mode of a link, so another mode takes another link.
    fn change_xdp(
        &mut self,
        xdp: &mut XdpPrograms<'_>,
        old: Mode,
        choice: &Choice,
    ) -> Result<Hooks> {
        if let Mode::Xdp(mode) = choice.first
            && let Some(reason) = blocked(self.nic, mode)
        {
            return Err(reason);
        }
        self.slot.detach_link(slot::XDP_LINK)?;
        let hooks = self.attach_and_pin(xdp, choice).or_else(|error| {
            // Back to the mode that worked.
            let before = Choice { first: old, then: None, why: None };
            self.attach_and_pin(xdp, &before)?;
            Err(error)
        })?;
        self.notes.push(format!(
            "frames between {} and {} mode were not counted",
            old.name(),
            hooks.mode().name()
        ));
        Ok(hooks)
    }

    /// The record says first that XDP is there: so whoever finds it without knows that something
    /// was interrupted.
    fn attach_and_pin(&mut self, xdp: &mut XdpPrograms<'_>, choice: &Choice) -> Result<Hooks> {
        let (link, hooks) = self.attach_first(xdp, choice)?;
        self.note_mode(hooks.mode())?;
        if let Some(link) = link {
            pin_link(link, self.slot, slot::XDP_LINK)?;
        }
        Ok(hooks)
    }

    fn note_mode(&self, mode: Mode) -> Result<()> {
        pinned::change_record(self.slot, |record| record.mode = mode.flag())
    }

    /// Puts the first build that the device takes into the link that there is.
    fn replace_xdp(&mut self, xdp: &mut XdpPrograms<'_>) -> Result<Build> {
        let action = "replace the XDP program";
        let link = Link::open_again(self.slot, slot::XDP_LINK)?
            .ok_or_else(|| Error::failed(format!("{action}: its link was removed")))?;
        let mut refusals = Vec::new();
        for &build in builds(self.nic) {
            let program =
                xdp.get(build)?.fd().map_err(|error| pinned::aya_error(action, &error))?;
            match link.replace(program.as_fd()) {
                Ok(()) => return Ok(build),
                Err(error) => refusals.push(Error::io(action, &error)),
            }
        }
        Err(refusals.swap_remove(0))
    }
}
