//! Carrying a plan out: journal, then step by step, each looked at after it was made; all of it
//! or nothing.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    device::Device,
    give_back::{GivenBack, Left, give_back},
    journal::{Durability, Journal, Journals, Obtained, Phase},
    kept::{Kept, Owner},
    plan::{self, Change, Plan, Step},
};
use crate::{
    error::{Error, Result},
    netlink,
    nic::setting::{Key, Settings, Value},
};

/// What the device made of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it was asked.
    AsAsked,
    /// The driver rounded it to what it can do.
    Rounded(Value),
    /// The driver cut it down without a word.
    Clamped(Value),
    /// It was accepted, and nothing changed.
    NoEffect,
    /// It was accepted, and is something else altogether.
    Different(Value),
    /// It was accepted, and the setting is no longer there.
    Gone,
    /// The driver does not have it, and it was only wanted where it can be had: what the kernel
    /// says.
    LeftOut(String),
}

/// What became of one step, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It has not begun.
    Planned,
    /// It was written and read back.
    Done,
    /// The driver does not have it, and it was only wanted where it can be had.
    Skipped,
    /// The kernel refused it.
    Failed,
    /// It was done, and taken back.
    Undone,
    /// It was done, and could not be taken back.
    UndoFailed,
}

/// What became of one step.
#[derive(Debug)]
pub struct StepReport {
    /// The step.
    pub step: Step,
    /// What became of it.
    pub state: StepState,
    /// For each change of a step that was done, what the device made of it.
    pub outcomes: Vec<Outcome>,
    /// What the kernel remarked, although it succeeded.
    pub remark: Option<String>,
    /// Why it failed, or was left out.
    pub error: Option<String>,
}

/// What became of a plan.
#[derive(Debug)]
pub struct Report {
    /// The interface.
    pub interface: String,
    /// Every step of the plan.
    pub steps: Vec<StepReport>,
    /// What to know: the notes of the plan, and what was found on the way.
    pub notes: Vec<String>,
    /// After a failure: what could not be taken back.
    pub left: Vec<Left>,
    /// Why not everything was done.
    pub failure: Option<Error>,
}

impl Report {
    /// What is to become of a plan, before anything was done.
    pub fn of(plan: &Plan) -> Self {
        Self {
            interface: plan.identity.name.clone(),
            steps: plan.steps.iter().cloned().map(StepReport::planned).collect(),
            notes: plan.notes.clone(),
            left: Vec::new(),
            failure: None,
        }
    }

    /// Whether anything is not what it was before.
    pub fn has_changed(&self) -> bool {
        self.steps.iter().any(StepReport::has_changed) || !self.left.is_empty()
    }

    /// The error that this amounts to: a failure, or something that was wanted for sure, was
    /// accepted, and has no effect.
    pub fn error(&mut self) -> Option<Error> {
        if let Some(failure) = self.failure.take() {
            return Some(failure);
        }
        let ignored: Vec<String> = self
            .steps
            .iter()
            .flat_map(|report| report.step.changes.iter().zip(&report.outcomes))
            .filter(|(change, outcome)| **outcome == Outcome::NoEffect && !change.best_effort)
            .map(|(change, _)| change.key.to_string())
            .collect();
        (!ignored.is_empty()).then(|| {
            let what =
                format!("{} accepted, but without effect: {}", self.interface, ignored.join(", "));
            Error::failed(what).with_fix("the driver ignores it: omit it")
        })
    }
}

/// Carries out `plan` in the name of `owner`. A step that fails ends it, and everything is made
/// what it was before.
///
/// The journal is on disk before the first step. Where one from an earlier apply is there, its
/// originals stay the ones that are given back.
///
/// # Errors
///
/// The journal cannot be written or read: nothing was changed. All other failures are in the
/// report.
pub fn apply(
    device: &mut dyn Device,
    plan: &Plan,
    owner: &Owner,
    journals: &Journals,
) -> Result<Report> {
    apply_then(device, plan, owner, journals, || Ok(()))
}

/// Carries out `plan`, and then does `then`, which needs it: if that fails, the plan is undone as
/// if one of its steps had failed.
///
/// # Errors
///
/// As [`apply`].
pub fn apply_then(
    device: &mut dyn Device,
    plan: &Plan,
    owner: &Owner,
    journals: &Journals,
    then: impl FnOnce() -> Result<()>,
) -> Result<Report> {
    let mut report = Report::of(plan);
    if plan.is_empty() {
        report.failure = then().err();
        return Ok(report);
    }
    let earlier = journals.find(&plan.identity)?;
    let journal = Journal::begin(plan, owner, earlier.as_ref());
    journals.save(&journal, Durability::Synced)?;
    let mut run = Run { device, journals, journal, report };
    let done = run.steps().and_then(|()| {
        run.settle(plan, earlier.as_ref());
        then()
    });
    match done {
        Ok(()) => run.journal.phase = Phase::Applied,
        Err(failure) => run.undo(plan, failure),
    }
    run.finish(earlier)
}

impl StepReport {
    fn has_changed(&self) -> bool {
        let is_effect =
            |outcome: &Outcome| !matches!(outcome, Outcome::NoEffect | Outcome::LeftOut(_));
        match self.state {
            StepState::Done => self.outcomes.iter().any(is_effect),
            StepState::UndoFailed => true,
            _ => false,
        }
    }

    const fn planned(step: Step) -> Self {
        Self { step, state: StepState::Planned, outcomes: Vec::new(), remark: None, error: None }
    }
}

struct Run<'a> {
    device: &'a mut dyn Device,
    journals: &'a Journals,
    journal: Journal,
    report: Report,
}

impl Run<'_> {
    fn steps(&mut self) -> Result<()> {
        (0..self.report.steps.len()).try_for_each(|index| self.step(index))
    }

    /// Notes what became of everything that was touched. What is not known counts as nicctl's.
    fn settle(&mut self, plan: &Plan, earlier: Option<&Journal>) {
        let Ok(current) = self.device.read() else { return };
        for (key, before) in &plan.touched {
            let Some(now) = current.get(key) else { continue };
            let is_untouched = plan.changes().all(|change| change.key != *key)
                && plan::same(key, before, &now.state());
            match earlier.and_then(|earlier| earlier.settings.get(key)) {
                Some(kept) if is_untouched => {
                    self.journal.settings.insert(key.clone(), kept.clone());
                }
                None if is_untouched => {
                    self.journal.settings.remove(key);
                }
                _ => {
                    let settle = |kept: &mut Kept| kept.settle(now.state());
                    self.journal.settings.entry(key.clone()).and_modify(settle);
                }
            }
        }
    }

    fn step(&mut self, index: usize) -> Result<()> {
        let Some(report) = self.report.steps.get_mut(index) else { return Ok(()) };
        let written = write(self.device, &report.step).and_then(|written| {
            report.remark = written.remark;
            let current = self.device.read_group(report.step.group);
            Ok((written.left_out, current.map_err(Failure::ReadBack)?))
        });
        let (left_out, current) = written.map_err(|failure| {
            report.state = StepState::Failed;
            report.error = Some(failure.to_string());
            failure.into_error(&report.step, &self.report.interface)
        })?;
        report.outcomes = report
            .step
            .changes
            .iter()
            .map(|change| match left_out.get(&change.key) {
                Some(error) => Outcome::LeftOut(error.to_string()),
                None => outcome(change, &current),
            })
            .collect();
        report.state = match left_out.len() == report.step.changes.len() {
            true => StepState::Skipped,
            false => StepState::Done,
        };
        for (change, outcome) in report.step.changes.iter().zip(&report.outcomes) {
            note_obtained(&mut self.journal, change, outcome);
        }
        Ok(())
    }

    /// Makes everything what it was before this plan.
    fn undo(&mut self, plan: &Plan, failure: Error) {
        self.journal.phase = Phase::Undoing;
        // Undoing is worth more than noting that it has begun.
        let noted = self.journals.save(&self.journal, Durability::Lazy);
        self.report.notes.extend(noted.err().map(|error| error.to_string()));
        let given = give_back(self.device, &plan.touched);
        self.report.notes.extend(given.gone.iter().map(|key| format!("{key} no longer exists")));
        for report in &mut self.report.steps {
            if report.state == StepState::Done {
                report.state = state_after_undo(&report.step, &given);
            }
        }
        self.report.failure = Some(match given.vanished {
            Some(vanished) => vanished.while_doing(failure.to_string()),
            None => failure,
        });
        self.report.left = given.left;
    }

    /// Leaves on disk what is needed to give back what was changed, and nothing if that is
    /// nothing.
    fn finish(mut self, earlier: Option<Journal>) -> Result<Report> {
        let failed = self.report.failure.is_some();
        let undone = failed
            && self.report.left.is_empty()
            && self.report.steps.iter().all(|report| report.state != StepState::UndoFailed);
        let changed_nothing =
            !failed && self.report.steps.iter().all(|step| step.state == StepState::Skipped);
        let saved = match earlier {
            Some(earlier) if undone || changed_nothing => {
                self.journals.save(&earlier, Durability::Lazy)
            }
            None if undone || changed_nothing => self.journals.remove(&self.journal),
            _ => self.journals.save(&self.journal, Durability::Lazy),
        };
        if let Err(error) = saved {
            // What was done stays done; the journal from before the first step can still restore.
            self.report.notes.push(error.to_string());
        }
        Ok(self.report)
    }
}

fn state_after_undo(step: &Step, given: &GivenBack) -> StepState {
    let is_left = |key: &Key| given.left.iter().any(|left| left.key == *key);
    let failed = given.vanished.is_some() || step.changes.iter().any(|c| is_left(&c.key));
    if failed { StepState::UndoFailed } else { StepState::Undone }
}

/// Why a step failed.
enum Failure {
    /// The kernel refused it.
    Write(netlink::Error),
    /// What came of it could not be read.
    ReadBack(Error),
}

impl Failure {
    fn into_error(self, step: &Step, interface: &str) -> Error {
        match self {
            Self::Write(error) => {
                let changes = step.changes.iter();
                let set: Vec<String> =
                    changes.map(|change| format!("{} to {}", change.key, change.to)).collect();
                error.while_doing(format!("set {} on {interface}", set.join(", ")))
            }
            Self::ReadBack(error) => {
                error.while_doing(format!("read back {} of {interface}", step.group))
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
            Self::ReadBack(error) => error.fmt(f),
        }
    }
}

/// What came of writing a step.
#[derive(Default)]
struct Written {
    remark: Option<String>,
    /// What the driver does not have, of what was only wanted where it can be had.
    left_out: BTreeMap<Key, netlink::Error>,
}

/// Writes a step with one request; where that is not supported and may be left out, change by
/// change, so that one that the driver does not have does not keep the others.
fn write(device: &mut dyn Device, step: &Step) -> Result<Written, Failure> {
    let error = match write_together(device, &step.changes) {
        Ok(remark) => return Ok(Written { remark, ..Written::default() }),
        Err(error) => error,
    };
    if !may_be_left_out(&step.changes, &error) {
        return Err(Failure::Write(error));
    }
    let mut written = Written::default();
    if let [change] = step.changes.as_slice() {
        written.left_out.insert(change.key.clone(), error);
        return Ok(written);
    }
    for change in &step.changes {
        let alone = std::slice::from_ref(change);
        match write_together(device, alone) {
            Ok(remark) => written.remark = written.remark.or(remark),
            Err(error) if may_be_left_out(alone, &error) => {
                written.left_out.insert(change.key.clone(), error);
            }
            Err(error) => return Err(Failure::Write(error)),
        }
    }
    Ok(written)
}

fn write_together(device: &mut dyn Device, changes: &[Change]) -> netlink::Result<Option<String>> {
    let Some(group) = changes.first().map(|change| change.key.group) else { return Ok(None) };
    let values: Vec<(String, Value)> =
        changes.iter().map(|change| (change.key.name.clone(), change.to.clone())).collect();
    device.write(group, &values)
}

/// Whether a refusal only says that the driver does not have what was wanted where it can be had,
/// or cannot write what is only to stay as it is.
fn may_be_left_out(changes: &[Change], error: &netlink::Error) -> bool {
    error.is_unsupported() && changes.iter().all(|change| change.best_effort || change.kept)
}

fn note_obtained(journal: &mut Journal, change: &Change, outcome: &Outcome) {
    let got = match outcome {
        Outcome::Rounded(got) | Outcome::Clamped(got) | Outcome::Different(got) => got,
        Outcome::NoEffect => &change.from,
        Outcome::AsAsked | Outcome::Gone | Outcome::LeftOut(_) => {
            journal.obtained.remove(&change.key);
            return;
        }
    };
    let obtained = Obtained { asked: change.to.clone(), got: got.clone() };
    journal.obtained.insert(change.key.clone(), obtained);
}

/// What the device made of `change`, by what it reads now.
fn outcome(change: &Change, current: &Settings) -> Outcome {
    let Some(setting) = current.get(&change.key) else { return Outcome::Gone };
    let got = &setting.state();
    if plan::is_now(&change.key, setting, &change.to) {
        return Outcome::AsAsked;
    }
    if plan::same(&change.key, got, &change.from) {
        return Outcome::NoEffect;
    }
    match (&change.to, got) {
        (Value::Number(asked), Value::Number(number)) if is_cut(*asked, *number) => {
            Outcome::Clamped(got.clone())
        }
        (Value::Number(_), Value::Number(_)) => Outcome::Rounded(got.clone()),
        _ => Outcome::Different(got.clone()),
    }
}

/// Rounding is up, or down by a little; what is more than an eighth less was cut to some limit.
const fn is_cut(asked: u64, got: u64) -> bool {
    got < asked && asked - got > asked / 8
}

#[cfg(test)]
mod tests;
