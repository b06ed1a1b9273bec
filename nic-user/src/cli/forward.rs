//! `nicctl forward`: forward between two interfaces, until interrupted.

use std::{
    io::Write,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{name, signals, target};
use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    forward::{
        self, Counts, Forwarder, InKernel, InRings, Layer, LoopWatch,
        model::Document,
        text::{self, Numbers},
    },
    nic::{InterfaceName, Nic},
    offload,
    report::{json, style::Style, terminal::say},
};

/// How long to wait for packets before checking whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// How often to check for a forwarding loop.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Forward frames or IP packets between two interfaces until Ctrl-C
///
/// Receives from all queues of one interface through AF_XDP rings and sends through the other. When
/// the command ends, however it ends, the interfaces belong to the kernel alone again. Programs are
/// attached for the duration unless they already are; `nicctl stats` keeps counting in that case.
///
/// Without --l3, every frame goes to the other interface unmodified, and both interfaces are
/// promiscuous. If a second path connects them, frames loop; nicctl detects and reports this. With
/// --l3, IPv4 and IPv6 packets for other hosts are forwarded if the kernel's routes and rules lead
/// through the other interface and the kernel would do nothing else with them. Everything else goes
/// to the kernel: packets that are for this host, VLAN-tagged, with IP options, larger than the
/// MTU, at the end of their hop limit, without a route, rejected by rp_filter, for a tunnel, for a
/// multipath route, or leaving where they arrived; and all packets on ports of bridges, bonds and
/// VRFs. Changes to addresses, routes, rules, neighbours, MTUs and sysctls take effect while it
/// runs. Requires net.ipv4.ip_forward, and net.ipv6.conf.all.forwarding for IPv6. Netfilter, XFRM
/// and TC programs see only what goes to the kernel.
///
/// --in-kernel does the same in XDP, without rings. Frames that the driver of the other interface
/// rejects are counted; where the kernel does not report them, nicctl says so. A veth accepts them
/// if its peer has GRO or an XDP program.
///
/// Rings fill in checksums that a local sender left to its NIC; --in-kernel --l3 leaves such
/// packets to the kernel, and --in-kernel alone passes them on unchanged, with a warning. Rings
/// return frames of up to about 3 KB to the kernel; longer ones that are not forwarded are dropped
/// and counted. VLAN tags that the NIC strips are lost (ethtool -K eth0 rxvlan off).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl forward eth0 eth1
  nicctl forward eth0 eth1 --l3 --interval 10
  nicctl forward eth0 eth1 --l3 --in-kernel --json")]
pub(super) struct Args {
    /// The first interface
    #[arg(value_name = "A", value_parser = name::interface())]
    first: String,

    /// The second interface
    #[arg(value_name = "B", value_parser = name::interface())]
    second: String,

    /// Route IP packets instead of bridging frames
    #[arg(long)]
    l3: bool,

    /// Forward in the kernel, by XDP, without rings
    #[arg(long)]
    in_kernel: bool,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Report every SECS seconds, 0.1 to 86400, not only at the end
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    interval: Option<Duration>,

    /// Print counts in full
    #[arg(long)]
    exact: bool,

    /// Print one JSON document a line (`nicctl schema forward`), the first at the start
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse() {
        Ok(seconds @ 0.1..=86_400.0) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("it must be 0.1 to 86400 seconds"),
        Err(_) => Err("not a number of seconds"),
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let first = Nic::by_name(&InterfaceName::new(&args.first)?)?;
    let second = Nic::by_name(&InterfaceName::new(&args.second)?)?;
    let names = [first.name(), second.name()];
    if first.ifindex() == second.ifindex() {
        let [name, _] = names;
        return Err(Error::usage(format!("cannot forward from {name} to itself")).into());
    }
    let [one, other] = names;
    offload::check_privileges(format_args!("forward between {one} and {other}"))?;
    let stop = Arc::new(AtomicBool::new(false));
    let wanted = Arc::clone(&stop);
    signals::on_end(move || wanted.store(true, Ordering::Relaxed))?;
    let layer = if args.l3 { Layer::Packets } else { Layer::Frames };
    if layer == Layer::Packets {
        say_if_not_routing();
    }
    let nics = [&first, &second];
    let mut forwarder: Box<dyn Forwarder> = if args.in_kernel {
        Box::new(InKernel::open(nics, layer)?)
    } else {
        Box::new(InRings::open(nics, layer)?)
    };
    let report = Report { args, names, layer, since: Instant::now() };
    report.begin(&*forwarder, out)?;
    let mut next = args.interval.map(|interval| report.since + interval);
    let mut watch = FrameWatch::new(args, report.since);
    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        if let Err(error) = forwarder.turn(PATIENCE) {
            break Err(error);
        }
        if layer == Layer::Frames {
            watch.look(&*forwarder, names)?;
        }
        if next.is_some_and(|next| Instant::now() >= next) {
            report.write(&*forwarder, out)?;
            next = args.interval.map(|interval| Instant::now() + interval);
        }
    };
    match ended {
        Ok(()) => report.write(&*forwarder, out),
        // Counters may be gone with the interface; what happened to it is what matters.
        Err(error) => {
            let _ = report.write(&*forwarder, out);
            Err(error.into())
        }
    }
}

/// Warns if the kernel does not route, because then nothing is routed here.
fn say_if_not_routing() {
    for (routes, version, sysctl) in [
        (forward::routes_ipv4(), "IPv4", "net.ipv4.ip_forward"),
        (forward::routes_ipv6(), "IPv6", "net.ipv6.conf.all.forwarding"),
    ] {
        if !routes {
            let route = CommandLine::networking(&["sysctl", "-w"]).on(format_args!("{sysctl}=1"));
            say(format_args!(
                "this host does not route {version}: all of it goes to the kernel\n  \
                 fix: {route}"
            ));
        }
    }
}

/// Checks whether what is forwarded arrives.
struct FrameWatch<'a> {
    args: &'a Args,
    looked: Instant,
    loops: LoopWatch,
    said: Said,
}

/// The warnings given so far.
#[derive(Default)]
struct Said {
    /// That checksums are missing.
    unfinished: bool,
    /// That an interface accepts nothing.
    not_taken: bool,
}

impl<'a> FrameWatch<'a> {
    fn new(args: &'a Args, now: Instant) -> Self {
        Self { args, looked: now, loops: LoopWatch::since(now), said: Said::default() }
    }

    fn look(&mut self, forwarder: &dyn Forwarder, names: [&str; 2]) -> Result<()> {
        if self.looked.elapsed() < WATCH_INTERVAL {
            return Ok(());
        }
        self.looked = Instant::now();
        let counts = forwarder.counts()?;
        if self.loops.notices(counts.iter().map(|it| it.moved).sum()) {
            say_loop(names);
        }
        let unfinished = names.into_iter().zip(&counts).find(|(_, it)| has_unfinished(it));
        if let Some((name, _)) = unfinished
            && !mem::replace(&mut self.said.unfinished, true)
        {
            say_unfinished(name, &self.through_rings());
        }
        let [first, second] = names;
        let not_taken = [second, first].into_iter().zip(&counts).find(|(_, it)| is_not_taken(it));
        if let Some((name, _)) = not_taken
            && !mem::replace(&mut self.said.not_taken, true)
        {
            say_not_taken(name, &self.through_rings());
        }
        Ok(())
    }

    /// The command that does the same through rings.
    fn through_rings(&self) -> CommandLine {
        let Args { first, second, l3, .. } = self.args;
        CommandLine::nicctl("forward").on(first).on(second).option_if(*l3, "--l3")
    }
}

/// Whether most frames are rejected for a reason other than lack of room.
const fn is_not_taken(counts: &Counts) -> bool {
    counts.dropped.not_taken > counts.packets / 2
}

fn say_not_taken(name: &str, through_rings: &CommandLine) {
    say(format_args!(
        "{name} rejects frames from XDP: a veth accepts them if its peer has GRO on; rings do not \
         need that\n  fix: {through_rings}"
    ));
}

/// Whether more frames lack a checksum than chance explains: one of 65,536 seems to.
const fn has_unfinished(counts: &Counts) -> bool {
    const MANY: u64 = 3;
    const SHARE: u64 = 1000;
    counts.unfinished >= MANY && counts.unfinished * SHARE > counts.packets
}

fn say_unfinished(name: &str, through_rings: &CommandLine) {
    say(format_args!(
        "TCP and UDP arrive on {name} without checksums, which their sender left to its NIC: \
         receivers will drop them; rings fill them in\n  fix: {through_rings}"
    ));
}

fn say_loop([first, second]: [&str; 2]) {
    say(format_args!(
        "frames of the same stations arrive on both {first} and {second}: a second path connects \
         them, and frames loop\n  fix: remove that path, or end this command"
    ));
}

/// Prints the progress.
struct Report<'a> {
    args: &'a Args,
    names: [&'a str; 2],
    layer: Layer,
    since: Instant,
}

impl Report<'_> {
    /// Reports the start, and how it forwards.
    fn begin(&self, forwarder: &dyn Forwarder, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.json {
            return self.write(forwarder, out);
        }
        let what = match self.layer {
            Layer::Frames => "frames",
            Layer::Packets => "IP packets",
        };
        let [first, second] = self.names;
        writeln!(out, "forwarding {what} between {first} and {second}, until Ctrl-C")?;
        for (name, way) in self.names.into_iter().zip(forwarder.ways()) {
            writeln!(out, "{name}: {way}")?;
        }
        Ok(out.flush()?)
    }

    fn write(&self, forwarder: &dyn Forwarder, out: &mut dyn Write) -> anyhow::Result<()> {
        let since = self.since.elapsed();
        if self.args.json {
            let in_kernel = self.args.in_kernel;
            let document = Document::new(forwarder, self.names, self.layer, in_kernel, since)?;
            json::write_line(&mut *out, &document)?;
        } else {
            let counts = forwarder.counts()?;
            let numbers = Numbers { style: Style::for_stdout(), exact: self.args.exact };
            text::write(&mut *out, numbers, self.names, &counts, since)?;
        }
        Ok(out.flush()?)
    }
}
