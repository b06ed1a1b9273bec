//! `cargo xtask bench`: nicctl measured, beside the programs that do the same.

use anyhow::Result;

use crate::{
    process::{cargo_as_root, run as run_command},
    setup,
};

/// Run a benchmark of nic-user.
#[derive(clap::Args)]
pub struct Args {
    /// Which one: a file in nic-user/benches
    name: String,
    /// Arguments for the benchmark
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    setup::for_benchmarks()?;
    run_command(
        cargo_as_root("sudo -E")
            .args(["bench", "--package", "nic-user", "--bench"])
            .args([&args.name, "--"])
            .args(&args.rest),
    )
}
