//! `nicctl list`: what is attached where.

use super::name;

/// List what is attached where: mode, since when, programs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl list
  nicctl list --json | jq -r '.interfaces[].name'")]
pub(super) struct Args {
    /// The network namespace to look in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Print JSON (`nicctl schema list`)
    #[arg(long)]
    json: bool,
}
