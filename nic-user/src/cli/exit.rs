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
/// Done, and something differs from before or would, where that was asked for.
const CHANGED: u8 = 5;
/// Done, but standard output could not be written.
const UNTOLD: u8 = 6;

/// Every exit code with its meaning.
pub(super) const CODES: [(u8, &str); 8] = [
    (DONE, "done, or there was nothing to do"),
    (Kind::Failed as u8, "failed"),
    (Kind::Usage as u8, "invalid arguments"),
    (Kind::NotFound as u8, "no such interface, or nicctl is not attached to it"),
    (Kind::NotPermitted as u8, "not permitted, or attachments cannot be read"),
    (CHANGED, "with --detailed-exitcode: done, and something changed or would change"),
    (UNTOLD, "done, but writing to standard output failed"),
    (Kind::NotMatched as u8, "the profile does not match the interface"),
];

/// The heading above them in help.
pub(super) const HEADING: &str = "Exit codes:";

/// The exit codes as help lists them.
pub(super) fn help() -> String {
    let lines = CODES.map(|(code, meaning)| format!("\n  {code}  {meaning}"));
    format!("{HEADING}{}", lines.concat())
}

/// Something changed, or would change, and the caller asked to know.
#[derive(Debug)]
pub(super) struct Changed;

impl Changed {
    /// The result of a command that changed something, if `is_told`.
    pub(super) fn told(is_told: bool) -> anyhow::Result<()> {
        if is_told { Err(Self.into()) } else { Ok(()) }
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something changed, or would change")
    }
}

impl std::error::Error for Changed {}

/// What a command with --json prints if it has nothing else to print.
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
    /// What went wrong, on which interface.
    message: String,
    /// How to fix it, if known.
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

/// How to fix it, if known.
fn fix(command: &str, error: &anyhow::Error) -> Option<String> {
    let error = error.downcast_ref::<Error>()?;
    let hint = || match error.kind() {
        Kind::NotPermitted => offload::privilege_hint(command),
        _ => None,
    };
    error.fix().map(str::to_owned).or_else(hint)
}

/// The exit code of `command`, which ended in `result` before standard output was `flushed`.
/// Reports what went wrong.
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
