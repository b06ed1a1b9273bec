//! The same in our driver: GRO on its packets, whose payload is then read.

use std::rc::Rc;

use nic_common::policy::CopyPolicy;

use super::{PUBLISHED, path::dont_fragment, quotient};
use crate::{
    bench::{
        experiment::{Case, Sample, Trial, Variant, percent},
        fed::{BATCH, Fed},
        model::Measure,
        round::{Count, Round},
    },
    driver::{
        baseline::FixedCopy,
        buffers::Buffers,
        gro::{Checksums, Gro, Limits, Merged, Received},
        packet::{Frag, Packet},
        queue::Queue,
        receive::Building,
    },
    error::Result,
    lab::{Lab, frames::Ends, traffic::IpVersion},
};

/// Room for the payload of any large packet.
const BLOCK: usize = 1 << 16;
/// Near the largest whose frames the generator makes: a page less what the kernel keeps in it.
const LARGE_MTU: u32 = 3000;

/// Which bytes are copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// The first 256, whatever they are.
    Fixed,
    /// The headers.
    Exact,
}

/// The cases of our driver.
pub fn cases() -> Result<Vec<Case>> {
    let case = |mtu, ip: IpVersion, name| -> Result<Case> {
        let fed = Rc::new(Fed::new(mtu, |lab| frame(lab, mtu, ip))?);
        let variant = |title, copied, checksums| {
            Variant::new(title, RingsTrial { fed: fed.clone(), copied, checksums })
        };
        Ok(Case::new(
            format!("our driver, UDP, {name}, MTU {mtu}"),
            Measure::Bytes,
            vec![
                variant("256 bytes", Copied::Fixed, Checksums::Trusted),
                variant("exact headers", Copied::Exact, Checksums::Trusted)
                    .published(Some(PUBLISHED), None),
                variant("256 B, verified", Copied::Fixed, Checksums::Verified),
                variant("exact, verified", Copied::Exact, Checksums::Verified),
            ],
        ))
    };
    Ok(vec![
        case(1500, IpVersion::V4, "IPv4")?,
        case(1500, IpVersion::V6, "IPv6")?,
        case(LARGE_MTU, IpVersion::V4, "IPv4")?,
    ])
}

/// The largest datagram.
fn frame(lab: &Lab, mtu: u32, ip: IpVersion) -> Vec<u8> {
    let ends = Ends::between(lab.a(), lab.b());
    let payload = |headers| vec![0xa5; mtu as usize - headers];
    match ip {
        IpVersion::V4 => dont_fragment(ends.ethernet(ends.ipv4(ends.udp(ip, &payload(28))))),
        IpVersion::V6 => ends.ethernet(ends.ipv6(ends.udp(ip, &payload(48)))),
    }
}

struct RingsTrial {
    fed: Rc<Fed>,
    copied: Copied,
    checksums: Checksums,
}

/// What leaves GRO.
#[derive(Default)]
struct Seen {
    payload: u64,
    packets: u64,
    chained: u64,
    segments: u64,
    bytes: u64,
    truesize: u64,
}

impl Trial for RingsTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let policy = CopyPolicy { rx_copybreak: 0, ..CopyPolicy::DEFAULT };
        let building = Building { policy, bounce_below: 0 };
        let counts: [Count; 6] = Default::default();
        let (copied, checksums) = (self.copied, self.checksums);
        let receiver = |buffers: &Rc<Buffers>| {
            let mut reader = Reader::new(buffers, copied, checksums);
            let counts = &counts;
            move |queue: &mut Queue| {
                let (frames, seen) = reader.receive(queue);
                let Seen { payload, packets, chained, segments, bytes, truesize } = seen;
                let seen = [payload, packets, chained, segments, bytes, truesize];
                counts.iter().zip(seen).for_each(|(count, seen)| count.add(seen));
                frames
            }
        };
        let (sample, seen) = self.fed.measure(round, building, &counts, receiver)?;
        let [payload, packets, chained, segments, bytes, truesize] = seen.map(|it| it as f64);
        Ok(Sample { done: payload, ..sample }
            .with("chained", "%", percent(chained, packets))
            .with("segments", "", quotient(segments, packets))
            .with("len/truesize", "", quotient(bytes, truesize)))
    }
}

/// Receives, merges, and reads what was merged.
struct Reader {
    fixed: FixedCopy,
    copied: Copied,
    gro: Gro,
    block: Vec<u8>,
}

impl Reader {
    fn new(buffers: &Rc<Buffers>, copied: Copied, checksums: Checksums) -> Self {
        let gro = Gro::new(Limits::default()).with_checksums(checksums);
        Self { fixed: FixedCopy::new(buffers), copied, gro, block: vec![0; BLOCK] }
    }

    /// How many frames there were, and what they were.
    fn receive(&mut self, queue: &mut Queue) -> (u32, Seen) {
        let Self { fixed, copied, gro, block } = self;
        let mut seen = Seen::default();
        let mut each = |received: Received<'_>| seen.read(&received, block);
        let frames = match copied {
            Copied::Exact => queue.receive_merged(BATCH, gro, each),
            Copied::Fixed => {
                let frames = queue.receive_frames(BATCH, |frag, _| {
                    gro.receive(fixed.build(frag), &mut each);
                });
                gro.flush(each);
                frames
            }
        };
        (frames, seen)
    }
}

impl Seen {
    /// Copies the payload out, as recv(2) does.
    fn read(&mut self, received: &Received<'_>, block: &mut [u8]) {
        let mut room = &mut *block;
        let mut copy = |part: &[u8]| {
            if let Some((to, rest)) = std::mem::take(&mut room).split_at_mut_checked(part.len()) {
                to.copy_from_slice(part);
                room = rest;
                self.payload += part.len() as u64;
            }
        };
        match received {
            Received::Packet(packet) => {
                let headers = packet.info.header_len as usize;
                copy(packet.linear.get(headers..).unwrap_or_default());
                packet.frags.iter().for_each(|frag| copy(frag));
            }
            Received::Merged(merged) => {
                merged.payload().for_each(copy);
                self.count(merged);
            }
        }
    }

    fn count(&mut self, merged: &Merged<'_>) {
        self.packets += 1;
        self.chained += u64::from(!merged.chain.is_empty());
        self.segments += u64::from(merged.packets);
        self.bytes += (merged.header_len + merged.payload_len) as u64;
        self.truesize += merged.frags.iter().map(room_of).sum::<u64>();
        let packets = std::iter::once(&merged.head).chain(merged.chain.iter());
        self.truesize += packets.map(truesize).sum::<u64>();
    }
}

/// Bytes of memory that a packet keeps.
fn truesize(packet: &Packet) -> u64 {
    room_of(&packet.linear) + packet.frags.iter().map(room_of).sum::<u64>()
}

fn room_of(frag: &Frag) -> u64 {
    frag.frame().len() as u64
}
