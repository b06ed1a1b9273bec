//! `nicctl attach`: load the programs and attach them to interfaces.

use std::io::{self, Write};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    name,
    policy::{PolicyArgs, Switch},
    target,
};
use crate::{
    error::Result,
    netlink::link::XdpMode,
    nic::{Nic, namespace},
    offload::{self, Attached, Lock, ModeWanted, Options, Slot, Switches},
    report::json::{self, Version},
};

/// How XDP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// as it is attached already; else native if the driver can, else generic; says which, and why
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
/// the programs in place: counters are kept, no packet goes uncounted, and what is not named stays
/// as it is. A program of somebody else is never removed. A bond, VLAN or team is resolved to the interfaces below it.
///
/// It takes root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON and write access to bpffs.
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

    /// Where the XDP program runs
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Pull packets together, at TC ingress, that are to be copied but arrive in pieces
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true,
        default_missing_value = "on", hide_possible_values = true)]
    pull: Option<Switch>,

    /// Log malformed frames, at most ten a second for each queue and CPU; `nicctl log` shows them
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true,
        default_missing_value = "on", hide_possible_values = true)]
    log: Option<Switch>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema attach`)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    policy: PolicyArgs,
}

/// What `nicctl attach --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// Whether nothing was changed, because of --dry-run.
    dry_run: bool,
    /// How names were resolved to the interfaces below them.
    resolved: Vec<String>,
    /// One entry an interface.
    interfaces: Vec<Entry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Name of the interface.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// XDP mode: `native`, `generic` or `offload`.
    mode: &'static str,
    /// Build of the XDP program: `single-buffer` or `frags`.
    build: &'static str,
    /// Frames of up to so many bytes are copied whole.
    rx_copybreak: u16,
    /// Headers of up to so many bytes are split off.
    max_linear: u16,
    /// Whether headers are split off at all.
    split: bool,
    /// Whether TC ingress pulls small packets together.
    pull: bool,
    /// Whether malformed frames are logged.
    log: bool,
    /// Whether programs that were attached already were replaced.
    upgraded: bool,
    /// Why it is not native, why it is the frags build, what else there is to know.
    notes: Vec<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let (nics, resolved) = target::interfaces(&args.interfaces)?;
    let names: Vec<&str> = nics.iter().map(Nic::name).collect();
    offload::check_privileges(format_args!("attach to {}", names.join(", ")))?;
    let policy = |base| args.policy.over(base);
    let options = Options {
        mode: match args.mode {
            Mode::Auto => ModeWanted::Auto,
            Mode::Native => ModeWanted::Only(XdpMode::Native),
            Mode::Generic => ModeWanted::Only(XdpMode::Generic),
            Mode::Offload => ModeWanted::Only(XdpMode::Offload),
        },
        policy: &policy,
        pull: args.pull.map(|switch| switch == Switch::On),
        log: args.log.map(|switch| switch == Switch::On),
        clsact: false,
    };
    let attached = if args.dry_run {
        nics.iter().map(|nic| offload::plan(nic, &options)).collect::<Result<_>>()?
    } else {
        attach_all(&nics, &options)?
    };
    report(args, resolved, attached, out)?;
    Ok(())
}

/// Attaches to all or to none: when one fails, those attached for the first time are detached.
fn attach_all(nics: &[Nic], options: &Options<'_>) -> Result<Vec<Attached>> {
    let lock = Lock::take(target::say_waiting)?;
    let mut attached: Vec<Attached> = Vec::new();
    for nic in nics {
        match offload::attach(&lock, nic, options) {
            Ok(one) => attached.push(one),
            Err(error) => {
                let netns = namespace::current_cookie()?;
                for new in attached.iter().filter(|attached| !attached.upgraded) {
                    offload::detach(&lock, &Slot::new(netns, new.ifindex))?;
                }
                return Err(error);
            }
        }
    }
    Ok(attached)
}

fn report(
    args: &Args,
    resolved: Vec<String>,
    attached: Vec<Attached>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if args.json {
        let interfaces = attached.into_iter().map(Entry::from).collect();
        let dry_run = args.dry_run;
        return json::write_pretty(
            out,
            &Document { version: Version, dry_run, resolved, interfaces },
        );
    }
    for step in resolved {
        writeln!(out, "{step}")?;
    }
    for one in attached {
        let verb = match (args.dry_run, one.upgraded) {
            (false, false) => "attached",
            (false, true) => "upgraded",
            (true, false) => "would attach",
            (true, true) => "would upgrade",
        };
        let (mode, build) = (one.mode.name(), one.build.name());
        let on = |on: bool, what: &'static str| if on { what } else { "" };
        let Switches { pull, log } = one.switches;
        let switches = [on(pull, ", pull"), on(log, ", log")].concat();
        writeln!(out, "{}: {verb}, {mode} mode, {build} build{switches}", one.name)?;
        for note in one.notes {
            writeln!(out, "  {note}")?;
        }
    }
    Ok(())
}

impl From<Attached> for Entry {
    fn from(attached: Attached) -> Self {
        Self {
            name: attached.name,
            ifindex: attached.ifindex,
            mode: attached.mode.name(),
            build: attached.build.name(),
            rx_copybreak: attached.policy.rx_copybreak,
            max_linear: attached.policy.max_linear,
            split: attached.policy.split,
            pull: attached.switches.pull,
            log: attached.switches.log,
            upgraded: attached.upgraded,
            notes: attached.notes,
        }
    }
}
