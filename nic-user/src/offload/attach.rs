//! Attaching, and attaching again.

mod attaching;
pub(super) mod carry;
mod choice;
mod hooks;
mod unchanged;
mod upgrade;

use nic_common::{policy::CopyPolicy, record::AttachRecord};

pub use self::choice::{Choice, choose};
use self::{attaching::Attaching, choice::choose_beside};
use super::{
    attachment::Attachment,
    bpffs, detach,
    lock::Lock,
    object::Build,
    slot::{self, Slot},
};
use crate::{
    error::{Error, Result},
    netlink::link::XdpMode,
    nic::{
        Nic,
        mode::Mode,
        preflight::{self, Finding},
    },
};

/// Which mode is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeWanted {
    /// That of an attachment that is there; else the one that costs the interface least and does
    /// all that is asked for.
    Auto,
    /// The same, knowing that those tried before this one are refused.
    From(Mode),
    /// This one or none.
    Only(Mode),
}

/// How to attach.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Where frames are counted.
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

/// What attaching does to the programs of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// There were none.
    Attached,
    /// They are replaced.
    Upgraded,
    /// They are what they would be, and stay.
    Unchanged,
}

/// Why the transmit queue of a packet is a guess where there are several (`netdev_pick_tx`,
/// net/core/dev.c).
pub(super) const TX_QUEUE_GUESS: &str = "TC egress runs before the queue is picked and predicts \
                                         it from the receive queue or the flow hash; XPS, the \
                                         driver or an earlier choice for the socket may differ; \
                                         totals are exact";

/// The programs of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// At XDP and at TC.
    Xdp {
        /// How XDP runs.
        mode: XdpMode,
        /// The build of the XDP program.
        build: Build,
    },
    /// At TC alone.
    Tc,
}

impl Hooks {
    /// The mode.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Xdp { mode, .. } => Mode::Xdp(mode),
            Self::Tc => Mode::Tc,
        }
    }

    /// The build of the XDP program, if there is one.
    pub const fn build(self) -> Option<Build> {
        match self {
            Self::Xdp { build, .. } => Some(build),
            Self::Tc => None,
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
    /// Which programs there are.
    pub hooks: Hooks,
    /// Why they are there, where nobody said which mode.
    pub why: Option<String>,
    /// The copy policy in force.
    pub policy: CopyPolicy,
    /// What is switched on.
    pub switches: Switches,
    /// What became of the programs that were there.
    pub effect: Effect,
    /// Why the transmit queues of packets are a guess, where they are.
    pub tx_queue_guess: Option<&'static str>,
    /// What the user should know: why frags, what was cleared away.
    pub notes: Vec<String>,
}

/// What attaching in one mode would come to, as far as it can be told without trying.
///
/// # Errors
///
/// What the kernel will refuse, with the way out.
pub fn plan(nic: &Nic, options: &Options<'_>, mode: Mode) -> Result<Attached> {
    let current = attachment_of(nic)?;
    if let Some(current) = &current
        && let Some(unchanged) = unchanged::unchanged(nic, options, current, mode)?
    {
        return Ok(unchanged);
    }
    if current.is_none() {
        refuse_without_ethernet(nic)?;
    }
    let (hooks, notes) = match mode {
        Mode::Tc => (Hooks::Tc, Vec::new()),
        Mode::Xdp(mode) => match blocked(nic, mode) {
            Some(reason) => return Err(in_attach(nic, reason)),
            None => (Hooks::Xdp { mode, build: builds(nic)[0] }, warnings(nic, mode).collect()),
        },
    };
    let policy = match &current {
        Some(attachment) => attachment.policy()?,
        None => CopyPolicy::DEFAULT,
    };
    Ok(Attached {
        name: nic.name().to_owned(),
        ifindex: nic.ifindex(),
        hooks,
        why: None,
        policy: (options.policy)(policy),
        switches: Switches::of(options, current.as_ref().map(Attachment::record)),
        effect: if current.is_some() { Effect::Upgraded } else { Effect::Attached },
        tx_queue_guess: attaching::guesses_tx_queue(nic).then_some(TX_QUEUE_GUESS),
        notes,
    })
}

/// What is attached to `nic`, if that is more than pins.
pub fn attachment_of(nic: &Nic) -> Result<Option<Attachment>> {
    let attachment = earlier(nic, Slot::of(&nic.link)?)?;
    Ok(attachment.filter(|attachment| !attachment.is_stale()))
}

/// Attaches to `nic`, or replaces the programs that an earlier attach left there; counters go on.
/// Where they are what they would be, nothing is loaded.
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
            return again(nic, options, &attachment).map_err(|error| in_attach(nic, error));
        }
        Some(_) => {
            detach::remove(&slot)?;
            notes.push("leftovers of an earlier attachment were removed".to_owned());
        }
        None => {}
    }
    refuse_without_ethernet(nic)?;
    let choice = choose_beside(nic, options, None).map_err(|error| in_attach(nic, error))?;
    let slot = Slot::of(&nic.link)?;
    let staged = slot.stage()?;
    let switches = Switches::of(options, None);
    let why = choice.why.clone();
    let attached = Attaching { nic, options, slot: &staged, switches, why, notes }.fresh(&choice);
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

fn again(nic: &Nic, options: &Options<'_>, attachment: &Attachment) -> Result<Attached> {
    let choice = choose_beside(nic, options, Some(attachment))?;
    match unchanged::unchanged(nic, options, attachment, choice.first)? {
        Some(unchanged) => Ok(Attached { why: choice.why, ..unchanged }),
        None => upgrade::upgrade(nic, options, attachment, &choice),
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
            let fix = "attach to the Ethernet interface its packets leave through";
            Err(in_attach(nic, Error::failed(what).with_fix(fix)))
        }
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
        .map(|Finding { what, fix, .. }| format!("{what}; fix: {fix}"))
}

/// The builds to try, in this order.
fn builds(nic: &Nic) -> &'static [Build] {
    if preflight::needs_frags(nic) { &[Build::Frags] } else { &[Build::SingleBuffer, Build::Frags] }
}
