//! netdevsim's cards, which are made by writing to its bus. No cable joins them: not every kernel
//! has one, and received packets are not counted.

use std::fs;

use anyhow::{Context, Result};

use crate::card;

pub const DRIVER: &str = "netdevsim";

const NEW_DEVICE: &str = "/sys/bus/netdevsim/new_device";
const QUEUES: u32 = 4;

/// Makes two cards.
pub fn make() -> Result<[u32; 2]> {
    for number in [1, 2] {
        fs::write(NEW_DEVICE, format!("{number} 1 {QUEUES}"))
            .with_context(|| format!("write {NEW_DEVICE}"))?;
    }
    Ok(card::pair(DRIVER)?)
}
