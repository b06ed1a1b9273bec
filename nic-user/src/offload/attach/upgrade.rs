//! Attaching again.

use std::os::fd::AsFd;

use nic_common::{policy::CopyPolicy, record::AttachRecord};

use super::{
    Attached, ModeWanted, Options, Switches,
    attaching::{Attaching, now, padded, parameters},
    blocked, builds, carry,
    hooks::{attach_tc, pin_link},
};
use crate::{
    error::{Error, Result},
    netlink::{self, link::XdpMode},
    nic::{Nic, namespace},
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
) -> Result<Attached> {
    let before = attachment.policy()?;
    let upgraded = replace(nic, options, attachment, (options.policy)(before));
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
    policy: CopyPolicy,
) -> Result<Attached> {
    let slot = attachment.slot();
    let switches = Switches::of(options, Some(attachment.record()));
    let steering = PolicyWord::of(slot)?.is_steering()?;
    pinned::check_maps(slot)?;
    let changed = carry::changed(slot)?;
    let parameters = parameters(nic, switches, policy, steering);
    let mut object = Object::load_pinned(&parameters, slot, &changed)?;
    let mut attaching = Attaching { nic, options, slot, switches, notes: Vec::new() };
    let old = attachment.mode();
    object.xdp(builds(nic)[0])?;
    carry::carry(slot, &changed, attachment.record())?;
    let (mode, build) = object.while_loading_tc(|xdp| match options.mode {
        _ if attachment.xdp_program().is_none() => attaching.attach_missing_xdp(xdp),
        ModeWanted::Only(mode) if mode != old => attaching.change_mode(xdp, old),
        _ => Ok((old, attaching.replace_xdp(xdp)?)),
    })?;
    let kept = attachment.record().options & (AttachRecord::CLSACT | AttachRecord::OWN_QDISC);
    let mut record = AttachRecord {
        layout: AttachRecord::LAYOUT,
        loaded_at: now(),
        netns: namespace::current_cookie()?,
        ifindex: nic.ifindex(),
        mode: mode.flag(),
        rx_queues: parameters.rx_queues,
        tx_queues: parameters.tx_queues,
        options: attaching.option_bits(build) | kept,
        name: padded(&netlink::name::bytes(nic.name())),
        version: padded(env!("CARGO_PKG_VERSION").as_bytes()),
        ..*attachment.record()
    };
    object.write_record(&record)?;
    attach_tc(&mut object, nic, slot, &mut record, options.clsact)?;
    Ok(attaching.attached(mode, build, policy, true))
}

impl Attaching<'_> {
    /// Attaches XDP where only TC is left of an attachment: somebody detached it, or a change of
    /// mode was killed half-way.
    fn attach_missing_xdp(&mut self, xdp: &mut XdpPrograms<'_>) -> Result<(XdpMode, Build)> {
        self.slot.detach_link(slot::XDP_LINK)?;
        let (link, mode, build) = self.attach_xdp(xdp)?;
        pin_link(link, self.slot, slot::XDP_LINK)?;
        self.notes.push("XDP was no longer attached: frames have gone uncounted".to_owned());
        Ok((mode, build))
    }

    /// The kernel fixes the mode of a link, so another mode takes another link.
    fn change_mode(&mut self, xdp: &mut XdpPrograms<'_>, old: XdpMode) -> Result<(XdpMode, Build)> {
        if let ModeWanted::Only(mode) = self.options.mode
            && let Some(reason) = blocked(self.nic, mode)
        {
            return Err(reason);
        }
        self.slot.detach_link(slot::XDP_LINK)?;
        let changed = self.attach_xdp(xdp);
        let (link, mode, build) = match changed {
            Ok(attached) => attached,
            Err(error) => {
                // Back to the mode that worked.
                let (link, _) = self.attach_xdp_as(xdp, old)?;
                pin_link(link, self.slot, slot::XDP_LINK)?;
                return Err(error);
            }
        };
        pin_link(link, self.slot, slot::XDP_LINK)?;
        self.notes.push(format!(
            "frames that came between {} and {} mode were not counted",
            old.name(),
            mode.name()
        ));
        Ok((mode, build))
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
