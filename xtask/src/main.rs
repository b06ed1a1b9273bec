//! `cargo xtask`: set-up, build of the kernel programs, tests, fuzzing, demo, benchmarks, guests.

mod bench;
mod build_ebpf;
mod demo;
mod fuzz;
mod other_release;
mod process;
mod setup;
mod test;
mod toolchain;
mod vm;

use std::process::ExitCode;

use clap::Parser;

/// Build, test and try nicctl.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    Setup(setup::Args),
    BuildEbpf(build_ebpf::Args),
    /// Check everything: format, lints, the committed kernel object, and all tests.
    ///
    /// Sets up what it needs. Tests that need root skip themselves without it. Ends with one line:
    /// N passed, N failed, N skipped.
    Test,
    /// Build a second release, whose maps are laid out otherwise, for the tests of upgrades.
    ///
    /// They look for it where NICCTL_OTHER_RELEASE says; `cargo xtask test` builds it, too.
    OtherRelease,
    Fuzz(fuzz::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let result = match Task::parse() {
        Task::Setup(args) => setup::run(&args),
        Task::BuildEbpf(args) => build_ebpf::run(&args),
        Task::Test => return test::run(),
        Task::OtherRelease => other_release::run(),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Vm(args) => vm::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
