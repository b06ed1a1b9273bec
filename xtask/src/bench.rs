//! `cargo xtask bench`: nicctl measured, beside the programs that do the same.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    process::{cargo_as_root, command, find, run as run_command},
    setup,
    vm::packages,
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
    let mut bench = cargo_as_root("sudo -E");
    bench.args(["bench", "--package", "nic-user", "--bench", &args.name, "--"]).args(&args.rest);
    let peer = match args.name.as_str() {
        "driver" => Some(("--xdp-bench", "xdp-bench with AF_XDP jobs", xdp_bench())),
        "ebpf" => Some(("--dissector", "flow dissector of the kernel's selftests", dissector())),
        _ => None,
    };
    match peer {
        Some((option, _, Ok(file))) => {
            bench.arg(option).arg(file);
        }
        // The benchmark says what it skips.
        Some((_, what, Err(error))) => println!("no {what}: {error:#}"),
        None => {}
    }
    run_command(&mut bench)
}

/// The source of the flow dissector, out of the kernel's.
fn dissector() -> Result<PathBuf> {
    const PACKAGE: &str = "linux-source-6.1";
    const FILE: &str = "tools/testing/selftests/bpf/progs/bpf_flow.c";
    let directory = packages::cached("dissector", |directory| {
        let work = tempfile::tempdir_in(packages::cache())?;
        packages::unpack(&[PACKAGE.to_owned()], work.path())?;
        let mut tar = command("tar");
        tar.arg("--extract").arg("--strip-components=6").arg("--directory").arg(directory);
        tar.arg("--file").arg(work.path().join(format!("usr/src/{PACKAGE}.tar.xz")));
        run_command(tar.arg(format!("{PACKAGE}/{FILE}")))
    })?;
    Ok(directory.join("bpf_flow.c"))
}

/// An xdp-bench with AF_XDP jobs: the system's, else a newer one out of the cache.
fn xdp_bench() -> Result<PathBuf> {
    if let Some(installed) = find("xdp-bench")
        && has_xsk_drop(&installed)
    {
        return Ok(installed);
    }
    let directory = packages::cached("xdp-tools", |directory| {
        let names =
            ["xdp-tools", "libxdp1", "libbpf1", "libelf1t64", "zlib1g", "libzstd1", "libc6"];
        packages::unpack_testing(&names.map(str::to_owned), directory)
    })?;
    let program = directory.join("xdp-bench");
    start_script(&directory, &program)?;
    Ok(program)
}

fn has_xsk_drop(program: &Path) -> bool {
    let help = command(program).arg("help").output();
    help.is_ok_and(|it| {
        String::from_utf8_lossy(&[it.stdout, it.stderr].concat()).contains("xsk-drop")
    })
}

/// Starts it with the libraries that it was built for.
fn start_script(directory: &Path, program: &Path) -> Result<()> {
    let directory = directory.display();
    let script = format!(
        "#!/bin/sh\n\
         usr='{directory}/usr'\n\
         lib=$usr/lib/x86_64-linux-gnu\n\
         export LIBXDP_OBJECT_PATH=$lib/bpf\n\
         exec $lib/ld-linux-x86-64.so.2 --library-path $lib $usr/sbin/xdp-bench \"$@\"\n"
    );
    fs::write(program, script)?;
    Ok(fs::set_permissions(program, fs::Permissions::from_mode(0o755))?)
}
