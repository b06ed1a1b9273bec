//! What merging costs: ns per packet, by where the payload lies.
//!
//! Each round builds a batch of packets of one flow, which is not measured, and measures either
//! dropping them, or merging them and dropping the large packet. The difference is what GRO takes,
//! checksums verified or trusted. In some rounds the payload lies in its frame, so that it joins by fragments;
//! in others the first 256 bytes of each packet were copied, as drivers without header split do, so
//! that packets are chained.

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
        gro::{Checksums, Gro, Limits},
        packet::{Frag, Packet},
        receive::{Builder, Building},
        segment::{Ids, SuperPacket},
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
/// Packets of a batch: what fits 65535 bytes, and is not more than a driver takes at once.
const BATCH: usize = 40;

/// The most ns that merging a packet by fragments may take.
const FLOOR: f64 = 60.0;

fn main() -> Result<()> {
    measure::on_one_cpu(run)
}

fn run(floors: &mut Floors) -> Result<()> {
    println!("ns per packet over dropping it: median of {ROUNDS} (min-max)\n");
    let columns = [
        ("PACKETS", Align::Left),
        ("PAYLOAD", Align::Right),
        ("CHECKSUMS", Align::Left),
        ("BY FRAGMENTS", Align::Right),
        ("CHAINED", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut bench = Bench::new()?;
    for sample in samples()? {
        for checksums in [Checksums::Verified, Checksums::Trusted] {
            let (by_frags, chained) = bench.measure(&sample, checksums)?;
            let (title, size) = (sample.title, sample.size.to_string());
            let checksums = match checksums {
                Checksums::Verified => "verified",
                Checksums::Trusted => "trusted",
            };
            let what = format!("{title} of {size}, checksums {checksums}");
            floors.check(&what, by_frags.median, FLOOR, "ns");
            table.push([title.into(), size, checksums.into(), by_frags.text(), chained.text()]);
        }
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}

/// Packets of one flow.
struct Sample {
    title: &'static str,
    frames: Vec<Vec<u8>>,
    size: usize,
}

fn samples() -> Result<Vec<Sample>> {
    let ends = Ends::default();
    let payload = |size: usize| -> Vec<u8> { (0..size * BATCH).map(|at| at as u8).collect() };
    let sample = |title, frame: Vec<u8>, size| {
        let (headers, payload) = frame.split_at(frame.len() - size * BATCH);
        let parts = std::iter::once(payload);
        let mut segments = SuperPacket::new(headers, parts, size, Ids::Increment)?.segments();
        let mut frames = Vec::new();
        while let Some(len) = segments.next_len() {
            let mut frame = vec![0; len];
            segments.write(&mut frame)?;
            frames.push(frame);
        }
        Ok(Sample { title, frames, size })
    };
    let large = payload(1440);
    [
        sample("UDP over IPv4", ends.ethernet(ends.ipv4(ends.udp(V4, &payload(512)))), 512),
        sample("UDP over IPv4", ends.ethernet(ends.ipv4(ends.udp(V4, &large))), 1440),
        sample("TCP over IPv4", ends.ethernet(ends.ipv4(ends.tcp(V4, &large))), 1440),
        sample(
            "VLAN, TCP over IPv6",
            ends.ethernet(vlan(5, ends.ipv6(ends.tcp(V6, &large)))),
            1440,
        ),
    ]
    .into_iter()
    .collect()
}

struct Bench {
    buffers: Rc<Buffers>,
    builder: Builder,
    batch: Vec<Packet>,
    gro: Gro,
}

impl Bench {
    fn new() -> Result<Self> {
        let buffers = Buffers::new(Layout::default())?;
        let policy = CopyPolicy { rx_copybreak: 0, ..CopyPolicy::DEFAULT };
        let builder = Builder::new(Building { policy, bounce_below: 0 }, &buffers)?;
        let gro = Gro::new(Limits::default());
        Ok(Self { buffers, builder, batch: Vec::with_capacity(BATCH), gro })
    }

    /// ns over dropping, by fragments and chained.
    fn measure(&mut self, sample: &Sample, checksums: Checksums) -> Result<(Spread, Spread)> {
        self.gro = Gro::new(Limits::default()).with_checksums(checksums);
        let (mut by_frags, mut chained) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (is_fixed, over_dropping) in [(false, &mut by_frags), (true, &mut chained)] {
                self.build(sample, is_fixed)?;
                let dropped = self.drop_batch();
                self.build(sample, is_fixed)?;
                over_dropping.push(self.merge_batch() - dropped);
            }
        }
        let counters = self.gro.counters();
        let merged = counters.by_frags + counters.chained;
        if merged + counters.merged != counters.received {
            return Err(format!("not everything was merged: {counters:?}").into());
        }
        Ok((Spread::of(by_frags), Spread::of(chained)))
    }

    fn build(&mut self, sample: &Sample, is_fixed: bool) -> Result<()> {
        for bytes in &sample.frames {
            let frame = self.buffers.frames().take().ok_or("no frame is left")?;
            let mut frag = Frag::empty(frame, 256);
            frag.append(bytes);
            let packet = if is_fixed { self.fixed(frag)? } else { self.builder.build(frag) };
            self.batch.push(packet);
        }
        Ok(())
    }

    /// 256 bytes copied, whatever they are.
    fn fixed(&self, mut frag: Frag) -> Result<Packet> {
        let info = HeaderInfo::of(&*frag);
        let mut linear = Frag::empty(self.buffers.copies().take().ok_or("no buffer is left")?, 0);
        linear.append(frag.get(..256).ok_or("a short frame")?);
        frag.advance(256);
        let frags = std::iter::once(frag).collect();
        Ok(Packet { linear, frags, info, verdict: Verdict::Split })
    }

    fn drop_batch(&mut self) -> f64 {
        let start = Instant::now();
        for packet in self.batch.drain(..) {
            drop(black_box(packet));
        }
        start.elapsed().as_nanos() as f64 / BATCH as f64
    }

    fn merge_batch(&mut self) -> f64 {
        let Self { batch, gro, .. } = self;
        let start = Instant::now();
        for packet in batch.drain(..) {
            gro.receive(packet, |received| drop(black_box(received)));
        }
        gro.flush(|received| drop(black_box(received)));
        start.elapsed().as_nanos() as f64 / BATCH as f64
    }
}
