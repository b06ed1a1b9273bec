//! `nicctl attach`: load the programs and attach them to interfaces.

use std::io::{self, Write};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    confirm::{self, ConfirmArgs},
    exit::Changed,
    name,
    policy::{PolicyArgs, Switch},
    target,
};
use crate::{
    control::{
        Journals, Owner, Plan, Profile, Report,
        model::{LeftEntry, StepReportEntry},
        text,
    },
    error::{Error, Result},
    netlink::link::XdpMode,
    nic::{Nic, mode},
    offload::{self, Attached, Build, Effect, ModeWanted, Options, Switches},
    report::{
        json::{self, Version},
        style::Style,
    },
    transaction::{self, Done, Manner, Planned},
};

/// Where frames are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// keep the mode of an existing attachment; otherwise the cheapest of native, tc and generic
    /// for this kind of interface that does what was asked. Prints the choice and the reason
    Auto,
    /// in the driver, before a socket buffer is allocated
    Native,
    /// in the network stack; works everywhere, but is slower
    Generic,
    /// on the NIC itself
    Offload,
    /// no XDP: counts what TC sees; works beside other XDP programs
    Tc,
}

/// Attach to interfaces: count and mark every frame, drop none
///
/// Loads the XDP and TC programs, attaches them and pins them in bpffs, so that they outlive this
/// process. First checks what the driver requires and reports what is missing. Attaching again
/// upgrades the programs in place: counters are kept, no packet goes uncounted, and options not
/// given stay as they are; if nothing would differ, nothing is loaded. Programs of other tools are
/// never removed: if one holds the XDP hook, mode auto counts at TC alone. A bond, VLAN or team
/// resolves to the interfaces below it.
///
/// Settings that XDP or the profile requires are changed first. Programs and settings are one
/// transaction: all are applied, or none. `nicctl detach` reverts both.
///
/// Needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON plus write access to bpffs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl attach eth0
  nicctl attach eth0 eth1 --mode native --rx-copybreak 128
  nicctl attach eth0 --profile forwarding
  nicctl attach veth0 --netns blue --profile ./mine.toml --dry-run")]
pub(super) struct Args {
    /// Interfaces to attach to
    #[arg(value_name = "IFACE", required = true, value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Also apply a profile: a built-in one (throughput, latency, forwarding, big-tcp, udp-gso,
    /// header-split), or the path of a profile file
    #[arg(long, value_name = "NAME|FILE", value_parser = name::utf8())]
    profile: Option<String>,

    /// Where frames are counted
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// At TC ingress, linearize fragmented packets that the policy would copy
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true,
        default_missing_value = "on", hide_possible_values = true)]
    pull: Option<Switch>,

    /// Log malformed frames, at most ten a second per queue and CPU; see `nicctl log`
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true,
        default_missing_value = "on", hide_possible_values = true)]
    log: Option<Switch>,

    /// Show what would be done, without doing it
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    confirm: ConfirmArgs,

    /// Exit with 5 if something changed, or would change
    #[arg(long)]
    detailed_exitcode: bool,

    /// Print JSON (`nicctl schema attach`)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    policy: PolicyArgs,
}

/// What `nicctl attach --json` prints, also after a failure on the way.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// Whether --dry-run left everything unchanged.
    dry_run: bool,
    /// Whether they are attached. After a failure none of them is, and all settings have their
    /// earlier values, except for those listed in `left`.
    attached: bool,
    /// How names were resolved to the interfaces below them.
    resolved: Vec<String>,
    /// One entry an interface.
    interfaces: Vec<Entry>,
    /// Why they are not attached.
    failure: Option<String>,
}

/// What is attached to an interface, would be, or would have been.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Name of the interface.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// Where frames are counted: XDP mode `native`, `generic` or `offload`, or `tc` without XDP.
    mode: &'static str,
    /// Why this mode was chosen; null if it was given.
    why: Option<String>,
    /// Build of the XDP program: `single-buffer` or `frags`; null without one.
    build: Option<&'static str>,
    /// Frames of up to this many bytes are copied whole.
    rx_copybreak: u16,
    /// Headers of up to this many bytes are split off.
    max_linear: u16,
    /// Whether headers are split off at all.
    split: bool,
    /// Whether TC ingress linearizes fragmented small packets.
    pull: bool,
    /// Whether malformed frames are logged.
    log: bool,
    /// Whether programs that were attached already were replaced.
    upgraded: bool,
    /// Whether programs or settings differ from before, or would.
    changed: bool,
    /// Seconds until the changes are reverted unless `nicctl confirm` comes first.
    confirm_within: Option<u32>,
    /// The settings changed for it, or that would be, in order.
    settings: Vec<StepReportEntry>,
    /// After a failure: settings that could not be restored.
    left: Vec<LeftEntry>,
    /// Why the transmit queues of packets are a guess; null where they are known.
    tx_queue_guess: Option<&'static str>,
    /// Why it is the frags build, and other remarks.
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
            Mode::Native => ModeWanted::Only(mode::Mode::Xdp(XdpMode::Native)),
            Mode::Generic => ModeWanted::Only(mode::Mode::Xdp(XdpMode::Generic)),
            Mode::Offload => ModeWanted::Only(mode::Mode::Xdp(XdpMode::Offload)),
            Mode::Tc => ModeWanted::Only(mode::Mode::Tc),
        },
        policy: &policy,
        pull: args.pull.map(|switch| switch == Switch::On),
        log: args.log.map(|switch| switch == Switch::On),
        clsact: false,
        for_rings: false,
    };
    let profile = args.profile.as_deref().map(Profile::load).transpose()?;
    let journals = Journals::system();
    let plan = || {
        let plan = |nic| transaction::plan(nic, profile.as_ref(), &options, &journals);
        nics.into_iter().map(plan).collect::<Result<Vec<_>>>()
    };
    if args.dry_run {
        let outcomes: Vec<_> = plan()?.into_iter().map(Outcome::from).collect();
        let is_to_change = outcomes.iter().any(Outcome::has_changed);
        report(args, resolved, outcomes, None, out)?;
        return Changed::told(args.detailed_exitcode && is_to_change);
    }
    let lock = target::lock(&journals)?;
    let planned = plan()?;
    let is_to_change = planned.iter().any(Planned::is_to_change);
    let _guard = args.confirm.guard(is_to_change)?;
    let confirm = args.confirm.seconds(is_to_change);
    let manner = Manner { owner: &Owner::Attach, journals: &journals, confirm };
    let (mut done, result) = transaction::attach(&lock, planned, &options, manner);
    let failure = match result {
        Err(failure) if !args.json => {
            say_what_was_undone(&done, out)?;
            return Err(failure.into());
        }
        result => result.err(),
    };
    let ignored = match failure {
        Some(_) => None,
        None => done.iter_mut().find_map(|done| done.settings.error()),
    };
    let outcomes: Vec<_> = done.into_iter().map(Outcome::from).collect();
    let has_changed = outcomes.iter().any(Outcome::has_changed);
    report(args, resolved, outcomes, failure.as_ref(), out)?;
    match failure.or(ignored) {
        Some(error) => Err(error.into()),
        None => Changed::told(args.detailed_exitcode && has_changed),
    }
}

fn say_what_was_undone(done: &[Done], out: &mut dyn Write) -> io::Result<()> {
    let mut touched =
        done.iter().map(|done| &done.settings).filter(|report| !report.steps.is_empty());
    touched.try_for_each(|report| text::write_report(report, out, Style::for_stdout()))
}

/// What was, or would be, attached to one interface and set for it.
struct Outcome {
    programs: Attached,
    settings: Settings,
}

enum Settings {
    Planned(Plan),
    Changed(Report),
}

impl From<Done> for Outcome {
    fn from(done: Done) -> Self {
        Self { programs: done.programs, settings: Settings::Changed(done.settings) }
    }
}

impl From<Planned> for Outcome {
    fn from(planned: Planned) -> Self {
        Self { programs: planned.programs, settings: Settings::Planned(planned.settings) }
    }
}

impl Outcome {
    /// Whether programs or settings differ from before, or would.
    fn has_changed(&self) -> bool {
        let of_settings = match &self.settings {
            Settings::Planned(plan) => !plan.is_empty(),
            Settings::Changed(report) => report.has_changed(),
        };
        of_settings || self.programs.effect != Effect::Unchanged
    }

    fn into_entry(self, confirm: ConfirmArgs) -> Entry {
        let changed = self.has_changed();
        let Self { programs, settings } = self;
        let settings = settings.into_report();
        Entry {
            name: programs.name,
            ifindex: programs.ifindex,
            mode: programs.hooks.mode().name(),
            why: programs.why,
            build: programs.hooks.build().map(Build::name),
            rx_copybreak: programs.policy.rx_copybreak,
            max_linear: programs.policy.max_linear,
            split: programs.policy.split,
            pull: programs.switches.pull,
            log: programs.switches.log,
            upgraded: programs.effect == Effect::Upgraded,
            changed,
            confirm_within: confirm.seconds(changed),
            tx_queue_guess: programs.tx_queue_guess,
            settings: settings.steps.iter().map(StepReportEntry::from).collect(),
            left: settings.left.iter().map(LeftEntry::from).collect(),
            notes: [programs.notes, settings.notes].concat(),
        }
    }
}

impl Settings {
    fn is_empty(&self) -> bool {
        match self {
            Self::Planned(plan) => plan.is_empty(),
            Self::Changed(report) => report.steps.is_empty(),
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Planned(plan) => text::write_plan(plan, out, Style::for_stdout()),
            Self::Changed(report) => text::write_report(report, out, Style::for_stdout()),
        }
    }

    fn into_report(self) -> Report {
        match self {
            Self::Planned(plan) => Report::of(&plan),
            Self::Changed(report) => report,
        }
    }
}

fn report(
    args: &Args,
    resolved: Vec<String>,
    outcomes: Vec<Outcome>,
    failure: Option<&Error>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_done = !args.dry_run && failure.is_none();
    let confirm = if is_done { args.confirm } else { ConfirmArgs::default() };
    if args.json {
        let entries = outcomes.into_iter().map(|outcome| outcome.into_entry(confirm));
        let document = Document {
            version: Version,
            dry_run: args.dry_run,
            attached: is_done,
            resolved,
            interfaces: entries.collect(),
            failure: failure.map(ToString::to_string),
        };
        return json::write_pretty(out, &document);
    }
    for step in resolved {
        writeln!(out, "{step}")?;
    }
    for outcome in outcomes {
        let has_changed = outcome.has_changed();
        let Outcome { programs: one, settings } = outcome;
        let verb = match (one.effect, args.dry_run) {
            (Effect::Attached, false) => "attached",
            (Effect::Attached, true) => "would attach",
            (Effect::Upgraded, false) => "upgraded",
            (Effect::Upgraded, true) => "would upgrade",
            (Effect::Unchanged, _) => "unchanged",
        };
        let mode = one.hooks.mode().name();
        let build = one.hooks.build().map(|build| format!(", {} build", build.name()));
        let build = build.unwrap_or_default();
        let on = |on: bool, what: &'static str| if on { what } else { "" };
        let Switches { pull, log } = one.switches;
        let switches = [on(pull, ", pull"), on(log, ", log")].concat();
        writeln!(out, "{}: {verb}, {mode} mode{build}{switches}", one.name)?;
        if let Some(why) = one.why {
            writeln!(out, "  {mode} mode: {why}")?;
        }
        if let Some(why) = one.tx_queue_guess {
            writeln!(out, "  TX queues are a guess: {why}")?;
        }
        for note in one.notes {
            writeln!(out, "  {note}")?;
        }
        if args.profile.is_some() || !settings.is_empty() {
            settings.write(out)?;
        }
        if let Some(seconds) = confirm.seconds(has_changed) {
            confirm::write_how(&one.name, args.netns.as_deref(), seconds, out)?;
        }
    }
    Ok(())
}
