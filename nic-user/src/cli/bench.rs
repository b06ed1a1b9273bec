//! `nicctl bench`: the published experiments, measured here.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};

use super::{located, name, signals};
use crate::{
    bench::{
        self, Named, Settings,
        compare::Comparison,
        copybreak::Sizes,
        html,
        model::Document,
        runner::{Plan, Progress},
        stop::Stop,
        text,
    },
    error::{Error, Result},
    report::{json, style::Style},
};

/// Stands for every experiment.
const ALL: &str = "all";

/// Measure what the mechanisms buy on this machine, each way beside the others
///
/// Everything runs in network namespaces of its own, which are gone afterwards, also after Ctrl-C.
/// Variants take turns, so that what disturbs the machine disturbs all of them; figures are medians
/// with the lowest and the highest round, ratios have a 95 % confidence interval (bootstrap of the
/// rounds), and beside them stands what the discussion published that brought the mechanism.
///
/// SND/RCV% is how busy the threads of both sides were, SIRQ% what interrupts and softirqs took
/// besides. COST is the CPU time of everything on the processors of both sides, for each unit.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  nicctl bench udp-gso
  nicctl bench all --html report.html
  nicctl bench big-tcp --json > before.json
  nicctl bench copybreak --from eth0
  nicctl bench compare before.json after.json"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Which ones
    #[arg(value_name = "EXPERIMENT", default_value = ALL, value_parser = PossibleValuesParser::new(
        bench::ALL.iter().map(|named| named.name).chain([ALL])))]
    experiments: Vec<String>,

    /// Rounds of every variant, 5 to 100
    #[arg(long, value_name = "N", default_value = "7",
        value_parser = clap::value_parser!(u32).range(5..=100))]
    rounds: u32,

    /// How long each round measures, 0.05 to 60
    #[arg(long, value_name = "SECS", default_value = "0.5", value_parser = seconds)]
    time: Duration,

    /// Let copybreak receive packets of the sizes that were counted at this interface
    #[arg(long, value_name = "IFACE", value_parser = name::utf8())]
    from: Option<String>,

    /// Write a page with plots to this file, too; it needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print JSON (`nicctl schema bench`)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Compare(CompareArgs),
}

/// Compare two runs: rates, and whether their ratios agree
///
/// Ratios that agree have intervals with something in common; those that differ are marked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl bench compare before.json after.json")]
struct CompareArgs {
    /// What `nicctl bench --json` printed
    #[arg(value_name = "A.json")]
    a: PathBuf,

    /// What it printed another time
    #[arg(value_name = "B.json")]
    b: PathBuf,

    /// Print JSON (`nicctl schema bench-compare`)
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse() {
        Ok(seconds @ 0.05..=60.0) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("from 0.05 to 60 seconds are possible"),
        Err(_) => Err("not a number of seconds"),
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Compare(args)) => compare(args, out),
        None => measure(args, out),
    }
}

fn compare(args: &CompareArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let comparison = Comparison::of(&read(&args.a)?, &read(&args.b)?);
    if args.json {
        json::write_pretty(out, &comparison)?;
    } else {
        comparison.write(out, Style::for_stdout())?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Document> {
    let action = format!("read {}", path.display());
    let text = fs::read(path).map_err(|error| Error::io(&action, &error))?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::failed(format!("{action}: {error}"))
            .with_fix("it must be what `nicctl bench --json` prints")
    })
}

fn measure(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let settings = Settings { sizes: args.from.as_deref().map(sizes_at).transpose()? };
    let stop = Stop::default();
    let to_end = stop.clone();
    signals::on_end(move || to_end.request())?;
    let plan = Plan { rounds: args.rounds, window: args.time, stop: &stop };
    let document = bench::run(&wanted(&args.experiments), &settings, &plan, &mut Bar::new())?;
    if args.json {
        json::write_pretty(out, &document)?;
    } else {
        text::write(out, Style::for_stdout(), &document)?;
    }
    // Last: what took minutes is printed even if the page cannot be written.
    if let Some(path) = &args.html {
        let page = html::page(&document)?;
        let fail = |error| Error::io(format!("write {}", path.display()), &error);
        fs::write(path, page).map_err(fail)?;
    }
    Ok(())
}

/// The sizes of what an interface received since nicctl was attached to it.
fn sizes_at(interface: &str) -> Result<Sizes> {
    let (snapshots, error) = located::snapshots(&[interface.to_owned()], None)?;
    if let Some(error) = error {
        return Err(error);
    }
    let mut sizes = Sizes::default();
    for counters in snapshots.iter().flat_map(|snapshot| &snapshot.rx) {
        sizes.count(&counters.sizes);
    }
    if sizes.is_empty() {
        return Err(Error::failed(format!("{interface} has received nothing yet"))
            .with_fix("wait for traffic, or leave --from out"));
    }
    Ok(sizes.named(&format!("as at {interface}")))
}

/// The experiments of these names, each once, in the order of a report.
fn wanted(names: &[String]) -> Vec<Named> {
    let wanted = |named: &&Named| names.iter().any(|name| *name == named.name || name == ALL);
    bench::ALL.iter().filter(wanted).copied().collect()
}

/// Progress on the terminal, if standard error is one.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        Self(ProgressBar::hidden())
    }
}

impl Progress for Bar {
    fn begin(&mut self, name: &str, steps: u64) {
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {eta} {msg:32!}");
        // Hidden by itself where standard error is no terminal.
        self.0 = ProgressBar::new(steps)
            .with_prefix(name.to_owned())
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.0.tick();
    }

    fn step(&mut self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.inc(1);
    }

    fn end(&mut self) {
        self.0.finish_and_clear();
    }
}
