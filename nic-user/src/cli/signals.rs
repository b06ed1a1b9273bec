//! Signals that would end the process stop its work instead, so that it can clean up.

use std::{io, thread};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};

/// Calls `end`, on its own thread, on the first SIGINT, SIGTERM or SIGHUP.
pub(super) fn on_end(end: impl FnOnce() + Send + 'static) -> Result<()> {
    let fail = |error: io::Error| Error::io("set up signal handling", &error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    let entered = runtime.enter();
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [mut interrupt, mut terminate, mut hangup]: [Signal; 3] = {
        let [interrupt, terminate, hangup] = signals.map(signal);
        [interrupt.map_err(fail)?, terminate.map_err(fail)?, hangup.map_err(fail)?]
    };
    drop(entered);
    let waiting = thread::Builder::new().spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        end();
        // The handlers stay: whoever presses Ctrl-C twice must not leave anything behind either.
        loop {
            thread::park();
        }
    });
    waiting.map(drop).map_err(fail)
}
