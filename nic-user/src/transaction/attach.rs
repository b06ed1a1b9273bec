//! Attaching together with the settings that a profile wants and that XDP needs.

use nic_common::record::AttachRecord;

use super::{
    Present,
    together::{Manner, Part, Rest, together},
};
use crate::{
    control::{
        self, Context, Desired, Device, Journals, KernelDevice, Plan, Profile, Programs, Report,
        plan::{Xdp, with_needs_of_xdp},
        rules,
    },
    error::Result,
    netlink::link::XdpMode,
    nic::Nic,
    offload::{self, Attached, Attachment, Effect, Lock, ModeWanted, Options, Slot},
};

/// What attaching to one interface would come to.
#[derive(Debug)]
pub struct Planned {
    device: KernelDevice,
    /// Its settings.
    pub settings: Plan,
    /// What would be attached then.
    pub programs: Attached,
}

impl Planned {
    /// Whether programs or settings would not be what they are.
    pub fn is_to_change(&self) -> bool {
        !self.settings.is_empty() || self.programs.effect != Effect::Unchanged
    }
}

/// What attaching to one interface came to.
#[derive(Debug)]
pub struct Done {
    /// What became of its settings.
    pub settings: Report,
    /// What is attached; what would have been, if that failed.
    pub programs: Attached,
}

/// Plans to attach to `nic`, and the settings for it. Where nothing is wanted and XDP needs
/// nothing, settings are not even read.
///
/// # Errors
///
/// What makes attaching impossible, as far as that is known, with the way out; nothing was touched.
pub fn plan(
    nic: Nic,
    profile: Option<&Profile>,
    options: &Options<'_>,
    journals: &Journals,
) -> Result<Planned> {
    let mut planner = Planner::new(nic, profile, options, journals)?;
    let first = offload::first_mode(planner.device.nic(), options.mode)?;
    let (settings, programs) = match planner.plan(first) {
        // What keeps a native program from this interface may be no matter to a generic one.
        Err(native) if options.mode == ModeWanted::Auto && first == XdpMode::Native => {
            let (settings, mut programs) =
                planner.plan(XdpMode::Generic).map_err(|_| native.clone())?;
            programs.notes.insert(0, format!("generic mode: {native}"));
            (settings, programs)
        }
        planned => planned?,
    };
    Ok(Planned { device: planner.device, settings, programs })
}

struct Planner<'a> {
    device: KernelDevice,
    wishes: Desired,
    options: &'a Options<'a>,
    journals: &'a Journals,
}

impl<'a> Planner<'a> {
    fn new(
        nic: Nic,
        profile: Option<&Profile>,
        options: &'a Options<'a>,
        journals: &'a Journals,
    ) -> Result<Self> {
        let device = KernelDevice::new(nic)?;
        let wishes = match profile {
            Some(profile) => {
                profile.check_match(&device.identity(), device.speed())?;
                profile.settings.clone()
            }
            None => Desired::new(),
        };
        Ok(Self { device, wishes, options, journals })
    }

    fn plan(&mut self, mode: XdpMode) -> Result<(Plan, Attached)> {
        let settings = self.settings(mode)?;
        let expected = settings.applied_to(self.device.nic());
        let options = Options { mode: ModeWanted::Only(mode), ..*self.options };
        Ok((settings, offload::plan(&expected, &options)?))
    }

    fn settings(&mut self, mode: XdpMode) -> Result<Plan> {
        let needs = rules::needs_of_xdp(self.device.nic(), mode);
        if self.wishes.is_empty() && needs.is_empty() {
            return Ok(Plan::nothing(self.device.identity()));
        }
        let program = self.program(mode)?;
        plan_settings(&mut self.device, &self.wishes, needs, &program, self.journals)
    }

    /// The program that settings must not get in the way of: the one that is there is replaced only
    /// after them.
    fn program(&self, mode: XdpMode) -> Result<Present> {
        let present = Present::on(self.device.nic())?;
        Ok(match present.xdp {
            Xdp::None => Present::expected(self.device.nic(), mode),
            _ => present,
        })
    }
}

/// Plans what is wished of the settings together with what the program needs of them.
fn plan_settings(
    device: &mut dyn Device,
    wishes: &Desired,
    needs: Desired,
    program: &Present,
    journals: &Journals,
) -> Result<Plan> {
    let desired = with_needs_of_xdp(wishes.clone(), needs)?;
    let identity = device.identity();
    let obtained = journals.find(&identity)?.map(|journal| journal.obtained).unwrap_or_default();
    let (xdp, limits) = (program.xdp, &program.limits[..]);
    let around = &device.surroundings();
    let context = Context { identity: &identity, xdp, limits, around, obtained: &obtained };
    control::plan(&desired, &device.read()?, &context)
}

/// Attaches to all, with their settings, or to none: when one fails, those attached for the first
/// time are detached, and every setting is made what it was. What became of each is returned, also
/// of those that were not reached.
pub fn attach(
    lock: &Lock,
    planned: Vec<Planned>,
    options: &Options<'_>,
    manner: Manner<'_>,
) -> (Vec<Done>, Result<()>) {
    let part = |Planned { device, settings, programs }| {
        let is_as_read = settings.is_empty();
        let rest = Attaching { lock, nic: device.nic().clone(), is_as_read, options, programs };
        Part { device, plan: settings, rest }
    };
    let (done, result) = together(planned.into_iter().map(part).collect(), manner);
    let done =
        done.into_iter().map(|(Attaching { programs, .. }, settings)| Done { settings, programs });
    (done.collect(), result)
}

/// The programs of one interface.
struct Attaching<'a> {
    lock: &'a Lock,
    nic: Nic,
    /// Whether no setting of it was changed since.
    is_as_read: bool,
    options: &'a Options<'a>,
    /// What is attached, or is to be.
    programs: Attached,
}

impl Rest for Attaching<'_> {
    fn before(&self) -> Result<Programs> {
        match self.programs.effect {
            Effect::Attached => Ok(Programs::None),
            Effect::Unchanged => Ok(Programs::Same),
            Effect::Upgraded => {
                let attachment = Attachment::of(Slot::of(&self.nic.link)?)?;
                attachment.map_or(Ok(Programs::None), |attachment| {
                    let record = attachment.record();
                    Ok(Programs::Attached {
                        mode: record.mode,
                        policy: attachment.policy()?.to_word(),
                        pull: record.has(AttachRecord::PULL),
                        log: record.has(AttachRecord::LOG),
                    })
                })
            }
        }
    }

    fn run(&mut self) -> Result<()> {
        if !self.is_as_read {
            self.nic = Nic::by_index(self.nic.ifindex())?;
        }
        self.programs = offload::attach(self.lock, &self.nic, self.options)?;
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        if self.programs.effect == Effect::Attached {
            offload::detach(self.lock, &Slot::of(&self.nic.link)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
