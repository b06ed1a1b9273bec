//! Attaching again what is attached already.

use std::hash::{DefaultHasher, Hash, Hasher};

use nic_common::{policy::CopyPolicy, record::AttachRecord};

use super::{
    Attached, Effect, Hooks, Options, Switches, TX_QUEUE_GUESS,
    attaching::{guesses_tx_queue, padded, parameters},
    carry,
    upgrade::for_rings,
};
use crate::{
    error::Result,
    netlink,
    nic::{Nic, mode::Mode, namespace, preflight},
    offload::{
        attachment::Attachment,
        clsact,
        object::{Build, OBJECT},
        pinned, slot,
    },
};

/// What is attached, if attaching with these options in this mode would come to the same: nothing
/// has to be loaded.
pub(super) fn unchanged(
    nic: &Nic,
    options: &Options<'_>,
    attachment: &Attachment,
    mode: Mode,
) -> Result<Option<Attached>> {
    const OF_RINGS: u64 = AttachRecord::FOR_RINGS | AttachRecord::XDP_FOR_RINGS;
    let (record, policy) = (attachment.record(), attachment.policy()?);
    let switches = Switches::of(options, Some(record));
    let is_same = record.layout == AttachRecord::LAYOUT
        && record.loaded_as == loaded_as(nic, switches)
        && is_of(nic, record)?
        && attachment.mode() == mode
        && (options.policy)(policy) == policy
        && record.options & OF_RINGS == for_rings(options, attachment)?
        && (record.has(AttachRecord::CLSACT) || !options.clsact)
        && is_whole(nic, attachment)?;
    let build = if record.has(AttachRecord::FRAGS) { Build::Frags } else { Build::SingleBuffer };
    Ok(is_same.then(|| Attached {
        name: nic.name().to_owned(),
        ifindex: nic.ifindex(),
        hooks: mode.xdp().map_or(Hooks::Tc, |mode| Hooks::Xdp { mode, build }),
        why: None,
        policy,
        switches,
        effect: Effect::Unchanged,
        tx_queue_guess: guesses_tx_queue(nic).then_some(TX_QUEUE_GUESS),
        notes: Vec::new(),
    }))
}

/// Hash of the object and of all that is fixed when it is loaded. Another release of Rust may hash
/// otherwise: then programs are replaced by the same ones once.
pub(super) fn loaded_as(nic: &Nic, switches: Switches) -> u64 {
    // What can be changed later does not count.
    let fixed = parameters(nic, switches, CopyPolicy::DEFAULT, false);
    let mut hasher = DefaultHasher::new();
    (OBJECT, fixed.rx_queues, fixed.tx_queues, fixed.real_tx_queues).hash(&mut hasher);
    (fixed.pull, fixed.log, preflight::needs_frags(nic)).hash(&mut hasher);
    hasher.finish()
}

/// Whether the record calls the interface what it is called now, and knows where it is.
fn is_of(nic: &Nic, record: &AttachRecord) -> Result<bool> {
    Ok(record.ifindex == nic.ifindex()
        && record.netns == namespace::current_cookie()?
        && record.name == padded(&netlink::name::bytes(nic.name())))
}

/// Whether all programs are attached, and all maps are there and what they have to be.
fn is_whole(nic: &Nic, attachment: &Attachment) -> Result<bool> {
    let slot = attachment.slot();
    pinned::check_maps(slot)?;
    let is_missing = |pin: &&str| !slot.pin(pin).exists();
    if slot::MAPS.iter().any(is_missing) || !carry::others(slot)?.is_empty() {
        return Ok(false);
    }
    let has_tc = match attachment.record().has(AttachRecord::CLSACT) {
        true => clsact::is_attached(nic)?,
        false => attachment.tc_programs().iter().all(Option::is_some),
    };
    let has_xdp = attachment.xdp_program().is_some();
    Ok(has_tc && has_xdp == (attachment.mode() != Mode::Tc))
}
