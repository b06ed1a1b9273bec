//! What the commands that change settings have in common: from arguments to a plan to its text.

use std::io::{self, Write};

use clap::Args;

use super::{name, target};
use crate::{
    control::{
        self, Context, Desired, Device, Journals, KernelDevice, Owner, Plan, Profile, Report,
        model::{ApplyDocument, PlanDocument},
        text,
    },
    error::{Kind, Result},
    nic::{InterfaceName, Nic},
    report::{json, style::Style},
    transaction::{self, Present, Subject, Wanted, subject},
};

/// The interface whose settings are meant: itself, not what is below it.
#[derive(Debug, Args)]
pub(super) struct InterfaceArgs {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = name::interface())]
    interface: String,

    /// The network namespace that the interface is in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,
}

impl InterfaceArgs {
    pub(super) fn name(&self) -> &str {
        &self.interface
    }

    pub(super) fn open(&self) -> Result<KernelDevice> {
        let name = InterfaceName::new(&self.interface)?;
        target::enter(self.netns.as_deref())?;
        KernelDevice::new(Nic::by_name(&name)?)
    }
}

/// Loads a profile, and checks that it is for this device.
pub(super) fn profile(name_or_path: &str, device: &KernelDevice) -> Result<Desired> {
    let profile = Profile::load(name_or_path)?;
    profile.check_match(&device.identity(), device.speed())?;
    Ok(profile.settings)
}

/// Plans what is wanted of the device as it is now.
pub(super) fn plan(
    device: &mut KernelDevice,
    desired: &Desired,
    journals: &Journals,
) -> Result<Plan> {
    let identity = device.identity();
    let journal = match journals.find(&identity) {
        // Who may not read it may not change anything, either.
        Err(error) if error.kind() == Kind::NotPermitted => None,
        journal => journal?,
    };
    let obtained = journal.map(|journal| journal.obtained).unwrap_or_default();
    let current = device.read()?;
    let Present { xdp, limits } = Present::on(device.nic())?;
    let around = &device.surroundings();
    let context =
        Context { identity: &identity, xdp, limits: &limits, around, obtained: &obtained };
    control::plan(desired, &current, &context)
}

pub(super) fn write_plan(plan: &Plan, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        return json::write_pretty(out, &PlanDocument::from(plan));
    }
    text::write_plan(plan, out, Style::for_stdout())
}

/// Plans what is wanted, and does it, unless only the plan was asked for. Nobody else changes
/// anything meanwhile.
pub(super) fn carry_out(
    device: &mut KernelDevice,
    desired: &Desired,
    owner: &Owner,
    options: &CarryOutArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let journals = Journals::system();
    if options.dry_run {
        let plan = plan(device, desired, &journals)?;
        return Ok(write_plan(&plan, options.json, out)?);
    }
    let _lock = transaction::lock(&journals, target::say_waiting)?;
    let plan = plan(device, desired, &journals)?;
    let mut report = control::apply(device, &plan, owner, &journals)?;
    for former in subject::former_settings(&report.interface, &journals)? {
        forget(&former, &journals, &mut report.notes)?;
    }
    write_report(&report, options.json, out)?;
    report.error().map_or(Ok(()), |error| Err(error.into()))
}

/// The settings of an interface that had the name of this one are gone with it.
fn forget(former: &Subject, journals: &Journals, notes: &mut Vec<String>) -> Result<()> {
    if transaction::settings(former, Wanted::Forget, journals, false)?.is_some() {
        notes.push(format!("the journal of a former {} is removed", former.name));
    }
    Ok(())
}

fn write_report(report: &Report, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        return json::write_pretty(out, &ApplyDocument::from(report));
    }
    text::write_report(report, out, Style::for_stdout())
}

/// How a plan is carried out.
#[derive(Debug, Args)]
pub(super) struct CarryOutArgs {
    /// Say what would be done, as `nicctl plan` does, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Print JSON (`nicctl schema apply`; with --dry-run, `nicctl schema plan`)
    #[arg(long)]
    pub(super) json: bool,
}
