//! One stream of datagrams, segmented and sent by our driver.

use std::iter;

use super::{
    round::{Count, Over},
    udp::MAX_SEGMENTS,
};
use crate::{
    driver::{
        Options,
        buffers::{Buffers, Layout},
        port::{Config, Port},
        queue::{Queue, Refusal},
        receive::Building,
        segment::{Ids, SuperPacket},
    },
    error::{Error, Result},
    lab::{Host, frames::Ends, traffic::IpVersion},
};
use nic_common::policy::CopyPolicy;

/// Ethernet, IPv4 and UDP headers.
const HEADERS_LEN: usize = 14 + 20 + 8;
/// The largest super-packet: payload of an IPv4 packet of UDP.
const MAX_PAYLOAD: usize = 65_507;

/// Sends datagrams of `size` bytes through the first queue of a host's interface until the round is
/// over, and counts their bytes.
pub fn send(host: &Host, ends: &Ends, size: usize, over: &Over, sent: &Count) -> Result<()> {
    let payload = vec![0xa5; size * MAX_SEGMENTS.min(MAX_PAYLOAD / size.max(1))];
    let mut headers = ends.ethernet(ends.ipv4(ends.udp(IpVersion::V4, &payload)));
    headers.truncate(HEADERS_LEN);
    let mut port = open(host)?;
    let Some(queue) = port.queues_mut().first_mut() else { return Ok(()) };
    while !over.is_over() {
        let packet = SuperPacket::new(&headers, iter::once(&*payload), size, Ids::Increment);
        let packet = packet.map_err(|error| Error::failed(error.to_string()))?;
        send_packet(queue, packet)?;
        sent.add(payload.len() as u64);
    }
    Ok(())
}

fn send_packet<'p>(
    queue: &mut Queue,
    packet: SuperPacket<'p, impl Iterator<Item = &'p [u8]> + Clone>,
) -> Result<()> {
    let mut segments = packet.segments();
    while let Err(why) = queue.send_segments(&mut segments) {
        if why != Refusal::Full {
            return Err(Error::failed("segments are longer than frames"));
        }
        queue.flush()?;
    }
    queue.flush()
}

/// It receives nothing: the interface has no XDP program.
fn open(host: &Host) -> Result<Port> {
    let policy = CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false };
    let building = Building { policy, bounce_below: 0 };
    let config = Config { queues: vec![0], building, options: Options::default() };
    Port::open(&host.into(), &config, &Buffers::new(Layout::default())?, |_, _| Ok(()))
}
