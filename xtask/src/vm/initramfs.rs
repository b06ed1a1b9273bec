//! A guest's file system: the programs, what they are compared with, and the modules.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};

use super::{
    guest::Programs,
    kernel::Kernel,
    modules::{self, Module},
    qemu::Nic,
};
use crate::process::{command, find, output};

const DIRECTORY: u32 = 0o40755;
const EXECUTABLE: u32 = 0o100_755;

const DIRECTORIES: [&str; 7] = ["bin", "dev", "modules", "proc", "run", "sys", "tmp"];

/// Programs that show what nicctl shows.
const PEERS: [&str; 2] = ["ethtool", "ip"];

/// What the tests use whatever the card: TC on kernels without TCX, links of all kinds, taps, tunnels.
const MODULES: [&str; 8] =
    ["veth", "sch_ingress", "cls_bpf", "bonding", "team", "8021q", "tun", "vxlan"];

/// Makes the archive that the kernel unpacks (Documentation/driver-api/early-userspace/
/// buffer-format.rst).
pub fn build(
    kernel: &Kernel,
    nic: &Nic,
    module: Option<&Path>,
    programs: &Programs,
) -> Result<Vec<u8>> {
    let names: Vec<&str> = MODULES.iter().chain(nic.modules).copied().collect();
    let mut archive = Archive::default();
    for directory in DIRECTORIES {
        archive.add(directory, DIRECTORY, &[]);
    }
    archive.add("init", EXECUTABLE, &fs::read(&programs.init)?);
    archive.add("bin/nicctl", EXECUTABLE, &fs::read(&programs.nicctl)?);
    add_peers(&mut archive)?;
    let modules = modules::with_dependencies(kernel, &names, module)?;
    for (number, Module { name, bytes }) in modules.iter().enumerate() {
        archive.add(&format!("modules/{number:03}-{name}"), EXECUTABLE, bytes);
    }
    archive.add("TRAILER!!!", 0, &[]);
    Ok(archive.bytes)
}

/// What nicctl is compared with; this machine's, with the libraries.
fn add_peers(archive: &mut Archive) -> Result<()> {
    let mut files = BTreeSet::new();
    for peer in PEERS {
        let program = find(peer).with_context(|| format!("no {peer}"))?;
        archive.add(&format!("bin/{peer}"), EXECUTABLE, &fs::read(&program)?);
        let libraries = output(command("ldd").arg(&program))?;
        let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        files.extend(paths.map(|path| path.trim_start_matches('/').to_owned()));
    }
    let directories: BTreeSet<_> =
        files.iter().flat_map(|file| Path::new(file).ancestors().skip(1)).collect();
    for directory in directories.into_iter().filter_map(Path::to_str) {
        if !directory.is_empty() && !DIRECTORIES.contains(&directory) {
            archive.add(directory, DIRECTORY, &[]);
        }
    }
    for file in &files {
        archive.add(file, EXECUTABLE, &fs::read(Path::new("/").join(file))?);
    }
    Ok(())
}

/// A cpio archive of the "newc" format.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let links = 1;
        // inode, mode, uid, gid, links, mtime, size, device (2), device if special (2), name with
        // its final zero, checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            content.len() as u32,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
