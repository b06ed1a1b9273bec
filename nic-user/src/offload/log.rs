//! The messages of the kernel programs, as they come.

use std::{io, os::fd::AsRawFd};

use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};
use tokio::io::unix::AsyncFd;

use super::{attachment::Attachment, object};
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

/// A descriptor that the logger keeps open.
struct Ready(std::os::fd::RawFd);

impl AsRawFd for Ready {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0
    }
}

/// Hands every message of an attachment to `message`; ends only with an error.
pub async fn follow(
    attachment: &Attachment,
    message: impl Fn(&str) + Send + Sync,
) -> Result<std::convert::Infallible> {
    let name = attachment.recorded_name();
    let program = attachment
        .xdp_program()
        .ok_or_else(|| Error::not_found(format!("follow {name}: nothing is attached any more")))?;
    let action = format!("follow the log of {name}");
    let mut logger = EbpfLogger::init_from_id_with_logger(program, Sink(message))
        .map_err(|error| object::loading(&action, &error))?;
    let failed = |error: io::Error| Error::io(&action, &error);
    let ready = AsyncFd::new(Ready(logger.as_raw_fd())).map_err(failed)?;
    loop {
        let mut guard = ready.readable().await.map_err(failed)?;
        logger.flush();
        guard.clear_ready();
    }
}
