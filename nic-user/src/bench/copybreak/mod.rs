//! `copybreak`: packets that are held, and what copying them is worth; and a web server behind the
//! kernel's own stack, where copying is pulling together.

mod conclusion;
mod holding;
mod http;
mod latency;
mod load;
mod nginx;
mod sizes;
mod traffic;
mod web;

use std::{
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use conclusion::Best;
use holding::Holding;
use latency::Latencies;
use load::Load;
pub use nginx::find as nginx;
use nic_common::policy::CopyPolicy;
pub use sizes::Sizes;
use traffic::Sender;

use super::{
    Settings,
    cpu::Cpus,
    experiment::{Case, Experiment, Sample, Trial, Variant, percent},
    model::{self, Measure},
    round::{Count, Over, Round, Side, Worker},
    text,
};
use crate::{
    driver::{
        Mode, Options,
        buffers::{Buffers, Layout},
        port::{Config, Port},
        receive::Building,
    },
    error::Result,
    lab::{Lab, Shape, sockets::ToSockets},
};

/// Packets a second that are offered.
const RATE: u32 = 200_000;
/// Packets up to this many bytes are copied, and what that is called.
const THRESHOLDS: [(u16, &str); 7] = [
    (0, "keep frames"),
    (64, "copy to 64"),
    (128, "copy to 128"),
    (256, "copy to 256"),
    (512, "copy to 512"),
    (1024, "copy to 1024"),
    (2048, "copy to 2048"),
];
/// Buffers for copies: more than are ever held.
const COPIES: u32 = 8192;
const COPY_SIZE: u32 = 2048;
const BATCH: u32 = 64;
/// How long the receiver waits for packets while it has nothing to give back.
const GLANCE: Duration = Duration::from_millis(1);

/// What packets have to go through.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    /// Frames of the driver.
    pool: u32,
    /// How long a packet is held, in ms.
    hold: u64,
    /// Whether the machine is busy with other things.
    loaded: bool,
}

const fn conditions(pool: u32, hold: u64, loaded: bool) -> Conditions {
    Conditions { pool, hold, loaded }
}

/// With too few frames, with enough, and with nothing held; idle and busy.
const CONDITIONS: [Conditions; 6] = [
    conditions(512, 5, false),
    conditions(1024, 10, false),
    conditions(4096, 10, false),
    conditions(512, 0, false),
    conditions(512, 5, true),
    conditions(512, 0, true),
];

/// Sets the experiment up.
///
/// # Errors
///
/// There can be no lab here.
pub fn experiment(settings: &Settings) -> Result<Experiment> {
    let cpus = Cpus::apart()?;
    let lab = Lab::new(Shape { queues: 1, ..Shape::default() })?;
    let bed = Rc::new(Bed { sockets: ToSockets::attach(lab.b())?, lab, cpus });
    let mixed = Sizes::imix();
    let small = settings.sizes.clone().unwrap_or_else(Sizes::rpc);
    let mut cases: Vec<Case> =
        CONDITIONS.iter().map(|conditions| case(&bed, &small, *conditions)).collect();
    cases.insert(1, case(&bed, &mixed, conditions(512, 5, false)));
    let web = nginx::find().and_then(|nginx| web::cases(&nginx, cpus));
    let web_notes = web::notes(web.as_ref().err());
    cases.extend(web.unwrap_or_default());
    Ok(Experiment {
        name: "copybreak",
        title: "Copybreak: packets held in their buffers or copied, also under a web server",
        source: "net: hns3: use bounce buffer when rx page cannot be reused (2021)",
        place: format!(
            "veth, our driver on AF_XDP in copy mode, and the kernel's stack for nginx; {cpus}"
        ),
        notes: [
            "packets come at a steady rate; a receiver that holds more than there are frames for \
             loses packets",
            "p50 to max: latency from before the sender's call until the receiver has the packet, \
             of those that arrive",
            "sender and receiver busy-wait: CPU and cost say little",
            "loaded: 8 threads compute, 4 write and sync 1 MB at a time, 2 touch 128 MB; on two \
             CPUs, this mostly measures the scheduler",
            "published: more than 1.5 times the TCP throughput of one thread, with a strict \
             IOMMU; here nothing is mapped, so the gain is in frames",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(web_notes)
        .collect(),
        cases,
    })
}

fn case(bed: &Rc<Bed>, sizes: &Sizes, conditions: Conditions) -> Case {
    let Conditions { pool, hold, loaded } = conditions;
    let loaded = if loaded { ", loaded" } else { "" };
    let title = format!("{}, {RATE}/s, {pool} frames, held {hold} ms{loaded}", sizes.name());
    let variants = THRESHOLDS.map(|(threshold, title)| {
        let trial = HoldTrial { bed: bed.clone(), sizes: sizes.clone(), conditions, threshold };
        Variant::new(title, trial)
    });
    Case::new(title, Measure::Packets, variants.into()).concluding(conclude)
}

/// The smallest threshold that gets about as much as the best one, if any gets more than none.
fn conclude(variants: &[model::Variant]) -> String {
    let ratio = |variant: &model::Variant| variant.measured.as_ref()?.rate_ratio;
    let ratios = variants.iter().filter_map(|variant| Some((&*variant.title, ratio(variant)?)));
    match Best::of(ratios) {
        Best::Threshold(title, ratio) => {
            format!("best: {title}, {} times the packets", text::ratio(ratio))
        }
        Best::None => "best: keep frames; copying loses packets".to_owned(),
        Best::Any => "no difference in what arrives".to_owned(),
    }
}

struct Bed {
    sockets: ToSockets,
    lab: Lab,
    cpus: Cpus,
}

struct HoldTrial {
    bed: Rc<Bed>,
    sizes: Sizes,
    conditions: Conditions,
    threshold: u16,
}

impl Trial for HoldTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let Bed { lab, cpus, sockets } = &*self.bed;
        let (conditions, threshold) = (self.conditions, self.threshold);
        let sender = Sender::new(lab.a(), lab.b(), &self.sizes, RATE)?;
        let (sent, received, latencies) = (Count::default(), Count::default(), Latencies::new()?);
        let seen = Seen { packets: &received, latencies: &latencies };
        let _load = Load::start_if(conditions.loaded)?;
        let workers = vec![
            Worker::new(Side::Sender, cpus.sender, |over| sender.run(over, &sent)),
            Worker::new(Side::Receiver, cpus.receiver, move |over| {
                let port = open(sockets, lab, conditions, threshold);
                port.and_then(|port| hold(port, conditions, over, &seen)).map_err(io::Error::other)
            }),
        ];
        let read = || Ok((sent.get(), received.get(), latencies.take()?));
        let window = round.measure(workers, read)?;
        let (before, after) = (&window.before, &window.after);
        let (sent, received) = (after.0 - before.0, after.1 - before.1);
        let lost = sent.saturating_sub(received) as f64;
        let sample = Sample::of(&window, received);
        Ok(after.2.describe(sample.with("lost", "%", percent(lost, sent as f64))))
    }
}

/// What the receiver sees.
#[derive(Clone, Copy)]
struct Seen<'s> {
    packets: &'s Count,
    latencies: &'s Latencies,
}

fn open(sockets: &ToSockets, lab: &Lab, conditions: Conditions, threshold: u16) -> Result<Port> {
    let layout = Layout {
        frames: conditions.pool,
        copies: COPIES,
        copy_size: COPY_SIZE,
        ..Layout::default()
    };
    let policy = CopyPolicy { rx_copybreak: threshold, max_linear: 0, split: false };
    let config = Config {
        queues: vec![0],
        building: Building { policy, bounce_below: 0 },
        options: Options { mode: Mode::Copy, ..Options::default() },
    };
    sockets.open(lab.b(), &config, &Buffers::new(layout)?)
}

/// Receives until the round is over, and keeps every packet for its time.
fn hold(mut port: Port, conditions: Conditions, over: &Over, seen: &Seen<'_>) -> Result<()> {
    let mut holding = Holding::new(Duration::from_millis(conditions.hold));
    while !over.is_over() {
        let next = holding.release(Instant::now());
        let mut arrived = 0;
        for queue in port.queues_mut() {
            let mut latencies = seen.latencies.record();
            let (now, time) = (Instant::now(), latency::now());
            arrived += queue.receive(BATCH, |packet| {
                let Some(sent_at) = traffic::sent_at(&packet) else { return };
                latencies.add(time.saturating_sub(sent_at));
                seen.packets.add(1);
                holding.keep(packet, now);
            });
        }
        let idle = arrived == 0 && next.is_none_or(|next| next > GLANCE);
        if idle && !port.wait(GLANCE)? && over.is_over() {
            break;
        }
    }
    Ok(())
}
