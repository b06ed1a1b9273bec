//! What builds the kernel programs: a rustc that has the source of `core`, and a bpf-linker for
//! the LLVM of that rustc.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, command, find, output, root, run, succeeds};

const LINKER_VERSION: &str = "0.13.0";

/// A rustc with the source of `core`.
pub struct Toolchain {
    /// Where `bin` and `lib` are.
    pub sysroot: PathBuf,
    /// Whether it is the one that the committed object was built with.
    pub pinned: bool,
    /// First line of `rustc --version`.
    pub version: String,
    /// LLVM's version: "22.1.2".
    pub llvm: String,
}

impl Toolchain {
    /// The pinned toolchain if it is there, else the system's if it has the source of `core`.
    pub fn find() -> Result<Option<Self>> {
        if let Some(sysroot) = pinned_sysroot()? {
            return Self::at(sysroot, true).map(Some);
        }
        let system = PathBuf::from("/usr");
        if has_core(&system) { Self::at(system, false).map(Some) } else { Ok(None) }
    }

    fn at(sysroot: PathBuf, pinned: bool) -> Result<Self> {
        let text = output(command(sysroot.join("bin/rustc")).arg("-vV"))?;
        let llvm = text.lines().find_map(|line| line.strip_prefix("LLVM version: "));
        let llvm = llvm.context("rustc does not say its LLVM version")?.to_owned();
        let version = text.lines().next().unwrap_or_default().to_owned();
        Ok(Self { sysroot, pinned, version, llvm })
    }

    /// This toolchain's cargo, set up to build `nic-ebpf` with its linker.
    pub fn cargo(&self) -> Command {
        let mut cargo = command(self.sysroot.join("bin/cargo"));
        cargo
            .current_dir(root().join("nic-ebpf"))
            .env("RUSTC", self.sysroot.join("bin/rustc"))
            .env("RUSTC_WRAPPER", root().join("nic-ebpf/rustc.sh"))
            // `-Z build-std` and inline BPF assembly are unstable.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", self.linker())
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        cargo
    }

    /// The source of the standard library.
    pub fn source(&self) -> PathBuf {
        source(&self.sysroot)
    }

    /// Where this toolchain's bpf-linker belongs: outside of the user's own programs, because a
    /// bpf-linker fits one LLVM only.
    fn linker_root(&self) -> PathBuf {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).unwrap_or_else(|| {
            env::home_dir().unwrap_or_else(|| root().join("target")).join(".cache")
        });
        let rustc = self.version.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
        cache.join("nicctl").join(format!("bpf-linker-{LINKER_VERSION}-{rustc}"))
    }

    fn linker(&self) -> PathBuf {
        self.linker_root().join("bin/bpf-linker")
    }

    /// Whether the linker is there and finds its LLVM.
    pub fn has_linker(&self) -> bool {
        succeeds(command(self.linker()).arg("--version"))
    }

    /// Builds the published linker against this toolchain's LLVM.
    pub fn install_linker(&self) -> Result<()> {
        let prefix = self.linker_root();
        let library = self.llvm_library()?;
        link_library(&library, &prefix.join("lib"))?;
        let major = self.llvm_major();
        let features = format!("llvm-{major}");
        let mut install = cargo();
        install
            .args(["install", "--quiet", "--locked", "--force", "--no-default-features"])
            .args(["--features", &features, "--root"])
            .arg(&prefix)
            .arg(format!("bpf-linker@{LINKER_VERSION}"))
            .env("LLVM_PREFIX", &prefix)
            // The time goes by in LLVM, not in the linker's own code.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        run(&mut install)
    }

    /// LLVM's major version.
    pub fn llvm_major(&self) -> &str {
        self.llvm.split('.').next().unwrap_or(&self.llvm)
    }

    /// The shared LLVM that rustc itself uses, or the distribution's of the same major version.
    pub fn llvm_library(&self) -> Result<PathBuf> {
        let own = fs::read_dir(self.sysroot.join("lib"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libLLVM.so.") && name.contains("-rust-")
            });
        let distribution = format!("/usr/lib/llvm-{}/lib/libLLVM.so", self.llvm_major());
        own.or_else(|| Some(PathBuf::from(distribution)).filter(|path| path.exists()))
            .with_context(|| format!("no shared LLVM {} found", self.llvm_major()))
    }
}

/// Version of rustc that `nic-ebpf/rust-toolchain.toml` names.
pub fn pinned_version() -> Result<String> {
    let path = root().join("nic-ebpf/rust-toolchain.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("channel = "));
    let version = version.with_context(|| format!("{}: no channel", path.display()))?;
    Ok(version.trim_matches('"').to_owned())
}

fn pinned_sysroot() -> Result<Option<PathBuf>> {
    if find("rustup").is_none() {
        return Ok(None);
    }
    let mut which = command("rustup");
    which.args(["which", "rustc", "--toolchain", &pinned_version()?]);
    if !succeeds(&mut which) {
        return Ok(None);
    }
    let rustc = PathBuf::from(output(command("rustup").args(which.get_args()))?);
    let sysroot = rustc.parent().and_then(Path::parent).map(Path::to_path_buf);
    Ok(sysroot.filter(|sysroot| has_core(sysroot)))
}

fn source(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust")
}

fn has_core(sysroot: &Path) -> bool {
    source(sysroot).join("library/core/src/lib.rs").exists()
        && sysroot.join("bin/rustc").exists()
        && sysroot.join("bin/cargo").exists()
}

/// Makes `library` findable in `directory` both by the linker (`libLLVM.so`) and by the dynamic
/// loader (its own name).
fn link_library(library: &Path, directory: &Path) -> Result<()> {
    let library = library.canonicalize()?;
    let Some(name) = library.file_name() else { bail!("{}: not a file", library.display()) };
    fs::create_dir_all(directory)?;
    for name in [Path::new("libLLVM.so"), Path::new(name)] {
        let link = directory.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(&library, &link).with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(())
}
