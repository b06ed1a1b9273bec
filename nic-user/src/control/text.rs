//! Plans and reports for people: like a diff.

use std::io::{self, Write};

use super::{
    apply::{Outcome, Report, StepReport, StepState},
    give_back::{GivenBack, Left},
    plan::{Change, Plan},
    undo::{Foreign, Restored},
};
use crate::command_line::CommandLine;
use crate::report::style::Style;

/// Writes what would be done.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_plan(plan: &Plan, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let name = &plan.identity.name;
    let driver = plan.identity.driver.as_ref().map(|driver| format!(" ({driver})"));
    let driver = driver.unwrap_or_default();
    if plan.is_empty() {
        writeln!(out, "{name}{driver}: nothing to change")?;
    } else {
        let heading = format!("{name}{driver}: {}", amount(plan));
        writeln!(out, "{}", style.bold(heading))?;
    }
    for step in &plan.steps {
        let interrupts = step.interrupts.map(|what| format!(": {}", what.describe()));
        writeln!(out, "@ {}{}", step.group, interrupts.unwrap_or_default())?;
        for change in &step.changes {
            write_change(change, out)?;
        }
    }
    write_notes(&plan.notes, out)
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn amount(plan: &Plan) -> String {
    let (changes, steps) = (plan.changes().count(), plan.steps.len());
    format!("{} in {}", count(changes, "change"), count(steps, "step"))
}

fn write_change(change: &Change, out: &mut dyn Write) -> io::Result<()> {
    let Change { key, from, to, asked, .. } = change;
    let asked = asked.as_ref().map(|asked| format!(" ({asked})")).unwrap_or_default();
    if change.kept {
        return writeln!(out, "  {key} {to}{asked}");
    }
    writeln!(out, "- {key} {from}")?;
    writeln!(out, "+ {key} {to}{asked}")
}

fn write_notes(notes: &[String], out: &mut dyn Write) -> io::Result<()> {
    notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

/// Writes what was done.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_report(report: &Report, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let name = &report.interface;
    let done = report.steps.iter().filter(|step| step.state == StepState::Done).count();
    let all = report.steps.len();
    match (&report.failure, all) {
        (None, 0) => writeln!(out, "{name}: nothing to change")?,
        (None, _) => {
            writeln!(out, "{}", style.bold(format!("{name}: {done} of {all} steps done")))?
        }
        (Some(_), _) => writeln!(out, "{}", style.bold(format!("{name}: not applied")))?,
    }
    for step in &report.steps {
        write_step(step, out, style)?;
    }
    for left in &report.left {
        write_left(left, out, style)?;
    }
    write_notes(&report.notes, out)
}

fn write_step(report: &StepReport, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let group = report.step.group;
    let error = report.error.as_deref().unwrap_or_default();
    match report.state {
        StepState::Done => writeln!(out, "@ {group}: done")?,
        StepState::Planned => writeln!(out, "@ {group}: not reached")?,
        StepState::Undone => writeln!(out, "@ {group}: done, then undone")?,
        StepState::Skipped => writeln!(out, "@ {group}: skipped")?,
        StepState::Failed => writeln!(out, "@ {group}: {}: {error}", style.red("failed"))?,
        StepState::UndoFailed => {
            writeln!(out, "@ {group}: done, but {}", style.red("not undone"))?;
        }
    }
    for (index, change) in report.step.changes.iter().enumerate() {
        write_change(change, out)?;
        if let Some(what) = report.outcomes.get(index).and_then(describe) {
            writeln!(out, "! {}: {what}", change.key)?;
        }
    }
    if let Some(remark) = &report.remark {
        writeln!(out, "! the kernel says: {remark}")?;
    }
    Ok(())
}

fn describe(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::AsAsked => None,
        Outcome::Rounded(got) => Some(format!("rounded by the driver to {got}")),
        Outcome::Clamped(got) => Some(format!("limited by the driver to {got}")),
        Outcome::NoEffect => Some("accepted, but without effect".to_owned()),
        Outcome::Different(got) => Some(format!("accepted, but became {got}")),
        Outcome::Gone => Some("accepted, but no longer exists".to_owned()),
        Outcome::LeftOut(error) => Some(format!("skipped: {error}")),
    }
}

fn write_left(left: &Left, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let is = left.is.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
    let error = left.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let what = style.red("not restored");
    writeln!(out, "! {} is {is}, was {}: {what}{error}", left.key, left.was)
}

/// Writes what was given back.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_restored(restored: &Restored, out: &mut dyn Write, style: Style) -> io::Result<()> {
    let name = &restored.interface;
    if let Some(former) = &restored.former_name {
        writeln!(out, "{name}: its name was {former} when it was changed")?;
    }
    let Some(GivenBack { changes, left, gone, .. }) = &restored.given_back else {
        return writeln!(out, "{name}: no changes by nicctl");
    };
    match (changes.len(), left.len()) {
        (0, 0) if restored.foreign.is_empty() => {
            writeln!(out, "{name}: everything is as it was")?;
        }
        (back, _) => {
            let given = if restored.dry_run { "would be restored" } else { "given back" };
            let heading = format!("{name}: {} {given}", count(back, "setting"));
            writeln!(out, "{}", style.bold(heading))?;
        }
    }
    for change in changes {
        write_change(change, out)?;
    }
    for left in left {
        write_left(left, out, style)?;
    }
    for key in gone {
        writeln!(out, "note: {key} no longer exists, so it is not restored")?;
    }
    for Foreign { key, is, made, was } in &restored.foreign {
        writeln!(
            out,
            "note: {key} is {is}, not {made} as nicctl made it: left to whoever changed it; {} \
             makes it {was}",
            CommandLine::nicctl("restore").on(name).option("--force").quoted()
        )?;
    }
    Ok(())
}
