//! `cargo xtask demo`: nicctl at work on interfaces of its own.

use anyhow::Result;

use crate::process::{cargo, cargo_as_root, run as run_command};

/// Build nicctl and show it at work, on interfaces made for it and removed afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// Arguments for the demo
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    println!("building nicctl");
    let packages = ["--package", "nic-user", "--package", "nic-demo"];
    // Not optimised: it shows, and measures nothing, and this takes half the time.
    run_command(cargo().arg("build").args(packages))?;
    run_command(
        cargo_as_root("sudo -E").args(["run", "--package", "nic-demo", "--"]).args(&args.rest),
    )
}
