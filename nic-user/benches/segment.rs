//! What segmentation costs beside copying the same bytes: ns per segment.
//!
//! Each round writes the segments of one super-packet into buffers of 2 KiB, one after the other,
//! once by copying headers and payload and once by segmenting. The difference is what headers and
//! checksums take.

mod measure;

use std::{hint::black_box, time::Instant};

use measure::{Floors, Result, Spread};
use nic_user::{
    driver::segment::{Ids, SuperPacket},
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
/// Segments written in one round: so few that what else the machine does spoils few rounds.
const SEGMENTS: usize = 1000;
/// Length of a buffer.
const FRAME: usize = 2048;

/// The most ns that a segment may take beside copying it.
const FLOOR: f64 = 25.0;

fn main() -> Result<()> {
    measure::on_one_cpu(run)
}

fn run(floors: &mut Floors) -> Result<()> {
    println!("ns per segment: median of {ROUNDS} (min-max)\n");
    let columns = [
        ("SUPER-PACKET", Align::Left),
        ("SEGMENT", Align::Right),
        ("COPIED", Align::Right),
        ("SEGMENTED", Align::Right),
        ("MORE", Align::Right),
    ];
    let mut table = Table::new(columns);
    for sample in samples() {
        let (copied, segmented, more) = sample.measure()?;
        let size = sample.size.to_string();
        table.push([sample.title.into(), size, copied.text(), segmented.text(), more.text()]);
        floors.check(&format!("{} in {}", sample.title, sample.size), more.median, FLOOR, "ns");
    }
    Ok(table.write(&mut std::io::stdout(), Style::Plain)?)
}

/// A super-packet to measure with.
struct Sample {
    title: &'static str,
    headers: Vec<u8>,
    payload: Vec<u8>,
    /// Payload of a segment, in bytes.
    size: usize,
}

fn samples() -> Vec<Sample> {
    let ends = Ends::default();
    let payload: Vec<u8> = (0..180_000_u32).map(|number| (number * 7) as u8).collect();
    let small = &payload[..64_000];
    let sample = |title, frame: Vec<u8>, payload: &[u8], size| {
        let headers = frame[..frame.len() - payload.len()].to_vec();
        Sample { title, headers, payload: payload.to_vec(), size }
    };
    let udp4 = ends.ethernet(ends.ipv4(ends.udp(V4, small)));
    let tcp4 = ends.ethernet(ends.ipv4(ends.tcp(V4, small)));
    let vlan6 = ends.ethernet(vlan(5, ends.ipv6(ends.tcp(V6, small))));
    let [_, big] = ends.big_tcp();
    let big_payload = big.frame[big.frame.len() - 100_000..].to_vec();
    vec![
        sample("UDP over IPv4, 64 KB", udp4.clone(), small, 512),
        sample("UDP over IPv4, 64 KB", udp4, small, 1472),
        sample("TCP over IPv4, 64 KB", tcp4, small, 1460),
        sample("VLAN, TCP over IPv6, 64 KB", vlan6, small, 1440),
        sample("BIG TCP over IPv6, 100 KB", big.frame, &big_payload, 1440),
    ]
}

impl Sample {
    /// ns to copy, ns to segment, and how many more that is.
    fn measure(&self) -> Result<(Spread, Spread, Spread)> {
        let per_packet = self.payload.len().div_ceil(self.size);
        let packets = SEGMENTS / per_packet;
        let mut buffers = vec![0; per_packet * FRAME];
        let (mut copied, mut segmented, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let ns =
                |start: Instant| start.elapsed().as_nanos() as f64 / (packets * per_packet) as f64;
            let start = Instant::now();
            for _ in 0..packets {
                self.copy(black_box(&mut buffers));
            }
            let copy = ns(start);
            let start = Instant::now();
            for _ in 0..packets {
                self.segment(black_box(&mut buffers))?;
            }
            let segment = ns(start);
            copied.push(copy);
            segmented.push(segment);
            more.push(segment - copy);
        }
        Ok((Spread::of(copied), Spread::of(segmented), Spread::of(more)))
    }

    fn copy(&self, buffers: &mut [u8]) {
        for (payload, buffer) in self.payload.chunks(self.size).zip(buffers.chunks_mut(FRAME)) {
            let (headers, rest) = buffer.split_at_mut(self.headers.len());
            headers.copy_from_slice(&self.headers);
            rest[..payload.len()].copy_from_slice(payload);
        }
    }

    fn segment(&self, buffers: &mut [u8]) -> Result<()> {
        let parts = std::iter::once(&self.payload[..]);
        let packet = SuperPacket::new(&self.headers, parts, self.size, Ids::Increment)?;
        let mut segments = packet.segments();
        for buffer in buffers.chunks_mut(FRAME) {
            segments.write(buffer)?;
        }
        Ok(())
    }
}
