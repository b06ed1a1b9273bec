//! Processors: which ones threads are pinned to, and how long they were busy.

use std::{
    collections::BTreeMap,
    fs, io,
    ops::{Add, Sub},
    time::Duration,
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::ClockId,
    unistd::{Pid, SysconfVar, sysconf},
};

use crate::error::{Error, Result};

/// The processors of the two sides of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Where the side runs that sends, or asks.
    pub sender: usize,
    /// Where the side runs that receives, or answers.
    pub receiver: usize,
}

impl Cpus {
    /// Each side on a processor of its own, if this process may use two. They are taken from the
    /// end: the first one usually serves interrupts.
    pub fn apart() -> Result<Self> {
        let cpus = allowed()?;
        let last = last(&cpus)?;
        let before = cpus.iter().rev().nth(1).copied();
        Ok(Self { sender: last, receiver: before.unwrap_or(last) })
    }

    /// Both sides on one processor.
    pub fn together() -> Result<Self> {
        let last = last(&allowed()?)?;
        Ok(Self { sender: last, receiver: last })
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sender, receiver } = self;
        if sender == receiver {
            return write!(f, "both sides on CPU {sender}");
        }
        write!(f, "sender on CPU {sender}, receiver on CPU {receiver}")
    }
}

fn last(cpus: &[usize]) -> Result<usize> {
    cpus.last().copied().ok_or_else(|| Error::failed("this process may not use any CPU"))
}

/// The processors that this process may use, in the order of their numbers.
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|error| Error::io("read the CPUs this process may use", &error.into()))?;
    Ok((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}

/// Keeps the calling thread on one processor.
pub fn pin(cpu: usize) -> io::Result<()> {
    pin_thread(Pid::from_raw(0), cpu)
}

/// Keeps any thread on one processor.
pub fn pin_thread(thread: Pid, cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(thread, &set)?)
}

/// Lets a thread wait for its turn when it is woken, instead of taking it from whoever runs.
pub fn make_batch(thread: Pid) -> io::Result<()> {
    let no_priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one `sched_param`, which outlives the call.
    let done =
        unsafe { libc::sched_setscheduler(thread.as_raw(), libc::SCHED_BATCH, &no_priority) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const CPUCLOCK_SCHED: libc::clockid_t = 2;
const CPUCLOCK_PERTHREAD_MASK: libc::clockid_t = 4;

/// The CPU time of one thread, as any thread can read it. It includes softirqs that ran while the
/// thread was running, unless the kernel has `CONFIG_IRQ_TIME_ACCOUNTING`.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(ClockId);

impl ThreadClock {
    /// That of the calling thread. It can be read while the thread exists.
    pub fn current() -> Self {
        Self::dynamic(nix::unistd::gettid(), CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK)
    }

    /// That of a kernel thread, or of all threads of a process.
    pub fn of_process(process: Pid) -> Self {
        Self::dynamic(process, CPUCLOCK_SCHED)
    }

    /// `make_process_cpuclock` and `make_thread_cpuclock` (linux/posix-timers.h)
    const fn dynamic(task: Pid, which: libc::clockid_t) -> Self {
        Self(ClockId::from_raw((!task.as_raw() << 3) | which))
    }

    /// CPU time so far.
    pub fn read(self) -> io::Result<Duration> {
        Ok(self.0.now()?.into())
    }
}

/// What a processor did, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// Anything: tasks, interrupts and softirqs.
    pub busy: f64,
    /// Interrupts and softirqs.
    pub softirq: f64,
    /// It wanted to run and the hypervisor ran somebody else.
    pub stolen: f64,
}

impl Add for CpuTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            softirq: self.softirq + other.softirq,
            stolen: self.stolen + other.stolen,
        }
    }
}

impl Sub for CpuTime {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            busy: self.busy - other.busy,
            softirq: self.softirq - other.softirq,
            stolen: self.stolen - other.stolen,
        }
    }
}

/// What every processor did since boot.
#[derive(Clone, Debug, Default)]
pub struct CpuTimes(BTreeMap<usize, CpuTime>);

impl CpuTimes {
    /// Reads `/proc/stat`, whose unit is 10 ms.
    pub fn read() -> Result<Self> {
        let fail = |error: &io::Error| Error::io("read /proc/stat", error);
        let text = fs::read_to_string("/proc/stat").map_err(|error| fail(&error))?;
        let per_second = sysconf(SysconfVar::CLK_TCK).map_err(|error| fail(&error.into()))?;
        Ok(Self::parse(&text, per_second.unwrap_or(100) as f64))
    }

    fn parse(text: &str, per_second: f64) -> Self {
        let cpu = |line: &str| {
            let (name, numbers) = line.split_once(' ')?;
            let cpu = name.strip_prefix("cpu")?.parse().ok()?;
            let mut numbers =
                numbers.split_whitespace().filter_map(|number| number.parse::<f64>().ok());
            let mut next = || numbers.next().map(|ticks| ticks / per_second);
            let (user, nice, system) = (next()?, next()?, next()?);
            let (_idle, _iowait) = (next()?, next()?);
            let softirq = next()? + next()?;
            let stolen = next()?;
            let busy = user + nice + system + softirq;
            Some((cpu, CpuTime { busy, softirq, stolen }))
        };
        Self(text.lines().filter_map(cpu).collect())
    }

    /// Of some processors together; each counts once.
    pub fn of(&self, cpus: &[usize]) -> CpuTime {
        self.sum(|cpu| cpus.contains(&cpu))
    }

    /// Of all processors together.
    pub fn all(&self) -> CpuTime {
        self.sum(|_| true)
    }

    fn sum(&self, wanted: impl Fn(usize) -> bool) -> CpuTime {
        let times = self.0.iter().filter(|(cpu, _)| wanted(**cpu)).map(|(_, time)| *time);
        times.fold(CpuTime::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn proc_stat_by_processor() {
        let times = CpuTimes::parse(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 10 20 999 5 1 2 3 0 0\n\
             cpu3 1 0 0 7 0 0 0 0 0 0\nintr 5 6\ncpu4 1 2\n",
            100.0,
        );
        let cpu0 = times.of(&[0, 0]);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(cpu0.busy, 1.33) && close(cpu0.softirq, 0.03) && close(cpu0.stolen, 0.03));
        assert!(close(times.all().busy, 1.34));
        assert!(close((times.all() - cpu0).busy, 0.01));
    }

    #[test]
    fn the_clock_of_a_thread_goes_on_while_it_runs() {
        let clock = ThreadClock::current();
        let before = clock.read().unwrap();
        while clock.read().unwrap() == before {
            black_box(());
        }
        let elsewhere = std::thread::spawn(move || clock.read().unwrap()).join().unwrap();
        assert!(elsewhere > before);
        assert!(CpuTimes::read().unwrap().all().busy > 0.0);
    }

    #[test]
    fn a_pinned_thread_stays_where_it_is() {
        let cpus = Cpus::apart().unwrap();
        let there = std::thread::spawn(move || {
            pin(cpus.receiver).unwrap();
            allowed().unwrap()
        });
        assert_eq!(there.join().unwrap(), [cpus.receiver]);
    }
}
