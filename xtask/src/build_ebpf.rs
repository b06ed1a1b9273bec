//! `cargo xtask build-ebpf`: the kernel programs, built the same everywhere.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use object::{
    build::elf::{Builder, SectionData},
    elf::SHT_STRTAB,
};

use crate::{
    process::{self, command, output, root},
    toolchain::Toolchain,
};

/// Build the kernel programs into nic-user/src/offload/nicctl.bpf.o.
///
/// What the object needs to be the same on every machine is in docs/building.md.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing; fail if the committed object is not what its source gives
    #[arg(long)]
    check: bool,
}

/// How a check ended.
pub enum Check {
    /// The committed object is what its source gives.
    Same,
    /// Another compiler than the pinned one is here, so the objects cannot be compared.
    Skipped(String),
}

const OBJECT: &str = "nic-user/src/offload/nicctl.bpf.o";
const TARGET_DIR: &str = "target/bpf";

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    if args.check {
        match check()? {
            Check::Same => println!("{OBJECT} is what its source gives"),
            Check::Skipped(why) => println!("skipped: {why}"),
        }
        return Ok(());
    }
    let toolchain = toolchain()?;
    let object = build(&toolchain)?;
    let path = root().join(OBJECT);
    fs::create_dir_all(path.parent().context("no directory")?)?;
    fs::write(&path, &object).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{OBJECT}: {}", describe(&path)?);
    if !toolchain.pinned {
        println!("note: {}; do not commit this object", other_compiler(&toolchain));
    }
    Ok(())
}

/// Compares the committed object with what its source gives.
pub fn check() -> Result<Check> {
    let toolchain = toolchain()?;
    let built = build(&toolchain)?;
    let committed = root().join(OBJECT);
    if fs::read(&committed).is_ok_and(|bytes| bytes == built) {
        return Ok(Check::Same);
    }
    if !toolchain.pinned {
        return Ok(Check::Skipped(other_compiler(&toolchain)));
    }
    let fresh = root().join(TARGET_DIR).join("nicctl.bpf.o");
    fs::write(&fresh, &built)?;
    let committed = describe(&committed).unwrap_or_else(|_| "missing".to_owned());
    bail!(
        "{OBJECT} is not what nic-ebpf gives; run `cargo xtask build-ebpf` and commit it\n\
         committed: {committed}\n\
         built:     {}",
        describe(&fresh)?
    );
}

fn toolchain() -> Result<Toolchain> {
    Toolchain::find()?
        .filter(Toolchain::has_linker)
        .context("the BPF toolchain is not installed; run `cargo xtask setup`")
}

fn other_compiler(toolchain: &Toolchain) -> String {
    format!("{} is not the compiler that nic-ebpf/rust-toolchain.toml names", toolchain.version)
}

/// Clippy over the kernel programs, warnings as errors.
pub fn clippy(toolchain: &Toolchain) -> Result<Command> {
    let mut clippy = cargo(toolchain, "clippy")?;
    clippy.args(["--quiet", "--", "--deny", "warnings"]);
    Ok(clippy)
}

fn build(toolchain: &Toolchain) -> Result<Vec<u8>> {
    process::run(&mut cargo(toolchain, "build")?)?;
    let linked = root().join(TARGET_DIR).join("bpfel-unknown-none/release/nicctl");
    let bytes = fs::read(&linked).with_context(|| format!("{}", linked.display()))?;
    without_dwarf(&bytes)
}

fn cargo(toolchain: &Toolchain, subcommand: &str) -> Result<Command> {
    let mut cargo = toolchain.cargo();
    cargo
        .args([subcommand, "--release", "--locked", "-Z", "build-std=core"])
        .args(["--target", "bpfel-unknown-none", "--target-dir"])
        .arg(root().join(TARGET_DIR))
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(toolchain)?.join("\x1f"));
    Ok(cargo)
}

/// Flags for BTF, and for paths that do not depend on where things are.
fn rustflags(toolchain: &Toolchain) -> Result<Vec<String>> {
    let cargo_home = cargo_home().context("no home directory")?;
    let mut flags = vec![
        r#"--cfg=bpf_target_arch="x86_64""#.to_owned(),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        // 32-bit arithmetic and jumps, since Linux 5.1: lengths need no masking.
        "-Ctarget-cpu=v3".to_owned(),
    ];
    let source = toolchain.source();
    // Debian's source lies behind a link.
    let resolved = source.canonicalize()?;
    // LLVM puts the text of source files into BTF if it finds them; in a place that never exists
    // it finds none, on no machine.
    for (from, to) in [
        (root(), "/nonexistent/nicctl"),
        (cargo_home, "/nonexistent/cargo"),
        (source, "/nonexistent/rust"),
        (resolved, "/nonexistent/rust"),
    ] {
        flags.push(format!("--remap-path-prefix={}={to}", from.display()));
    }
    Ok(flags)
}

fn cargo_home() -> Option<PathBuf> {
    let named = env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| env::home_dir().map(|home| home.join(".cargo")))
}

/// The object with BTF as its only debug information: the kernel reads nothing else.
fn without_dwarf(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut builder = Builder::read(bytes)?;
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        section.delete = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    }
    builder.delete_orphans();
    // LLVM keeps the names of sections among those of symbols; this writer wants them apart.
    let names = builder.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

fn describe(path: &Path) -> Result<String> {
    let bytes = fs::metadata(path)?.len();
    let sum = output(command("sha256sum").arg(path))?;
    Ok(format!("{bytes} bytes, sha256 {}", sum.split(' ').next().unwrap_or_default()))
}
