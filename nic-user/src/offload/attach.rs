//! Attaching, and attaching again.

mod attaching;
pub(super) mod carry;
mod hooks;
mod upgrade;

use nic_common::{policy::CopyPolicy, record::AttachRecord};

use self::attaching::Attaching;
use super::{
    attachment::Attachment,
    bpffs, detach, foreign,
    lock::Lock,
    object::Build,
    slot::{self, Slot},
};
use crate::{
    error::{Error, Result},
    netlink::link::{Links, XdpMode},
    nic::{
        Nic,
        preflight::{self, Finding},
    },
};

/// Which XDP mode is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeWanted {
    /// Native where the driver can, else generic; an existing attachment keeps its mode.
    Auto,
    /// This one or none.
    Only(XdpMode),
}

/// How to attach.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The XDP mode.
    pub mode: ModeWanted,
    /// Makes the copy policy from the one in force, or from the default.
    pub policy: &'a dyn Fn(CopyPolicy) -> CopyPolicy,
    /// Whether TC ingress pulls small packets together; `None`: as it is, else not.
    pub pull: Option<bool>,
    /// Whether malformed frames are logged; `None`: as it is, else not.
    pub log: Option<bool>,
    /// Use filters of a clsact qdisc even where the kernel has TCX.
    pub clsact: bool,
    /// It is only for the rings of a user, and goes with the last of them.
    pub for_rings: bool,
}

/// What can be switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// TC ingress pulls small packets together.
    pub pull: bool,
    /// Malformed frames are logged.
    pub log: bool,
}

impl Switches {
    /// What is wished for; the rest stays as it is.
    fn of(options: &Options<'_>, earlier: Option<&AttachRecord>) -> Self {
        let is = |option| earlier.is_some_and(|record| record.has(option));
        Self {
            pull: options.pull.unwrap_or(is(AttachRecord::PULL)),
            log: options.log.unwrap_or(is(AttachRecord::LOG)),
        }
    }
}

/// What attaching came to.
#[derive(Debug)]
pub struct Attached {
    /// Interface name.
    pub name: String,
    /// Interface index.
    pub ifindex: u32,
    /// The XDP mode obtained.
    pub mode: XdpMode,
    /// The build of the XDP program.
    pub build: Build,
    /// The copy policy in force.
    pub policy: CopyPolicy,
    /// What is switched on.
    pub switches: Switches,
    /// Whether programs were replaced, not attached for the first time.
    pub upgraded: bool,
    /// What the user should know: why not native, why frags, what was cleared away.
    pub notes: Vec<String>,
}

/// What attaching would come to, as far as it can be told without trying.
pub fn plan(nic: &Nic, options: &Options<'_>) -> Result<Attached> {
    let slot = Slot::of(&nic.link)?;
    let half_made = slot.is_half_made()?;
    let current = earlier(nic, slot)?.filter(|attachment| !attachment.is_stale());
    // What a killed attach left is cleared away before the next.
    if current.is_none() && !half_made {
        refuse_without_ethernet(nic)?;
        refuse_foreign(nic)?;
    }
    let (mode, notes) = planned_mode(nic, options.mode, current.as_ref())?;
    let policy = match &current {
        Some(attachment) => attachment.policy()?,
        None => CopyPolicy::DEFAULT,
    };
    Ok(Attached {
        name: nic.name().to_owned(),
        ifindex: nic.ifindex(),
        mode,
        build: builds(nic)[0],
        policy: (options.policy)(policy),
        switches: Switches::of(options, current.as_ref().map(Attachment::record)),
        upgraded: current.is_some(),
        notes,
    })
}

/// The mode that is tried first.
pub fn first_mode(nic: &Nic, wanted: ModeWanted) -> Result<XdpMode> {
    if let ModeWanted::Only(mode) = wanted {
        return Ok(mode);
    }
    let slot = Slot::of(&nic.link)?;
    let current = earlier(nic, slot)?.filter(|attachment| !attachment.is_stale());
    Ok(current.map_or(XdpMode::Native, |attachment| attachment.mode()))
}

/// The mode to expect, and what to say about it.
fn planned_mode(
    nic: &Nic,
    wanted: ModeWanted,
    current: Option<&Attachment>,
) -> Result<(XdpMode, Vec<String>)> {
    let mode = match (wanted, current) {
        (ModeWanted::Only(mode), _) => mode,
        (ModeWanted::Auto, Some(attachment)) => attachment.mode(),
        (ModeWanted::Auto, None) => XdpMode::Native,
    };
    match (blocked(nic, mode), wanted) {
        (None, _) => Ok((mode, warnings(nic, mode).collect())),
        (Some(reason), ModeWanted::Auto) => {
            Ok((XdpMode::Generic, vec![format!("generic mode: {reason}")]))
        }
        (Some(reason), ModeWanted::Only(_)) => Err(in_attach(nic, reason)),
    }
}

/// Attaches to `nic`, or replaces the programs that an earlier attach left there; counters go on.
///
/// # Errors
///
/// Whatever fails, the interface is as it was before, except that an upgrade that fails half-way
/// may have replaced some of the programs.
pub fn attach(_lock: &Lock, nic: &Nic, options: &Options<'_>) -> Result<Attached> {
    let slot = Slot::of(&nic.link)?;
    let left = detach::clear_staged(&slot).map_err(|error| in_attach(nic, error))?;
    let mut notes: Vec<String> = left.iter().map(Error::in_one_line).collect();
    match earlier(nic, slot.clone())? {
        Some(attachment) if !attachment.is_stale() => {
            return upgrade::upgrade(nic, options, &attachment)
                .map_err(|error| in_attach(nic, error));
        }
        Some(_) => {
            detach::remove(&slot)?;
            notes.push("what was left of an earlier attachment was cleared away".to_owned());
        }
        None => {}
    }
    refuse_without_ethernet(nic)?;
    refuse_foreign(nic)?;
    let slot = Slot::of(&nic.link)?;
    let staged = slot.stage()?;
    let switches = Switches::of(options, None);
    let attached = Attaching { nic, options, slot: &staged, switches, notes }.fresh();
    match attached.and_then(|attached| slot.commit(&staged).map(|()| attached)) {
        Ok(attached) => Ok(attached),
        Err(error) => {
            // The reason to fail is worth more than a failure to clear up, which the next
            // command repeats.
            let _ = detach::clear(&staged);
            slot::remove_directory_if_empty();
            Err(in_attach(nic, error))
        }
    }
}

/// What an earlier attach left on `nic`.
fn earlier(nic: &Nic, slot: Slot) -> Result<Option<Attachment>> {
    // Attaching mounts it.
    if bpffs::existing_root()?.is_none() {
        return Ok(None);
    }
    Attachment::of(slot).map_err(|error| in_attach(nic, error))
}

fn in_attach(nic: &Nic, error: Error) -> Error {
    error.while_doing(format!("attach to {}", nic.name()))
}

/// The programs read frames from the Ethernet header on. What tunnels, WireGuard and PPP carry has
/// none: nothing that they count would be true.
fn refuse_without_ethernet(nic: &Nic) -> Result<()> {
    match nic.link.link_type {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(()),
        other => {
            let what = format!("its packets have no Ethernet header (link type {other})");
            let fix = "attach to the Ethernet interface by which its packets leave";
            Err(in_attach(nic, Error::failed(what).with_fix(fix)))
        }
    }
}

/// Looks again: what was on the interface when `nic` was read may have been our own, and gone by
/// now.
fn refuse_foreign(nic: &Nic) -> Result<()> {
    let link = Links::open()
        .and_then(|mut links| links.by_index(nic.ifindex()))
        .map_err(|error| error.while_doing(format_args!("attach to {}", nic.name())))?;
    match link.xdp.first() {
        Some(attached) => Err(in_attach(nic, foreign::refusal(nic, attached))),
        None => Ok(()),
    }
}

/// The way out of what will make the kernel refuse this mode, if that is known beforehand.
fn blocked(nic: &Nic, mode: XdpMode) -> Option<Error> {
    let blocking = preflight::xdp_findings(nic, mode).into_iter().find(|finding| finding.blocks)?;
    Some(Error::failed(blocking.what).with_fix(blocking.fix))
}

/// What to know of XDP in this mode although it works.
fn warnings(nic: &Nic, mode: XdpMode) -> impl Iterator<Item = String> {
    let findings = preflight::xdp_findings(nic, mode).into_iter();
    findings
        .filter(|finding| !finding.blocks)
        .map(|Finding { what, fix, .. }| format!("{what}; {fix}"))
}

/// The builds to try, in this order.
fn builds(nic: &Nic) -> &'static [Build] {
    if preflight::needs_frags(nic) { &[Build::Frags] } else { &[Build::SingleBuffer, Build::Frags] }
}
