//! Attaching together with the settings that a profile wants and that XDP needs.

use std::vec;

use super::Present;
use crate::{
    control::{
        self, Context, Desired, Device, Journals, KernelDevice, Owner, Plan, Profile, Report,
        apply_then,
        plan::{Xdp, with_needs_of_xdp},
        rules,
    },
    error::{Error, Result},
    netlink::link::XdpMode,
    nic::Nic,
    offload::{self, Attached, Lock, ModeWanted, Options, Slot},
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
    journals: &Journals,
) -> (Vec<Done>, Result<()>) {
    let mut all = All { lock, options, journals, planned: planned.into_iter(), done: Vec::new() };
    let result = all.attach();
    let All { planned, mut done, .. } = all;
    // Each is done when all those after it are.
    done.reverse();
    done.extend(planned.map(|Planned { settings, programs, .. }| Done {
        settings: Report::of(&settings),
        programs,
    }));
    (done, result)
}

struct All<'a> {
    lock: &'a Lock,
    options: &'a Options<'a>,
    journals: &'a Journals,
    /// Those that were not reached yet.
    planned: vec::IntoIter<Planned>,
    done: Vec<Done>,
}

impl All<'_> {
    /// Attaches to the first, and as a part of that to all others: so a failure of any undoes all
    /// before it.
    fn attach(&mut self) -> Result<()> {
        let Some(planned) = self.planned.next() else { return Ok(()) };
        let Planned { mut device, settings, mut programs } = planned;
        let nic = device.nic().clone();
        let journals = self.journals;
        let report = apply_then(&mut device, &settings, &Owner::Attach, journals, || {
            let nic = if settings.is_empty() { nic } else { Nic::by_index(nic.ifindex())? };
            let attached = offload::attach(self.lock, &nic, self.options)?;
            self.attach().or_else(|error| self.take_back(&nic, &attached, error))?;
            programs = attached;
            Ok(())
        });
        // Without a journal, nothing was done.
        let report =
            report.unwrap_or_else(|error| Report { failure: Some(error), ..Report::of(&settings) });
        let result = match &report.failure {
            Some(failure) => Err(with_left(failure.clone(), &report)),
            None => Ok(()),
        };
        self.done.push(Done { settings: report, programs });
        result
    }

    fn take_back(&self, nic: &Nic, attached: &Attached, error: Error) -> Result<()> {
        if !attached.upgraded {
            offload::detach(self.lock, &Slot::of(&nic.link)?)?;
        }
        Err(error)
    }
}

/// The failure, with what of the settings could not be taken back.
fn with_left(failure: Error, report: &Report) -> Error {
    let left: Vec<String> =
        report.left.iter().map(|left| format!("{} was {}", left.key, left.was)).collect();
    if left.is_empty() {
        return failure;
    }
    let name = &report.interface;
    Error::new(failure.kind(), format!("{failure}; not given back: {}", left.join(", ")))
        .with_fix(format!("nicctl restore {name}"))
}

#[cfg(test)]
mod tests;
