//! What benchmarks share: medians, floors, and whether the machine is fit to measure on.

#![allow(dead_code, reason = "every benchmark uses a part of it")]

use std::{env, error::Error, fs, thread};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs a benchmark that has one processor for itself; an error if it fails, or misses a floor.
pub fn on_one_cpu(benchmark: impl FnOnce(&mut Floors) -> Result<()>) -> Result<()> {
    if !is_wanted() {
        return Ok(());
    }
    warn_if_busy();
    pin_to_one_cpu();
    let mut floors = Floors::default();
    benchmark(&mut floors)?;
    Ok(floors.result()?)
}

/// Whether to measure: `cargo test --benches` only wants to know that it starts.
pub fn is_wanted() -> bool {
    env::args().any(|argument| argument == "--bench")
}

/// The middle of several measurements, and how far they lie apart.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(values.len() / 2), min: at(0), max: at(values.len().saturating_sub(1)) }
    }

    /// `12.3 (11.9-13.0)`
    pub fn text(self) -> String {
        format!("{:.1} ({:.1}-{:.1})", self.median, self.min, self.max)
    }
}

/// Says so if other programs use the processors: figures are then too high.
pub fn warn_if_busy() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    if load > 0.5 * cpus as f64 {
        println!("this machine is busy (load {load} on {cpus} CPUs): figures are too high");
    }
}

/// The processor by its own words, maker included.
pub fn cpu_model() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, value)| value)
    };
    format!("{}, {}", field("vendor_id"), field("model name"))
}

/// Keeps this thread on the last processor: the first usually serves interrupts.
fn pin_to_one_cpu() {
    let last = thread::available_parallelism().map_or(1, |cpus| cpus.get()) - 1;
    let mut cpus = CpuSet::new();
    let pinned = cpus.set(last).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
    if let Err(error) = pinned {
        println!("not pinned to one CPU: {error}");
    }
}

/// What must hold, and what did not.
#[derive(Default)]
pub struct Floors {
    missed: Vec<String>,
}

impl Floors {
    /// `value` of `what` must not be above `limit`.
    pub fn check(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        if value > limit || value.is_nan() {
            self.missed.push(format!("{what}: {value:.2} {unit}, allowed {limit} {unit}"));
        }
    }

    /// Prints what was missed; an error if anything was.
    pub fn result(self) -> std::result::Result<(), String> {
        if self.missed.is_empty() {
            println!("\nevery limit is kept");
            return Ok(());
        }
        Err(format!("missed:\n  {}", self.missed.join("\n  ")))
    }
}
