//! Requests to nginx, with nicctl's TC programs at both hosts: what pulling packets together is worth
//! to the kernel's own stack.

use std::{io, path::Path, rc::Rc};

use super::{
    conclusion::Best,
    http::Client,
    latency::Latencies,
    load::Load,
    nginx::{self, Nginx},
};
use crate::{
    bench::{
        cpu::Cpus,
        experiment::{Case, Sample, Trial, Variant},
        model::{self, Measure},
        round::{Round, Side, Worker},
        statistics::Ratio,
        text,
    },
    error::{Error, Result},
    lab::{Host, Lab, Shape},
    offload::TcCounters,
};

/// Bytes of the page. With the head of the response it is one packet between the thresholds, and a
/// request is one below both.
const PAGE: usize = 1024;
const QUEUES: u32 = 1;
/// Each of them waits for its answer before it asks again.
const CONNECTIONS: usize = 8;

/// What is attached at both hosts.
#[derive(Clone, Copy, Debug)]
enum Programs {
    None,
    /// Those which count.
    Counting,
    /// And pull packets of up to so many bytes together.
    Pulling(u16),
}

/// What is attached, and what that is called.
const VARIANTS: [(Programs, &str); 4] = [
    (Programs::None, "no programs"),
    (Programs::Counting, "attached"),
    (Programs::Pulling(256), "pull to 256"),
    (Programs::Pulling(2048), "pull to 2048"),
];
/// The variant that those which pull are held against.
const NOT_PULLING: usize = 1;

/// The cases with this nginx.
///
/// # Errors
///
/// There can be no lab here, or nginx does not run in it.
pub fn cases(program: &Path, cpus: Cpus) -> Result<Vec<Case>> {
    let lab = Lab::new(Shape { queues: QUEUES, ..Shape::default() })?;
    let bed =
        Rc::new(Bed { nginx: Nginx::start(program, lab.b(), cpus.receiver, PAGE)?, lab, cpus });
    Ok([false, true].map(|loaded| case(&bed, loaded)).into())
}

/// How to read them, or why there are none.
pub fn notes(missing: Option<&Error>) -> Vec<String> {
    match missing {
        None => vec![
            format!(
                "nginx: one process serves a page of {PAGE} bytes over {CONNECTIONS} connections; \
                 nginx and pulled: its CPU time and the packets linearized, per request"
            ),
            "attached: nicctl's TC programs on both hosts; pull to: with --pull and \
             --rx-copybreak, which linearizes packets of up to that size before the stack gets \
             them. Without XDP, because veth copies every packet for XDP and leaves nothing to \
             pull"
                .to_owned(),
        ],
        Some(error) => vec![format!("no requests to nginx: {}", error.in_one_line())],
    }
}

fn case(bed: &Rc<Bed>, loaded: bool) -> Case {
    let title = format!(
        "nginx, a page of {PAGE} bytes, {CONNECTIONS} connections{}",
        if loaded { ", loaded" } else { "" }
    );
    let variants = VARIANTS.map(|(programs, title)| {
        Variant::new(title, WebTrial { bed: bed.clone(), programs, loaded })
    });
    Case::new(title, Measure::Requests, variants.into()).concluding(conclude)
}

/// The best threshold, against the same programs which pull nothing.
fn conclude(variants: &[model::Variant]) -> String {
    let rounds = |variant: &model::Variant| Some(variant.measured.as_ref()?.rate.rounds.clone());
    let Some(base) = variants.get(NOT_PULLING).and_then(rounds) else {
        return "unknown: the programs were not attached".to_owned();
    };
    let ratios = variants.iter().skip(NOT_PULLING + 1).filter_map(|variant| {
        let ratio = Ratio::paired(&rounds(variant)?, &base)?;
        Some((variant.title.as_str(), ratio))
    });
    match Best::of(ratios) {
        Best::Threshold(title, ratio) => {
            format!("best: {title}, {} times the requests of not pulling", text::ratio(ratio))
        }
        Best::None => "best: not pulling; pulling costs requests".to_owned(),
        Best::Any => "no measurable difference between pulling and not pulling".to_owned(),
    }
}

struct Bed {
    nginx: Nginx,
    lab: Lab,
    cpus: Cpus,
}

impl Bed {
    fn connect(&self) -> Result<Vec<Client>> {
        let address = self.nginx.address();
        let connect = || {
            let connect = |_| Client::connect(address, nginx::PATH);
            (0..CONNECTIONS).map(connect).collect::<io::Result<_>>()
        };
        let connected = self.lab.a().run(connect)?;
        connected.map_err(|error| self.nginx.explain(Error::io("connect to nginx", &error)))
    }
}

impl Programs {
    /// Until what this returns is dropped.
    fn attach(self, lab: &Lab) -> Result<Vec<TcCounters>> {
        let attach = |host: &Host| {
            let interface = host.interface();
            host.run(|| match self {
                Self::None => Ok(None),
                Self::Counting => TcCounters::attach(interface, QUEUES).map(Some),
                Self::Pulling(size) => {
                    TcCounters::attach_pulling(interface, QUEUES, size).map(Some)
                }
            })?
        };
        [lab.a(), lab.b()].into_iter().filter_map(|host| attach(host).transpose()).collect()
    }
}

fn pulled(programs: &TcCounters) -> Result<u64> {
    programs.read().map(|(ingress, _)| ingress.pulled)
}

struct WebTrial {
    bed: Rc<Bed>,
    programs: Programs,
    loaded: bool,
}

impl Trial for WebTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let Bed { nginx, lab, cpus } = &*self.bed;
        let programs = self.programs.attach(lab)?;
        let pulled = || programs.iter().map(pulled).sum::<Result<u64>>();
        let latencies = Latencies::new()?;
        let mut clients = self.bed.connect()?;
        let _load = Load::start_if(self.loaded)?;
        let asking = clients.iter_mut().map(|client| {
            Worker::new(Side::Sender, cpus.sender, |over| client.ask(PAGE, over, &latencies))
        });
        let serving = Worker::process(Side::Receiver, cpus.receiver, nginx.clock());
        let workers = asking.chain([serving]).collect();
        let window = round.measure(workers, || Ok((latencies.take()?, pulled()?)));
        let window = window.map_err(|error| nginx.explain(error))?;
        let (before, after) = (&window.before, &window.after);
        let requests = after.0.count();
        let pulled = (!programs.is_empty()).then(|| (after.1 - before.1) as f64);
        let each = |amount: f64| (requests > 0).then(|| amount / requests as f64);
        let sample = after.0.describe(Sample::of(&window, requests));
        Ok(sample.with("nginx", "µs", each(window.cpu.receiver * 1e6)).with(
            "pulled",
            "",
            pulled.and_then(each),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{
        model::{Cpu, Measured, Published},
        statistics::Spread,
    };

    fn variant(title: &str, rounds: [f64; 5]) -> model::Variant {
        let measured = Measured {
            rate: Spread::of(rounds.into()).unwrap(),
            cost: None,
            cpu: Cpu { sender: None, receiver: None, softirq: None, busy: None },
            rate_ratio: None,
            cost_ratio: None,
            figures: Vec::new(),
        };
        let (title, published) = (title.to_owned(), Published::default());
        model::Variant { title, published, unavailable: None, measured: Some(measured) }
    }

    #[test]
    fn pulling_is_held_against_not_pulling() {
        let said = |to_256, to_2048| {
            let rates = [200.0, 100.0, to_256, to_2048];
            let variants = VARIANTS.iter().zip(rates);
            conclude(
                &variants.map(|((_, title), rate)| variant(title, [rate; 5])).collect::<Vec<_>>(),
            )
        };
        let helps = "best: pull to 2048, 1.50 (1.50–1.50) times the requests of not pulling";
        assert_eq!(said(101.0, 150.0), helps);
        assert_eq!(said(101.0, 99.0), "no measurable difference between pulling and not pulling");
        assert_eq!(said(90.0, 99.0), "best: not pulling; pulling costs requests");
        assert!(conclude(&[variant("no programs", [1.0; 5])]).starts_with("unknown"));
    }
}
