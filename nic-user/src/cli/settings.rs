//! What the commands that change settings share: from arguments to plans to text.

use std::io::{self, Write};

use clap::Args;

use super::{
    chosen::Chosen,
    confirm::{self, ConfirmArgs},
    exit::Changed,
    target,
};
use crate::{
    control::{
        self, Context, Desired, Device, Journals, KernelDevice, Owner, Plan, Profile, Report,
        model::{ApplyDocument, PlanDocument},
        text,
    },
    error::{Error, Kind, Result},
    report::{json, style::Style},
    transaction::{self, Manner, Present, Subject, Wanted, subject},
};

/// What is requested of an interface.
pub(super) type Wish<'a> = dyn Fn(&KernelDevice) -> Result<Desired> + 'a;

/// What a profile requests of an interface, which it must match.
pub(super) fn profile(profile: &Profile, device: &KernelDevice) -> Result<Desired> {
    profile.check_match(&device.identity(), device.speed())?;
    Ok(profile.settings.clone())
}

/// Plans what is requested of interfaces as they are now. Of all interfaces, those that a profile
/// does not match are skipped.
pub(super) fn plans(
    chosen: &Chosen,
    wish: &Wish<'_>,
    journals: &Journals,
) -> Result<Vec<(KernelDevice, Plan)>> {
    let (mut planned, mut passed_over) = (Vec::new(), None);
    for mut device in chosen.devices()? {
        match wish(&device) {
            Ok(desired) => {
                let plan = plan(&mut device, &desired, journals)?;
                planned.push((device, plan));
            }
            Err(error) if error.kind() == Kind::NotMatched && chosen.is_all() => {
                passed_over = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match passed_over {
        Some(error) if planned.is_empty() => Err(error),
        _ => refuse_what_none_has(&planned).map(|()| planned),
    }
}

/// A setting requested of all interfaces may be missing on some of them, but not on all.
fn refuse_what_none_has(planned: &[(KernelDevice, Plan)]) -> Result<()> {
    let left_out = planned.iter().map(|(_, plan)| plan.left_out.clone());
    let by_all = left_out.reduce(|all, of_one| &all & &of_one).unwrap_or_default();
    if by_all.is_empty() {
        return Ok(());
    }
    let names = by_all.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::failed(format!("no interface supports the settings requested of {names}"))
        .with_fix("`plan` with one of the names tells why"))
}

fn plan(device: &mut KernelDevice, desired: &Desired, journals: &Journals) -> Result<Plan> {
    let identity = device.identity();
    let journal = match journals.find(&identity) {
        // Who may not read it may not change anything, either.
        Err(error) if error.kind() == Kind::NotPermitted => None,
        journal => journal?,
    };
    let obtained = journal.map(|journal| journal.obtained).unwrap_or_default();
    let current = device.read()?;
    let Present { xdp, limits } = Present::on(device.nic())?;
    let around = &device.surroundings()?;
    let context =
        Context { identity: &identity, xdp, limits: &limits, around, obtained: &obtained };
    control::plan(desired, &current, &context)
}

/// Whether there is anything to do.
pub(super) fn is_to_change(planned: &[(KernelDevice, Plan)]) -> bool {
    planned.iter().any(|(_, plan)| !plan.is_empty())
}

pub(super) fn write_plans(
    chosen: &Chosen,
    planned: &[(KernelDevice, Plan)],
    as_json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut plans = planned.iter().map(|(_, plan)| plan);
    if as_json {
        let documents = plans.map(PlanDocument::from).collect();
        return json::write_pretty(out, &chosen.document(documents, Vec::new()));
    }
    plans.try_for_each(|plan| text::write_plan(plan, out, Style::for_stdout()))
}

/// Plans what is requested of all interfaces, and does all of it or none; with a dry run, only
/// plans. The lock is held meanwhile.
pub(super) fn carry_out(
    chosen: &Chosen,
    wish: &Wish<'_>,
    owner: &Owner,
    options: &CarryOutArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let journals = &Journals::system();
    if options.dry_run {
        let planned = plans(chosen, wish, journals)?;
        write_plans(chosen, &planned, options.json, out)?;
        return Changed::told(options.detailed_exitcode && is_to_change(&planned));
    }
    let lock = target::lock(journals)?;
    let planned = plans(chosen, wish, journals)?;
    let is_to_change = is_to_change(&planned);
    let _guard = options.confirm.guard(is_to_change)?;
    let manner = Manner { owner, journals, confirm: options.confirm.seconds(is_to_change) };
    let (mut reports, result) = transaction::apply(&lock, planned, manner);
    if reports.iter().all(|report| report.failure.is_none()) {
        // It was refused before anything was begun, or all is done.
        result?;
    }
    for report in &mut reports {
        for former in subject::former_settings(&report.interface, journals)? {
            forget(&former, journals, &mut report.notes)?;
        }
    }
    write_reports(chosen, &reports, options, out)?;
    if let Some(error) = reports.iter_mut().find_map(Report::error) {
        return Err(error.into());
    }
    Changed::told(options.detailed_exitcode && reports.iter().any(Report::has_changed))
}

/// Drops the settings of a former interface that had this name: they went with it.
fn forget(former: &Subject, journals: &Journals, notes: &mut Vec<String>) -> Result<()> {
    if transaction::settings(former, Wanted::Forget, journals, false)?.is_some() {
        notes.push(format!("the journal of a former {} is removed", former.name));
    }
    Ok(())
}

fn write_reports(
    chosen: &Chosen,
    reports: &[Report],
    options: &CarryOutArgs,
    out: &mut dyn Write,
) -> io::Result<()> {
    let within = |report: &Report| options.confirm.seconds(report.has_changed());
    if options.json {
        let documents = reports.iter().map(|report| ApplyDocument::new(report, within(report)));
        return json::write_pretty(out, &chosen.document(documents.collect(), Vec::new()));
    }
    for report in reports {
        text::write_report(report, out, Style::for_stdout())?;
        if let Some(seconds) = within(report) {
            confirm::write_how(&report.interface, chosen.netns.as_deref(), seconds, out)?;
        }
    }
    Ok(())
}

/// How a plan is carried out.
#[derive(Debug, Args)]
pub(super) struct CarryOutArgs {
    /// Show what would be done, as `nicctl plan` does, without doing it
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    confirm: ConfirmArgs,

    /// Exit with 5 if something changed, or would change
    #[arg(long)]
    detailed_exitcode: bool,

    /// Print JSON (`nicctl schema apply`; with --dry-run, `nicctl schema plan`)
    #[arg(long)]
    json: bool,
}
