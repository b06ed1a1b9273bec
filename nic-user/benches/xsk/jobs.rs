//! The same over the driver.

use std::{iter, rc::Rc};

use nic_user::{
    driver::{
        Options,
        buffers::{Buffers, Layout},
        packet::Frag,
        port::Port,
        queue::Queue,
        receive::Building,
    },
    error::{Error, Result},
    lab::sockets::ToSockets,
};
use nix::time::{ClockId, clock_gettime};

use super::{
    Job,
    ports::{WHOLE, open},
    stage::{MILLISECONDS, PROGRAM_CPU, Stage, pin},
};

const BATCH: u32 = 64;

/// Packets per second.
pub fn run(stage: &Stage) -> Result<f64> {
    stage.with_traffic(|| {
        std::thread::scope(|scope| {
            let program = scope.spawn(|| {
                pin(PROGRAM_CPU);
                measure(stage)
            });
            program.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn measure(stage: &Stage) -> Result<f64> {
    let mut program = Program::new(stage)?;
    // Time starts with the first packet.
    while program.turn(stage)? == 0 {}
    rate(|| program.turn(stage))
}

/// Packets per second of this thread's time, where each turn says how many it was.
pub fn rate(mut turn: impl FnMut() -> Result<u64>) -> Result<f64> {
    let start = processor_time()?;
    let mut packets = 0;
    while processor_time()? - start < f64::from(MILLISECONDS) / 1e3 {
        for _ in 0..256 {
            packets += turn()?;
        }
    }
    Ok(packets as f64 / (processor_time()? - start))
}

/// What this thread had of the processor, in seconds.
fn processor_time() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let time = time.map_err(|errno| Error::io("read the time", &errno.into()))?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

struct Program {
    port: Port,
    batch: Vec<Frag>,
    // After the port, which it serves.
    _sockets: ToSockets,
}

impl Program {
    fn new(stage: &Stage) -> Result<Self> {
        let building = Building { policy: WHOLE, bounce_below: 0 };
        let buffers = Buffers::new(Layout::default())?;
        if stage.job == Job::TxOnly {
            write_to_all(&buffers, &stage.frame);
        }
        let fill = Options::default().fill;
        let sockets = ToSockets::attach(stage.host())?;
        let port = open(stage.host(), &sockets, building, fill, &buffers)?;
        Ok(Self { port, batch: Vec::with_capacity(BATCH as usize), _sockets: sockets })
    }

    /// Works on a batch; how many packets that was.
    fn turn(&mut self, stage: &Stage) -> Result<u64> {
        let buffers = Rc::clone(self.port.buffers());
        let [queue] = self.port.queues_mut() else { return Ok(0) };
        match stage.job {
            Job::RxDrop => Ok(queue.receive_frames(BATCH, |frag, _| drop(frag)).into()),
            Job::TxOnly => send(queue, &buffers, stage.frame.len() as u32),
            Job::L2Forward => forward(queue, &mut self.batch),
        }
    }
}

/// What is sent is written once, as the C program does it.
fn write_to_all(buffers: &Buffers, bytes: &[u8]) {
    let free = iter::from_fn(|| buffers.frames().take());
    let written = free.map(|frame| {
        let mut frag = Frag::empty(frame, 0);
        frag.append(bytes);
        frag
    });
    drop(written.collect::<Vec<_>>());
}

fn send(queue: &mut Queue, buffers: &Buffers, len: u32) -> Result<u64> {
    let mut sent = 0;
    while sent < u64::from(BATCH)
        && let Some(free) = buffers.frames().take()
        && queue.send_frame(Frag::new(free, 0, len), false).is_ok()
    {
        sent += 1;
    }
    queue.flush()?;
    Ok(sent)
}

fn forward(queue: &mut Queue, batch: &mut Vec<Frag>) -> Result<u64> {
    let received = queue.receive_frames(BATCH, |frag, _| batch.push(frag));
    for mut frag in batch.drain(..) {
        swap_addresses(&mut frag);
        // A full ring drops.
        let _ = queue.send_frame(frag, false);
    }
    queue.flush()?;
    Ok(received.into())
}

fn swap_addresses(frame: &mut [u8]) {
    if let Some((destination, rest)) = frame.split_first_chunk_mut::<6>()
        && let Some(source) = rest.first_chunk_mut::<6>()
    {
        std::mem::swap(destination, source);
    }
}
