//! `nicctl log`: follow the log of malformed frames.

use super::name;

/// Follow the log of malformed frames, until interrupted
///
/// Needs an interface that was attached with --log. Frames are logged a sample at a time, so that
/// a flood of them cannot flood the log.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl attach eth0 --log && nicctl log eth0
  nicctl log --json")]
pub(super) struct Args {
    /// Interface to follow; all that are attached without
    #[arg(value_name = "IFACE", value_parser = name::utf8())]
    interface: Option<String>,

    /// The network namespace that the interface is in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Print one JSON document a line (`nicctl schema log`)
    #[arg(long)]
    json: bool,
}
