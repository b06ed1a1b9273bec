//! `nicctl attach`: load the programs and attach them to interfaces.

use clap::ValueEnum;

use super::{name, policy::PolicyArgs};

/// How XDP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// native if the driver can, else generic; says which, and why
    Auto,
    /// in the driver, before there is a socket buffer
    Native,
    /// in the network stack; works everywhere, and is slower
    Generic,
    /// on the card itself
    Offload,
}

/// Attach to interfaces: count and mark every frame, drop none
///
/// Loads the XDP and TC programs, attaches them and pins them in bpffs, so that they outlive this
/// process. Checks first what the driver needs, and says what is missing. Attaching again upgrades
/// the programs in place: counters are kept, and no packet goes uncounted. A program of somebody
/// else is never removed. A bond, VLAN or team is resolved to the interfaces below it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl attach eth0
  nicctl attach eth0 eth1 --mode native --rx-copybreak 128
  nicctl attach veth0 --netns blue --dry-run")]
pub(super) struct Args {
    /// Interfaces to attach to
    #[arg(value_name = "IFACE", required = true, value_parser = name::utf8())]
    interfaces: Vec<String>,

    /// How XDP runs
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Pull packets together that are to be copied but arrive in pieces
    #[arg(long)]
    pull: bool,

    /// Log malformed frames, a sample of them; `nicctl log` shows them
    #[arg(long)]
    log: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema attach`)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    policy: PolicyArgs,
}
