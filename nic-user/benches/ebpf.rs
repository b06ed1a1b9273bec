//! What the kernel programs cost, in ns per packet over an empty program, by `BPF_PROG_TEST_RUN`,
//! beside C that does less: libxdp's parsing helpers with one counter where the fast path answers,
//! the flow dissector of the kernel's selftests where the whole walk does.
//!
//! Limits are ratios within a run: how long a call takes differs by a factor of ten between
//! machines that mitigate returns and such that do not.
//!
//! `--dissector FILE` is the dissector's source, bpf_flow.c.

mod bpf_peers;
mod measure;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use bpf_peers::{Dissector, Parser};
use measure::{Floors, Result, Spread};
use nic_user::{
    bench::cpu::ThreadClock,
    lab::{
        bpf::{Hook, Program, test_run},
        frames::{Ends, gre, hop_by_hop, ip_in_ip, vlan},
        traffic::IpVersion::{V4, V6},
    },
    offload::{Build, Programs},
    report::{
        style::Style,
        table::{Align, Table},
    },
};

/// Rounds of one measurement, an odd number.
const ROUNDS: usize = 7;
/// Turns of a round, in each of which every program runs; the fastest of its runs counts. What else
/// the machine and its neighbours do only ever adds time.
const TURNS: usize = 25;
/// Runs of a program in one turn: so many that it does not matter that the kernel patches its XDP
/// dispatcher before and after them, so few that some turns are undisturbed.
const REPEAT: u32 = 20_000;

/// What empty programs return; nobody looks at it.
const PASS: i32 = 0;

/// What the fast path of XDP may take at most, of the time of C with libxdp's helpers. TC has no
/// limit: that C is an XDP program, which runs before there is a packet object.
const FAST_LIMIT: f64 = 0.75;
/// What the slow path may take at most, of the time of the selftests' dissector.
const SLOW_LIMIT: f64 = 0.25;

fn main() -> Result<()> {
    measure::on_one_cpu(run)
}

fn run(floors: &mut Floors) -> Result<()> {
    println!("{}", measure::cpu_model());
    println!("ns per packet over an empty program: median of {ROUNDS} (min-max)\n");
    let peers = Peers::build()?;
    let mut table = Table::new([
        ("PACKET", Align::Left),
        ("PROGRAM", Align::Left),
        ("NS", Align::Right),
        ("BESIDE", Align::Left),
        ("NS", Align::Right),
        ("RATIO", Align::Right),
    ]);
    for mut subject in Subject::all()? {
        for sample in samples() {
            let Some(peer) = peers.of(&subject, &sample)? else { continue };
            let empty = Program::returning(subject.hook, PASS)?;
            let ours = [empty.as_fd(), subject.program()?];
            let [ours, theirs] = compare(ours, peer, &sample.frame)?;
            let ratio = ours.median / theirs.median;
            if let Some(limit) = subject.limit(&sample) {
                let what = format!("{} of {}, beside {}", subject.name, sample.title, peer.name);
                floors.check(&what, ratio, limit, "times");
            }
            table.push([
                sample.title.into(),
                subject.name.into(),
                ours.text(),
                peer.name.into(),
                theirs.text(),
                format!("{ratio:.2}"),
            ]);
        }
    }
    Ok(table.write(&mut io::stdout(), Style::Plain)?)
}

/// A frame to measure with.
struct Sample {
    title: &'static str,
    frame: Vec<u8>,
    /// Whether it takes the fast path.
    fast: bool,
}

fn samples() -> Vec<Sample> {
    let ends = Ends::default();
    let payload = [0xa5; 512];
    let udp6 = ends.ipv6(hop_by_hop(ends.udp(V6, &payload)));
    let inner = || ends.ipv4(ends.tcp(V4, &payload));
    [
        ("UDP, 64 bytes", ends.ipv4(ends.udp(V4, &payload[..22])), true),
        ("TCPv4", inner(), true),
        ("TCPv6", ends.ipv6(ends.tcp(V6, &payload)), true),
        ("VLAN, IPv6, HBH, UDP", vlan(5, udp6), true),
        ("GRE, IPv4, TCP", ends.ipv4(gre(inner())), false),
        ("IPv4 in IPv4, TCP", ends.ipv4(ip_in_ip(inner())), false),
        ("IPv4 in IPv6, TCP", ends.ipv6(ip_in_ip(inner())), false),
    ]
    .map(|(title, payload, fast)| Sample { title, frame: ends.ethernet(payload), fast })
    .into()
}

/// A program of ours.
struct Subject {
    name: &'static str,
    programs: Programs,
    program: fn(&mut Programs) -> nic_user::error::Result<BorrowedFd<'_>>,
    hook: Hook,
}

impl Subject {
    fn all() -> Result<[Self; 4]> {
        let of = |name, hook, program| {
            Programs::new().map(|programs| Self { name, programs, program, hook })
        };
        Ok([
            of("nic_rx", Hook::Xdp, |it| it.xdp(Build::SingleBuffer))?,
            of("nic_rx_frags", Hook::XdpFrags, |it| it.xdp(Build::Frags))?,
            of("nic_ingress", Hook::TcIngress, Programs::ingress)?,
            of("nic_egress", Hook::TcEgress, Programs::egress)?,
        ])
    }

    fn program(&mut self) -> Result<BorrowedFd<'_>> {
        Ok((self.program)(&mut self.programs)?)
    }

    fn is_xdp(&self) -> bool {
        matches!(self.hook, Hook::Xdp | Hook::XdpFrags)
    }

    fn limit(&self, sample: &Sample) -> Option<f64> {
        if sample.fast { self.is_xdp().then_some(FAST_LIMIT) } else { Some(SLOW_LIMIT) }
    }
}

/// What is measured beside ours, where it could be built.
struct Peers {
    parsers: [Parser; 2],
    dissector: Option<Dissector>,
    /// Empty programs of their kinds.
    empty: [Program; 3],
}

/// A program beside ours, and an empty one of its kind.
#[derive(Clone, Copy)]
struct Peer<'p> {
    name: &'static str,
    empty: BorrowedFd<'p>,
    program: BorrowedFd<'p>,
}

impl Peers {
    fn build() -> Result<Self> {
        let arguments: Vec<String> = std::env::args().collect();
        let at = arguments.iter().position(|argument| argument == "--dissector");
        let source = at.and_then(|at| arguments.get(at + 1));
        if source.is_none() {
            println!("skipped: the slow path, without the dissector's source (--dissector)\n");
        }
        let hooks = [Hook::Xdp, Hook::XdpFrags, Hook::FlowDissector];
        let [xdp, frags, dissector] = hooks.map(|hook| Program::returning(hook, PASS));
        Ok(Self {
            parsers: [Parser::build(Hook::Xdp)?, Parser::build(Hook::XdpFrags)?],
            dissector: source.map(|source| Dissector::build(Path::new(source))).transpose()?,
            empty: [xdp?, frags?, dissector?],
        })
    }

    /// What is comparable; `None` if it is not there.
    fn of(&self, subject: &Subject, sample: &Sample) -> Result<Option<Peer<'_>>> {
        let peer =
            |name, kind: usize, program| Peer { name, empty: self.empty[kind].as_fd(), program };
        if !sample.fast {
            let Some(dissector) = &self.dissector else { return Ok(None) };
            return Ok(Some(peer("dissector", 2, dissector.program()?)));
        }
        let kind = usize::from(subject.hook == Hook::XdpFrags);
        Ok(Some(peer("C", kind, self.parsers[kind].program()?)))
    }
}

/// ns of ours and of the other, each over its empty program.
fn compare(ours: [BorrowedFd<'_>; 2], peer: Peer<'_>, frame: &[u8]) -> Result<[Spread; 2]> {
    let programs = [ours[0], ours[1], peer.empty, peer.program];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let [empty, measured, peer_empty, peer_measured] = round(programs, frame)?;
        ours.push(measured - empty);
        theirs.push(peer_measured - peer_empty);
    }
    Ok([ours, theirs].map(Spread::of))
}

/// ns of every program: the fastest of its runs.
fn round(programs: [BorrowedFd<'_>; 4], frame: &[u8]) -> io::Result<[f64; 4]> {
    let mut fastest = [f64::INFINITY; 4];
    for _ in 0..TURNS {
        for (fastest, program) in fastest.iter_mut().zip(programs) {
            *fastest = fastest.min(time(program, frame)?);
        }
    }
    Ok(fastest)
}

/// The CPU time of one run of a program over a frame, in ns.
///
/// The kernel's own figure is whole nanoseconds, so the clock of this thread is taken.
fn time(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<f64> {
    let clock = ThreadClock::current();
    let start = clock.read()?;
    test_run(program, frame, REPEAT)?;
    Ok((clock.read()? - start).as_nanos() as f64 / f64::from(REPEAT))
}
