//! What the kernel programs cost, in ns per packet over an empty program, by `BPF_PROG_TEST_RUN`.
//!
//! A test run that repeats an XDP program does not reset the frame in between: each run would push
//! another 16 bytes of metadata in front of it, and from the limit on none at all. So there are two
//! figures. "No room" is the program as it is, which counts the frame as one without metadata.
//! "Metadata" runs behind a program that takes the metadata of the run before off again, and goes
//! on by tail call:
//!
//! ```text
//! measured     pop        tail call  nic_rx (pushes once)
//! one push     pop        tail call  push
//! two pushes   pop, pop   tail call  push, push
//! ```
//!
//! "Two pushes" less "one push" is a pop and a push, two calls of one helper. So "measured" less
//! "one push" plus half of that is what `nic_rx` takes with its metadata, over an empty program.

mod measure;

use std::{
    io, iter,
    os::fd::{AsFd, BorrowedFd},
};

use measure::{Floors, Result, Spread};
use nic_common::metadata::Metadata;
use nic_user::{
    bench::cpu::ThreadClock,
    lab::{
        bpf::{
            Hook, Program, TC_ACT_UNSPEC, XDP_PASS,
            insn::{Body, Helper, R1, R2, R3, R6, call, copy, map, mov},
            map::Descriptors,
            test_run,
        },
        frames::{Ends, gre, hop_by_hop, vlan},
        traffic::IpVersion::{V4, V6},
    },
    offload::{Build, Programs},
    report::{
        style::Style,
        table::{Align, Table},
    },
};

/// Rounds of one measurement, an odd number.
const ROUNDS: usize = 15;
/// Turns of a round, in each of which every program runs; the fastest of its runs counts. What else
/// the machine and its neighbours do only ever adds time.
const TURNS: usize = 5;
/// Runs of a program in one turn: so many that it does not matter that the kernel patches its XDP
/// dispatcher before and after them, so few that some turns are undisturbed.
const REPEAT: u32 = 20_000;

/// The most ns that any program may take.
const FLOOR: f64 = 15.0;

const META: i32 = Metadata::SIZE as i32;

fn main() -> Result<()> {
    measure::on_one_cpu(run)
}

fn run(floors: &mut Floors) -> Result<()> {
    println!("ns per packet over an empty program: median of {ROUNDS} (min-max)\n");
    xdp(floors)?;
    println!();
    tc(floors)
}

/// A frame to measure with.
struct Sample {
    title: &'static str,
    frame: Vec<u8>,
    /// Whether it takes the fast path, for which there is a floor.
    fast: bool,
}

fn samples() -> Vec<Sample> {
    let ends = Ends::default();
    let payload = [0xa5; 512];
    let udp6 = ends.ipv6(hop_by_hop(ends.udp(V6, &payload)));
    let tunnel = ends.ipv4(gre(ends.ipv4(ends.tcp(V4, &payload))));
    [
        ("UDP, 64 bytes", ends.ipv4(ends.udp(V4, &payload[..22])), true),
        ("TCPv4", ends.ipv4(ends.tcp(V4, &payload)), true),
        ("TCPv6", ends.ipv6(ends.tcp(V6, &payload)), true),
        ("VLAN, IPv6, HBH, UDP", vlan(5, udp6), true),
        ("GRE, IPv4, TCP", tunnel, false),
    ]
    .map(|(title, payload, fast)| Sample { title, frame: ends.ethernet(payload), fast })
    .into()
}

fn xdp(floors: &mut Floors) -> Result<()> {
    let columns = [
        ("XDP", Align::Left),
        ("BUILD", Align::Left),
        ("METADATA", Align::Right),
        ("NO ROOM", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut programs = Programs::new()?;
    for (build, hook) in [(Build::SingleBuffer, Hook::Xdp), (Build::Frags, Hook::XdpFrags)] {
        let bench = XdpBench::new(programs.xdp(build)?, hook)?;
        for sample in samples() {
            let (with, without) = bench.measure(&sample)?;
            table.push([sample.title.into(), build.name().into(), with.text(), without.text()]);
            if sample.fast {
                let what = format!("{} of {}", build.program(), sample.title);
                floors.check(&what, with.median.max(without.median), FLOOR, "ns");
            }
        }
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}

/// One build of the XDP program, with all that it is compared with.
struct XdpBench<'p> {
    program: BorrowedFd<'p>,
    empty: Program,
    behind_pop: Chain,
    one_push: Chain,
    two_pushes: Chain,
}

impl<'p> XdpBench<'p> {
    fn new(program: BorrowedFd<'p>, hook: Hook) -> Result<Self> {
        let pushing = |times| Program::load(hook, &moving(-META, times).ending_in(XDP_PASS));
        Ok(Self {
            program,
            empty: Program::returning(hook, XDP_PASS)?,
            behind_pop: Chain::new(hook, 1, program)?,
            one_push: Chain::new(hook, 1, pushing(1)?.as_fd())?,
            two_pushes: Chain::new(hook, 2, pushing(2)?.as_fd())?,
        })
    }

    /// ns with metadata, and ns where there is no room for it.
    fn measure(&self, sample: &Sample) -> Result<(Spread, Spread)> {
        let programs = [
            self.empty.as_fd(),
            self.program,
            self.one_push.first(),
            self.two_pushes.first(),
            self.behind_pop.first(),
        ];
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let [empty, no_room, one_push, two_pushes, measured] = round(programs, sample)?;
            without.push(no_room - empty);
            with.push(measured - one_push + (two_pushes - one_push) / 2.0);
        }
        Ok((Spread::of(with), Spread::of(without)))
    }
}

/// The ns that each program takes for a frame.
fn round<const N: usize>(programs: [BorrowedFd<'_>; N], sample: &Sample) -> Result<[f64; N]> {
    let mut fastest = [f64::INFINITY; N];
    for _ in 0..TURNS {
        for (fastest, program) in fastest.iter_mut().zip(programs) {
            *fastest = fastest.min(time(program, &sample.frame)?);
        }
    }
    Ok(fastest)
}

/// A program that takes metadata off and goes on with another by tail call.
struct Chain {
    first: Program,
    /// The kernel empties a program array that nobody has open.
    _next: Descriptors,
}

impl Chain {
    fn new(hook: Hook, pops: usize, program: BorrowedFd<'_>) -> Result<Self> {
        let next = Descriptors::of_programs(1)?;
        next.insert(0, program)?;
        let first = moving(META, pops)
            .then([copy(R1, R6)])
            .then(map(R2, next.as_fd()))
            .then([mov(R3, 0), call(Helper::TailCall)])
            .ending_in(0);
        Ok(Self { first: Program::load(hook, &first)?, _next: next })
    }

    fn first(&self) -> BorrowedFd<'_> {
        self.first.as_fd()
    }
}

/// Moves the start of the metadata by `bytes`, `times` times.
fn moving(bytes: i32, times: usize) -> Body {
    let one = [copy(R1, R6), mov(R2, bytes), call(Helper::AdjustMeta)];
    Body::default().then([copy(R6, R1)]).then(iter::repeat_n(one, times).flatten())
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

fn tc(floors: &mut Floors) -> Result<()> {
    let mut table = Table::new([("TC", Align::Left), ("", Align::Left), ("NS", Align::Right)]);
    let (mut ingress, mut egress) = (Programs::new()?, Programs::new()?);
    let programs = [("nic_ingress", ingress.ingress()?), ("nic_egress", egress.egress()?)];
    let empty = Program::returning(Hook::TcIngress, TC_ACT_UNSPEC)?;
    for sample in samples().iter().filter(|sample| sample.fast) {
        for (name, program) in &programs {
            let mut over_empty = Vec::new();
            for _ in 0..ROUNDS {
                let [empty, measured] = round([empty.as_fd(), *program], sample)?;
                over_empty.push(measured - empty);
            }
            let spread = Spread::of(over_empty);
            table.push([sample.title.into(), (*name).into(), spread.text()]);
            floors.check(&format!("{name} of {}", sample.title), spread.median, FLOOR, "ns");
        }
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}
