//! Other programs: how they are started, and from where.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    // Cargo sets the variable for the program it runs; the other is for the program run by hand.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// A command that starts in the root of the repository, without the toolchain, flags and library
/// path that cargo handed down to this program.
pub fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(root());
    for name in ["RUSTUP_TOOLCHAIN", "LD_LIBRARY_PATH", "CARGO_MANIFEST_DIR"] {
        command.env_remove(name);
    }
    command
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    let mut command = command(env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from));
    if let Some(toolchain) = env::var_os("RUSTUP_TOOLCHAIN") {
        command.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    command
}

/// The cargo that runs this program, for `cargo run`, `bench` and `test` of what needs root:
/// everything it starts is started by `sudo`, unless this program is root already.
pub fn cargo_as_root(sudo: &str) -> Command {
    let mut cargo = cargo();
    if !is_root() {
        cargo.arg("--config").arg(format!("target.'cfg(all())'.runner = '{sudo}'"));
    }
    cargo
}

/// Runs a command to its end; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", name(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// What a command prints, without white space around it; its errors are passed on.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", name(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", name(command), output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Whether a command runs and succeeds; silent.
pub fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Where a program lies in `PATH`, or where administrators' programs usually lie.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id == "0")
}

/// A command as one would type it.
fn name(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
