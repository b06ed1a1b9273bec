//! A consumer that holds every packet for a while, with the bounce path and without it.

use std::{
    collections::VecDeque,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use nic_user::{
    driver::{
        buffers::{Buffers, Layout},
        packet::{Frag, Packet},
        port::Port,
        receive::{Building, Built},
    },
    error::Result,
    lab::{Lab, Shape, frames::Ends, sockets::ToSockets, traffic::IpVersion::V4},
};

use super::{
    ports::{WHOLE, open},
    stage::{KERNEL_CPU, PROGRAM_CPU, pin},
};

/// Packets offered in a second.
pub const OFFERED: u32 = 200_000;
/// How long the consumer holds each.
pub const HOLD: Duration = Duration::from_millis(10);
/// How long one measurement takes.
const DURATION: Duration = Duration::from_secs(2);
/// Where in the frame the time of its departure is: the payload of UDP over IPv4.
const STAMP: usize = 42;

/// What came of one measurement.
pub struct Outcome {
    pub offered: u64,
    pub built: Built,
    /// Microseconds from the sender to the consumer, in order.
    latencies: Vec<f64>,
}

impl Outcome {
    /// Packets delivered of those offered.
    pub fn delivered(&self) -> f64 {
        self.latencies.len() as f64 / self.offered as f64
    }

    /// Latency that `share` of the packets do not exceed, in microseconds.
    pub fn latency(&self, share: f64) -> f64 {
        let at = (self.latencies.len() as f64 * share) as usize;
        self.latencies.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// Offers packets to a consumer that holds them, with a memory of `frames`.
pub fn measure(frames: u32, bounce: bool) -> Result<Outcome> {
    let lab = Lab::new(Shape { queues: 1, mtu: 1500 })?;
    let (start, stop) = (Barrier::new(2), AtomicBool::new(false));
    let epoch = Instant::now();
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            pin(PROGRAM_CPU);
            let port = consumer_port(&lab, frames, bounce);
            start.wait();
            consume(port?, &stop, epoch)
        });
        pin(KERNEL_CPU);
        let sender = sender_port(&lab);
        start.wait();
        let offered = sender.and_then(|port| offer(port, &lab, epoch));
        stop.store(true, Relaxed);
        let consumed = consumer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (built, latencies) = consumed?;
        Ok(Outcome { offered: offered?, built, latencies })
    })
}

fn consumer_port(lab: &Lab, frames: u32, bounce: bool) -> Result<(Port, ToSockets)> {
    let sockets = ToSockets::attach(lab.b())?;
    let buffers = Buffers::new(Layout { frames, copies: 8192, ..Layout::default() })?;
    let building = Building { policy: WHOLE, bounce_below: if bounce { frames / 2 } else { 0 } };
    Ok((open(lab.b(), &sockets, building, frames, &buffers)?, sockets))
}

fn sender_port(lab: &Lab) -> Result<(Port, ToSockets)> {
    let sockets = ToSockets::attach(lab.a())?;
    let building = Building { policy: WHOLE, bounce_below: 0 };
    let buffers = Buffers::new(Layout::default())?;
    Ok((open(lab.a(), &sockets, building, 64, &buffers)?, sockets))
}

/// Sends at the rate that was asked for; returns how many.
fn offer((mut port, _sockets): (Port, ToSockets), lab: &Lab, epoch: Instant) -> Result<u64> {
    let ends = Ends::between(lab.a(), lab.b());
    let frame = ends.ethernet(ends.ipv4(ends.udp(V4, &[0; 18])));
    let buffers = std::rc::Rc::clone(port.buffers());
    let [queue] = port.queues_mut() else { return Ok(0) };
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < DURATION {
        let due = (start.elapsed().as_secs_f64() * f64::from(OFFERED)) as u64;
        while sent < due
            && let Some(free) = buffers.frames().take()
        {
            let mut frag = Frag::empty(free, 0);
            frag.append(&frame);
            let now = epoch.elapsed().as_nanos() as u64;
            frag[STAMP..STAMP + 8].copy_from_slice(&now.to_ne_bytes());
            if queue.send_frame(frag, false).is_err() {
                break;
            }
            sent += 1;
        }
        queue.flush()?;
    }
    Ok(sent)
}

type Consumed = (Built, Vec<f64>);

fn consume(
    (mut port, _sockets): (Port, ToSockets),
    stop: &AtomicBool,
    epoch: Instant,
) -> Result<Consumed> {
    let mut latencies = Vec::with_capacity(OFFERED as usize * 4);
    let mut held: VecDeque<(Instant, Packet)> = VecDeque::with_capacity(1 << 16);
    let [queue] = port.queues_mut() else { return Ok((Built::default(), latencies)) };
    let mut idle = 0;
    while idle < 1000 {
        let now = Instant::now();
        let received = queue.receive(64, |packet| {
            latencies.extend(latency(&packet, epoch));
            held.push_back((now + HOLD, packet));
        });
        idle = if received == 0 && stop.load(Relaxed) { idle + 1 } else { 0 };
        while held.front().is_some_and(|(until, _)| *until <= now) {
            held.pop_front();
        }
    }
    latencies.sort_by(f64::total_cmp);
    Ok((queue.statistics()?.built, latencies))
}

/// How long the packet took, in microseconds; none for packets of the kernel's own.
fn latency(packet: &Packet, epoch: Instant) -> Option<f64> {
    let ours = packet.linear.len() == 60;
    let stamp = packet.linear.get(STAMP..STAMP + 8).filter(|_| ours)?;
    let departed = u64::from_ne_bytes(stamp.try_into().ok()?);
    Some((epoch.elapsed().as_nanos() as u64).saturating_sub(departed) as f64 / 1e3)
}
