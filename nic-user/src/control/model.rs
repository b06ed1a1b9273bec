//! Plans and reports as JSON documents.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    apply::{Outcome, Report, StepReport, StepState},
    give_back::Left,
    plan::{Change, Plan, Step},
    rules::Interruption,
    undo::{Foreign, Restored},
};
use crate::{nic::setting::Value, report::json::Version};

/// What `nicctl plan --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlanDocument {
    version: Version<1>,
    /// Name of the interface.
    interface: String,
    /// Its driver, where that is known.
    driver: Option<String>,
    /// What would be written, in this order.
    steps: Vec<StepEntry>,
    /// What to know about it.
    notes: Vec<String>,
}

/// What `nicctl apply --json` and `nicctl set --json` print.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApplyDocument {
    version: Version<1>,
    /// Name of the interface.
    interface: String,
    /// Whether every step was done.
    applied: bool,
    /// Whether anything is not what it was.
    changed: bool,
    /// In how many seconds it is given back, unless `nicctl confirm` comes before.
    confirm_within: Option<u32>,
    /// Every step of the plan, in its order.
    steps: Vec<StepReportEntry>,
    /// After a failure: what could not be taken back.
    left: Vec<LeftEntry>,
    /// What to know about it.
    notes: Vec<String>,
    /// Why not everything was done.
    failure: Option<String>,
}

/// What `nicctl restore --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RestoreDocument {
    version: Version<1>,
    /// Name of the interface.
    interface: String,
    /// Its name when nicctl changed it, if it has another one now.
    former_name: Option<String>,
    /// Whether nothing was written, because of --dry-run.
    dry_run: bool,
    /// Whether nicctl had changed anything.
    was_changed: bool,
    /// Whether nicctl had changed an earlier interface of this name that no longer exists: the
    /// journal of it is removed.
    former_is_gone: bool,
    /// Whether changes waited to be confirmed, and were taken back first, or would be.
    unconfirmed_taken_back: bool,
    /// What was given back, or would be.
    changes: Vec<ChangeEntry>,
    /// What could not be given back.
    left: Vec<LeftEntry>,
    /// What was changed and is no more, with its queue or interrupt.
    gone: Vec<String>,
    /// What something else has changed since, and is left as it is.
    foreign: Vec<ForeignEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StepEntry {
    /// The group of settings.
    group: &'static str,
    /// What it interrupts, as far as that is known.
    interrupts: Option<Interruption>,
    changes: Vec<ChangeEntry>,
}

/// One setting that changes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangeEntry {
    /// `GROUP.NAME`, as `nicctl set` takes it.
    setting: String,
    /// What it was.
    from: Value,
    /// What it is to be.
    to: Value,
    /// How that was said, if not by the value itself: `max`, `50%`.
    asked: Option<String>,
    /// Whether it is written only to keep it, because another change overwrites it.
    kept: bool,
}

/// What became of one step, or is to become of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepReportEntry {
    /// The group of settings.
    group: &'static str,
    /// What became of it.
    state: StepState,
    changes: Vec<OutcomeEntry>,
    /// What the kernel remarked, although it succeeded.
    remark: Option<String>,
    /// Why it failed, or was left out.
    error: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OutcomeEntry {
    #[serde(flatten)]
    change: ChangeEntry,
    /// What the device made of it: `as-asked`, `rounded`, `clamped`, `no-effect`, `different`,
    /// `gone`, `left-out`; null if the step was not done.
    outcome: Option<&'static str>,
    /// What was read afterwards, where that is not what was asked.
    got: Option<Value>,
}

/// One setting that is not as it was.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftEntry {
    /// `GROUP.NAME`.
    setting: String,
    /// What it is; null if that cannot be read.
    is: Option<Value>,
    /// What it was.
    was: Value,
    /// What the kernel says, if it refuses.
    error: Option<String>,
}

/// One setting that something else has changed since nicctl did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForeignEntry {
    /// `GROUP.NAME`.
    setting: String,
    /// What it is.
    is: Value,
    /// What nicctl had made of it.
    made: Value,
    /// What `--force` makes of it.
    was: Value,
}

impl From<&Foreign> for ForeignEntry {
    fn from(Foreign { key, is, made, was }: &Foreign) -> Self {
        let (is, made, was) = (is.clone(), made.clone(), was.clone());
        Self { setting: key.to_string(), is, made, was }
    }
}

impl From<&Plan> for PlanDocument {
    fn from(plan: &Plan) -> Self {
        Self {
            version: Version,
            interface: plan.identity.name.clone(),
            driver: plan.identity.driver.clone(),
            steps: plan.steps.iter().map(StepEntry::from).collect(),
            notes: plan.notes.clone(),
        }
    }
}

impl From<&Step> for StepEntry {
    fn from(step: &Step) -> Self {
        Self {
            group: step.group.name(),
            interrupts: step.interrupts,
            changes: step.changes.iter().map(ChangeEntry::from).collect(),
        }
    }
}

impl From<&Change> for ChangeEntry {
    fn from(change: &Change) -> Self {
        Self {
            setting: change.key.to_string(),
            from: change.from.clone(),
            to: change.to.clone(),
            asked: change.asked.clone(),
            kept: change.kept,
        }
    }
}

impl From<&Left> for LeftEntry {
    fn from(left: &Left) -> Self {
        Self {
            setting: left.key.to_string(),
            is: left.is.clone(),
            was: left.was.clone(),
            error: left.error.clone(),
        }
    }
}

impl ApplyDocument {
    /// What became of an interface, and how many seconds there are to confirm it.
    pub fn new(report: &Report, confirm_within: Option<u32>) -> Self {
        Self {
            version: Version,
            interface: report.interface.clone(),
            applied: report.failure.is_none(),
            changed: report.has_changed(),
            confirm_within,
            steps: report.steps.iter().map(StepReportEntry::from).collect(),
            left: report.left.iter().map(LeftEntry::from).collect(),
            notes: report.notes.clone(),
            failure: report.failure.as_ref().map(ToString::to_string),
        }
    }
}

impl From<&StepReport> for StepReportEntry {
    fn from(report: &StepReport) -> Self {
        let changes = report.step.changes.iter().enumerate();
        Self {
            group: report.step.group.name(),
            state: report.state,
            changes: changes
                .map(|(index, change)| outcome_entry(change, report.outcomes.get(index)))
                .collect(),
            remark: report.remark.clone(),
            error: report.error.clone(),
        }
    }
}

fn outcome_entry(change: &Change, outcome: Option<&Outcome>) -> OutcomeEntry {
    let (name, got) = match outcome {
        None => (None, None),
        Some(Outcome::AsAsked) => (Some("as-asked"), None),
        Some(Outcome::Rounded(got)) => (Some("rounded"), Some(got)),
        Some(Outcome::Clamped(got)) => (Some("clamped"), Some(got)),
        Some(Outcome::NoEffect) => (Some("no-effect"), Some(&change.from)),
        Some(Outcome::Different(got)) => (Some("different"), Some(got)),
        Some(Outcome::Gone) => (Some("gone"), None),
        Some(Outcome::LeftOut(_)) => (Some("left-out"), Some(&change.from)),
    };
    OutcomeEntry { change: change.into(), outcome: name, got: got.cloned() }
}

/// What there is to know of a restore besides what became of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Besides {
    /// Nothing was written, because of --dry-run.
    pub dry_run: bool,
    /// There was an earlier interface of its name, or it no longer exists itself.
    pub former_is_gone: bool,
    /// Changes waited to be confirmed, and were taken back.
    pub unconfirmed_taken_back: bool,
}

impl RestoreDocument {
    /// What became of an interface; without `restored`, it no longer exists, or nothing else was
    /// changed.
    pub fn new(interface: &str, restored: Option<&Restored>, besides: Besides) -> Self {
        let Besides { dry_run, former_is_gone, unconfirmed_taken_back } = besides;
        let given = restored.and_then(|restored| restored.given_back.as_ref());
        let foreign = restored.iter().flat_map(|restored| &restored.foreign);
        Self {
            version: Version,
            interface: interface.to_owned(),
            former_name: restored.and_then(|restored| restored.former_name.clone()),
            dry_run,
            was_changed: given.is_some(),
            former_is_gone,
            unconfirmed_taken_back,
            changes: given.iter().flat_map(|g| &g.changes).map(ChangeEntry::from).collect(),
            left: given.iter().flat_map(|g| &g.left).map(LeftEntry::from).collect(),
            gone: given.iter().flat_map(|g| &g.gone).map(ToString::to_string).collect(),
            foreign: foreign.map(ForeignEntry::from).collect(),
        }
    }
}
