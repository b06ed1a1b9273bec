//! `nicctl completions`: completion scripts for shells.

use std::io::Write;

use clap_complete::{Shell, generate};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl completions bash > /usr/share/bash-completion/completions/nicctl
  source <(nicctl completions zsh)")]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    // It panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    generate(args.shell, &mut super::command(), "nicctl", &mut script);
    Ok(out.write_all(&script)?)
}
