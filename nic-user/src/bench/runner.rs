//! Running an experiment: variants take turns, round by round, so that what disturbs the machine
//! disturbs all of them.

use std::time::Duration;

use super::{
    experiment::{Case, Experiment, Sample, Variant},
    model,
    round::{Counting, Round},
    statistics::{Ratio, Spread},
    stop::Stop,
};
use crate::error::{Error, Result};

/// Part of a round's time that the first one takes, which does not count: it fills caches, learns
/// neighbours, and shows what is not available.
const WARM_UP: f64 = 0.25;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'s> {
    /// Rounds of every variant.
    pub rounds: u32,
    /// How long each one measures.
    pub window: Duration,
    /// Ends all of it.
    pub stop: &'s Stop,
    /// Whose CPU time counts.
    pub counting: Counting,
}

impl Plan<'_> {
    fn round(&self, window: Duration) -> Round<'_> {
        Round { window, stop: self.stop, counting: self.counting }
    }
}

/// Who is told how far an experiment is.
pub trait Progress {
    /// It begins, and has so many steps.
    fn begin(&mut self, name: &str, steps: u64);
    /// One step is next.
    fn step(&mut self, what: &str);
    /// It is over.
    fn end(&mut self);
}

/// Runs an experiment.
///
/// # Errors
///
/// The interruption, or none of its variants could be measured.
pub fn run(
    experiment: Experiment,
    plan: &Plan<'_>,
    progress: &mut dyn Progress,
) -> Result<model::Experiment> {
    let Experiment { name, title, source, place, notes, cases } = experiment;
    let mut cases: Vec<Running> = cases.into_iter().map(Running::new).collect();
    let variants: usize = cases.iter().map(|case| case.variants.len()).sum();
    progress.begin(name, (u64::from(plan.rounds) + 1) * variants as u64);
    let warm_up = plan.round(plan.window.mul_f64(WARM_UP));
    for case in &mut cases {
        case.round(&warm_up, progress)?;
        case.forget();
    }
    let round = plan.round(plan.window);
    for _ in 0..plan.rounds {
        for case in &mut cases {
            case.round(&round, progress)?;
        }
    }
    progress.end();
    if let Some(error) = total_failure(&cases) {
        return Err(error.while_doing(name));
    }
    Ok(model::Experiment {
        name: name.to_owned(),
        title: title.to_owned(),
        source: source.to_owned(),
        place,
        notes,
        cases: cases.into_iter().map(Running::results).collect(),
    })
}

/// Why there is nothing to report, if there is nothing in any case.
fn total_failure(cases: &[Running]) -> Option<Error> {
    let failures: Option<Vec<Error>> = cases.iter().map(Running::failure).collect();
    failures?.into_iter().next()
}

/// A case in the middle of its rounds.
struct Running {
    title: String,
    measure: model::Measure,
    variants: Vec<Turn>,
    conclude: Option<fn(&[model::Variant]) -> String>,
}

/// A variant with its rounds so far, or with the reason why it has none.
struct Turn {
    variant: Variant,
    samples: Result<Vec<Sample>>,
}

impl Running {
    fn new(case: Case) -> Self {
        let turn = |variant| Turn { variant, samples: Ok(Vec::new()) };
        let Case { title, measure, variants, conclude } = case;
        Self { title, measure, variants: variants.into_iter().map(turn).collect(), conclude }
    }

    fn round(&mut self, round: &Round<'_>, progress: &mut dyn Progress) -> Result<()> {
        for Turn { variant, samples } in &mut self.variants {
            progress.step(&format!("{}, {}", self.title, variant.title));
            let Ok(earlier) = samples else { continue };
            match variant.round(round) {
                Ok(sample) => earlier.push(sample),
                Err(error) => {
                    round.stop.check()?;
                    *samples = Err(error);
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.variants.iter_mut().flat_map(|turn| &mut turn.samples).for_each(Vec::clear);
    }

    /// Why there is nothing to report, if there is nothing.
    fn failure(&self) -> Option<Error> {
        let all = self.variants.iter().all(|turn| turn.samples.is_err());
        let first = self.variants.first().filter(|_| all)?;
        let error = first.samples.as_ref().err()?;
        Some(Error::new(error.kind(), format!("{}: {error}", self.title)))
    }

    fn results(mut self) -> model::Case {
        self.variants.iter_mut().for_each(Turn::refuse_nothing);
        let measure = self.measure;
        let base = self.variants.first().and_then(|turn| turn.samples.as_ref().ok());
        let base = base.map(|samples| Series::of(samples, measure));
        let variants = self.variants.iter().enumerate().map(|(index, turn)| {
            let base = base.as_ref().filter(|_| index > 0);
            turn.results(measure, base)
        });
        let variants: Vec<_> = variants.collect();
        let conclusion = self.conclude.map(|conclude| conclude(&variants));
        model::Case { title: self.title, measure, variants, conclusion }
    }
}

impl Turn {
    /// Nothing in any round is no rate, and nothing to compare others with.
    fn refuse_nothing(&mut self) {
        if self.samples.as_ref().is_ok_and(|all| all.iter().all(|sample| sample.done == 0.0)) {
            self.samples = Err(Error::failed("nothing was counted in any round"));
        }
    }

    fn results(&self, measure: model::Measure, base: Option<&Series>) -> model::Variant {
        let (measured, unavailable) = match &self.samples {
            Ok(samples) => (measured(samples, measure, base), None),
            Err(error) => (None, Some(error.in_one_line())),
        };
        model::Variant {
            title: self.variant.title.to_owned(),
            published: self.variant.published,
            unavailable,
            measured,
        }
    }
}

/// What is compared, round by round.
struct Series {
    rates: Vec<f64>,
    costs: Vec<f64>,
}

impl Series {
    fn of(samples: &[Sample], measure: model::Measure) -> Self {
        Self {
            rates: samples.iter().map(|sample| sample.done / sample.seconds).collect(),
            costs: samples
                .iter()
                .map(|sample| measure.cost(sample.cpu.busy, sample.done))
                .collect(),
        }
    }
}

fn measured(
    samples: &[Sample],
    measure: model::Measure,
    base: Option<&Series>,
) -> Option<model::Measured> {
    let series = Series::of(samples, measure);
    let busy = |of: fn(&Sample) -> f64| {
        Spread::of(samples.iter().map(|sample| of(sample) / sample.seconds).collect())
    };
    let ratio = |of: fn(&Series) -> &[f64]| Ratio::paired(of(&series), of(base?));
    Some(model::Measured {
        cpu: model::Cpu {
            sender: busy(|sample| sample.cpu.sender),
            receiver: busy(|sample| sample.cpu.receiver),
            softirq: busy(|sample| sample.cpu.softirq),
            busy: busy(|sample| sample.cpu.busy),
        },
        rate_ratio: ratio(|series| &series.rates),
        cost_ratio: ratio(|series| &series.costs),
        figures: figures(samples),
        cost: Spread::of(series.costs.clone()),
        rate: Spread::of(series.rates)?,
    })
}

/// Figures of all rounds, by the names that the fullest of them has: in one that came to nothing,
/// some are missing.
fn figures(samples: &[Sample]) -> Vec<model::Figure> {
    let fullest = samples.iter().max_by_key(|sample| sample.figures.len());
    let Some(fullest) = fullest else { return Vec::new() };
    let of_all = |name: &str| {
        let all = samples.iter().flat_map(|sample| &sample.figures);
        Spread::of(all.filter(|figure| figure.name == name).map(|figure| figure.value).collect())
    };
    let figure = |figure: &super::experiment::Figure| {
        Some(model::Figure {
            name: figure.name.to_owned(),
            unit: figure.unit.to_owned(),
            value: of_all(figure.name)?,
        })
    };
    fullest.figures.iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;
    use crate::bench::{experiment::Trial, model::Measure, round::CpuUse};

    /// Notes when it is its turn, and does `rate` a second for one CPU second each.
    struct Scripted {
        rate: f64,
        order: Rc<RefCell<Vec<f64>>>,
        fails: bool,
    }

    impl Trial for Scripted {
        fn set_up(&mut self) -> Result<()> {
            if self.fails { Err(Error::failed("no such feature")) } else { Ok(()) }
        }

        fn round(&mut self, _: &Round<'_>) -> Result<Sample> {
            self.order.borrow_mut().push(self.rate);
            let cpu = CpuUse { busy: 1.0, ..CpuUse::default() };
            let sample = Sample { seconds: 1.0, done: self.rate, cpu, figures: Vec::new() };
            Ok(sample.with("loss", "%", Some(self.rate)))
        }
    }

    struct Silent;

    impl Progress for Silent {
        fn begin(&mut self, _: &str, _: u64) {}
        fn step(&mut self, _: &str) {}
        fn end(&mut self) {}
    }

    fn experiment(cases: Vec<Case>) -> Experiment {
        let place = String::new();
        Experiment { name: "test", title: "", source: "", place, notes: Vec::new(), cases }
    }

    fn run_with(variants: Vec<Variant>, stop: &Stop) -> Result<model::Experiment> {
        let case = Case::new("case".into(), Measure::Packets, variants);
        let plan = Plan { rounds: 5, window: Duration::ZERO, stop, counting: Counting::Pinned };
        run(experiment(vec![case]), &plan, &mut Silent)
    }

    #[test]
    fn variants_take_turns_and_are_compared_with_the_first() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let scripted = |title, rate| {
            Variant::new(title, Scripted { rate, order: order.clone(), fails: false })
        };
        let variants = vec![scripted("a", 10.0), scripted("b", 30.0)];
        let results = run_with(variants, &Stop::default()).unwrap();
        assert_eq!(*order.borrow(), [10.0, 30.0].repeat(6));
        let measured = |index: usize| results.cases[0].variants[index].measured.clone().unwrap();
        assert_eq!(measured(0).rate_ratio, None);
        assert_eq!(measured(0).cost.unwrap().median, 1e8);
        let b = measured(1);
        assert_eq!(b.rate.rounds, [30.0; 5]);
        assert_eq!(b.rate_ratio.unwrap().median, 3.0);
        assert!((b.cost_ratio.unwrap().high - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((b.figures.len(), b.figures[0].value.max), (1, 30.0));
    }

    #[test]
    fn what_is_not_available_says_why() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let scripted =
            |fails| Variant::new("v", Scripted { rate: 1.0, order: order.clone(), fails });
        let results = run_with(vec![scripted(false), scripted(true)], &Stop::default()).unwrap();
        let variant = &results.cases[0].variants[1];
        assert_eq!(variant.unavailable.as_deref(), Some("no such feature"));
        assert_eq!(variant.measured, None);
        let error = run_with(vec![scripted(true)], &Stop::default()).unwrap_err();
        assert_eq!(error.to_string(), "test: case: no such feature");
    }

    #[test]
    fn nothing_is_no_rate() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let scripted =
            |rate| Variant::new("v", Scripted { rate, order: order.clone(), fails: false });
        let results = run_with(vec![scripted(0.0), scripted(1.0)], &Stop::default()).unwrap();
        let [nothing, something] = &results.cases[0].variants[..] else { panic!("not two") };
        assert!(nothing.unavailable.is_some() && nothing.measured.is_none());
        let something = something.measured.as_ref().unwrap();
        assert_eq!((something.rate.median, &something.rate_ratio), (1.0, &None));
    }

    #[test]
    fn an_interruption_is_not_a_missing_feature() {
        let stop = Stop::default();
        stop.request();
        let order = Rc::new(RefCell::new(Vec::new()));
        let failing = Variant::new("v", Scripted { rate: 1.0, order, fails: true });
        let error = run_with(vec![failing], &stop).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
    }
}
