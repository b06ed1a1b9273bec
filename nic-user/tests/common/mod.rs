//! Shared by the tests that run on the real kernel.

use std::io::{self, Write};

/// Ends a test that cannot run without root, and says so where the test harness does not catch
/// it.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !nix::unistd::geteuid().is_root() {
            $crate::common::say_skipped("needs root");
            return;
        }
    };
}

/// Says that a test, or the rest of it, cannot run here, where the test harness does not catch
/// it.
pub fn say_skipped(why: &str) {
    let _ = writeln!(io::stderr(), "skipped: {why}");
}
