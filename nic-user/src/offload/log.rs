//! The messages of the kernel programs, as they come.

use std::{convert::Infallible, io, os::fd::AsFd, time::Duration};

use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};
use nic_common::record::AttachRecord;
use tokio::{io::unix::AsyncFd, time::timeout};

use super::{attachment::Attachment, pinned, privilege, slot::Slot};
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

/// How often to look whether there is still something to follow. Nobody tells.
const LOOK: Duration = Duration::from_secs(1);

/// Hands every message of an attachment to `message`, also when its programs are replaced; ends
/// only with an error: that it was detached, logs no more, or its interface is gone.
pub async fn follow(
    attachment: &Attachment,
    message: impl Fn(&str) + Send + Sync,
) -> Result<Infallible> {
    let name = attachment.recorded_name();
    let program = attachment
        .xdp_program()
        .ok_or_else(|| Error::not_found(format!("follow {name}: nicctl is no longer attached")))?;
    let action = format!("follow the log of {name}");
    privilege::check_ids(&action)?;
    let mut logger = EbpfLogger::init_from_id_with_logger(program, Sink(message))
        .map_err(|error| pinned::aya_error(&action, &error))?;
    let failed = |error: io::Error| Error::io(&action, &error);
    let ring = logger.as_fd().try_clone_to_owned().map_err(failed)?;
    // SAFETY: an `OwnedFd` keeps its one descriptor open until it is dropped.
    let ready = unsafe { AsyncFd::register(ring) }.map_err(|error| failed(error.into()))?;
    loop {
        match timeout(LOOK, ready.readable()).await {
            Ok(guard) => {
                logger.flush();
                guard.map_err(failed)?.clear_ready();
            }
            Err(_) => still_logs(attachment.slot(), &name)?,
        }
    }
}

fn still_logs(slot: &Slot, name: &str) -> Result<()> {
    match Attachment::of(slot.clone())? {
        Some(now) if now.is_stale() => Err(Error::not_found(format!("{name} is gone"))),
        Some(now) if now.record().has(AttachRecord::LOG) => Ok(()),
        Some(_) => Err(Error::not_found(format!("{name} was attached again without its log"))),
        None => Err(Error::not_found(format!("{name} was detached"))),
    }
}
