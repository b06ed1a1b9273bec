//! netdevsim, a driver for tests that Debian's kernels come without: built from their source.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{kernel::Kernel, packages};
use crate::{
    process::{command, find, run},
    setup,
};

const SOURCE: &str = "drivers/net/netdevsim";
const MODULE: &str = "netdevsim.ko";

/// Programs that the build of modules runs, as Debian packs them.
const BUILD_PROGRAMS: [&str; 4] = [
    "scripts/mod/modpost",
    "scripts/mod/modpost.real-lsb-64",
    "tools/objtool/objtool",
    "tools/objtool/objtool.real-x86",
];

/// The module for this kernel, out of the cache or else built.
pub fn get(kernel: &Kernel) -> Result<PathBuf> {
    let directory = packages::cached(&format!("netdevsim-{}", kernel.release), |directory| {
        let work = tempfile::tempdir_in(packages::cache())?;
        build(kernel, work.path(), &directory.join(MODULE))
    });
    Ok(directory.context("build netdevsim")?.join(MODULE))
}

fn build(kernel: &Kernel, work: &Path, module: &Path) -> Result<()> {
    if find("make").is_none() || find("gcc").is_none() {
        setup::install_packages(&["make", "gcc"])?;
    }
    let headers = format!("linux-headers-{}", kernel.release);
    let source = format!("linux-source-{}", kernel.version());
    let version = packages::version(&headers)?;
    let mut names = vec![format!("{source}={version}"), headers.clone()];
    names.extend(
        packages::dependencies(&headers)?
            .into_iter()
            .filter(|name| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-")),
    );
    packages::unpack(&names, work)?;
    let sources = work.join("usr/src");
    let mut tar = command("tar");
    tar.arg("--extract").arg("--file").arg(sources.join(format!("{source}.tar.xz")));
    tar.arg("--directory").arg(work).arg("--strip-components=1").arg(format!("{source}/{SOURCE}"));
    run(&mut tar)?;
    let headers = sources.join(headers);
    relocate(&headers.join("Makefile"), &sources)?;
    make_programs_run(&headers, work)?;
    println!("building netdevsim for {}", kernel.release);
    run(&mut make(&headers, &work.join(SOURCE)))?;
    // Debug information is nine tenths of it.
    run(command("strip")
        .arg("--strip-debug")
        .arg("-o")
        .arg(module)
        .arg(work.join(SOURCE).join(MODULE)))
}

/// With the compiler that there is, which may be older than the kernel's.
fn make(headers: &Path, source: &Path) -> Command {
    let mut make = command("make");
    make.args(["--silent", "--jobs=2", "CC=gcc", "CONFIG_NETDEVSIM=m"])
        .args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT="])
        .arg("-C")
        .arg(headers)
        .arg(format!("M={}", source.display()))
        .arg("modules");
    make
}

/// The headers are meant to be installed, and name their place.
fn relocate(makefile: &Path, sources: &Path) -> Result<()> {
    let text = fs::read_to_string(makefile)?;
    Ok(fs::write(makefile, text.replace("/usr/src", &sources.display().to_string()))?)
}

/// The programs of a kernel for a newer Debian want that Debian's C library.
fn make_programs_run(headers: &Path, work: &Path) -> Result<()> {
    let programs = BUILD_PROGRAMS.map(|program| headers.join(program)).into_iter();
    let programs: Vec<_> =
        programs.filter(|program| program.exists() && !has_libraries(program)).collect();
    if programs.is_empty() {
        return Ok(());
    }
    let libc = work.join("libc");
    packages::unpack(&["libc6/trixie".to_owned()], &libc)?;
    let libraries = libc.join("usr/lib/x86_64-linux-gnu");
    for program in programs {
        let moved = program.with_extension("elf");
        fs::rename(&program, &moved)?;
        let (libraries, moved) = (libraries.display(), moved.display());
        let start = format!(
            "#!/bin/sh\nexec {libraries}/ld-linux-x86-64.so.2 --library-path {libraries} {moved} \
             \"$@\"\n"
        );
        fs::write(&program, start)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn has_libraries(program: &Path) -> bool {
    let said = command("ldd").arg(program).output();
    said.is_ok_and(|said| {
        let said = [said.stdout, said.stderr].concat();
        !String::from_utf8_lossy(&said).contains("not found")
    })
}
