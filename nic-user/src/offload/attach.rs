//! Attaching, and attaching again.

use std::{
    os::fd::AsFd,
    time::{SystemTime, UNIX_EPOCH},
};

use aya::programs::{
    LinkOrder, SchedClassifier, TcAttachType, Xdp, XdpMode as AyaMode,
    links::{FdLink, PinnedLink},
    tc::TcAttachOptions,
    xdp::XdpLink,
};
use nic_common::{policy::CopyPolicy, record::AttachRecord};

use super::{
    attachment::Attachment,
    clsact, detach, foreign,
    lock::Lock,
    object::{Build, EGRESS, INGRESS, Object, Parameters, XdpPrograms},
    pinned::{self, PolicyWord},
    slot::{self, Slot},
};
use crate::{
    error::{Error, Kind, Result},
    netlink::{
        self,
        link::{Links, XdpMode},
    },
    nic::{
        Nic, namespace,
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
    let slot = Slot::new(namespace::current_cookie()?, nic.ifindex());
    let half_made = slot.is_half_made();
    let current = earlier(nic, slot)?.filter(|attachment| !attachment.is_stale());
    // What a killed attach left is cleared away before the next.
    if current.is_none() && !half_made {
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
    let slot = Slot::new(namespace::current_cookie()?, nic.ifindex());
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
    detach::clear_staged()?;
    let slot = Slot::new(namespace::current_cookie()?, nic.ifindex());
    let mut notes = Vec::new();
    match earlier(nic, slot.clone())? {
        Some(attachment) if !attachment.is_stale() => {
            return upgrade(nic, options, &attachment).map_err(|error| in_attach(nic, error));
        }
        Some(_) => {
            detach::remove(&slot)?;
            notes.push("what was left of an earlier attachment was cleared away".to_owned());
        }
        None => {}
    }
    refuse_foreign(nic)?;
    let staged = slot.stage()?;
    let attached =
        Attaching { nic, options, slot: &staged, switches: Switches::of(options, None), notes }
            .fresh();
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
    Attachment::of(slot).map_err(|error| in_attach(nic, error))
}

fn in_attach(nic: &Nic, error: Error) -> Error {
    error.while_doing(format!("attach to {}", nic.name()))
}

/// Looks again: what was on the interface when `nic` was read may have been our own, and gone by
/// now.
fn refuse_foreign(nic: &Nic) -> Result<()> {
    let link = Links::open()
        .and_then(|mut links| links.by_index(nic.ifindex()))
        .map_err(|error| error.while_doing(format_args!("attach to {}", nic.name())))?;
    let Some(attached) = link.xdp.first() else { return Ok(()) };
    let refusal = match moved_from(attached.prog_id)? {
        Some(earlier) => moved(nic, &earlier),
        None => foreign::refusal(nic, attached),
    };
    Err(in_attach(nic, refusal))
}

/// The attachment whose XDP program this is, under another namespace or index.
fn moved_from(program: u32) -> Result<Option<Attachment>> {
    let mut attachments = Slot::all()?.into_iter().filter_map(|slot| Attachment::of(slot).ok()?);
    Ok(attachments.find(|attachment| attachment.xdp_program() == Some(program)))
}

/// The error for an interface that nicctl attached to before it went to another namespace.
fn moved(nic: &Nic, earlier: &Attachment) -> Error {
    let (name, before) = (nic.name(), earlier.recorded_name());
    let (place, option) = match namespace::name_of_cookie(earlier.slot().netns) {
        Some(netns) => (format!("network namespace {netns}"), format!(" --netns {netns}")),
        None => ("another network namespace".to_owned(), String::new()),
    };
    Error::failed(format!("{name} came here from {place}, where nicctl attached to it as {before}"))
        .with_fix(format!("nicctl detach {before}{option}, and attach again"))
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

struct Attaching<'a> {
    nic: &'a Nic,
    options: &'a Options<'a>,
    slot: &'a Slot,
    switches: Switches,
    notes: Vec<String>,
}

impl Attaching<'_> {
    fn fresh(mut self) -> Result<Attached> {
        let policy = (self.options.policy)(CopyPolicy::DEFAULT);
        let mut object =
            Object::load(&parameters(self.nic, self.switches, policy, false), Some(self.slot))?;
        // First, so that it need not share the processors with the TC programs.
        object.xdp(builds(self.nic)[0])?;
        let (link, mode, build) = object.while_loading_tc(|xdp| self.attach_xdp(xdp))?;
        self.notes.extend(warnings(self.nic, mode));
        let mut record = self.record(mode, build);
        object.write_record(&record)?;
        pin_link(link, self.slot, slot::XDP_LINK)?;
        attach_tc(&mut object, self.nic, self.slot, &mut record, self.options.clsact)?;
        Ok(self.attached(mode, build, policy, false))
    }

    fn attached(self, mode: XdpMode, build: Build, policy: CopyPolicy, upgraded: bool) -> Attached {
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
    fn attach_xdp(&mut self, xdp: &mut XdpPrograms<'_>) -> Result<(FdLink, XdpMode, Build)> {
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
    fn attach_xdp_as(
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

fn parameters(nic: &Nic, switches: Switches, policy: CopyPolicy, steering: bool) -> Parameters {
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
    fn record(&self, mode: XdpMode, build: Build) -> AttachRecord {
        let (nic, now) = (self.nic, now());
        AttachRecord {
            layout: AttachRecord::LAYOUT,
            attached_at: now,
            loaded_at: now,
            netns: self.slot.netns,
            ifindex: nic.ifindex(),
            mode: mode.flag(),
            rx_queues: nic.max_rx_queues().max(1),
            tx_queues: nic.max_tx_queues().max(1),
            options: self.option_bits(build),
            name: padded(nic.name()),
            version: padded(env!("CARGO_PKG_VERSION")),
        }
    }

    fn option_bits(&self, build: Build) -> u64 {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        bit(self.switches.pull, AttachRecord::PULL)
            | bit(self.switches.log, AttachRecord::LOG)
            | bit(build == Build::Frags, AttachRecord::FRAGS)
            | bit(self.options.for_rings, AttachRecord::FOR_RINGS)
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn padded(text: &str) -> [u8; 16] {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    padded
}

/// Puts new programs into the links of `attachment`. Each replacement is atomic: every frame meets
/// the old program or the new one, and both count into the same maps.
fn upgrade(nic: &Nic, options: &Options<'_>, attachment: &Attachment) -> Result<Attached> {
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
    let mut object = Object::load(&parameters(nic, switches, policy, steering), Some(slot))?;
    let mut attaching = Attaching { nic, options, slot, switches, notes: Vec::new() };
    let old = attachment.mode();
    object.xdp(builds(nic)[0])?;
    let (mode, build) = object.while_loading_tc(|xdp| match options.mode {
        _ if attachment.xdp_program().is_none() => attaching.attach_missing_xdp(xdp),
        ModeWanted::Only(mode) if mode != old => attaching.change_mode(xdp, old),
        _ => Ok((old, attaching.replace_xdp(xdp)?)),
    })?;
    let kept = attachment.record().options & (AttachRecord::CLSACT | AttachRecord::OWN_QDISC);
    let mut record = AttachRecord {
        loaded_at: now(),
        mode: mode.flag(),
        options: attaching.option_bits(build) | kept,
        name: padded(nic.name()),
        version: padded(env!("CARGO_PKG_VERSION")),
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
        let mut refusals = Vec::new();
        for &build in builds(self.nic) {
            let pinned = PinnedLink::from_pin(self.slot.pin(slot::XDP_LINK));
            let link = pinned
                .and_then(|link| XdpLink::try_from(FdLink::from(link)))
                .map_err(|error| pinned::aya_error(action, &error))?;
            match xdp.get(build)?.attach_to_link(link) {
                Ok(_) => return Ok(build),
                Err(error) => refusals.push(pinned::aya_error(action, &error)),
            }
        }
        Err(refusals.swap_remove(0))
    }
}

/// Attaches XDP through a link; if the kernel refuses, in its own words.
fn link_xdp(program: &mut Xdp, nic: &Nic, mode: XdpMode) -> Result<FdLink> {
    let aya_mode = match mode {
        XdpMode::Native => AyaMode::Driver,
        XdpMode::Generic => AyaMode::Skb,
        XdpMode::Offload => AyaMode::Hardware,
    };
    let attached =
        program.attach_to_if_index(nic.ifindex(), aya_mode).and_then(|id| program.take_link(id));
    let action = || format!("{} XDP", mode.name());
    match attached {
        Ok(link) => FdLink::try_from(link).map_err(|error| pinned::aya_error(&action(), &error)),
        Err(error) => {
            // A link says only the errno; netlink says why.
            match reason(program, nic, mode) {
                Some(reason) => Err(reason.while_doing(action())),
                None => Err(pinned::aya_error(&action(), &error)),
            }
        }
    }
}

/// What the kernel says to the same wish by netlink.
fn reason(program: &Xdp, nic: &Nic, mode: XdpMode) -> Option<netlink::Error> {
    let fd = program.fd().ok()?;
    let mut links = Links::open().ok()?;
    match links.set_xdp(nic.ifindex(), Some(fd.as_fd()), mode.flag()) {
        Err(error) => Some(error),
        Ok(_) => {
            // It was only to be asked, not to be attached without a link.
            let _ = links.set_xdp(nic.ifindex(), None, mode.flag());
            None
        }
    }
}

fn pin_link(link: FdLink, slot: &Slot, name: &str) -> Result<()> {
    let path = slot.pin(name);
    link.pin(&path)
        .map(|_| ())
        .map_err(|error| pinned::aya_error(&format!("pin {}", path.display()), &error))
}

/// Attaches both TC programs, or puts new ones into their links.
fn attach_tc(
    object: &mut Object,
    nic: &Nic,
    slot: &Slot,
    record: &mut AttachRecord,
    force_clsact: bool,
) -> Result<()> {
    if force_clsact || record.has(AttachRecord::CLSACT) {
        return clsact::attach(object, nic, record);
    }
    let hooks = [
        (INGRESS, TcAttachType::Ingress, slot::INGRESS_LINK),
        (EGRESS, TcAttachType::Egress, slot::EGRESS_LINK),
    ];
    for (name, hook, pin) in hooks {
        match attach_tcx(object.classifier(name)?, nic, hook, slot, pin) {
            Ok(()) => {}
            Err(TcxError::NotSupported) => return clsact::attach(object, nic, record),
            Err(TcxError::Failed(error)) => return Err(error.while_doing(format!("attach {name}"))),
        }
    }
    Ok(())
}

enum TcxError {
    NotSupported,
    Failed(Error),
}

fn attach_tcx(
    program: &mut SchedClassifier,
    nic: &Nic,
    hook: TcAttachType,
    slot: &Slot,
    pin: &str,
) -> Result<(), TcxError> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        TcxError::Failed(pinned::aya_error("TCX", error))
    };
    if let Ok(old) = PinnedLink::from_pin(slot.pin(pin)) {
        let old = FdLink::from(old).try_into().map_err(|error| failed(&error))?;
        program.attach_to_link(old).map_err(|error| failed(&error))?;
        return Ok(());
    }
    // Before all others: a program that returns a verdict ends the chain.
    let order = TcAttachOptions::TcxOrder(LinkOrder::first());
    let id = match program.attach_with_options(nic.name(), hook, order) {
        Ok(id) => id,
        Err(error) if is_einval(&error) => return Err(TcxError::NotSupported),
        Err(error) => return Err(failed(&error)),
    };
    let link = program.take_link(id).map_err(|error| failed(&error))?;
    let link = FdLink::try_from(link).map_err(|error| failed(&error))?;
    pin_link(link, slot, pin).map_err(TcxError::Failed)
}

/// What `BPF_LINK_CREATE` says to an attach type it does not know (before Linux 6.6).
fn is_einval(error: &aya::programs::ProgramError) -> bool {
    matches!(error, aya::programs::ProgramError::SyscallError(error)
        if error.io_error.raw_os_error() == Some(libc::EINVAL))
}
