//! `nicctl detach`: undo everything that attach did.

use super::name;

/// Detach from interfaces: undo what attach did, and nothing else
///
/// Removes programs, links, maps and pins that attach made. Counters are gone with them. An
/// interface that nothing is attached to is left alone, which is a success.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl detach eth0
  nicctl detach --all --dry-run")]
pub(super) struct Args {
    /// Interfaces to detach from
    #[arg(value_name = "IFACE", required_unless_present = "all", conflicts_with = "all",
        value_parser = name::utf8())]
    interfaces: Vec<String>,

    /// Detach from every interface that is attached
    #[arg(long)]
    all: bool,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema detach`)
    #[arg(long)]
    json: bool,
}
