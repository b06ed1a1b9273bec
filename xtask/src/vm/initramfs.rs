//! A guest's file system: the programs and the modules, nothing else.

use std::fs;

use anyhow::Result;

use super::{
    guest::Programs,
    kernel::Kernel,
    modules::{self, Module},
    qemu::Nic,
};

const DIRECTORY: u32 = 0o40755;
const EXECUTABLE: u32 = 0o100_755;

/// What the tests use whatever the card: TC on kernels without TCX, links of all kinds, taps.
const MODULES: [&str; 7] = ["veth", "sch_ingress", "cls_bpf", "bonding", "team", "8021q", "tun"];

/// Makes the archive that the kernel unpacks (Documentation/driver-api/early-userspace/
/// buffer-format.rst).
pub fn build(kernel: &Kernel, nic: &Nic, programs: &Programs) -> Result<Vec<u8>> {
    let names: Vec<&str> = MODULES.iter().chain(nic.modules).copied().collect();
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "modules", "proc", "run", "sys", "tmp"] {
        archive.add(directory, DIRECTORY, &[]);
    }
    archive.add("init", EXECUTABLE, &fs::read(&programs.init)?);
    archive.add("bin/nicctl", EXECUTABLE, &fs::read(&programs.nicctl)?);
    let modules = modules::with_dependencies(kernel, &names)?;
    for (number, Module { name, bytes }) in modules.iter().enumerate() {
        archive.add(&format!("modules/{number:03}-{name}"), EXECUTABLE, bytes);
    }
    archive.add("TRAILER!!!", 0, &[]);
    Ok(archive.bytes)
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
