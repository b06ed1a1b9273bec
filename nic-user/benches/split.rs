//! What building a packet costs: ns per packet over handing on the frame that it arrived in.
//!
//! Each round takes a batch of frames of one kind, freshly written, and measures handing them on
//! as they are, building packets around them (`Whole`), and splitting them (`Split`): headers in a
//! buffer of 256 bytes, payload in its frame. Walking the headers and the decision are part of
//! both; dropping the packets is part of none.

mod measure;

use std::{hint::black_box, rc::Rc, time::Instant};

use measure::{Floors, Result, Spread};
use nic_common::{
    headers::HeaderInfo,
    policy::{CopyPolicy, Verdict},
};
use nic_user::{
    driver::{
        buffers::{Buffers, Layout},
        packet::{Frag, Frags, Packet},
        receive::{Builder, Building},
    },
    lab::{
        frames::{Ends, vlan},
        traffic::IpVersion::{V4, V6},
    },
    report::{
        style::Style,
        table::{Align, Table},
    },
};

/// Rounds of one measurement, an odd number.
const ROUNDS: usize = 1001;
/// Packets of a batch.
const BATCH: usize = 64;
/// What the kernel leaves free in front of a frame.
const HEADROOM: u32 = 256;
/// Length of a frame without VLAN tag and FCS.
const LENGTH: usize = 1514;

/// The most ns that splitting may take.
const FLOOR: f64 = 15.0;

fn main() -> Result<()> {
    measure::on_one_cpu(run)
}

fn run(floors: &mut Floors) -> Result<()> {
    println!("ns per packet over handing on its frame: median of {ROUNDS} (min-max)\n");
    let columns = [
        ("PACKET", Align::Left),
        ("LENGTH", Align::Right),
        ("WHOLE", Align::Right),
        ("SPLIT", Align::Right),
        ("ALLOWED", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut bench = Bench::new()?;
    for (title, frame) in samples() {
        let (whole, split) = bench.measure(&frame)?;
        floors.check(&format!("splitting {title}"), split.median, FLOOR, "ns");
        let length = format!("{} B", frame.len());
        table.push([title.into(), length, whole.text(), split.text(), FLOOR.to_string()]);
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}

fn samples() -> [(&'static str, Vec<u8>); 4] {
    let ends = Ends::default();
    let payload = |headers: usize| vec![0xa5; LENGTH - headers];
    [
        ("TCP over IPv4", ends.ethernet(ends.ipv4(ends.tcp(V4, &payload(54))))),
        ("TCP over IPv6", ends.ethernet(ends.ipv6(ends.tcp(V6, &payload(74))))),
        ("UDP over IPv4", ends.ethernet(ends.ipv4(ends.udp(V4, &payload(42))))),
        ("VLAN, TCP over IPv4", ends.ethernet(vlan(5, ends.ipv4(ends.tcp(V4, &payload(54)))))),
    ]
}

struct Bench {
    buffers: Rc<Buffers>,
    whole: Builder,
    split: Builder,
    frames: Vec<Frag>,
    packets: Vec<Packet>,
}

impl Bench {
    fn new() -> Result<Self> {
        let buffers = Buffers::new(Layout::default())?;
        let builder = |split| {
            let policy = CopyPolicy { split, ..CopyPolicy::DEFAULT };
            Builder::new(Building { policy, bounce_below: 0 }, &buffers)
        };
        let (whole, split) = (builder(false)?, builder(true)?);
        let (frames, packets) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Ok(Self { buffers, whole, split, frames, packets })
    }

    /// ns over handing on the frame: whole, and split.
    fn measure(&mut self, frame: &[u8]) -> Result<(Spread, Spread)> {
        let (mut whole, mut split) = (Vec::new(), Vec::new());
        let info = HeaderInfo::of(frame);
        for _ in 0..ROUNDS {
            let handed_on = self.time(frame, Verdict::Whole, |_, linear| {
                let (frags, verdict) = (Frags::new(), Verdict::Whole);
                Packet { linear, frags, info, verdict }
            })?;
            let built = self.time(frame, Verdict::Whole, |bench, frag| bench.whole.build(frag))?;
            whole.push(built - handed_on);
            let built = self.time(frame, Verdict::Split, |bench, frag| bench.split.build(frag))?;
            split.push(built - handed_on);
        }
        Ok((Spread::of(whole), Spread::of(split)))
    }

    /// ns that `build` takes for each packet of a batch, all of which get this verdict.
    fn time(
        &mut self,
        frame: &[u8],
        verdict: Verdict,
        build: impl Fn(&mut Self, Frag) -> Packet,
    ) -> Result<f64> {
        for _ in 0..BATCH {
            let free = self.buffers.frames().take().ok_or("no frame is left")?;
            let mut frag = Frag::empty(free, HEADROOM);
            frag.append(frame);
            self.frames.push(frag);
        }
        let mut frames = std::mem::take(&mut self.frames);
        let start = Instant::now();
        for frag in frames.drain(..) {
            let packet = build(self, black_box(frag));
            self.packets.push(packet);
        }
        let ns = start.elapsed().as_nanos() as f64 / BATCH as f64;
        self.frames = frames;
        if black_box(&self.packets).iter().any(|packet| packet.verdict != verdict) {
            return Err("a packet was built otherwise".into());
        }
        self.packets.clear();
        Ok(ns)
    }
}
