//! `nicctl forward`: forward between two interfaces, until interrupted.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{name, signals, target};
use crate::{
    error::{Error, Result},
    forward::{Forwarder, InKernel, InRings, Layer, model::Document, text},
    nic::{InterfaceName, Nic},
    offload,
    report::{json, style::Style},
};

/// How long nothing may arrive until it is looked whether the user wants an end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Forward between two interfaces until Ctrl-C: frames, or IP packets
///
/// Takes what arrives at one interface through AF_XDP rings, of all its queues, and sends it
/// through the other. The kernel's stack sees none of it meanwhile, and all of it afterwards,
/// however the command ends. Programs are attached for this time unless they are already; then
/// `nicctl stats` goes on counting.
///
/// Without --l3 every frame goes to the other interface, as it is, and both interfaces take frames
/// for all stations. With it, IPv4 and IPv6 packets for other hosts go where the kernel's routes
/// lead, if that is through one of the two interfaces; their hop limit is taken down by one. ARP,
/// multicast, tagged frames and whatever is for this host stay with the kernel. Changes of routes
/// and neighbours are followed within a second; addresses of this host are those at the start.
///
/// What rings take they cannot give back: with --l3, packets without a route, with a hop limit
/// used up, too long for the way on, or whose neighbour is still being looked for, are dropped and
/// counted; no ICMP message says so. With --in-kernel they go to the kernel, which answers, and
/// routes what it can (net.ipv4.ip_forward and net.ipv6.conf.all.forwarding must be on).
///
/// Checksums that a sender on this machine left to its NIC are not filled in: where the other end
/// is a veth, turn its offload off (ethtool -K veth0 tx off). --in-kernel to a veth takes GRO or
/// XDP at its peer. VLAN tags that a NIC takes out of frames are lost (ethtool -K eth0 rxvlan off).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl forward eth0 eth1
  nicctl forward eth0 eth1 --l3 --interval 10
  nicctl forward eth0 eth1 --l3 --in-kernel --json")]
pub(super) struct Args {
    /// One interface
    #[arg(value_name = "A", value_parser = name::interface())]
    first: String,

    /// The other one
    #[arg(value_name = "B", value_parser = name::interface())]
    second: String,

    /// Route IP packets instead of handing on frames
    #[arg(long)]
    l3: bool,

    /// Do the same in the kernel, by XDP, without rings
    #[arg(long)]
    in_kernel: bool,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Say what happened every SECS seconds, 0.1 to 86400, not only at the end
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    interval: Option<Duration>,

    /// Print JSON (`nicctl schema forward`), one document a line, the first when it begins
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    match text.parse() {
        Ok(seconds @ 0.1..=86_400.0) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("from 0.1 to 86400 seconds are possible"),
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
    let nics = [&first, &second];
    let mut forwarder: Box<dyn Forwarder> = if args.in_kernel {
        Box::new(InKernel::open(nics, layer)?)
    } else {
        Box::new(InRings::open(nics, layer)?)
    };
    let report = Report { args, names, layer, since: Instant::now() };
    report.begin(&*forwarder, out)?;
    let mut next = args.interval.map(|interval| report.since + interval);
    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        if let Err(error) = forwarder.turn(PATIENCE) {
            break Err(error);
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

/// Tells what happened.
struct Report<'a> {
    args: &'a Args,
    names: [&'a str; 2],
    layer: Layer,
    since: Instant,
}

impl Report<'_> {
    /// Tells that it begins, and how.
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
            text::write(&mut *out, Style::for_stdout(), self.names, &counts, since)?;
        }
        Ok(out.flush()?)
    }
}
