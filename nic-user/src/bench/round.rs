//! One measurement: threads at work, and what is counted while a window of time is open.

use std::{
    io,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    cpu::{self, CpuTime, CpuTimes, ThreadClock},
    stop::Stop,
};
use crate::{
    error::{Error, Result},
    lab::interruption::Interruption,
};

/// How long threads may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// Part of the window that they work before it opens: connections grow, caches fill.
const SETTLING: f64 = 0.2;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Round<'s> {
    /// How long the window is open.
    pub window: Duration,
    /// Cuts it short.
    pub stop: &'s Stop,
    /// Whose CPU time counts.
    pub counting: Counting,
}

/// Which processors' time is what a round took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Those of its threads: everything that it causes is done there.
    #[default]
    Pinned,
    /// All of them: a network card interrupts whichever it likes.
    All,
}

impl Counting {
    /// What they did so far.
    fn read(self, pinned: &[usize]) -> Result<CpuTime> {
        let times = CpuTimes::read()?;
        Ok(match self {
            Self::Pinned => times.of(pinned),
            Self::All => times.all(),
        })
    }
}

/// Which side of an experiment a thread belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends, or asks.
    Sender,
    /// Receives, or answers.
    Receiver,
}

type Work<'w> = Box<dyn FnOnce(&Over) -> io::Result<()> + 'w>;

/// A thread that works until the round is over.
pub struct Worker<'w> {
    side: Side,
    cpu: usize,
    prepare: Box<dyn FnOnce() -> io::Result<Work<'w>> + Send + 'w>,
    interrupted: bool,
    /// Its own, if there is none.
    clock: Option<ThreadClock>,
}

impl<'w> Worker<'w> {
    /// A thread of `side` on one processor; `work` ends soon after the round is [`Over`].
    pub fn new(
        side: Side,
        cpu: usize,
        work: impl FnOnce(&Over) -> io::Result<()> + Send + 'w,
    ) -> Self {
        Self::prepared(side, cpu, || Ok(work))
    }

    /// The same with work that takes time to prepare, on its thread; the round begins after that.
    pub fn prepared<W: FnOnce(&Over) -> io::Result<()> + 'w>(
        side: Side,
        cpu: usize,
        prepare: impl FnOnce() -> io::Result<W> + Send + 'w,
    ) -> Self {
        let prepare = || prepare().map(|work| Box::new(work) as Work<'w>);
        Self { side, cpu, prepare: Box::new(prepare), interrupted: false, clock: None }
    }

    /// No thread, but a process that works on one processor and outlives the round; `clock` is its
    /// own.
    pub fn process(side: Side, cpu: usize, clock: ThreadClock) -> Self {
        Self { clock: Some(clock), ..Self::new(side, cpu, |_| Ok(())) }
    }

    /// Interrupts its system calls (`EINTR`) once the round is over.
    #[must_use]
    pub fn interrupted(self) -> Self {
        Self { interrupted: true, ..self }
    }
}

/// Whether the round is over.
#[derive(Debug, Default)]
pub struct Over(AtomicBool);

impl Over {
    /// Whether it is.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Now it is.
    pub fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Something that a thread counts while others look.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it; only one thread may.
    pub fn add(&self, amount: u64) {
        self.0.store(self.get() + amount, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// CPU time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// Of the sender's threads.
    pub sender: f64,
    /// Of the receiver's threads.
    pub receiver: f64,
    /// Of interrupts and softirqs on the processors that count.
    pub softirq: f64,
    /// Of everything on the processors that count.
    pub busy: f64,
}

/// What was seen while the window was open.
#[derive(Clone, Copy, Debug)]
pub struct Window<T> {
    /// How long it was.
    pub seconds: f64,
    /// What was read when it opened.
    pub before: T,
    /// What was read when it closed.
    pub after: T,
    /// CPU time in between.
    pub cpu: CpuUse,
}

impl Round<'_> {
    /// Lets `workers` work and reads what is counted, by `read`, when the window opens and when it
    /// closes.
    ///
    /// # Errors
    ///
    /// What a worker or `read` ends in, or the interruption.
    pub fn measure<T>(
        &self,
        workers: Vec<Worker<'_>>,
        read: impl FnMut() -> Result<T>,
    ) -> Result<Window<T>> {
        let cpus: Vec<usize> = workers.iter().map(|worker| worker.cpu).collect();
        let over = Over::default();
        thread::scope(|scope| {
            let _ended = EndOnDrop(&over);
            let (started, starting) = mpsc::channel();
            let threads: Vec<_> = workers
                .into_iter()
                .map(|Worker { side, cpu, prepare, interrupted, clock }| {
                    let (started, over) = (started.clone(), &over);
                    let interruption = interrupted.then(Interruption::default);
                    let in_thread = interruption.clone();
                    let thread = thread::Builder::new().spawn_scoped(scope, move || {
                        cpu::pin(cpu)?;
                        let work = prepare()?;
                        in_thread.iter().for_each(Interruption::aim_here);
                        // Nobody listens any more if another worker could not begin.
                        let _ = started.send((side, clock.unwrap_or_else(ThreadClock::current)));
                        // So that one that could not is noticed at once.
                        drop(started);
                        work(over)
                    });
                    (thread, interruption)
                })
                .collect();
            drop(started);
            let window = receive_all(&starting, threads.len())
                .and_then(|clocks| self.watch(&cpus, &clocks, read));
            over.end();
            // All of them end, whatever the first one ended in.
            let ended = threads.into_iter().map(|(thread, interruption)| {
                let thread = thread?;
                if let Some(interruption) = interruption {
                    interruption.until(|| thread.is_finished());
                }
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            let ended: Vec<io::Result<()>> = ended.collect();
            let ended: io::Result<()> = ended.into_iter().collect();
            ended.map_err(|error| Error::io("measure", &error))?;
            window
        })
    }

    fn clocks(&self, cpus: &[usize], clocks: &[(Side, ThreadClock)]) -> Result<Clocks> {
        Clocks::read(self.counting.read(cpus)?, clocks)
    }

    fn watch<T>(
        &self,
        cpus: &[usize],
        clocks: &[(Side, ThreadClock)],
        mut read: impl FnMut() -> Result<T>,
    ) -> Result<Window<T>> {
        self.stop.wait(self.window.mul_f64(SETTLING))?;
        let start = Instant::now();
        let (cpu_before, before) = (self.clocks(cpus, clocks)?, read()?);
        self.stop.wait(self.window)?;
        let (cpu_after, after) = (self.clocks(cpus, clocks)?, read()?);
        let seconds = start.elapsed().as_secs_f64();
        Ok(Window { seconds, before, after, cpu: cpu_after.since(&cpu_before) })
    }
}

/// Threads end even if the one that waits for them panics.
struct EndOnDrop<'o>(&'o Over);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The clocks of all threads, once they run.
fn receive_all(
    starting: &mpsc::Receiver<(Side, ThreadClock)>,
    threads: usize,
) -> Result<Vec<(Side, ThreadClock)>> {
    (0..threads)
        .map(|_| {
            let clock = starting.recv_timeout(PATIENCE);
            clock.map_err(|_| Error::failed("measure: a thread did not start"))
        })
        .collect()
}

struct Clocks {
    sender: f64,
    receiver: f64,
    cpus: CpuTime,
}

impl Clocks {
    fn read(cpus: CpuTime, clocks: &[(Side, ThreadClock)]) -> Result<Self> {
        let sum = |side| -> Result<f64> {
            let of_side = clocks.iter().filter(|(of, _)| *of == side);
            let times = of_side.map(|(_, clock)| clock.read().map(|time| time.as_secs_f64()));
            let sum: io::Result<f64> = times.sum();
            sum.map_err(|error| Error::io("read the CPU time of a thread that ended", &error))
        };
        Ok(Self { sender: sum(Side::Sender)?, receiver: sum(Side::Receiver)?, cpus })
    }

    fn since(&self, before: &Self) -> CpuUse {
        let cpus = self.cpus - before.cpus;
        CpuUse {
            sender: self.sender - before.sender,
            receiver: self.receiver - before.receiver,
            softirq: cpus.softirq,
            busy: cpus.busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(stop: &Stop) -> Round<'_> {
        Round { window: Duration::from_millis(20), stop, counting: Counting::Pinned }
    }

    #[test]
    fn what_is_counted_in_the_window_is_what_threads_did() {
        let count = Count::default();
        let count_up = |over: &Over| {
            while !over.is_over() {
                count.add(1);
            }
            Ok(())
        };
        let stop = Stop::default();
        let workers = vec![Worker::new(Side::Sender, cpu::allowed().unwrap()[0], count_up)];
        let window = round(&stop).measure(workers, || Ok(count.get())).unwrap();
        assert!(window.before > 0 && window.after > window.before && count.get() >= window.after);
        assert!(window.seconds >= 0.02);
        assert!(window.cpu.sender > 0.0 && window.cpu.receiver == 0.0);
    }

    #[test]
    fn a_process_counts_by_its_own_clock() {
        let (stop, cpu) = (Stop::default(), cpu::allowed().unwrap()[0]);
        let this = ThreadClock::of_process(nix::unistd::getpid());
        let workers =
            vec![Worker::new(Side::Sender, cpu, idle), Worker::process(Side::Receiver, cpu, this)];
        let window = round(&stop).measure(workers, || Ok(())).unwrap();
        assert!(window.cpu.receiver >= window.cpu.sender && window.cpu.sender > 0.0);
    }

    #[test]
    fn the_error_of_a_thread_comes_out() {
        let stop = Stop::default();
        let fail = |_: &Over| Err(io::Error::other("broken"));
        let workers = vec![Worker::new(Side::Sender, cpu::allowed().unwrap()[0], fail)];
        let error = round(&stop).measure(workers, || Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "measure: broken");
    }

    fn idle(over: &Over) -> io::Result<()> {
        while !over.is_over() {
            thread::yield_now();
        }
        Ok(())
    }

    #[test]
    fn a_round_begins_when_all_is_prepared() {
        let (stop, count) = (Stop::default(), Count::default());
        let prepare = || {
            thread::sleep(Duration::from_millis(50));
            count.add(1);
            Ok(idle)
        };
        let workers = vec![Worker::prepared(Side::Sender, cpu::allowed().unwrap()[0], prepare)];
        let window = round(&stop).measure(workers, || Ok(count.get())).unwrap();
        assert_eq!(window.before, 1);
    }

    #[test]
    fn who_can_not_be_prepared_is_not_waited_for() {
        let (stop, start) = (Stop::default(), Instant::now());
        let fail = || Err::<fn(&Over) -> _, _>(io::Error::other("broken"));
        let cpu = cpu::allowed().unwrap()[0];
        let workers =
            vec![Worker::new(Side::Receiver, cpu, idle), Worker::prepared(Side::Sender, cpu, fail)];
        let error = round(&stop).measure(workers, || Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "measure: broken");
        assert!(start.elapsed() < PATIENCE);
    }

    #[test]
    fn an_interruption_ends_the_threads() {
        let stop = Stop::default();
        stop.request();
        let idle = |over: &Over| {
            while !over.is_over() {
                thread::yield_now();
            }
            Ok(())
        };
        let workers = vec![Worker::new(Side::Receiver, cpu::allowed().unwrap()[0], idle)];
        let round = Round { window: Duration::from_secs(3600), ..round(&stop) };
        assert!(round.measure(workers, || Ok(())).is_err());
    }
}
