//! What of this machine and of its interfaces stands in nicctl's way, and what to do about it.
//!
//! Facts are read first, all of them; then checks, which are rows of a table, make findings of
//! them. So a check is a function of facts, and is tested without the machine that has them.

mod interface;
mod leftovers;
mod machine;

use schemars::JsonSchema;
use serde::Serialize;

pub use interface::Interface;
pub use leftovers::Leftovers;
pub use machine::Machine;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Nothing is in the way.
    Ok,
    /// Something to know.
    Note,
    /// Something does not work, or costs more than it must.
    Warning,
    /// nicctl cannot attach.
    Problem,
}

impl Status {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How much it matters.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What does not work, or not well, because of it.
    pub blocks: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
}

/// What a check says; the name of the check is added to it.
#[derive(Debug)]
struct Found {
    status: Status,
    what: String,
    blocks: Option<String>,
    fix: Option<String>,
}

impl Found {
    fn new(status: Status, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), blocks: None, fix: None }
    }

    fn ok(what: impl Into<String>) -> Self {
        Self::new(Status::Ok, what)
    }

    fn note(what: impl Into<String>) -> Self {
        Self::new(Status::Note, what)
    }

    fn warning(what: impl Into<String>) -> Self {
        Self::new(Status::Warning, what)
    }

    fn problem(what: impl Into<String>) -> Self {
        Self::new(Status::Problem, what)
    }

    fn blocks(mut self, what: impl Into<String>) -> Self {
        self.blocks = Some(what.into());
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Adds the way out, if it `is_one`.
    fn fix_if(self, is_one: bool, fix: impl Into<String>) -> Self {
        if is_one { self.fix(fix) } else { self }
    }
}

/// One row of a table of checks.
struct Check<F> {
    /// What it looks at.
    name: &'static str,
    /// What it finds in the facts; nothing where it does not apply.
    look: fn(&F) -> Vec<Found>,
}

fn examine<F>(checks: &[Check<F>], facts: &F) -> Vec<Finding> {
    let rows = checks.iter().flat_map(|check| {
        (check.look)(facts).into_iter().map(|found| Finding {
            check: check.name,
            status: found.status,
            found: found.what,
            blocks: found.blocks,
            fix: found.fix,
        })
    });
    rows.collect()
}

/// The words of an error, with its way out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// What was refused, and why.
    pub what: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl From<crate::error::Error> for Refusal {
    fn from(error: crate::error::Error) -> Self {
        Self { what: error.to_string(), fix: error.fix().map(str::to_owned) }
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self { what: error.to_string(), fix: None }
    }
}

impl From<crate::netlink::Error> for Refusal {
    fn from(error: crate::netlink::Error) -> Self {
        Self { what: error.to_string(), fix: None }
    }
}

impl Refusal {
    /// Of what could not be read, and so may be there or not.
    fn unread(&self) -> Vec<Found> {
        let what = format!("unknown: {}", self.what);
        vec![Found { fix: self.fix.clone(), ..Found::new(Status::Note, what) }]
    }

    fn found(&self, status: Status) -> Found {
        Found { fix: self.fix.clone(), ..Found::new(status, &self.what) }
    }
}
