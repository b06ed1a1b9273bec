//! The command line: one file a command, from arguments to a library call to output.

mod apply;
mod attach;
mod bench;
mod completions;
mod decode;
mod detach;
mod doctor;
mod forward;
mod list;
mod located;
mod log;
mod man;
mod name;
mod plan;
mod policy;
mod restore;
mod schema;
mod set;
mod settings;
mod show;
mod signals;
mod stats;
mod target;

use std::{
    io::{self, BufWriter, Write},
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::{Error, Kind};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, or there was nothing to do
  1  failed
  2  the command line makes no sense
  3  no such interface, or nothing is attached to it
  4  not permitted";

/// eBPF/XDP offload toolkit for Linux network interfaces
#[derive(Debug, Parser)]
#[command(
    name = "nicctl",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  nicctl attach eth0
  nicctl stats eth0 --watch
  nicctl detach eth0"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Attach(attach::Args),
    Stats(stats::Args),
    Show(show::Args),
    Plan(plan::Args),
    Apply(apply::Args),
    Set(set::Args),
    Restore(restore::Args),
    List(list::Args),
    Detach(detach::Args),
    Log(log::Args),
    Doctor(doctor::Args),
    Forward(forward::Args),
    Bench(bench::Args),
    Decode(decode::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Attach(args) => attach::run(&args, out),
            Self::Stats(args) => stats::run(&args, out),
            Self::Show(args) => show::run(&args, out),
            Self::Plan(args) => plan::run(&args, out),
            Self::Apply(args) => apply::run(&args, out),
            Self::Set(args) => set::run(&args, out),
            Self::Restore(args) => restore::run(&args, out),
            Self::List(args) => list::run(&args, out),
            Self::Detach(args) => detach::run(&args, out),
            Self::Log(args) => log::run(&args, out),
            Self::Doctor(args) => doctor::run(&args, out),
            Self::Forward(args) => forward::run(&args, out),
            Self::Bench(args) => bench::run(&args, out),
            Self::Decode(args) => decode::run(args, out),
            Self::Schema(args) => schema::run(&args, out),
            Self::Completions(args) => completions::run(&args, out),
            Self::Man(args) => man::run(&args, out),
        }
    }
}

/// Runs `nicctl` with this process's arguments.
pub fn main() -> ExitCode {
    let cli = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    match cli {
        Ok(cli) => run(cli.command),
        Err(error) => {
            // Help and version go to standard output and are a success.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { Kind::Usage as u8 } else { 0 })
        }
    }
}

/// The whole command line. Every command's help ends with the exit codes.
fn command() -> clap::Command {
    let with_exit_codes = |command: clap::Command| {
        let help = match command.get_after_help() {
            Some(help) => format!("{help}\n\n{EXIT_CODES}"),
            None => EXIT_CODES.to_owned(),
        };
        command.after_help(help)
    };
    with_exit_codes(Cli::command()).mut_subcommands(with_exit_codes)
}

fn run(command: Command) -> ExitCode {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let result = command.run(&mut out);
    // What was good is printed before what went wrong.
    let flushed = out.flush().map_err(anyhow::Error::from);
    match result.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Reports `error` and tells its exit code.
///
/// The library wraps what it meets in [`Error`]; a bare [`io::Error`] is one of standard output.
fn fail(error: &anyhow::Error) -> ExitCode {
    if error.is::<plan::ChangesPending>() {
        return ExitCode::from(plan::CHANGES_PENDING);
    }
    let mut kind = Kind::Failed;
    let mut message = format!("{error:#}");
    if let Some(error) = error.downcast_ref::<io::Error>() {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // Whoever reads the output has had enough of it.
            return ExitCode::SUCCESS;
        }
        message = format!("write to standard output: {error}");
    } else if let Some(error) = error.downcast_ref::<Error>() {
        kind = error.kind();
        if let Some(fix) = error.fix() {
            message = format!("{message}\n  fix: {fix}");
        }
    }
    // There is nowhere left to report that standard error is gone.
    let _ = writeln!(io::stderr(), "nicctl: {message}");
    ExitCode::from(kind as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
