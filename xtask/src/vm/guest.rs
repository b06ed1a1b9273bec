//! The programs that run in guests, linked statically: a guest has no libraries.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{cargo, root, run};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What a guest runs.
pub struct Programs {
    /// `nicctl` itself.
    pub nicctl: PathBuf,
    /// The first process, which tests it.
    pub init: PathBuf,
}

/// Why they cannot be built here, if so.
pub const IMPOSSIBLE: Option<&str> = if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
    None
} else {
    Some("they are x86-64 Linux, and programs for them are built only there")
};

/// Builds them.
pub fn build() -> Result<Programs> {
    println!("building nicctl for guests");
    let mut cargo = cargo();
    cargo
        .args(["build", "--quiet", "--locked", "--release", "--target", TARGET])
        .args(["--package", "nic-user", "--package", "nic-guest", "--bins"])
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    run(&mut cargo).context("build nicctl statically")?;
    let built = root().join("target").join(TARGET).join("release");
    Ok(Programs { nicctl: built.join("nicctl"), init: built.join("nic-guest") })
}
