//! Shared by the tests that run on the real kernel.

/// Ends a test that can not run without root, and says so where the test harness does not catch
/// it.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !nix::unistd::geteuid().is_root() {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: needs root\n");
            return;
        }
    };
}
