//! netdevsim's cards, which are made by writing to its bus.

use std::{fs, fs::File, os::fd::AsRawFd, path::Path};

use anyhow::{Context, Result};

use crate::card;

pub const DRIVER: &str = "netdevsim";

const BUS: &str = "/sys/bus/netdevsim";
const QUEUES: u32 = 4;

/// Makes two cards, and joins them where the driver can.
pub fn make() -> Result<[u32; 2]> {
    let write = |file: &str, text: String| {
        fs::write(Path::new(BUS).join(file), text).with_context(|| format!("write {BUS}/{file}"))
    };
    for number in [1, 2] {
        write("new_device", format!("{number} 1 {QUEUES}"))?;
    }
    let cards = card::pair(DRIVER)?;
    if has_cable() {
        let [a, b] = cards;
        let namespace = File::open("/proc/self/ns/net")?;
        let fd = namespace.as_raw_fd();
        write("link_device", format!("{fd}:{a} {fd}:{b}"))?;
    }
    Ok(cards)
}

/// Whether its cards can be joined: since Linux 6.9.
pub fn has_cable() -> bool {
    Path::new(BUS).join("link_device").exists()
}
