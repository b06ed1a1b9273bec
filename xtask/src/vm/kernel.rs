//! Debian's kernels.

use std::{
    cmp::Reverse,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{packages, unpack};

/// A kernel, unpacked.
pub struct Kernel {
    /// What `uname -r` says.
    pub release: String,
    /// The kernel without compression: emulation spends seconds on unpacking one.
    pub image: PathBuf,
    /// Its modules, with `modules.builtin`.
    pub modules: PathBuf,
}

impl Kernel {
    /// "6.12" of "6.12.117+deb12-amd64".
    pub fn version(&self) -> String {
        let parts: Vec<_> = self.release.split(['.', '-', '+']).take(2).collect();
        parts.join(".")
    }
}

/// The kernel of a version ("6.12"), out of the cache or else from Debian.
pub fn get(version: &str) -> Result<Kernel> {
    let directory = packages::cached(&format!("linux-{version}"), |directory| {
        packages::unpack(&packages_of(version)?, directory)?;
        let (_, modules) = modules(directory)?;
        unpack::kernel(&compressed(directory, &modules)?, &directory.join(IMAGE))
    })?;
    let (release, modules) = modules(&directory)?;
    Ok(Kernel { release, image: directory.join(IMAGE), modules })
}

const IMAGE: &str = "vmlinux";
const PACKAGE: &str = "linux-image-";
const FLAVOUR: &str = "-amd64";

/// The newest image of the version, with the packages that newer kernels are split into.
fn packages_of(version: &str) -> Result<Vec<String>> {
    let images = packages::names(&format!("{PACKAGE}{version}."))?;
    let releases = images.iter().filter_map(|name| {
        let release = name.strip_prefix(PACKAGE)?;
        let version = release.strip_suffix(FLAVOUR)?;
        // Not of another flavour, as in 6.1.0-57-cloud-amd64.
        let of_digits = version.rsplit('-').next()?.starts_with(|c: char| c.is_ascii_digit());
        of_digits.then_some(version)
    });
    let newest = releases.max_by_key(|release| age(release));
    let release = newest.context("Debian has none of this version")?;
    let release = format!("{release}{FLAVOUR}");
    let mut packages = vec![format!("{PACKAGE}{release}")];
    for part in ["linux-base-", "linux-binary-", "linux-modules-"] {
        let name = format!("{part}{release}");
        packages.extend(packages::names(&name)?.into_iter().filter(|other| *other == name));
    }
    Ok(packages)
}

/// What to compare releases by. Of one version, the build for the older Debian is better: what
/// belongs to it runs on both.
fn age(release: &str) -> (Vec<u32>, Reverse<u32>, Vec<u32>) {
    let (version, build) = release.split_once('+').unwrap_or((release, ""));
    let mut build = numbers(build).into_iter();
    (numbers(version), Reverse(build.next().unwrap_or_default()), build.collect())
}

fn numbers(text: &str) -> Vec<u32> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// The release in an unpacked package, and the directory of its modules.
fn modules(directory: &Path) -> Result<(String, PathBuf)> {
    for parent in ["lib/modules", "usr/lib/modules"] {
        let Ok(entries) = fs::read_dir(directory.join(parent)) else { continue };
        if let Some(entry) = entries.flatten().next() {
            return Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    anyhow::bail!("{}: no modules in it", directory.display())
}

fn compressed(directory: &Path, modules: &Path) -> Result<PathBuf> {
    let boot = fs::read_dir(directory.join("boot")).into_iter().flatten().flatten();
    let mut candidates = boot.map(|entry| entry.path()).chain([modules.join("vmlinuz")]);
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz") && path.is_file()
    };
    candidates.find(is_kernel).context("no vmlinuz in the package")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_numbers() {
        assert!(age("6.1.0-57") > age("6.1.0-9"));
        assert!(age("6.12.117+deb12") > age("6.12.95+deb13"));
        assert!(age("6.12.90+deb12.1") > age("6.12.90+deb12"));
        assert!(age("6.12.90+deb12") > age("6.12.90+deb13"));
    }
}
