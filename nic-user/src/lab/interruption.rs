//! Getting a thread out of a long system call.

use std::{
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use nix::sys::{
    pthread::{Pthread, pthread_kill, pthread_self},
    signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
};

/// The signal, which does nothing else.
const SIGNAL: Signal = Signal::SIGUSR1;
/// One that comes just before the system call is lost; so it is sent again.
const AGAIN: Duration = Duration::from_millis(1);

/// Interrupts one thread; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interruption(Arc<OnceLock<Pthread>>);

extern "C" fn nothing(_: libc::c_int) {}

impl Interruption {
    /// From now on it is the calling thread that is interrupted.
    pub fn aim_here(&self) {
        let action =
            SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
        // SAFETY: a handler that does nothing may run at any time. Without the handler the signal
        // would end the program, so nobody sends it then.
        if unsafe { sigaction(SIGNAL, &action) }.is_ok() {
            let _ = self.0.set(pthread_self());
        }
    }

    /// Interrupts it until it has ended. It must not have been joined.
    pub fn until(&self, has_ended: impl Fn() -> bool) {
        while !has_ended() {
            if let Some(&thread) = self.0.get() {
                // It fails only if the thread is gone.
                let _ = pthread_kill(thread, SIGNAL);
            }
            thread::sleep(AGAIN);
        }
    }
}
