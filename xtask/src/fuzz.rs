//! `cargo xtask fuzz`: libFuzzer on the header walk, on the decoders of netlink replies, and on the
//! reader of saved statistics.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};

use crate::process::{cargo, command, output, root, run as run_command};

/// Fuzz the code that reads packets, the kernel's replies, or saved statistics; needs a C++ compiler, but no nightly
/// Rust.
#[derive(clap::Args)]
pub struct Args {
    /// For how many seconds
    #[arg(default_value_t = 60)]
    secs: u32,
    /// Which target: a file in nic-common/fuzz/fuzz_targets
    #[arg(default_value = "headers")]
    target: String,
}

/// Coverage for libFuzzer, as cargo-fuzz asks for it, and checks that release builds leave out.
/// All of these are stable options; without a sanitizer there is nothing that needs nightly.
const RUSTFLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=1",
];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let fuzz = root().join("nic-common/fuzz");
    let host = host()?;
    let target_dir = root().join("target/fuzz");
    let mut build = cargo();
    build
        .args(["build", "--release", "--locked", "--bin", &args.target, "--target", &host])
        .arg("--manifest-path")
        .arg(fuzz.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\x1f"));
    run_command(&mut build)?;

    let corpus = fuzz.join("corpus").join(&args.target);
    let artifacts = fuzz.join("artifacts").join(&args.target);
    fs::create_dir_all(&artifacts)?;
    fs::create_dir_all(&corpus)?;
    if args.target == "headers" {
        seed(&corpus)?;
    }
    let program = target_dir.join(host).join("release").join(&args.target);
    let mut fuzzer = command(program);
    fuzzer
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={}", args.secs))
        .args(["-max_len=2048", "-print_final_stats=1"]);
    run_command(&mut fuzzer)
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output(command(Path::new(&rustc)).arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say its host")?.to_owned())
}

/// Puts the frames that tests compare with the kernel into the corpus.
fn seed(corpus: &Path) -> Result<()> {
    let path = root().join("nic-common/tests/headlen/basic.jsonl");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    for (number, line) in text.lines().enumerate() {
        let hex = line.split(r#""hex":""#).nth(1).and_then(|rest| rest.split('"').next());
        let frame = hex.and_then(bytes).with_context(|| format!("no frame in line {number}"))?;
        fs::write(corpus.join(format!("basic-{number}")), frame)?;
    }
    Ok(())
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
}
