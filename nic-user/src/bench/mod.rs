//! `nicctl bench`: what the mechanisms buy on this machine, each way beside the others.
//!
//! An [`Experiment`](experiment::Experiment) has cases, a case has variants, and a variant a
//! [`Trial`](experiment::Trial): how to set it up, and how to measure it once. The [`runner`] lets
//! variants take turns, round by round. A [`round`] pins its threads, lets them work, and reads
//! clocks and counters when a window of time opens and when it closes. What comes of it is a
//! [`model::Document`]: JSON, text, or a page.
//!
//! Everything happens in labs of its own ([`crate::lab`]), which are gone when an experiment is
//! over, however it ends: each wait is one that a [`stop::Stop`] cuts short.

mod bpf;
pub mod compare;
pub mod cpu;
pub mod experiment;
mod features;
pub mod html;
pub mod machine;
pub mod model;
pub mod round;
pub mod runner;
mod sockets;
pub mod statistics;
pub mod stop;
mod tcp;
pub mod text;
mod tunnel;
mod udp;
mod udp_port;

mod big_tcp;
pub mod copybreak;
mod headers;
mod rx_build;
mod udp_gso;

use std::{
    fmt,
    time::{Instant, SystemTime},
};

use copybreak::Sizes;
use cpu::CpuTimes;
use experiment::Experiment;
use machine::Machine;
use model::Document;
use runner::{Plan, Progress};

use crate::{
    error::Result,
    lab::Lab,
    report::{json::Version, time::rfc3339},
};

/// An experiment by its name.
#[derive(Clone, Copy)]
pub struct Named {
    /// Its name on the command line.
    pub name: &'static str,
    set_up: fn(&Settings) -> Result<Experiment>,
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What experiments can be told.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Sizes of packets, for those that can have any.
    pub sizes: Option<Sizes>,
}

/// Every experiment, in the order of a report.
pub const ALL: &[Named] = &[
    Named { name: "headers", set_up: |_| headers::experiment() },
    Named { name: "udp-gso", set_up: |_| udp_gso::experiment() },
    Named { name: "big-tcp", set_up: |_| big_tcp::experiment() },
    Named { name: "rx-build", set_up: |_| rx_build::experiment() },
    Named { name: "copybreak", set_up: copybreak::experiment },
];

/// Runs experiments, one after the other.
///
/// # Errors
///
/// One of them cannot be set up, or has nothing that can be measured; or the interruption.
pub fn run(
    experiments: &[Named],
    settings: &Settings,
    plan: &Plan<'_>,
    progress: &mut dyn Progress,
) -> Result<Document> {
    Lab::sweep()?;
    let (started, start, cpus) = (SystemTime::now(), Instant::now(), CpuTimes::read()?);
    let machine = Machine::current()?;
    let mut warnings: Vec<String> = machine::busy(plan.stop)?.into_iter().collect();
    let experiments = experiments
        .iter()
        .map(|experiment| {
            plan.stop.check()?;
            let set_up = (experiment.set_up)(settings);
            runner::run(set_up.map_err(|error| error.while_doing(experiment.name))?, plan, progress)
        })
        .collect::<Result<_>>()?;
    let seconds = start.elapsed().as_secs_f64();
    warnings.extend(machine::stolen(&cpus, seconds)?);
    Ok(Document {
        version: Version,
        nicctl: env!("CARGO_PKG_VERSION").to_owned(),
        started: rfc3339(started),
        seconds,
        machine,
        rounds: plan.rounds,
        round_seconds: plan.window.as_secs_f64(),
        warnings,
        experiments,
    })
}
