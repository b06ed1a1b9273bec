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

mod attached;
pub mod cards;
pub mod compare;
pub mod cpu;
pub mod experiment;
mod features;
mod fed;
mod generator;
pub mod html;
pub mod machine;
pub mod model;
pub mod peer;
pub mod round;
pub mod runner;
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
    rc::Rc,
    time::{Instant, SystemTime},
};

use copybreak::Sizes;
use cpu::CpuTimes;
use experiment::Experiment;
use machine::Machine;
use model::Document;
use peer::Peer;
use runner::{Plan, Progress};

use crate::{
    error::{Error, Result},
    lab::Lab,
    report::{json::Version, time::rfc3339},
};

/// Sets an experiment up with something.
type SetUp<T> = fn(&T) -> Result<Experiment>;

/// An experiment by its name.
#[derive(Clone, Copy)]
pub struct Named {
    /// Its name on the command line.
    pub name: &'static str,
    in_lab: SetUp<Settings>,
    /// `None` where it takes labs of a certain make.
    over_cards: Option<SetUp<Rc<Lab>>>,
    /// `None` where one machine must have both sides in hand.
    to_peer: Option<SetUp<Rc<Peer>>>,
}

impl Named {
    /// Whether it can run there.
    pub const fn is_possible(&self, place: &Place) -> bool {
        match place {
            Place::Lab => true,
            Place::Cards(_) => self.over_cards.is_some(),
            Place::Peer(_) => self.to_peer.is_some(),
        }
    }

    fn set_up(&self, settings: &Settings) -> Result<Experiment> {
        let experiment = match &settings.place {
            Place::Lab => Some((self.in_lab)(settings)),
            Place::Cards(lab) => self.over_cards.map(|set_up| set_up(lab)),
            Place::Peer(peer) => self.to_peer.map(|set_up| set_up(peer)),
        };
        let experiment = experiment.unwrap_or_else(|| Err(Error::usage("it needs a lab")));
        experiment.map_err(|error| error.while_doing(self.name))
    }
}

/// Where experiments run.
#[derive(Clone, Debug, Default)]
pub enum Place {
    /// In labs of their own.
    #[default]
    Lab,
    /// In a lab around interfaces of this machine.
    Cards(Rc<Lab>),
    /// With another machine.
    Peer(Rc<Peer>),
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
    /// Where they run.
    pub place: Place,
}

/// Every experiment, in the order of a report.
pub const ALL: &[Named] = &[
    Named { name: "headers", in_lab: |_| headers::experiment(), over_cards: None, to_peer: None },
    Named {
        name: "udp-gso",
        in_lab: |_| udp_gso::in_lab(),
        over_cards: Some(udp_gso::over_cards),
        to_peer: Some(peer::udp_gso),
    },
    Named {
        name: "big-tcp",
        in_lab: |_| big_tcp::in_lab(),
        over_cards: Some(big_tcp::over_cards),
        to_peer: Some(peer::big_tcp),
    },
    Named {
        name: "rx-build",
        in_lab: |_| rx_build::in_lab(),
        over_cards: Some(rx_build::over_cards),
        to_peer: None,
    },
    Named { name: "copybreak", in_lab: copybreak::experiment, over_cards: None, to_peer: None },
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
            runner::run(experiment.set_up(settings)?, plan, progress)
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
