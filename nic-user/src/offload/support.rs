//! What of the programs this kernel takes, by trying.

use aya::programs::{ProgramError, SchedClassifier, TcAttachType};

use super::{
    object::{Build, EGRESS, FORWARD_FRAMES, FORWARD_PACKETS, INGRESS},
    programs::Programs,
};
use crate::error::Error;

/// Loads every program, attached to nothing, and says of each why the kernel refuses it, in the
/// words that come before the verifier's.
pub fn trial() -> Vec<(&'static str, Result<(), String>)> {
    let words = |error: Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let builds = [Build::SingleBuffer, Build::Frags];
    let mut programs = match Programs::new() {
        Ok(programs) => programs,
        Err(error) => return vec![("maps", Err(words(error)))],
    };
    let mut trials: Vec<_> =
        builds.map(|build| (build.program(), programs.xdp(build).map(drop).map_err(words))).into();
    for name in [FORWARD_FRAMES, FORWARD_PACKETS] {
        trials.push((name, programs.forward(name).map(drop).map_err(words)));
    }
    trials.push((INGRESS, programs.ingress().map(drop).map_err(words)));
    trials.push((EGRESS, programs.egress().map(drop).map_err(words)));
    trials
}

/// Whether the kernel has TCX (Linux 6.6); `None` if it does not answer.
pub fn has_tcx() -> Option<bool> {
    match SchedClassifier::query_tcx("lo", TcAttachType::Ingress) {
        Ok(_) => Some(true),
        Err(ProgramError::SyscallError(error)) => match error.io_error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) => Some(false),
            _ => None,
        },
        Err(_) => None,
    }
}
