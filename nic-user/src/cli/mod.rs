//! The command line: one file a command, from arguments to a library call to output.

mod apply;
mod attach;
mod bench;
mod completions;
mod decode;
mod detach;
mod doctor;
mod exit;
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
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{error::Kind, offload, report::terminal::Terminal};

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
    /// The bpffs that what is attached is pinned in; by default the one on /sys/fs/bpf, or where
    /// there is none, as inside of `ip netns exec`, the first process's
    #[arg(long, value_name = "DIR", global = true, env = "NICCTL_BPFFS", hide_env_values = true)]
    bpffs: Option<PathBuf>,

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
    let cli = command().try_get_matches().and_then(|matches| {
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        Ok((name, Cli::from_arg_matches(&matches)?))
    });
    let code = match (offload::refuse_those_of_a_file(), cli) {
        (Err(error), _) => exit::code("", &Err(error.into()), Ok(())),
        (Ok(()), Ok((name, Cli { bpffs, command }))) => {
            if let Some(bpffs) = bpffs {
                offload::choose_bpffs(bpffs);
            }
            run(&name, command)
        }
        (Ok(()), Err(error)) => answer(&error),
    };
    ExitCode::from(code)
}

/// The whole command line. Every command's help ends with the exit codes.
fn command() -> clap::Command {
    let with_exit_codes = |command: clap::Command| {
        let codes = exit::help();
        let help = match command.get_after_help() {
            Some(help) => format!("{help}\n\n{codes}"),
            None => codes,
        };
        command.after_help(help)
    };
    with_exit_codes(Cli::command()).mut_subcommands(with_exit_codes)
}

fn run(name: &str, command: Command) -> u8 {
    let mut out = Terminal::new(io::stdout().lock());
    let result = command.run(&mut out);
    // What was good is printed before what went wrong.
    let flushed = out.flush();
    exit::code(name, &result, flushed)
}

/// Prints what clap has to say instead of a command: help and version, which were asked for, or
/// what is wrong with the command line, where that may have anything in it.
fn answer(answer: &clap::Error) -> u8 {
    if !answer.use_stderr() {
        return exit::code("", &Ok(()), answer.print());
    }
    let mut lines = Terminal::new(io::stderr());
    // There is nowhere left to report that standard error is gone.
    let _ = write!(lines, "{}", answer.render()).and_then(|()| lines.flush());
    Kind::Usage as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
