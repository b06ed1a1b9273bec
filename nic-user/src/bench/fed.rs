//! Our driver in front of a generator: how long it takes to receive frames, apart from waiting for
//! them.

use std::{
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{
    cpu::{Cpus, ThreadClock},
    experiment::Sample,
    generator,
    round::{Count, CpuUse, Over, Round, Side, Worker},
};
use crate::{
    driver::{
        Mode, Options,
        buffers::{Buffers, Layout},
        port::Config,
        queue::Queue,
        receive::Building,
    },
    error::{Error, Result},
    lab::{Lab, Shape, generator::Generator, sockets::ToSockets},
};

/// Frames of one call: NAPI's budget.
pub const BATCH: u32 = 64;
/// How often frames are looked for, as interrupt coalescing has it.
const INTERVAL: Duration = Duration::from_micros(30);
/// How long it may take until frames arrive, and how often to look.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(1);

/// A host that is sent frames, whose interface gives them to our driver.
pub struct Fed {
    generator: Generator,
    sockets: ToSockets,
    lab: Lab,
    cpus: Cpus,
    frame_size: u32,
}

impl Fed {
    /// Sent the frame that is made for these hosts, again and again.
    pub fn new(mtu: u32, frame: impl FnOnce(&Lab) -> Vec<u8>) -> Result<Self> {
        let lab = Lab::new(Shape { queues: 1, mtu })?;
        let generator = Generator::new(lab.a(), frame(&lab))?;
        let sockets = ToSockets::attach(lab.b())?;
        let frame_size = if mtu > 1500 { 4096 } else { 2048 };
        Ok(Self { generator, sockets, lab, cpus: Cpus::apart()?, frame_size })
    }

    /// Measures `receiver`, which receives from the queue whenever it is called, up to [`BATCH`]
    /// frames, and says how many; it is made on the thread that has the port. Its seconds, and
    /// what was counted in them.
    pub fn measure<R: FnMut(&mut Queue) -> u32, const N: usize>(
        &self,
        round: &Round<'_>,
        building: Building,
        counts: &[Count; N],
        receiver: impl FnOnce(&Rc<Buffers>) -> R + Send,
    ) -> Result<(Sample, [u64; N])> {
        let busy = Count::default();
        let workers = vec![
            generator::worker(&self.generator, self.lab.a(), self.cpus.sender),
            Worker::new(Side::Receiver, self.cpus.receiver, |over| {
                self.receive(building, receiver, over, &busy).map_err(io::Error::other)
            }),
        ];
        let mut last = 0;
        let read = || {
            last = wait_for_more(round, &busy, last)?;
            Ok((last, counts.each_ref().map(Count::get)))
        };
        let window = round.measure(workers, read)?;
        let (before, after) = (window.before, window.after);
        let seconds = (after.0 - before.0) as f64 / 1e9;
        let cpu = CpuUse { receiver: seconds, busy: seconds, ..CpuUse::default() };
        let sample = Sample { seconds, done: 0.0, cpu, figures: Vec::new() };
        Ok((sample, std::array::from_fn(|at| after.1[at] - before.1[at])))
    }

    fn receive<R: FnMut(&mut Queue) -> u32>(
        &self,
        building: Building,
        receiver: impl FnOnce(&Rc<Buffers>) -> R,
        over: &Over,
        busy: &Count,
    ) -> Result<()> {
        let buffers = Buffers::new(Layout { frame_size: self.frame_size, ..Layout::default() })?;
        let options = Options { mode: Mode::Copy, ..Options::default() };
        let config = Config { queues: vec![0], building, options };
        let mut port = self.sockets.open(self.lab.b(), &config, &buffers)?;
        let mut receive = receiver(&buffers);
        // Not by the clock on the wall: others may run in between.
        let clock = ThreadClock::current();
        let fail = |error: io::Error| Error::io("read a clock", &error);
        while !over.is_over() {
            let (start, before) = (Instant::now(), clock.read().map_err(fail)?);
            let mut frames = 0;
            for queue in port.queues_mut() {
                frames += receive(queue);
            }
            if frames > 0 {
                busy.add((clock.read().map_err(fail)? - before).as_nanos() as u64);
            }
            while frames < BATCH && start.elapsed() < INTERVAL {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}

/// The count, once it is more than it was: it takes a while to open a port, and on a busy machine
/// the receiver may not have run yet.
fn wait_for_more(round: &Round<'_>, busy: &Count, last: u64) -> Result<u64> {
    let deadline = Instant::now() + PATIENCE;
    while busy.get() == last {
        if Instant::now() > deadline {
            return Err(Error::failed("nothing arrives in our driver's rings"));
        }
        round.stop.wait(GLANCE)?;
    }
    Ok(busy.get())
}
