//! `nicctl stats`: the counters, once or repeatedly.

use std::{
    future::{self, Future},
    io::{self, IsTerminal, Write},
    path::PathBuf,
    pin::pin,
    str::FromStr,
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{located, name, saved, target};
use crate::{
    counters::{Snapshot, View, model::Document, rates::Rates, text},
    error::{Error, Result},
    offload::Attachment,
    report::{
        json,
        style::{Control, Style},
    },
};

/// Show what is counted: packets, bytes and verdicts of every queue, and their totals
///
/// Without interfaces, all that nicctl is attached to. RX is counted by XDP, TX by TC egress,
/// where super-packets count once. The lines below the table say what follows from the totals.
///
/// COPY, SPLIT and WHOLE count the verdicts of the copy policy: see `nicctl attach --help`.
///
/// Without interfaces, an attachment that cannot be read does not hide the others: it is reported
/// after them, and the command fails.
///
/// With --from, show saved `ethtool -S` output of any machine instead: each statistic with its
/// direction, its queue and a name that all drivers share.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl stats
  nicctl stats eth0 --watch 0.5
  nicctl stats eth0 --queue 3 --histogram
  nicctl stats --json | jq '.interfaces[] | {name, rx: .total.rx.packets}'
  nicctl stats --from sos/ethtool_-S_eth0 --driver ice
  nicctl stats --from - --json < saved.txt")]
pub(super) struct Args {
    /// Interfaces; all attached ones if there are none
    #[arg(value_name = "IFACE", value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Show rates every SECS seconds, 0.1 to 86400, until interrupted
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "1")]
    watch: Option<Period>,

    /// Show only this queue
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = queue)]
    queue: Option<u32>,

    /// Also show the distribution of frame and header lengths
    #[arg(long)]
    histogram: bool,

    /// Show saved `ethtool -S` output; - is standard input
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["interfaces", "netns", "watch", "queue", "histogram"])]
    from: Option<PathBuf>,

    /// The driver it is from, as `ethtool -i` prints it; if omitted, recognized by its names
    #[arg(long, value_name = "NAME", requires = "from")]
    driver: Option<String>,

    /// Print JSON (`nicctl schema stats`); with --watch, one document a line
    #[arg(long)]
    json: bool,
}

/// The number of a queue.
fn queue(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "it must be a queue number, counted from 0")
}

/// Time between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period(Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seconds @ 0.1..=86_400.0) => Ok(Self(Duration::from_secs_f64(seconds))),
            Ok(_) => Err("it must be 0.1 to 86400 seconds".into()),
            Err(_) => Err("not a number of seconds; give interfaces before --watch".into()),
        }
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(file) = &args.from {
        return saved::run(file, args.driver.as_deref(), args.json, out);
    }
    target::enter(args.netns.as_deref())?;
    let mut unreadable = None;
    show(args, out, || {
        let (mut snapshots, error) = located::snapshots(&args.interfaces, args.netns.as_deref())?;
        if args.watch.is_some() && !args.interfaces.is_empty() {
            all_are_there(&snapshots)?;
        }
        unreadable = unreadable.take().or(error);
        if args.interfaces.is_empty() {
            retain_with_queue(&mut snapshots, args.queue)?;
        }
        Ok(snapshots)
    })?;
    unreadable.map_or(Ok(()), |error| Err(error.into()))
}

/// An interface that is gone counts nothing any more.
fn all_are_there(snapshots: &[Snapshot]) -> Result<()> {
    match snapshots.iter().find(|snapshot| snapshot.mode == Attachment::GONE) {
        Some(Snapshot { name, .. }) => Err(Error::not_found(format!("{name} is gone"))),
        None => Ok(()),
    }
}

/// Of several interfaces, keeps those that have this queue.
///
/// # Errors
///
/// None has.
fn retain_with_queue(snapshots: &mut Vec<Snapshot>, queue: Option<u32>) -> Result<()> {
    let lacking = snapshots.iter().find_map(|snapshot| snapshot.queues(queue).err());
    snapshots.retain(|snapshot| snapshot.queues(queue).is_ok());
    match lacking {
        Some(error) if snapshots.is_empty() => Err(error),
        _ => Ok(()),
    }
}

/// Shows what `read` reads.
///
/// # Errors
///
/// What `read` or writing to `out` ends in; [`Kind::Usage`](crate::error::Kind::Usage) if an
/// interface lacks the queue that is asked for.
fn show(
    args: &Args,
    out: &mut dyn Write,
    mut read: impl FnMut() -> Result<Vec<Snapshot>>,
) -> anyhow::Result<()> {
    let mut printer = Printer {
        out,
        view: View { queue: args.queue, histogram: args.histogram },
        json: args.json,
        style: Style::for_stdout(),
        clear: args.watch.is_some() && io::stdout().is_terminal(),
    };
    let Some(Period(period)) = args.watch else { return printer.once(&read()?) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("start the timer of --watch", &error))?;
    let show = |before: &[Snapshot], now: &[Snapshot]| printer.tick(before, now);
    runtime.block_on(watch(period, interrupt(), read, show))
}

/// Ends when the user presses Ctrl-C.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler, Ctrl-C ends the process by itself.
        future::pending::<()>().await;
    }
}

/// Every `period`, from now on and until `stop` ends, hands `show` the reading before and the
/// present one; the first one has none before it. Ticks that a slow reader missed are left out.
///
/// # Errors
///
/// The first error of `read` or `show`.
async fn watch(
    period: Duration,
    stop: impl Future<Output = ()>,
    mut read: impl FnMut() -> Result<Vec<Snapshot>>,
    mut show: impl FnMut(&[Snapshot], &[Snapshot]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut stop = pin!(stop);
    let mut before = Vec::new();
    let mut next = Instant::now();
    while timeout_at(next, &mut stop).await.is_err() {
        let now = read()?;
        show(&before, &now)?;
        before = now;
        next = (next + period).max(Instant::now());
    }
    Ok(())
}

struct Printer<'o> {
    out: &'o mut dyn Write,
    view: View,
    json: bool,
    style: Style,
    /// Whether a tick replaces what the one before it showed.
    clear: bool,
}

impl Printer<'_> {
    fn once(&mut self, now: &[Snapshot]) -> anyhow::Result<()> {
        if self.json {
            let document = Document::new(&self.view, None, now)?;
            return Ok(json::write_pretty(&mut *self.out, &document)?);
        }
        self.text(&[], now)
    }

    fn tick(&mut self, before: &[Snapshot], now: &[Snapshot]) -> anyhow::Result<()> {
        if self.json {
            let document = Document::new(&self.view, Some(before), now)?;
            json::write_line(&mut *self.out, &document)?;
        } else {
            if self.clear {
                write!(self.out, "{}", Control::Clear)?;
            }
            self.text(before, now)?;
            writeln!(self.out)?;
        }
        Ok(self.out.flush()?)
    }

    /// The rates of interfaces that were read before, and the counters of the others.
    fn text(&mut self, before: &[Snapshot], now: &[Snapshot]) -> anyhow::Result<()> {
        if now.is_empty() {
            writeln!(self.out, "nothing is attached")?;
        }
        for (index, snapshot) in now.iter().enumerate() {
            let queues = snapshot.queues(self.view.queue)?;
            if index > 0 {
                writeln!(self.out)?;
            }
            match Rates::since(before, snapshot) {
                Some(rates) => {
                    text::write_rates(self.out, self.style, snapshot, &queues, &rates)?;
                }
                None => text::write_counters(self.out, self.style, snapshot, &queues)?,
            }
            if self.view.histogram {
                text::write_histograms(self.out, self.style, &queues)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::{counters::fixtures, error::Kind};

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Command::try_parse_from([&["stats"], args].concat()).map(|command| command.args)
    }

    #[test]
    fn periods() {
        let period = |args: &[&str]| parse(args).map(|args| args.watch);
        let millis = |millis| Some(Period(Duration::from_millis(millis)));
        assert_eq!(period(&["eth7"]).unwrap(), None);
        assert_eq!(period(&["eth7", "--watch"]).unwrap(), millis(1000));
        assert_eq!(period(&["--watch", "0.5", "eth7"]).unwrap(), millis(500));
        assert_eq!(period(&["--watch=0.1"]).unwrap(), millis(100));
        for bad in ["0", "0.09", "-1", "nan", "inf", "1e300", "86401"] {
            let error = period(&[&format!("--watch={bad}")]).unwrap_err().to_string();
            assert!(error.contains("must be 0.1 to 86400 seconds"), "{bad}: {error}");
        }
        let error = period(&["--watch", "eth7"]).unwrap_err().to_string();
        assert!(error.contains("give interfaces before --watch"), "{error}");
    }

    /// Watches an interface that receives 50 frames of 100 bytes every half second, for as long
    /// as three ticks take, on a clock that goes as fast as there is nothing to do.
    fn watched(json: bool, clear: bool) -> String {
        let mut out = Vec::new();
        let mut printer =
            Printer { out: &mut out, view: View::default(), json, style: Style::Plain, clear };
        let mut busy = fixtures::snapshot("eth7", 1, 1);
        let mut readings = 0;
        let read = || {
            busy.rx[0] = fixtures::rx(50 * readings, 100);
            busy.taken_at += Duration::from_millis(500);
            readings += 1;
            Ok(vec![busy.clone()])
        };
        let period = Duration::from_millis(500);
        let stop = || tokio::time::sleep(Duration::from_millis(1250));
        let show = |before: &[Snapshot], now: &[Snapshot]| printer.tick(before, now);
        block_on(async { watch(period, stop(), read, show).await }).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn text_has_counters_first_and_then_a_table_of_rates_a_tick() {
        insta::assert_snapshot!(watched(false, false), @r#"
        eth7  native  since 2024-12-31T23:59:59Z
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES  COPY  SPLIT  WHOLE  TX PACKETS  TX BYTES
            0           0       0 B     0      0      0           0       0 B
        total           0       0 B     0      0      0           0       0 B

        eth7  native  over 0.5 s
        QUEUE  RX PACKETS      RX BITS  TX PACKETS  TX BITS
            0     100 pps  80.0 kbit/s       0 pps  0 bit/s
        total     100 pps  80.0 kbit/s       0 pps  0 bit/s

        eth7  native  over 0.5 s
        QUEUE  RX PACKETS      RX BITS  TX PACKETS  TX BITS
            0     100 pps  80.0 kbit/s       0 pps  0 bit/s
        total     100 pps  80.0 kbit/s       0 pps  0 bit/s
        "#);
    }

    #[test]
    fn a_terminal_is_cleared_before_every_tick() {
        let text = watched(false, true);
        let clear = Control::Clear.to_string();
        assert_eq!(text.matches(&clear).count(), 3);
        assert!(text.starts_with(&clear));
        assert!(!watched(true, true).contains('\x1b'));
    }

    #[test]
    fn json_is_one_document_a_line() {
        let documents = watched(true, false);
        let rates: Vec<_> = documents
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|document| document["interfaces"][0]["total"]["rates"]["rx"].clone())
            .map(|rx| rx["packets_per_second"].as_f64())
            .collect();
        assert_eq!(rates, [None, Some(100.0), Some(100.0)]);
    }

    #[test]
    fn watching_ends_with_the_first_error() {
        let mut readings = 0;
        let read = || {
            readings += 1;
            if readings < 3 { Ok(Vec::new()) } else { Err(Error::not_found("eth7: gone")) }
        };
        let never = future::pending();
        let error = block_on(watch(Duration::from_secs(1), never, read, |_, _| Ok(())));
        assert_eq!(error.unwrap_err().downcast::<Error>().unwrap().kind(), Kind::NotFound);
        assert_eq!(readings, 3);
    }

    #[test]
    fn ticks_begin_at_once_and_are_a_period_apart() {
        let mut at = Vec::new();
        block_on(async {
            let start = Instant::now();
            let show = |_: &[Snapshot], _: &[Snapshot]| {
                at.push(start.elapsed().as_secs());
                Ok(())
            };
            let stop = tokio::time::sleep(Duration::from_millis(2500));
            watch(Duration::from_secs(1), stop, || Ok(Vec::new()), show).await
        })
        .unwrap();
        assert_eq!(at, [0, 1, 2]);
    }

    #[test]
    fn once_is_one_document_or_one_table() {
        let run = |args: &[&str]| {
            let mut out = Vec::new();
            let read = || Ok(vec![fixtures::busy(), fixtures::snapshot("eth8", 4, 4)]);
            show(&parse(args).unwrap(), &mut out, read).map(|()| out)
        };
        let document: Value = serde_json::from_slice(&run(&["--json"]).unwrap()).unwrap();
        assert_eq!(document["version"], 1);
        assert_eq!(document["interfaces"][1]["name"], "eth8");
        let text = String::from_utf8(run(&["--queue", "2", "--histogram"]).unwrap()).unwrap();
        assert!(text.contains("2 malformed") && text.contains("HEADER LENGTH"), "{text}");
        let error = run(&["--queue", "9"]).unwrap_err().downcast::<Error>().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
    }
}
