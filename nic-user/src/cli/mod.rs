//! The command line: one file per command, from arguments to a library call to output.

mod apply;
mod attach;
mod bench;
mod chosen;
mod completions;
mod confirm;
mod decode;
mod detach;
mod doctor;
mod exit;
mod forward;
mod guard;
mod list;
mod located;
mod log;
mod man;
mod name;
mod place;
mod plan;
mod policy;
mod restore;
mod saved;
mod schema;
mod set;
mod settings;
mod show;
mod signals;
mod stats;
mod target;

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{
    command_line,
    error::{Error, Kind},
    offload,
    report::terminal::Terminal,
};

/// eBPF/XDP offload toolkit for Linux network interfaces
#[derive(Debug, Parser)]
#[command(
    name = "nicctl",
    version,
    max_term_width = 100,
    after_help = "Examples:
  nicctl attach eth0
  nicctl stats eth0 --watch
  nicctl detach eth0"
)]
struct Cli {
    /// The bpffs that holds nicctl's pins; default: the one at /sys/fs/bpf, or that of process 1 if
    /// there is none, as inside `ip netns exec`
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
    Confirm(confirm::Args),
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
    Guard(guard::Args),
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
            Self::Confirm(args) => confirm::run(&args, out),
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
            Self::Guard(args) => guard::run(&args, out),
        }
    }
}

/// Runs `nicctl` with this process's arguments.
pub fn main() -> ExitCode {
    if completions::answer(command) {
        return ExitCode::SUCCESS;
    }
    let cli = command().try_get_matches().and_then(|matches| {
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        command_line::printed_at(place::of(&matches));
        Ok((name, asks_for_json(&matches), Cli::from_arg_matches(&matches)?))
    });
    let code = match (offload::refuse_those_of_a_file(), cli) {
        (Err(error), _) => exit::code("", &Err(error.into()), Ok(())),
        (Ok(()), Ok((name, as_json, Cli { bpffs, command }))) => {
            if let Some(bpffs) = bpffs {
                offload::choose_bpffs(bpffs);
            }
            run(&name, as_json, command)
        }
        (Ok(()), Err(error)) => answer(&error),
    };
    ExitCode::from(code)
}

/// The whole command line. The help of every command ends with the exit codes.
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

/// Whether the command was asked for JSON.
fn asks_for_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|&json| json);
    here || matches.subcommand().is_some_and(|(_, matches)| asks_for_json(matches))
}

fn run(name: &str, as_json: bool, command: Command) -> u8 {
    let mut out = Noting { out: Terminal::new(io::stdout().lock()), is_blank: true };
    let result = command.run(&mut out);
    if let (Err(error), true, true) = (&result, as_json, out.is_blank) {
        // If it cannot be written, flushing tells.
        let _ = exit::write_refusal(name, error, &mut out);
    }
    // What was good is printed before what went wrong.
    let flushed = out.flush();
    exit::code(name, &result, flushed)
}

/// Notes whether anything was written.
struct Noting<W> {
    out: W,
    is_blank: bool,
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_blank = false;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints what clap returns instead of a command: help and version, or what is wrong with the
/// arguments, which may contain anything.
fn answer(answer: &clap::Error) -> u8 {
    if !answer.use_stderr() {
        return exit::code("", &Ok(()), answer.print());
    }
    if env::args_os().any(|argument| argument == "--json") {
        let error = Error::usage(answer.render().to_string()).into();
        let mut out = Terminal::new(io::stdout());
        // The exit code is the same where nobody can be told.
        let _ = exit::write_refusal("", &error, &mut out).and_then(|()| out.flush());
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
