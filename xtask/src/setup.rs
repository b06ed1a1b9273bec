//! `cargo xtask setup`: what building the kernel programs and testing needs.

use std::{fs, io, os::unix::fs::symlink, process::Command};

use anyhow::{Context, Result, bail};

use crate::{
    process::{command, find, is_root, root, run as run_command, succeeds},
    toolchain::{Toolchain, pinned_version},
};

/// Install what building the kernel programs and testing needs; what is there stays as it is.
#[derive(clap::Args)]
pub struct Args {
    /// Install nothing; say what is missing and fail if anything is
    #[arg(long)]
    check: bool,
    /// Also the tools that benchmarks measure nicctl against
    #[arg(long)]
    bench: bool,
}

/// One thing that is needed.
struct Need {
    what: &'static str,
    why: &'static str,
    is_there: fn() -> Result<bool>,
    install: fn() -> Result<()>,
}

const NEEDS: [Need; 3] = [
    Need {
        what: "rustfmt and clippy",
        why: "for the checks of `cargo xtask test`",
        is_there: has_components,
        install: install_components,
    },
    Need {
        what: "rustc with the source of core",
        why: "for the kernel programs: no core is published for the BPF target",
        is_there: has_rustc,
        install: install_rustc,
    },
    Need {
        what: "bpf-linker",
        why: "for the kernel programs: rustc leaves code generation for BPF to it",
        is_there: || Ok(Toolchain::find()?.is_some_and(|toolchain| toolchain.has_linker())),
        install: install_linker,
    },
];

/// A program, or a file by its whole path, and the Debian package that has it.
type Program = (&'static str, &'static str);

/// What tests compare with, and make their sandboxes with.
const TOOLS: [Program; 4] = [
    ("ip", "iproute2"),
    ("setpriv", "util-linux"),
    ("ethtool", "ethtool"),
    ("nginx", "nginx-light"),
];

/// What packages call to start services, now and when the machine starts.
const SERVICE_TOOLS: [&str; 4] =
    ["invoke-rc.d", "update-rc.d", "deb-systemd-helper", "deb-systemd-invoke"];

/// What benchmarks compare with.
const PEERS: [Program; 8] = [
    ("ethtool", "ethtool"),
    ("bpftool", "bpftool"),
    ("xdp-loader", "xdp-tools"),
    ("cc", "gcc"),
    ("/usr/include/xdp/xsk.h", "libxdp-dev"),
    ("/usr/include/bpf/bpf.h", "libbpf-dev"),
    ("clang", "clang"),
    ("/usr/include/xdp/parsing_helpers.h", "libxdp-dev"),
];

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let mut missing = 0;
    for need in &NEEDS {
        missing += usize::from(!provide(need, args.check)?);
    }
    missing += usize::from(!provide_programs("programs for tests", &TOOLS, args.check)?);
    if args.bench {
        missing += usize::from(!provide_programs("programs to compare with", &PEERS, args.check)?);
    }
    if missing > 0 {
        bail!("{missing} missing; `cargo xtask setup` installs what it can");
    }
    Ok(())
}

/// All that tests need.
pub fn for_tests() -> Result<()> {
    run(&Args { check: false, bench: false })
}

/// All that benchmarks need.
pub fn for_benchmarks() -> Result<()> {
    run(&Args { check: false, bench: true })
}

/// Whether the thing is there in the end.
fn provide(need: &Need, check: bool) -> Result<bool> {
    let is_there = (need.is_there)()?;
    if is_there {
        println!("{}: there", need.what);
    } else if check {
        println!("{}: missing ({})", need.what, need.why);
    } else {
        println!("{}: installing, {}", need.what, need.why);
        (need.install)().with_context(|| format!("cannot install {}", need.what))?;
    }
    Ok(is_there || !check)
}

fn provide_programs(what: &str, programs: &[Program], check: bool) -> Result<bool> {
    let missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        println!("{what}: there");
        return Ok(true);
    }
    println!("{what}: {} missing", missing.join(", "));
    if !check {
        install_packages(&missing)?;
    }
    Ok(!check)
}

fn has_components() -> Result<bool> {
    Ok(succeeds(crate::process::cargo().args(["fmt", "--version"]))
        && succeeds(crate::process::cargo().args(["clippy", "--version"])))
}

fn install_components() -> Result<()> {
    if find("rustup").is_none() {
        return install_packages(&["rustfmt", "rust-clippy"]);
    }
    run_command(command("rustup").args(["component", "add", "rustfmt", "clippy"]))
}

/// Another rustc than the pinned one is enough where rustup cannot give that: where there is no
/// rustup, or where an earlier set-up did with the other one, so that it has a linker.
fn has_rustc() -> Result<bool> {
    let Some(toolchain) = Toolchain::find()? else { return Ok(false) };
    Ok(toolchain.pinned || toolchain.has_linker() || find("rustup").is_none())
}

/// The pinned rustc by rustup; where that cannot be, the one that Debian builds browsers with.
fn install_rustc() -> Result<()> {
    let version = pinned_version()?;
    if find("rustup").is_none() {
        println!("no rustup: taking the distribution's rustc");
    } else {
        println!("rustup: rustc {version} with rust-src");
        let mut install = command("rustup");
        install
            .args(["toolchain", "install", &version, "--no-self-update", "--profile", "minimal"])
            .args(["--component", "rust-src", "--component", "clippy"]);
        match run_command(&mut install) {
            Ok(()) => return Ok(()),
            Err(error) => println!("{error:#}; taking the distribution's rustc"),
        }
    }
    if Toolchain::find()?.is_some() {
        return Ok(());
    }
    install_packages(&["rustc-web", "cargo-web", "rust-web-src"])
}

fn install_linker() -> Result<()> {
    let toolchain = Toolchain::find()?.context("no rustc with the source of core")?;
    if toolchain.llvm_library().is_err() {
        install_packages(&[&format!("llvm-{}-dev", toolchain.llvm_major())])?;
    }
    println!("cargo install bpf-linker for LLVM {}: about a minute", toolchain.llvm);
    toolchain.install_linker()
}

/// Debian packages, as root or by sudo if that asks nothing.
pub fn install_packages(packages: &[&str]) -> Result<()> {
    let by_hand = format!("apt-get install {}", packages.join(" "));
    if find("apt-get").is_none() {
        bail!("this is no Debian: please install what its packages {} have", packages.join(", "));
    }
    if !is_root() && !succeeds(Command::new("sudo").args(["-n", "true"])) {
        bail!("this needs root; please run: sudo {by_hand}");
    }
    println!("{by_hand}");
    let mut install = apt_get();
    install.args(["install", "--yes", "--quiet", "--no-install-recommends"]);
    install.arg("-o").arg(path_without_services()?).args(packages);
    if succeeds(&mut install) {
        return Ok(());
    }
    // A new machine has no list of packages, or an old one.
    run_command(apt_get().args(["update", "--quiet"]))?;
    run_command(&mut install)
}

/// The option of apt that lets packages find nothing with which to start their services: programs
/// are wanted, not a web server on every developer's machine, and a service that cannot start is
/// no reason to do without its program.
fn path_without_services() -> Result<String> {
    let directory = root().join("target/no-services");
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for tool in SERVICE_TOOLS {
        match symlink("/bin/true", directory.join(tool)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).context("cannot make a link to /bin/true");
            }
            _ => {}
        }
    }
    let usual = "/usr/sbin:/usr/bin:/sbin:/bin";
    Ok(format!("DPkg::Path={}:{usual}", directory.display()))
}

fn apt_get() -> Command {
    let mut apt_get = if is_root() {
        command("apt-get")
    } else {
        let mut sudo = command("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    };
    apt_get.env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}
