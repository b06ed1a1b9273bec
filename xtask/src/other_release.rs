//! A second release of nicctl, whose maps are laid out otherwise: what upgrades are tested with.
//!
//! It is this source, in a copy, with fields of counters and of the record moved, and new ones.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo, command, root};

/// Where tests find it.
pub const VARIABLE: &str = "NICCTL_OTHER_RELEASE";

/// What of the repository it takes.
const PARTS: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "nic-common", "nic-ebpf", "nic-user", "xtask"];

/// What is different in it: in this file, what stands there, and what in its place.
const CHANGES: &[(&str, &str, &str)] = &[
    // One field goes behind others, and a new one comes before it.
    (
        "nic-common/src/counters.rs",
        "    /// Bytes of all frames, without FCS.\n    pub bytes: u64,\n",
        "    /// Of this release.\n    pub other: u64,\n",
    ),
    (
        "nic-common/src/counters.rs",
        "    pub logged_at: u64,\n",
        "    pub logged_at: u64,\n    /// Bytes of all frames.\n    pub bytes: u64,\n",
    ),
    (
        "nic-common/src/counters.rs",
        "layout!(RxCounters: verdicts, ",
        "layout!(RxCounters: verdicts, other, ",
    ),
    (
        "nic-common/src/counters.rs",
        "        verdicts: [0; 3],\n",
        "        verdicts: [0; 3],\n        other: 0,\n",
    ),
    (
        "nic-common/src/record.rs",
        "    pub attached_at: u64,\n",
        "    pub attached_at: u64,\n    /// Of this release.\n    pub other: u64,\n",
    ),
    (
        "nic-common/src/record.rs",
        "        attached_at: 0,\n",
        "        attached_at: 0,\n        other: 0,\n",
    ),
    (
        "nic-common/src/record.rs",
        "layout!(AttachRecord: layout, ",
        "layout!(AttachRecord: layout, other, ",
    ),
    (
        "nic-user/src/offload/attach/attaching.rs",
        "            attached_at: now,\n",
        "            attached_at: now,\n            other: 0,\n",
    ),
];

fn copy() -> PathBuf {
    root().join("target/other-release")
}

/// Where it is, once it is built.
pub fn nicctl() -> PathBuf {
    copy().join("target/debug/nicctl")
}

/// Runs the subcommand.
pub fn run() -> Result<()> {
    build()?;
    println!("{VARIABLE}={}", nicctl().display());
    Ok(())
}

/// Builds it, or as much of it as is not built yet.
pub fn build() -> Result<()> {
    let copy = copy();
    fs::create_dir_all(&copy)?;
    for part in PARTS {
        copy_part(&root(), &copy, Path::new(part))?;
    }
    let this = env::current_exe().context("where is this program?")?;
    process::run(command(this).arg("build-ebpf").env("CARGO_MANIFEST_DIR", copy.join("xtask")))?;
    let build = ["build", "--quiet", "--locked", "--package", "nic-user", "--bin", "nicctl"];
    process::run(cargo().args(build).current_dir(&copy).env_remove("CARGO_TARGET_DIR"))
}

fn copy_part(from: &Path, to: &Path, path: &Path) -> Result<()> {
    let source = from.join(path);
    if source.is_file() {
        return copy_file(&source, &to.join(path), path);
    }
    fs::create_dir_all(to.join(path))?;
    for entry in fs::read_dir(&source).with_context(|| format!("read {}", source.display()))? {
        let name = entry?.file_name();
        if name != "target" {
            copy_part(from, to, &path.join(name))?;
        }
    }
    Ok(())
}

/// Only what differs is written: cargo builds anew what is younger. The kernel object is made there.
fn copy_file(source: &Path, target: &Path, path: &Path) -> Result<()> {
    let is_made = path.extension().is_some_and(|extension| extension == "o");
    if is_made && target.exists() {
        return Ok(());
    }
    let mut content = fs::read(source).with_context(|| format!("read {}", source.display()))?;
    for (file, from, into) in CHANGES {
        if Path::new(file) == path {
            let text = String::from_utf8(content).context("it is no text")?;
            ensure!(text.matches(from).count() == 1, "{file} has not once: {from}");
            content = text.replacen(from, into, 1).into_bytes();
        }
    }
    if fs::read(target).is_ok_and(|present| present == content) {
        return Ok(());
    }
    fs::write(target, content).with_context(|| format!("write {}", target.display()))?;
    Ok(fs::set_permissions(target, fs::metadata(source)?.permissions())?)
}
