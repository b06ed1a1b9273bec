//! The messages of the kernel programs, as they come.

use std::{convert::Infallible, io, os::fd::AsFd};

use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};
use tokio::io::unix::AsyncFd;

use super::{attachment::Attachment, pinned};
use crate::error::{Error, Result};

/// Calls a function for each message.
struct Sink<F>(F);

impl<F: Fn(&str) + Send + Sync> Log for Sink<F> {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        (self.0)(&record.args().to_string());
    }

    fn flush(&self) {}
}

/// Hands every message of an attachment to `message`; ends only with an error.
pub async fn follow(
    attachment: &Attachment,
    message: impl Fn(&str) + Send + Sync,
) -> Result<Infallible> {
    let name = attachment.recorded_name();
    let program = attachment
        .xdp_program()
        .ok_or_else(|| Error::not_found(format!("follow {name}: nothing is attached any more")))?;
    let action = format!("follow the log of {name}");
    let mut logger = EbpfLogger::init_from_id_with_logger(program, Sink(message))
        .map_err(|error| pinned::aya_error(&action, &error))?;
    let failed = |error: io::Error| Error::io(&action, &error);
    let ring = logger.as_fd().try_clone_to_owned().map_err(failed)?;
    // SAFETY: an `OwnedFd` keeps its one descriptor open until it is dropped.
    let ready = unsafe { AsyncFd::register(ring) }.map_err(|error| failed(error.into()))?;
    loop {
        let mut guard = ready.readable().await.map_err(failed)?;
        logger.flush();
        guard.clear_ready();
    }
}
