//! Exit codes: how a command ended, for scripts.

use std::{fmt, io, io::Write};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::{Error, Kind},
    offload,
    report::{
        json::{self, Version},
        terminal::say,
    },
};

/// Done, or there was nothing to do.
pub(super) const DONE: u8 = 0;
/// Done, and something is not what it was before, where that was asked; or is to be done.
const CHANGED: u8 = 5;
/// Done, but nobody could be told on standard output.
const UNTOLD: u8 = 6;

/// Every exit code, and what it means.
pub(super) const CODES: [(u8, &str); 8] = [
    (DONE, "done, or there was nothing to do"),
    (Kind::Failed as u8, "failed"),
    (Kind::Usage as u8, "the command line, or a value in it, is not possible"),
    (Kind::NotFound as u8, "no such interface, or nothing is attached to it"),
    (Kind::NotPermitted as u8, "not permitted, or what is attached cannot be seen"),
    (CHANGED, "with --detailed-exitcode: done, and something was changed, or is to be"),
    (UNTOLD, "done, but standard output could not be written"),
    (Kind::NotMatched as u8, "the profile is not for the interface"),
];

/// What help says in front of them.
pub(super) const HEADING: &str = "Exit codes:";

/// What help says about them.
pub(super) fn help() -> String {
    let lines = CODES.map(|(code, meaning)| format!("\n  {code}  {meaning}"));
    format!("{HEADING}{}", lines.concat())
}

/// Something was changed, or is to be, and that was asked.
#[derive(Debug)]
pub(super) struct Changed;

impl Changed {
    /// So it ends, if it `is_told`.
    pub(super) fn told(is_told: bool) -> anyhow::Result<()> {
        if is_told { Err(Self.into()) } else { Ok(()) }
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something was changed, or is to be")
    }
}

impl std::error::Error for Changed {}

/// What a command that was asked for JSON prints where it has nothing else to print.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    error: Refusal,
}

/// Why nothing was done.
#[derive(Debug, Serialize, JsonSchema)]
struct Refusal {
    /// The exit code.
    code: u8,
    /// What went wrong, and of which interface.
    message: String,
    /// The way out, if that is known.
    fix: Option<String>,
}

/// Writes why `command` ended without a document.
pub(super) fn write_refusal(
    command: &str,
    error: &anyhow::Error,
    out: &mut dyn Write,
) -> io::Result<()> {
    if error.is::<Changed>() || error.is::<io::Error>() {
        return Ok(());
    }
    let code = error.downcast_ref().map_or(Kind::Failed, Error::kind) as u8;
    let refusal = Refusal { code, message: format!("{error:#}"), fix: fix(command, error) };
    json::write_line(out, &Document { version: Version, error: refusal })
}

/// The way out, if that is known.
fn fix(command: &str, error: &anyhow::Error) -> Option<String> {
    let error = error.downcast_ref::<Error>()?;
    let hint = || match error.kind() {
        Kind::NotPermitted => offload::privilege_hint(command),
        _ => None,
    };
    error.fix().map(str::to_owned).or_else(hint)
}

/// The exit code of `command` that ended in `result`, after which standard output was `flushed`.
/// What went wrong is said.
pub(super) fn code(command: &str, result: &anyhow::Result<()>, flushed: io::Result<()>) -> u8 {
    let code = result.as_ref().map_or_else(|error| fail(command, error), |()| DONE);
    match flushed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let is_done = code == DONE || code == CHANGED;
            let done = if is_done { "done, but " } else { "" };
            say(format_args!("{done}standard output could not be written: {error}"));
            if is_done { UNTOLD } else { code }
        }
        // Whoever reads the output has had enough of it.
        _ => code,
    }
}

/// Reports `error` and tells its exit code.
///
/// The library wraps what it meets in [`Error`]; a bare [`io::Error`] is one of standard output.
fn fail(command: &str, error: &anyhow::Error) -> u8 {
    if error.is::<Changed>() {
        return CHANGED;
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return DONE;
        }
        say(format_args!("write to standard output: {error}"));
        return Kind::Failed as u8;
    }
    // A line that begins further left than those below it is nicctl's own.
    let message = format!("{error:#}");
    let mut message = message.lines().map(str::trim_start).collect::<Vec<_>>().join("\n    ");
    if let Some(fix) = fix(command, error) {
        message += &format!("\n  fix: {}", fix.replace('\n', " "));
    }
    say(message);
    error.downcast_ref().map_or(Kind::Failed, Error::kind) as u8
}
