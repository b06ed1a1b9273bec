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

/// The first queue of an interface, and what is sent through it again and again.
pub struct Sender {
    port: Port,
    headers: Vec<u8>,
    payload: Vec<u8>,
    /// Payload of a datagram, in bytes.
    size: usize,
}

impl Sender {
    /// At a host's interface, for datagrams of `size` bytes. It receives nothing: the interface has
    /// no XDP program.
    pub fn open(host: &Host, ends: &Ends, size: usize) -> Result<Self> {
        let payload = vec![0xa5; size * MAX_SEGMENTS.min(MAX_PAYLOAD / size.max(1))];
        let mut headers = ends.ethernet(ends.ipv4(ends.udp(IpVersion::V4, &payload)));
        headers.truncate(HEADERS_LEN);
        let policy = CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false };
        let building = Building { policy, bounce_below: 0 };
        let config = Config { queues: vec![0], building, options: Options::default() };
        let buffers = Buffers::new(Layout::default())?;
        let port = Port::open(&host.into(), &config, &buffers, |_, _| Ok(()))?;
        Ok(Self { port, headers, payload, size })
    }

    /// Sends until the round is over, and counts bytes of payload.
    pub fn send(mut self, over: &Over, sent: &Count) -> Result<()> {
        let Self { port, headers, payload, size } = &mut self;
        let Some(queue) = port.queues_mut().first_mut() else { return Ok(()) };
        while !over.is_over() {
            let packet = SuperPacket::new(headers, iter::once(&**payload), *size, Ids::Increment);
            let packet = packet.map_err(|error| Error::failed(error.to_string()))?;
            if send_packet(queue, packet, over)? {
                sent.add(payload.len() as u64);
            }
        }
        Ok(())
    }
}

/// Whether all of it was sent before the round was over: a card may take as long as it likes.
fn send_packet<'p>(
    queue: &mut Queue,
    packet: SuperPacket<'p, impl Iterator<Item = &'p [u8]> + Clone>,
    over: &Over,
) -> Result<bool> {
    let mut segments = packet.segments();
    while let Err(why) = queue.send_segments(&mut segments) {
        if why != Refusal::Full {
            return Err(Error::failed("segments are longer than frames"));
        }
        if over.is_over() {
            return Ok(false);
        }
        queue.flush()?;
    }
    queue.flush()?;
    Ok(true)
}
