//! `cargo xtask demo`: nicctl at work on interfaces of its own.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{cargo, cargo_as_root, run as run_command};

/// Build nicctl and show it at work, on interfaces made for it and removed afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// Also draw what `nicctl stats` prints: the picture of the README is docs/stats.svg
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    println!("building nicctl");
    let packages = ["--package", "nic-user", "--package", "nic-demo"];
    // Not optimised: it shows, and measures nothing, and this takes half the time.
    run_command(cargo().arg("build").args(packages))?;
    let picture = args.picture.iter().flat_map(|path| ["--picture".as_ref(), path.as_os_str()]);
    run_command(cargo_as_root("sudo -E").args(["run", "--package", "nic-demo", "--"]).args(picture))
}
