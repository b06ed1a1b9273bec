//! The driver beside a C program over libxdp that does the same, and beside xdp-bench where that
//! has AF_XDP jobs (xdp-tools 1.6.3), on a veth pair in copy mode: one processor generates and
//! receives, another one runs the program. Then datagrams as super-packets beside the same frames
//! one by one.
//!
//! `--xdp-bench PROGRAM` says which xdp-bench; without it, it is the one in `PATH`.
//! `--bounce` shows what the bounce path does for a consumer that holds its packets; `--soak
//! SECONDS` runs everything at once and checks that no frame is ever lost.

mod measure;
mod xsk;

use std::{path::Path, time::Duration};

use measure::{Floors, Result, Spread};
use nic_user::report::{
    style::Style,
    table::{Align, Table},
};
use xsk::{
    Job, Peer, Stage, XdpBench, bounce,
    gso::{self, Way},
};

/// Rounds of one measurement, an odd number.
const ROUNDS: usize = 7;
/// Lengths of frames without FCS.
const LENGTHS: [usize; 2] = [60, 1500];
/// Payloads of datagrams.
const SEGMENTS: [usize; 3] = [1472, 1024, 512];
/// Super-packets have so many times the segments per second of frames one by one, at least.
const SUPER_PACKETS: f64 = 2.0;
/// Frames of the memory of a consumer that holds its packets.
const POOLS: [u32; 4] = [512, 1024, 2048, 4096];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !measure::is_wanted() {
        return Ok(());
    }
    measure::warn_if_busy();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        Some(arguments.get(at + 1).map_or("", String::as_str))
    };
    if let Some(seconds) = value("--soak") {
        let seconds = seconds.parse().map_err(|_| "--soak takes a number of seconds")?;
        return soak(seconds);
    }
    let xdp_bench = value("--xdp-bench").unwrap_or("xdp-bench");
    if has("--bounce") { bounce() } else { compare(Path::new(xdp_bench)) }
}

fn soak(seconds: u64) -> Result<()> {
    println!("{:#?}", xsk::soak::run(Duration::from_secs(seconds))?);
    println!("every frame is home");
    Ok(())
}

/// What becomes of the packets when each is held.
fn bounce() -> Result<()> {
    println!("{} packets/s of 60 bytes, each held for {:?}\n", bounce::OFFERED, bounce::HOLD);
    let columns = [
        ("FRAMES", Align::Right),
        ("BOUNCE", Align::Left),
        ("DELIVERED", Align::Right),
        ("FRAG_ALLOC", Align::Right),
        ("FRAG_ALLOC_ERR", Align::Right),
        ("P50 us", Align::Right),
        ("P99 us", Align::Right),
        ("P99.9 us", Align::Right),
    ];
    let mut table = Table::new(columns);
    for frames in POOLS {
        for with_bounce in [false, true] {
            let outcome = bounce::measure(frames, with_bounce)?;
            let latency = |share| format!("{:.0}", outcome.latency(share));
            table.push([
                frames.to_string(),
                if with_bounce { "yes" } else { "no" }.into(),
                format!("{:.1} %", 100.0 * outcome.delivered()),
                outcome.built.frag_alloc.to_string(),
                outcome.built.frag_alloc_err.to_string(),
                latency(0.5),
                latency(0.99),
                latency(0.999),
            ]);
        }
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}

/// The table of all programs.
fn compare(xdp_bench: &Path) -> Result<()> {
    let peer = Peer::build()?;
    let xdp_bench = XdpBench::new(xdp_bench)
        .inspect_err(|error| println!("xdp-bench: skipped: {error}\n"))
        .ok();
    let columns = [
        ("JOB", Align::Left),
        ("FRAME", Align::Right),
        ("PEER", Align::Left),
        ("PEER, Mpps", Align::Right),
        ("DRIVER, Mpps", Align::Right),
        ("RATIO", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut floors = Floors::default();
    for job in Job::ALL {
        for len in LENGTHS {
            let measured = measure_job(&peer, xdp_bench.as_ref(), job, len)?;
            let ours = Spread::of(measured.ours);
            for Beside { name, rates, ratios } in measured.peers {
                let (theirs, ratio) = (Spread::of(rates), Spread::of(ratios));
                table.push([
                    job.name().into(),
                    format!("{len} B"),
                    name.into(),
                    theirs.text(),
                    ours.text(),
                    ratio_text(ratio),
                ]);
                let what = format!("{} of {len} bytes: {name} over the driver", job.name());
                floors.check(&what, 1.0 / ratio.median, 1.0, "x");
            }
        }
    }
    table.write(&mut std::io::stdout(), Style::Plain)?;
    println!();
    compare_super_packets(&mut floors)?;
    Ok(floors.result()?)
}

/// The table of super-packets.
fn compare_super_packets(floors: &mut Floors) -> Result<()> {
    let columns = [
        ("UDP", Align::Left),
        ("ONE BY ONE, Mpps", Align::Right),
        ("IN BATCHES", Align::Right),
        ("SUPER-PACKETS", Align::Right),
        ("RATIO", Align::Right),
    ];
    let mut table = Table::new(columns);
    for size in SEGMENTS {
        let mut rates = [const { Vec::new() }; 3];
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let round = gso::measure(size, [Way::OneByOne, Way::Batches, Way::SuperPackets])?;
            for (rates, rate) in rates.iter_mut().zip(round) {
                rates.push(rate / 1e6);
            }
            ratios.push(round[2] / round[0]);
        }
        let [one_by_one, batches, super_packets] = rates.map(|rates| Spread::of(rates).text());
        let ratio = Spread::of(ratios);
        let what = format!("super-packets of {size} bytes: one by one over them");
        floors.check(&what, 1.0 / ratio.median, 1.0 / SUPER_PACKETS, "x");
        table.push([format!("{size} B"), one_by_one, batches, super_packets, ratio_text(ratio)]);
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}

/// `1.23 (1.19-1.30)`
fn ratio_text(ratio: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.min, ratio.max)
}

/// Rates of all rounds in millions of packets per second.
struct Measured {
    ours: Vec<f64>,
    peers: Vec<Beside>,
}

/// What was measured of a peer.
struct Beside {
    name: &'static str,
    rates: Vec<f64>,
    /// Our rates over its, in the same round.
    ratios: Vec<f64>,
}

fn measure_job(
    peer: &Peer,
    xdp_bench: Option<&XdpBench>,
    job: Job,
    len: usize,
) -> Result<Measured> {
    let stage = Stage::new(job, len)?;
    let beside = |name| Beside { name, rates: Vec::new(), ratios: Vec::new() };
    let mut measured = Measured { ours: Vec::new(), peers: vec![beside("C")] };
    if xdp_bench.is_some() && job.of_xdp_bench().is_some() {
        measured.peers.push(beside("xdp-bench"));
    }
    for _ in 0..ROUNDS {
        let of_xdp_bench = xdp_bench.map(|it| it.run(&stage)).transpose()?.flatten();
        let theirs = [peer.run(&stage)?].into_iter().chain(of_xdp_bench);
        let our = xsk::run(&stage)?;
        measured.ours.push(our / 1e6);
        for (peer, their) in measured.peers.iter_mut().zip(theirs) {
            peer.rates.push(their / 1e6);
            peer.ratios.push(our / their);
        }
    }
    Ok(measured)
}
