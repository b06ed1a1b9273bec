//! Requests to nginx, with nicctl's programs at both hosts: what pulling packets together is worth
//! to the kernel's own stack.

use std::{io, path::Path, rc::Rc};

use super::{
    attachments::{Attachments, Programs},
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
    lab::{Lab, Shape},
};

/// Bytes of the page. With the head of the response it fills more than one packet of MTU 1500; GRO
/// puts them together, to one in pieces that is longer than the lower threshold and shorter than
/// the higher.
const PAGE: usize = 1536;
/// Each of them waits for its answer before it asks again.
const CONNECTIONS: usize = 8;

/// What is attached, and what that is called.
const VARIANTS: [(Programs, &str); 4] = [
    (Programs::None, "no programs"),
    (Programs::Attached, "attached"),
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
    let lab = Lab::new(Shape { queues: 1, ..Shape::default() })?;
    let bed = Rc::new(Bed {
        nginx: Nginx::start(program, lab.b(), cpus.receiver, PAGE)?,
        attachments: Attachments::of(&lab)?,
        lab,
        cpus,
    });
    Ok([false, true].map(|loaded| case(&bed, loaded)).into())
}

/// How to read them, or why there are none.
pub fn notes(missing: Option<&Error>) -> Vec<String> {
    match missing {
        None => vec![
            format!(
                "nginx: one process, asked for a page of {PAGE} bytes over {CONNECTIONS} \
                 connections; attached: nicctl's programs at both hosts; pull to: with --pull and \
                 --rx-copybreak, which pulls packets of up to that size together before the stack \
                 gets them; pulled: for each request"
            ),
            "nginx: with programs veth segments what it passes whole without, and GRO merges it \
             again: held against those attached, not against none, is what pulling is worth"
                .to_owned(),
        ],
        Some(error) => {
            let fix = error.fix().map(|fix| format!("; {fix}")).unwrap_or_default();
            vec![format!("no requests to nginx: {error}{fix}")]
        }
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
    let rounds = |variant: &'_ model::Variant| Some(variant.measured.as_ref()?.rate.rounds.clone());
    let Some(base) = variants.get(NOT_PULLING).and_then(rounds) else {
        return "not to be told: the programs were not attached".to_owned();
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
        Best::Any => "no difference between pulling and not pulling".to_owned(),
    }
}

/// In the order in which they have to go.
struct Bed {
    nginx: Nginx,
    attachments: Attachments,
    lab: Lab,
    cpus: Cpus,
}

impl Bed {
    fn connect(&self) -> Result<Vec<Client>> {
        let connect = || {
            let connect = |_| Client::connect(self.nginx.address(), nginx::PATH);
            (0..CONNECTIONS).map(connect).collect::<io::Result<_>>()
        };
        self.lab.a().run(connect)?.map_err(|error| Error::io("connect to nginx", &error))
    }
}

struct WebTrial {
    bed: Rc<Bed>,
    programs: Programs,
    loaded: bool,
}

impl Trial for WebTrial {
    fn set_up(&mut self) -> Result<()> {
        self.bed.attachments.change(&self.bed.lab, self.programs)
    }

    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let Bed { nginx, attachments, cpus, .. } = &*self.bed;
        let latencies = Latencies::new()?;
        let mut clients = self.bed.connect()?;
        let _load = Load::start_if(self.loaded)?;
        let asking = clients.iter_mut().map(|client| {
            Worker::new(Side::Sender, cpus.sender, |over| client.ask(PAGE, over, &latencies))
        });
        let serving = Worker::process(Side::Receiver, cpus.receiver, nginx.clock());
        let workers = asking.chain([serving]).collect();
        let window = round.measure(workers, || Ok((latencies.take()?, attachments.pulled()?)))?;
        let (before, after) = (&window.before, &window.after);
        let requests = after.0.count();
        let pulled = after.1.zip(before.1).map(|(after, before)| after - before);
        let each = |amount: f64| (requests > 0).then(|| amount / requests as f64);
        let sample = after.0.describe(Sample::of(&window, requests));
        Ok(sample.with("nginx", "µs", each(window.cpu.receiver * 1e6)).with(
            "pulled",
            "",
            pulled.and_then(|pulled| each(pulled as f64)),
        ))
    }
}
