//! The kernel programs attached to nothing: for test runs and for measuring.

use std::os::fd::{AsFd, BorrowedFd};

use aya::programs::ProgramFd;
use nic_common::policy::CopyPolicy;

use super::{
    object::{Build, EGRESS, INGRESS, Object, Parameters},
    pinned,
};
use crate::error::Result;

/// As for an interface with one receive queue and four transmit queues.
pub(super) const PARAMETERS: Parameters = Parameters {
    rx_queues: 1,
    tx_queues: 4,
    real_tx_queues: 4,
    policy: CopyPolicy::DEFAULT,
    steering: false,
    pull: false,
    log: false,
};

/// The kernel programs, loaded when they are asked for. Nothing is pinned.
pub struct Programs {
    object: Object,
}

impl Programs {
    /// Makes the maps.
    pub fn new() -> Result<Self> {
        Ok(Self { object: Object::load(&PARAMETERS)? })
    }

    /// The XDP program of a build.
    pub fn xdp(&mut self, build: Build) -> Result<BorrowedFd<'_>> {
        fd(build.program(), self.object.xdp(build)?.fd())
    }

    /// A program that forwards.
    pub fn forward(&mut self, name: &'static str) -> Result<BorrowedFd<'_>> {
        fd(name, self.object.forward(name)?.fd())
    }

    /// The program of TC ingress.
    pub fn ingress(&mut self) -> Result<BorrowedFd<'_>> {
        fd(INGRESS, self.object.classifier(INGRESS)?.fd())
    }

    /// The program of TC egress.
    pub fn egress(&mut self) -> Result<BorrowedFd<'_>> {
        fd(EGRESS, self.object.classifier(EGRESS)?.fd())
    }
}

fn fd<'p>(
    name: &str,
    program: Result<&'p ProgramFd, aya::programs::ProgramError>,
) -> Result<BorrowedFd<'p>> {
    program.map(AsFd::as_fd).map_err(|error| pinned::aya_error(name, &error))
}
