//! What the kernel wants of whoever loads and attaches programs.

use std::{fmt, fs};

use crate::error::{Error, Result};

/// A capability by its name and number (linux/capability.h).
type Capability = (&'static str, u32);

/// Maps and programs; TCP/IP programs; pointer arithmetic of theirs that the verifier refuses else.
const NEEDED: [Capability; 3] = [("CAP_BPF", 39), ("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38)];

/// Stands for all of them in bpf(2).
const SYS_ADMIN: Capability = ("CAP_SYS_ADMIN", 21);

/// Whether this process may load and attach programs, as far as can be seen.
///
/// # Errors
///
/// [`NotPermitted`](crate::error::Kind::NotPermitted), naming `action` and what is missing.
pub fn check(action: impl fmt::Display) -> Result<()> {
    // Where /proc does not say, the kernel will.
    let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/{file}"));
    let missing = read("status").ok().as_deref().and_then(effective).map(missing);
    if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
        return Err(Error::not_permitted(format!(
            "{action}: not permitted without {}",
            and(&missing)
        ))
        .with_fix("run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"));
    }
    if read("uid_map").is_ok_and(|map| !is_whole(&map)) {
        let message = "capabilities in a user namespace do not reach BPF";
        return Err(Error::not_permitted(format!("{action}: {message}"))
            .with_fix("run it outside of the user namespace, which rootless containers are"));
    }
    Ok(())
}

/// Refuses the privileges of a file (set-user-id, set-group-id, capabilities of its own): arguments,
/// environment and open files are then of somebody who lacks them.
///
/// # Errors
///
/// [`NotPermitted`](crate::error::Kind::NotPermitted): the kernel asks for secure execution.
pub fn refuse_those_of_a_file() -> Result<()> {
    // SAFETY: it reads a value that the kernel handed to this process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
        return Ok(());
    }
    let message = "nicctl does not run with privileges of its file (set-user-id or capabilities)";
    Err(Error::not_permitted(message)
        .with_fix("chmod u-s,g-s and setcap -r it, and run it as root"))
}

/// The effective capabilities in `/proc/PID/status`, a bit each.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing(effective: u64) -> Vec<&'static str> {
    let has = |(_, number): &Capability| effective >> number & 1 != 0;
    let missing = NEEDED.iter().filter(|needed| !has(needed) && !has(&SYS_ADMIN));
    missing.map(|(name, _)| *name).collect()
}

/// Whether a `/proc/PID/uid_map` maps every user to itself, as only the initial namespace's does.
fn is_whole(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// `A`, `A and B`, `A, B and C`.
fn and(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(missing(u64::MAX), [""; 0]);
        assert_eq!(missing(1 << 21), [""; 0]);
        assert_eq!(missing(1 << 39 | 1 << 12), ["CAP_PERFMON"]);
        assert_eq!(and(&missing(1 << 39)), "CAP_NET_ADMIN and CAP_PERFMON");
        assert_eq!(and(&missing(0)), "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
    }

    #[test]
    fn status_and_uid_map_are_understood() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("CapEff:\tnonsense\n"), None);
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
    }
}
