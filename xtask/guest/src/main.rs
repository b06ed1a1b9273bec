//! The first and only process of a guest of `cargo xtask vm`: nicctl on another kernel and on the
//! drivers of other network cards. It prints what libtest prints.
//!
//! `NIC` in its environment, which is the kernel's command line, says which driver to test, `TESTS`
//! which tests (a part of their names).

mod card;
mod frames;
mod header_length;
mod kernel_answers;
mod machine;
mod nicctl;
mod show;
mod stacked;

use std::{
    any::Any,
    env,
    panic::{self, AssertUnwindSafe},
    process,
};

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

/// Tests of a network card.
const OF_A_CARD: &[(&str, Test)] = &[
    ("native_counts_are_the_kernels", card::native_counts_are_the_kernels),
    ("generic_counts_are_the_kernels", card::generic_counts_are_the_kernels),
    ("shown_is_what_the_kernel_says", show::shown_is_what_the_kernel_says),
    ("upgrade_under_traffic_loses_nothing", card::upgrade_under_traffic_loses_nothing),
];

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
    match machine::set_up().and_then(|()| Ok(Guest::new()?)) {
        Ok(guest) => run_tests(&guest),
        Err(error) => println!("error: set up the guest: {error:#}"),
    }
    machine::power_off();
}

impl Guest {
    fn new() -> nic_user::error::Result<Self> {
        let driver = env::var("NIC").unwrap_or_else(|_| "veth".to_owned());
        let lab = match driver.as_str() {
            "veth" => Lab::new(Shape::default())?,
            driver => Lab::of_cards(card::pair(driver)?)?,
        };
        Ok(Self { driver, lab })
    }
}

fn run_tests(guest: &Guest) {
    let wanted = env::var("TESTS").unwrap_or_default();
    let of_the_kernel = if guest.driver == "veth" { OF_THE_KERNEL } else { &[] };
    let tests = OF_A_CARD.iter().chain(of_the_kernel).filter(|(name, _)| name.contains(&wanted));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| test(guest)));
        match outcome {
            Ok(outcome) => {
                if let Outcome::Skipped(why) = outcome {
                    println!("skipped: {why}");
                }
                println!("test {name} ... ok");
                passed += 1;
            }
            Err(panic) => {
                println!("{}", message(&*panic));
                println!("test {name} ... FAILED");
                failed += 1;
                nicctl::detach_all();
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked")
}
