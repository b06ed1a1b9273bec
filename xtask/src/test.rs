//! `cargo xtask test`: everything that is checked, one step after the other.

pub mod tally;

use std::{
    io::{BufRead, BufReader},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use anyhow::{Context, Error, Result};

use self::tally::{Output, Tally};
use crate::{
    build_ebpf::{self, Check},
    demo, other_release,
    process::{cargo, cargo_as_root, is_root, run as run_command, succeeds},
    setup,
    toolchain::Toolchain,
    vm,
};

/// One thing that is checked; what it returns is added up.
struct Step {
    name: &'static str,
    run: fn() -> Result<Tally>,
}

const STEPS: [Step; 10] = [
    Step { name: "setup", run: || setup::for_tests().map(|()| Tally::default()) },
    Step { name: "format", run: format },
    Step { name: "clippy", run: clippy },
    Step { name: "clippy of the kernel programs", run: clippy_ebpf },
    Step { name: "clippy of the fuzz target", run: clippy_fuzz },
    Step { name: "committed kernel object", run: committed_object },
    Step { name: "another release", run: || other_release::build().map(|()| Tally::default()) },
    Step { name: "tests", run: tests },
    Step { name: "demo", run: demo },
    Step { name: "tests in guests", run: vm::always },
];

/// Runs the subcommand. A failed step does not keep the others from running; the sum is the last
/// line of all.
pub fn run() -> ExitCode {
    let mut total = Tally::default();
    for step in &STEPS {
        println!("== {}", step.name);
        let start = Instant::now();
        let tally = (step.run)().unwrap_or_else(|error| failed(&error));
        let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
        println!("== {}: {verdict}, {:.1} s\n", step.name, start.elapsed().as_secs_f32());
        total.add(tally);
    }
    println!("{total}");
    if total.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const WORKSPACES: [&str; 3] = ["Cargo.toml", "nic-ebpf/Cargo.toml", "nic-common/fuzz/Cargo.toml"];

fn format() -> Result<Tally> {
    let mut tally = Tally::default();
    for manifest in WORKSPACES {
        let mut fmt = cargo();
        let formatted =
            run_command(fmt.args(["fmt", "--all", "--check", "--manifest-path", manifest]));
        tally.add(formatted.map_or_else(|error| failed(&error), |()| Tally::PASSED));
    }
    Ok(tally)
}

fn clippy() -> Result<Tally> {
    let all = ["clippy", "--quiet", "--locked", "--workspace", "--all-targets"];
    run_command(cargo().args(all).args(["--", "--deny", "warnings"]))?;
    Ok(Tally::PASSED)
}

fn clippy_fuzz() -> Result<Tally> {
    let fuzz = ["--manifest-path", "nic-common/fuzz/Cargo.toml", "--no-default-features"];
    let mut clippy = cargo();
    clippy.args(["clippy", "--quiet", "--locked", "--target-dir", "target/fuzz"]);
    run_command(clippy.args(fuzz).args(["--", "--deny", "warnings"]))?;
    Ok(Tally::PASSED)
}

fn clippy_ebpf() -> Result<Tally> {
    let toolchain = Toolchain::find()?.context("no rustc with the source of core")?;
    if !succeeds(toolchain.cargo().args(["clippy", "--version"])) {
        return Ok(skipped(&format!("{} has no clippy", toolchain.version)));
    }
    run_command(&mut build_ebpf::clippy(&toolchain)?)?;
    Ok(Tally::PASSED)
}

fn committed_object() -> Result<Tally> {
    Ok(match build_ebpf::check()? {
        Check::Same => Tally::PASSED,
        Check::Skipped(why) => skipped(&why),
    })
}

/// What the README begins with works.
fn demo() -> Result<Tally> {
    if !can_be_root() {
        return Ok(skipped("not root, and sudo wants a password"));
    }
    demo::run(&demo::Args { picture: None })?;
    Ok(Tally::PASSED)
}

fn can_be_root() -> bool {
    is_root() || succeeds(Command::new("sudo").args(["-n", "true"]))
}

fn failed(error: &Error) -> Tally {
    println!("error: {error:#}");
    Tally::FAILED
}

fn skipped(why: &str) -> Tally {
    println!("skipped: {why}");
    Tally::SKIPPED
}

/// All tests of the workspace, those that need root by `sudo` where it asks nothing.
fn tests() -> Result<Tally> {
    let mut cargo = if can_be_root() {
        cargo_as_root("sudo -n -E")
    } else {
        println!("not root, and sudo wants a password: tests that need root skip themselves");
        cargo()
    };
    cargo.env(other_release::VARIABLE, other_release::nicctl());
    cargo.args(["test", "--locked", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot run cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut seen = Output::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if seen.read(&line) {
            println!("{line}");
        }
    }
    // A test program that does not build, or dies, has no summary to count.
    if !child.wait()?.success() && seen.tally.failed == 0 {
        println!("error: cargo test failed beside the tests counted here");
        seen.tally.failed = 1;
    }
    Ok(seen.tally)
}
