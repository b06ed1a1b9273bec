//! Forwarding by XDP programs, which never leave the kernel.

use std::{thread, time::Duration};

use super::{Counts, Drops, Forwarder, Layer, promiscuous::Promiscuous};
use crate::{error::Result, nic::Nic, offload::ForwardPrograms};

/// The programs, attached for as long as this lives or the process does.
pub struct InKernel {
    programs: ForwardPrograms,
    _promiscuous: Vec<Promiscuous>,
}

impl InKernel {
    /// Attaches to both interfaces, which must be free of other XDP programs.
    pub fn open(nics: [&Nic; 2], layer: Layer) -> Result<Self> {
        let programs = ForwardPrograms::attach(nics, layer == Layer::Packets)?;
        let promiscuous = match layer {
            Layer::Frames => nics.into_iter().map(Promiscuous::new).collect::<Result<_>>()?,
            Layer::Packets => Vec::new(),
        };
        Ok(Self { programs, _promiscuous: promiscuous })
    }
}

impl Forwarder for InKernel {
    fn turn(&mut self, patience: Duration) -> Result<()> {
        thread::sleep(patience);
        self.programs.check()
    }

    fn counts(&self) -> Result<[Counts; 2]> {
        let counters = self.programs.counters()?;
        Ok(counters.map(|it| Counts {
            packets: it.packets,
            bytes: it.bytes,
            forwarded: it.forwarded,
            passed: it.packets.saturating_sub(it.forwarded),
            dropped: Drops::default(),
        }))
    }

    fn ways(&self) -> [String; 2] {
        self.programs.modes().map(|mode| format!("{} XDP", mode.name()))
    }
}
