//! Attaching together with the settings that a profile wants and that XDP needs.

use nic_common::record::AttachRecord;

use super::{
    Lock, Present,
    together::{Manner, Part, Rest, together},
};
use crate::{
    control::{
        self, Context, Desired, Device, Journals, KernelDevice, Plan, Profile, Programs, Report,
        plan::{Xdp, with_needs_of_xdp},
        rules,
    },
    error::Result,
    nic::{Nic, mode::Mode},
    offload::{self, Attached, Attachment, Choice, Effect, ModeWanted, Options, Slot},
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
    let Choice { first, then, why } = offload::choose(planner.device.nic(), options)?;
    let (settings, programs, why) = match (planner.plan(first), then) {
        // What keeps the first mode from this interface may be no matter to the other.
        (Err(error), Some(then)) => {
            let (settings, programs) = planner.plan(then).map_err(|_| error.clone())?;
            (settings, programs, Some(error.to_string()))
        }
        (planned, _) => planned.map(|(settings, programs)| (settings, programs, why))?,
    };
    Ok(Planned { device: planner.device, settings, programs: Attached { why, ..programs } })
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

    fn plan(&mut self, mode: Mode) -> Result<(Plan, Attached)> {
        let settings = self.settings(mode)?;
        let expected = settings.applied_to(self.device.nic());
        Ok((settings, offload::plan(&expected, self.options, mode)?))
    }

    fn settings(&mut self, mode: Mode) -> Result<Plan> {
        let needs = mode.xdp().map(|xdp| rules::needs_of_xdp(self.device.nic(), xdp));
        let needs = needs.unwrap_or_default();
        if self.wishes.is_empty() && needs.is_empty() {
            return Ok(Plan::nothing(self.device.identity()));
        }
        let program = self.program(mode)?;
        plan_settings(&mut self.device, &self.wishes, needs, &program, self.journals)
    }

    /// The program that settings must not get in the way of: the one that is there is replaced only
    /// after them.
    fn program(&self, mode: Mode) -> Result<Present> {
        let present = Present::on(self.device.nic())?;
        Ok(match (present.xdp, mode) {
            (Xdp::None, Mode::Xdp(mode)) => Present::expected(self.device.nic(), mode),
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
    let around = &device.surroundings()?;
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
        let mode = match self.options.mode {
            ModeWanted::Auto => ModeWanted::From(self.programs.hooks.mode()),
            named => named,
        };
        let options = Options { mode, ..*self.options };
        let attached = offload::attach(&self.lock.programs, &self.nic, &options)?;
        let why = attached.why.or_else(|| self.programs.why.take());
        self.programs = Attached { why, ..attached };
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        if self.programs.effect == Effect::Attached {
            offload::detach(&self.lock.programs, &Slot::of(&self.nic.link)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
