//! The first and only process of a guest of `cargo xtask vm`: nicctl on another kernel and on the
//! drivers of other network cards. It prints what libtest prints.
//!
//! `NIC` in its environment, which is the kernel's command line, says which driver to test, `TESTS`
//! which tests (a part of their names).

mod bench;
mod card;
mod changes;
mod control;
mod faults;
mod frames;
mod header_length;
mod kernel_answers;
mod machine;
mod netdevsim;
mod nicctl;
#[path = "../../../nic-user/tests/peers/mod.rs"]
mod peers;
mod r8152;
mod reported;
mod rings;
mod show;
mod split_headers;
mod stacked;
#[path = "../../../nic-user/tests/tracer/mod.rs"]
mod tracer;

use std::{
    any::Any,
    env,
    panic::{self, AssertUnwindSafe},
    process,
    time::Instant,
};

use anyhow::Result;
use nic_user::lab::{Lab, Shape};

/// How a test ended that did not panic.
pub enum Outcome {
    /// As it should.
    Passed,
    /// It cannot be tried here; why.
    Skipped(String),
}

/// What tests have to work with.
pub struct Guest {
    /// The driver under test.
    driver: String,
    /// Two hosts whose cards have that driver.
    lab: Lab,
}

type Test = fn(&Guest) -> Outcome;

/// Gets the name of their driver.
type TestOfCards = fn(&str) -> Outcome;

/// Tests of a network card that packets go through.
const OF_TRAFFIC: &[(&str, Test)] = &[
    ("native_counts_are_the_kernels", card::native_counts_are_the_kernels),
    ("generic_counts_are_the_kernels", card::generic_counts_are_the_kernels),
    ("a_port_gets_what_it_asked_for", rings::a_port_gets_what_it_asked_for),
    ("upgrade_under_traffic_loses_nothing", card::upgrade_under_traffic_loses_nothing),
];

/// Tests of a network card's settings.
const OF_A_CARD: &[(&str, Test)] = &[
    ("shown_is_what_others_show", show::shown_is_what_others_show),
    ("every_setting_is_changed_and_restored", control::every_setting_is_changed_and_restored),
    (
        "whichever_step_fails_it_is_all_or_nothing",
        faults::whichever_step_fails_it_is_all_or_nothing,
    ),
    ("wherever_it_is_killed_it_can_be_restored", faults::wherever_it_is_killed_it_can_be_restored),
    (
        "wishes_are_reported_as_what_they_came_to",
        reported::wishes_are_reported_as_what_they_came_to,
    ),
];

/// Tests of a network card that can split headers from data.
const OF_SPLIT_HEADERS: &[(&str, Test)] = &[(
    "split_headers_are_planned_away_or_refused",
    split_headers::they_are_planned_away_or_refused,
)];

/// Tests of two cards that are nobody's.
const OF_FREE_CARDS: &[(&str, TestOfCards)] = &[(
    "the_bench_runs_over_cards_and_gives_them_back",
    bench::it_runs_over_cards_and_gives_them_back,
)];

/// Tests of the kernel alone; they run with the driver that every kernel has.
const OF_THE_KERNEL: &[(&str, Test)] = &[
    ("a_bond_is_its_ports", stacked::a_bond_is_its_ports),
    ("a_team_is_its_ports", stacked::a_team_is_its_ports),
    ("a_vlan_is_what_is_below_it", stacked::a_vlan_is_what_is_below_it),
    ("bpf_walks_like_the_native_code", header_length::bpf_walks_like_the_native_code),
    ("header_lengths_are_the_kernels", header_length::header_lengths_are_the_kernels),
];

fn main() {
    if process::id() != 1 {
        eprintln!("This is the first process of a guest; `cargo xtask vm` starts it.");
        process::exit(2);
    }
    // Nobody is left to hear of an error but the kernel's console, and then the power goes off.
    match machine::set_up().and_then(|()| Guest::new()) {
        Ok(guest) => run_tests(guest),
        Err(error) => println!("error: set up the guest: {error:#}"),
    }
    machine::power_off();
}

impl Guest {
    fn new() -> Result<Self> {
        let driver = env::var("NIC").unwrap_or_else(|_| "veth".to_owned());
        let lab = match driver.as_str() {
            "veth" => Lab::new(Shape::default())?,
            netdevsim::DRIVER => Lab::of_cards(netdevsim::make()?)?,
            r8152::DRIVER => Lab::of_cards(r8152::make()?)?,
            driver => Lab::of_cards(card::pair(driver)?)?,
        };
        Ok(Self { driver, lab })
    }

    /// Whether packets go from one card to the other, and are counted.
    fn has_traffic(&self) -> bool {
        self.driver != netdevsim::DRIVER
    }

    /// Whether `nicctl bench` takes its cards: both run XDP themselves on every kernel, which
    /// frames from inside the kernel need.
    fn goes_with_bench(&self) -> bool {
        matches!(self.driver.as_str(), "virtio_net" | "igb")
    }
}

fn run_tests(guest: Guest) {
    let of_traffic = if guest.has_traffic() { OF_TRAFFIC } else { &[] };
    let of_the_kernel = if guest.driver == "veth" { OF_THE_KERNEL } else { &[] };
    let splits = split_headers::has(guest.lab.a());
    let of_split_headers = if splits { OF_SPLIT_HEADERS } else { &[] };
    let tests = of_traffic.iter().chain(OF_A_CARD).chain(of_split_headers).chain(of_the_kernel);
    let mut run = Run::default();
    for (name, test) in tests {
        run.test(name, || test(&guest));
    }
    let of_free_cards = if guest.goes_with_bench() { OF_FREE_CARDS } else { &[] };
    let Guest { driver, lab } = guest;
    drop(lab);
    for (name, test) in of_free_cards {
        run.test(name, || test(&driver));
    }
    let Run { passed, failed, .. } = run;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
}

/// Tests, as far as they are wanted, and what came of them.
struct Run {
    wanted: String,
    passed: usize,
    failed: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self { wanted: env::var("TESTS").unwrap_or_default(), passed: 0, failed: 0 }
    }
}

impl Run {
    fn test(&mut self, name: &str, test: impl FnOnce() -> Outcome) {
        if !name.contains(&self.wanted) {
            return;
        }
        let start = Instant::now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(test));
        println!("{name}: {:.1} s", start.elapsed().as_secs_f32());
        match outcome {
            Ok(outcome) => {
                if let Outcome::Skipped(why) = outcome {
                    println!("skipped: {why}");
                }
                println!("test {name} ... ok");
                self.passed += 1;
            }
            Err(panic) => {
                println!("{}", message(&*panic));
                println!("test {name} ... FAILED");
                self.failed += 1;
                nicctl::detach_all();
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked")
}
