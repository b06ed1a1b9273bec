//! Exit codes: how a command ended, for scripts.

use std::io;

use super::plan;
use crate::{
    error::{Error, Kind},
    offload,
    report::terminal::say,
};

/// Done, or there was nothing to do.
pub(super) const DONE: u8 = 0;
/// Done, but nobody could be told on standard output.
const UNTOLD: u8 = 6;

/// Every exit code, and what it means.
pub(super) const CODES: [(u8, &str); 7] = [
    (DONE, "done, or there was nothing to do"),
    (Kind::Failed as u8, "failed"),
    (Kind::Usage as u8, "the command line, or a value in it, is not possible"),
    (Kind::NotFound as u8, "no such interface, or nothing is attached to it"),
    (Kind::NotPermitted as u8, "not permitted, or what is attached cannot be seen"),
    (plan::CHANGES_PENDING, "`plan --detailed-exitcode`: there is something to change"),
    (UNTOLD, "done, but standard output could not be written"),
];

/// What help says about them.
pub(super) fn help() -> String {
    let lines = CODES.map(|(code, meaning)| format!("\n  {code}  {meaning}"));
    format!("Exit codes:{}", lines.concat())
}

/// The exit code of `command` that ended in `result`, after which standard output was `flushed`.
/// What went wrong is said.
pub(super) fn code(command: &str, result: &anyhow::Result<()>, flushed: io::Result<()>) -> u8 {
    let code = result.as_ref().map_or_else(|error| fail(command, error), |()| DONE);
    match flushed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let is_done = code == DONE || code == plan::CHANGES_PENDING;
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
    if error.is::<plan::ChangesPending>() {
        return plan::CHANGES_PENDING;
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
    let error = error.downcast_ref::<Error>();
    let hint = || match error?.kind() {
        Kind::NotPermitted => offload::privilege_hint(command),
        _ => None,
    };
    if let Some(fix) = error.and_then(Error::fix).map(str::to_owned).or_else(hint) {
        message += &format!("\n  fix: {}", fix.replace('\n', " "));
    }
    say(message);
    error.map_or(Kind::Failed, Error::kind) as u8
}
