//! Datagrams as super-packets, beside the same frames one by one.

use std::{iter, rc::Rc};

use nic_user::{
    driver::{
        Options,
        buffers::{Buffers, Layout},
        packet::Frag,
        port::Port,
        queue::{Queue, Refusal},
        receive::Building,
        segment::{Ids, SuperPacket},
    },
    error::{Error, Result},
    lab::{frames::Ends, sockets::ToSockets, traffic::IpVersion::V4},
};

use super::{
    Job,
    jobs::rate,
    ports::{WHOLE, open},
    stage::{PROGRAM_CPU, Stage, pin},
};

/// Ethernet, IPv4 and UDP headers.
const HEADERS_LEN: usize = 42;
/// Datagrams of a super-packet, and of a batch (`UDP_MAX_SEGMENTS` of most kernels).
const SEGMENTS: usize = 64;
/// The largest super-packet.
const MAX_PAYLOAD: usize = 65_507;

/// How frames are handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each is sent before the next one.
    OneByOne,
    /// Many are put into the ring before they are sent.
    Batches,
    /// Segmented by the driver.
    SuperPackets,
}

/// Segments per second with `size` bytes of payload each, in these ways.
pub fn measure<const N: usize>(size: usize, ways: [Way; N]) -> Result<[f64; N]> {
    let stage = Stage::new(Job::TxOnly, HEADERS_LEN + size)?;
    let measure = |way| {
        std::thread::scope(|scope| {
            let program = scope.spawn(|| {
                pin(PROGRAM_CPU);
                let mut program = Program::new(&stage, size)?;
                rate(|| program.turn(way))
            });
            program.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    };
    let mut rates = [0.0; N];
    for (rate, way) in rates.iter_mut().zip(ways) {
        *rate = measure(way)?;
    }
    Ok(rates)
}

struct Program<'s> {
    port: Port,
    frame: &'s [u8],
    /// Headers of a super-packet.
    headers: Vec<u8>,
    payload: Vec<u8>,
    size: usize,
    // After the port, which it serves.
    _sockets: ToSockets,
}

impl<'s> Program<'s> {
    fn new(stage: &'s Stage, size: usize) -> Result<Self> {
        let payload = vec![0xa5; size * SEGMENTS.min(MAX_PAYLOAD / size)];
        let ends = Ends::default();
        let mut headers = ends.ethernet(ends.ipv4(ends.udp(V4, &payload)));
        headers.truncate(HEADERS_LEN);
        let buffers = Buffers::new(Layout::default())?;
        let building = Building { policy: WHOLE, bounce_below: 0 };
        let fill = Options::default().fill;
        let sockets = ToSockets::attach(stage.host())?;
        let port = open(stage.host(), &sockets, building, fill, &buffers)?;
        Ok(Self { port, frame: &stage.frame, headers, payload, size, _sockets: sockets })
    }

    /// Sends the datagrams of one super-packet; how many that was.
    fn turn(&mut self, way: Way) -> Result<u64> {
        let buffers = Rc::clone(self.port.buffers());
        let segments = self.payload.len() / self.size;
        let [queue] = self.port.queues_mut() else { return Ok(0) };
        match way {
            Way::SuperPackets => send_segments(queue, &self.headers, &self.payload, self.size)?,
            Way::OneByOne | Way::Batches => {
                for _ in 0..segments {
                    send_frame(queue, &buffers, self.frame)?;
                    if way == Way::OneByOne {
                        queue.flush()?;
                    }
                }
            }
        }
        queue.flush()?;
        Ok(segments as u64)
    }
}

fn send_segments(queue: &mut Queue, headers: &[u8], payload: &[u8], size: usize) -> Result<()> {
    let packet = SuperPacket::new(headers, iter::once(payload), size, Ids::Increment);
    let mut segments = packet.map_err(|error| Error::failed(error.to_string()))?.segments();
    while let Err(why) = queue.send_segments(&mut segments) {
        full(why)?;
        queue.flush()?;
    }
    Ok(())
}

fn send_frame(queue: &mut Queue, buffers: &Buffers, frame: &[u8]) -> Result<()> {
    let free = loop {
        match buffers.frames().take() {
            Some(free) => break free,
            // All are on their way; those that have arrived come back.
            None => queue.flush()?,
        }
    };
    let mut frag = Frag::empty(free, 0);
    frag.append(frame);
    let mut sent = queue.send_frame(frag, false);
    while let Err(unsent) = sent {
        full(unsent.why)?;
        queue.flush()?;
        sent = queue.send_frame(unsent.what, false);
    }
    Ok(())
}

fn full(why: Refusal) -> Result<()> {
    match why {
        Refusal::Full => Ok(()),
        _ => Err(Error::failed("a frame is refused")),
    }
}
