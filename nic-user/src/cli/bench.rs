//! `nicctl bench`: the published experiments, measured here.

use std::{
    io::{self, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};

use super::{located, name, signals};
use crate::{
    bench::{
        self, Named, Place, Settings,
        cards::Cards,
        compare::Comparison,
        copybreak::Sizes,
        html,
        model::Document,
        peer::{
            Peer, protocol,
            serve::{self, Admission, Token},
        },
        round::Counting,
        runner::{Plan, Progress},
        stop::Stop,
        text,
    },
    error::{Error, Result},
    files,
    report::{json, style::Style, terminal::say},
};

/// The largest results file that is read, in bytes: a hundred times that of all experiments.
const MAX_RESULTS: u64 = 16 << 20;
/// Stands for every experiment.
const ALL: &str = "all";

/// Measure what each mechanism gains on this machine, with and without it
///
/// Everything runs in private network namespaces, which are removed afterwards, also after Ctrl-C.
/// Cabled interfaces (--tx, --rx) are moved into namespaces as well and come back with their
/// addresses and settings; interfaces in use are refused. Variants take turns, so that a
/// disturbance hits all of them. Figures are medians with the lowest and highest round; ratios have
/// a 95 % confidence interval (bootstrap over the rounds) and stand next to the figures published
/// with the mechanism.
///
/// SND/RCV% is how busy the threads of each side were, SIRQ% what interrupts and softirqs used
/// besides. COST is the CPU time of everything on the CPUs of both sides, per unit.
///
/// If nginx is installed, copybreak also has it answer requests with and without `nicctl attach
/// --pull`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  nicctl bench udp-gso
  nicctl bench all --html report.html
  nicctl bench big-tcp --json > before.json
  nicctl bench copybreak --from eth0
  nicctl bench serve
  nicctl bench udp-gso --peer 192.0.2.7 --token TOKEN
  nicctl bench --tx eth1 --rx eth2
  nicctl bench compare before.json after.json"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Experiments to run
    #[arg(value_name = "EXPERIMENT", default_value = ALL, value_parser = PossibleValuesParser::new(
        bench::ALL.iter().map(|named| named.name).chain([ALL])))]
    experiments: Vec<String>,

    /// Rounds per variant, 5 to 100
    #[arg(long, value_name = "N", default_value = "7",
        value_parser = clap::value_parser!(u32).range(5..=100))]
    rounds: u32,

    /// Seconds each round measures, 0.05 to 60
    #[arg(long, value_name = "SECS", default_value = "0.5", value_parser = seconds)]
    time: Duration,

    /// Have copybreak receive packets of the sizes counted on this interface
    #[arg(long, value_name = "IFACE", value_parser = name::interface())]
    from: Option<String>,

    /// Measure against another machine that runs `nicctl bench serve`; neither side is changed
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "from")]
    peer: Option<String>,

    /// The token that `nicctl bench serve` printed there
    #[arg(long, value_name = "TOKEN", requires = "peer")]
    token: Option<String>,

    /// Send from this interface to the one given as --rx, which a cable connects; both must be idle
    #[arg(long, value_name = "IFACE", requires = "rx", conflicts_with_all = ["peer", "from"],
        value_parser = name::interface())]
    tx: Option<String>,

    /// Receive on this interface
    #[arg(long, value_name = "IFACE", requires = "tx", value_parser = name::interface())]
    rx: Option<String>,

    /// Also write a self-contained HTML page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print JSON (`nicctl schema bench`)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Compare(CompareArgs),
    Serve(ServeArgs),
}

/// Receive for `nicctl bench --peer` on another machine
///
/// Serves one client at a time until Ctrl-C: one that presents the printed token or, with --from,
/// one at that address. Data is accepted only from that client. Nothing is changed and nothing is
/// run for it. The token and the data cross the network unencrypted: listen only on a trusted
/// network. Data arrives on further ports that the kernel chooses.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl bench serve
  nicctl bench serve --listen 192.0.2.7:5243 --from 192.0.2.8")]
struct ServeArgs {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT",
        default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, protocol::PORT)))]
    listen: SocketAddr,

    /// Serve only this address, without a token
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
}

/// Compare two runs: their rates, and whether their ratios agree
///
/// Ratios agree if their confidence intervals overlap; those that differ are marked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl bench compare before.json after.json")]
struct CompareArgs {
    /// Output of `nicctl bench --json`
    #[arg(value_name = "A.json")]
    a: PathBuf,

    /// Output of a later run
    #[arg(value_name = "B.json")]
    b: PathBuf,

    /// Print JSON (`nicctl schema bench-compare`)
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse() {
        Ok(seconds @ 0.05..=60.0) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("it must be 0.05 to 60 seconds"),
        Err(_) => Err("not a number of seconds"),
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Compare(args)) => compare(args, out),
        Some(Command::Serve(args)) => serve(args, out),
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

fn serve(args: &ServeArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let fail = |error| Error::io(format!("listen on {}", args.listen), &error);
    let listener = TcpListener::bind(args.listen).map_err(fail)?;
    writeln!(out, "listening on {}", listener.local_addr().map_err(fail)?)?;
    let admission = match args.from {
        Some(address) => Admission::From(address),
        None => {
            let token = Token::random()?;
            writeln!(out, "token {token}")?;
            Admission::Token(token)
        }
    };
    out.flush()?;
    let stop = Stop::default();
    let to_end = stop.clone();
    signals::on_end(move || to_end.request())?;
    // Standard output has been told what there is to know; who comes and goes is a remark.
    serve::serve(&listener, &admission, &stop, &|remark: &str| say(remark))?;
    Ok(())
}

fn read(path: &Path) -> Result<Document> {
    let text = files::read(path, "results", MAX_RESULTS)?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::failed(format!("read results {}: {error}", path.display()))
            .with_fix("pass the output of bench --json")
    })
}

fn measure(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(path) = &args.html {
        check_is_writable(path)?;
    }
    let stop = Stop::default();
    let to_end = stop.clone();
    signals::on_end(move || to_end.request())?;
    let sizes = args.from.as_deref().map(sizes_at).transpose()?;
    let document = match (&args.tx, &args.rx) {
        (Some(tx), Some(rx)) => {
            let cards = Cards::lend([tx, rx])?;
            let measured = run_at(args, sizes, Place::Cards(cards.lab().clone()), &stop);
            cards.give_back()?;
            measured?
        }
        _ => run_at(args, sizes, place(args)?, &stop)?,
    };
    if args.json {
        json::write_pretty(out, &document)?;
    } else {
        text::write(out, Style::for_stdout(), &document)?;
    }
    // Last: what took minutes is printed even if the page cannot be written.
    if let Some(path) = &args.html {
        let page = html::page(&document)?;
        let written = files::write_in_place(path, page.as_bytes());
        written.map_err(|error| unwritten(path, &error))?;
    }
    Ok(())
}

/// Checked before minutes of work: whether the page can be written. Changes nothing.
fn check_is_writable(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let changed = if path.exists() { path } else { parent.unwrap_or(Path::new(".")) };
    let checked = match access(changed, AccessFlags::W_OK) {
        _ if path.is_dir() => Err(Errno::EISDIR.into()),
        _ if path.exists() && !path.is_file() => Err(io::Error::other("it is not a regular file")),
        checked => checked.map_err(io::Error::from),
    };
    checked.map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Error {
    Error::io(format!("write {}", path.display()), error)
}

/// The sizes of what an interface has received since nicctl was attached.
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
            .with_fix("wait for traffic, or omit --from"));
    }
    Ok(sizes.named(&format!("as at {interface}")))
}

fn run_at(args: &Args, sizes: Option<Sizes>, place: Place, stop: &Stop) -> Result<Document> {
    let counting = match place {
        Place::Lab => Counting::Pinned,
        Place::Cards(_) | Place::Peer(_) => Counting::All,
    };
    let plan = Plan { rounds: args.rounds, window: args.time, stop, counting };
    let wanted = wanted(&args.experiments, &place)?;
    bench::run(&wanted, &Settings { sizes, place }, &plan, &mut Bar::new())
}

fn place(args: &Args) -> Result<Place> {
    match &args.peer {
        Some(host) => Ok(Place::Peer(Rc::new(Peer::connect(host, args.token.as_deref())?))),
        None => Ok(Place::Lab),
    }
}

/// The experiments of these names, each once, in the order of a report.
fn wanted(names: &[String], place: &Place) -> Result<Vec<Named>> {
    let possible = || bench::ALL.iter().filter(|named| named.is_possible(place));
    if let Some(name) = names
        .iter()
        .find(|name| *name != ALL && possible().all(|named| named.name != name.as_str()))
    {
        let there: Vec<_> = possible().map(|named| named.name).collect();
        return Err(Error::usage(format!("{name} needs a lab"))
            .with_fix(format!("available: {}", there.join(", "))));
    }
    let wanted = |named: &&Named| names.iter().any(|name| *name == named.name || name == ALL);
    Ok(possible().filter(wanted).copied().collect())
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
