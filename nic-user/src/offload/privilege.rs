//! What the kernel wants of whoever loads and attaches programs.

use std::{fmt, fs, io};

use nix::unistd::geteuid;

use crate::{
    error::{Error, Result},
    trusted,
};

/// A capability by its name and number (linux/capability.h).
pub type Capability = (&'static str, u32);

const DAC_OVERRIDE: Capability = ("CAP_DAC_OVERRIDE", 1);
/// Looks at other processes, and through their root directories.
const SYS_PTRACE: Capability = ("CAP_SYS_PTRACE", 19);
const NET_ADMIN: Capability = ("CAP_NET_ADMIN", 12);
const NET_RAW: Capability = ("CAP_NET_RAW", 13);
const PERFMON: Capability = ("CAP_PERFMON", 38);
const BPF: Capability = ("CAP_BPF", 39);
/// Stands for BPF, PERFMON and NET_ADMIN in bpf(2).
const SYS_ADMIN: Capability = ("CAP_SYS_ADMIN", 21);

/// Maps and programs; TCP/IP programs; pointer arithmetic of theirs that the verifier refuses else.
const NEEDED: [Capability; 3] = [BPF, NET_ADMIN, PERFMON];

/// What a command takes.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The command.
    pub command: &'static str,
    /// What root needs.
    pub of_root: &'static [Capability],
    /// What other users need besides: bpffs and the journals are root's.
    pub of_others: &'static [Capability],
    /// What for.
    pub why: &'static str,
}

/// What each command that looks for bpffs takes besides where that is hidden, as `ip netns exec` does
/// it: the first process's is used.
pub const WHERE_HIDDEN: &[Capability] = &[SYS_PTRACE];

/// The commands that take capabilities. Others take none; with `--netns` each takes CAP_SYS_ADMIN
/// besides (`setns`), unless it is there already.
pub const NEEDS: &[Needs] = &[
    Needs {
        command: "attach",
        of_root: &NEEDED,
        of_others: &[DAC_OVERRIDE],
        why: "loads and attaches programs, pins them",
    },
    Needs {
        command: "detach",
        of_root: &[],
        of_others: &[DAC_OVERRIDE],
        why: "removes pins; CAP_NET_ADMIN if settings are restored",
    },
    Needs { command: "list", of_root: &[], of_others: &[DAC_OVERRIDE], why: "reads pins" },
    Needs { command: "stats", of_root: &[], of_others: &[DAC_OVERRIDE], why: "opens pinned maps" },
    Needs {
        command: "log",
        of_root: &[SYS_ADMIN],
        of_others: &[DAC_OVERRIDE],
        why: "opens maps by their ids (BPF_MAP_GET_FD_BY_ID)",
    },
    Needs {
        command: "set",
        of_root: &[NET_ADMIN],
        of_others: &[DAC_OVERRIDE],
        why: "changes settings, keeps a journal",
    },
    Needs {
        command: "apply",
        of_root: &[NET_ADMIN],
        of_others: &[DAC_OVERRIDE],
        why: "changes settings, keeps a journal",
    },
    Needs {
        command: "restore",
        of_root: &[NET_ADMIN],
        of_others: &[DAC_OVERRIDE],
        why: "changes settings, keeps a journal",
    },
    Needs {
        command: "confirm",
        of_root: &[],
        of_others: &[DAC_OVERRIDE],
        why: "keeps pending changes; CAP_NET_ADMIN where the deadline has passed and they are \
              reverted",
    },
    Needs {
        command: "forward",
        of_root: &[BPF, NET_ADMIN, PERFMON, NET_RAW],
        of_others: &[DAC_OVERRIDE],
        why: "attaches programs, opens AF_XDP sockets; CAP_IPC_LOCK where `ulimit -l` is too low for their memory",
    },
    Needs {
        command: "bench",
        of_root: &[NET_ADMIN, SYS_ADMIN],
        of_others: &[DAC_OVERRIDE],
        why: "makes network namespaces, loads and attaches programs in them",
    },
    Needs {
        command: "decode --bpf",
        of_root: &NEEDED,
        of_others: &[],
        why: "loads a program and attaches it to nothing",
    },
];

/// The way out for a command that was not permitted: what it takes, and what this process lacks of
/// that.
pub fn hint(command: &str) -> Option<String> {
    let needs = NEEDS.iter().find(|needs| needs.command == command)?;
    let others = if geteuid().is_root() { &[] } else { needs.of_others };
    let wanted: Vec<_> = needs.of_root.iter().chain(others).copied().collect();
    let names: Vec<_> = wanted.iter().map(|(name, _)| *name).collect();
    let effective = read("status").ok().as_deref().and_then(effective)?;
    let missing: Vec<_> =
        wanted.iter().filter(|needed| !has(effective, needed)).map(|(name, _)| *name).collect();
    match missing.is_empty() {
        true => None,
        false => Some(format!("it needs {}: {} is missing", and(&names), and(&missing))),
    }
}

fn read(file: &str) -> io::Result<String> {
    fs::read_to_string(format!("/proc/thread-self/{file}"))
}

const fn has(effective: u64, (_, number): &Capability) -> bool {
    effective >> *number & 1 != 0
}

/// Whether this process may open programs and maps by their ids.
///
/// # Errors
///
/// [`NotPermitted`](crate::error::Kind::NotPermitted), naming `action`.
pub fn check_ids(action: impl fmt::Display) -> Result<()> {
    let effective = read("status").ok().as_deref().and_then(effective);
    if effective.is_none_or(|effective| has(effective, &SYS_ADMIN)) {
        return refuse_user_namespace(action);
    }
    Err(Error::not_permitted(format!("{action}: not permitted without {}", SYS_ADMIN.0)))
}

/// Whether this process may load and attach programs, as far as can be seen.
///
/// # Errors
///
/// [`NotPermitted`](crate::error::Kind::NotPermitted), naming `action` and what is missing.
pub fn check(action: impl fmt::Display) -> Result<()> {
    // Where /proc does not say, the kernel will.
    let missing = read("status").ok().as_deref().and_then(effective).map(missing);
    if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
        return Err(Error::not_permitted(format!(
            "{action}: not permitted without {}",
            and(&missing)
        ))
        .with_fix(match geteuid().is_root() {
            true => "run it as root or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
            false => {
                "run it as root or with CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and CAP_DAC_OVERRIDE"
            }
        }));
    }
    refuse_user_namespace(action)
}

/// Whether this process may change settings, as far as can be seen.
///
/// # Errors
///
/// [`NotPermitted`](crate::error::Kind::NotPermitted), naming `action`.
pub fn check_settings(action: impl fmt::Display) -> Result<()> {
    let effective = read("status").ok().as_deref().and_then(effective);
    if effective.is_none_or(|effective| has(effective, &NET_ADMIN)) {
        return Ok(());
    }
    let name = NET_ADMIN.0;
    Err(Error::not_permitted(format!("{action}: not permitted without {name}"))
        .with_fix(format!("run it as root with {name}")))
}

fn refuse_user_namespace(action: impl fmt::Display) -> Result<()> {
    if !trusted::is_in_user_namespace() {
        return Ok(());
    }
    let message = "capabilities in a user namespace do not reach BPF";
    Err(Error::not_permitted(format!("{action}: {message}")).with_fix(trusted::OUTSIDE))
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
    let message = "nicctl refuses to run with file privileges (set-user-id or capabilities)";
    Err(Error::not_permitted(message)
        .with_fix("chmod u-s,g-s and setcap -r it, then run it as root"))
}

/// The effective capabilities in `/proc/PID/status`, a bit each.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing(effective: u64) -> Vec<&'static str> {
    let lacks = |needed: &&Capability| !has(effective, needed) && !has(effective, &SYS_ADMIN);
    let missing = NEEDED.iter().filter(lacks);
    missing.map(|(name, _)| *name).collect()
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

    /// The table of docs/security.md.
    #[test]
    fn the_capabilities_of_every_command_are_documented() {
        let page = include_str!("../../../docs/security.md");
        for Needs { command, of_root, of_others, why } in NEEDS {
            let names = |of: &[Capability]| match of {
                [] => "none".to_owned(),
                of => of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
            };
            let row =
                format!("| `{command}` | {} | {} | {why} |", names(of_root), names(of_others));
            assert!(page.lines().any(|line| line == row), "{row}");
        }
        let rows = page.lines().filter(|line| line.contains(" | none | ") || line.contains("CAP_"));
        let rows = rows.filter(|line| line.starts_with("| `"));
        assert_eq!(rows.count(), NEEDS.len(), "rows of commands that take no capabilities");
        for (name, _) in WHERE_HIDDEN {
            let sentence = format!("inside `ip netns exec`, {name} is needed besides");
            let page = page.replace('\n', " ");
            assert!(page.contains(&sentence), "{name}");
        }
    }

    #[test]
    fn status_is_understood() {
        assert_eq!(effective("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("CapEff:\tnonsense\n"), None);
    }
}
