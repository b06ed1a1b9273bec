//! Where pins live: the machine's bpffs, wherever this process runs.

use std::{
    fmt,
    fs::{self, File},
    io, iter,
    path::{Path, PathBuf},
    process,
    sync::OnceLock,
    thread,
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};

use crate::{
    error::{Error, Result},
    trusted,
};

const MOUNT_POINT: &str = "/sys/fs/bpf";

/// The bpffs that outlives this process; mounted if there is none.
///
/// `ip netns exec` hides the machine's bpffs behind a fresh `/sys`, in a mount namespace that ends
/// with the command. So the one of the first process counts.
pub fn root() -> Result<PathBuf> {
    let root = path();
    if !is_bpffs(&root)? {
        mount_bpffs().map_err(|error| {
            Error::io(format!("mount bpffs on {MOUNT_POINT}"), &error)
                .with_fix(format!("as root: mount -t bpf -o mode=0700 bpf {MOUNT_POINT}"))
        })?;
    }
    trusted::folder(&root)?;
    Ok(root)
}

/// The bpffs if it is there; never mounts.
///
/// # Errors
///
/// There is none to be seen, but this process may not look where there could be one.
pub fn existing_root() -> Result<Option<PathBuf>> {
    let root = path();
    if is_bpffs(&root)? {
        trusted::folder(&root)?;
        return Ok(Some(root));
    }
    let first = fs::read_link("/proc/1/ns/mnt");
    let hidden = first.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    if hidden && !nix::unistd::geteuid().is_root() {
        return Err(Error::not_permitted(format!(
            "look for bpffs: {MOUNT_POINT} has none, and the first process's may not be looked at"
        ))
        .with_fix("run it as root"));
    }
    Ok(None)
}

/// Where it is, or would be.
pub fn path() -> PathBuf {
    match elsewhere() {
        Some(pid) => PathBuf::from(format!("/proc/{pid}/root{MOUNT_POINT}")),
        None => PathBuf::from(MOUNT_POINT),
    }
}

/// An error of doing something with bpffs or a pin in it, with the way out.
pub fn error(action: impl fmt::Display, error: &io::Error) -> Error {
    let told = Error::io(action, error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => told.with_fix(
            "nicctl keeps its state in bpffs, which is root's: run it as root, or with \
             CAP_DAC_OVERRIDE",
        ),
        // Pins only go together.
        Some(libc::ENOENT) => told.with_fix("somebody removed it: detach and attach again"),
        Some(libc::EROFS) => {
            told.with_fix(format!("make it writable: mount -o remount,rw {MOUNT_POINT}"))
        }
        _ => told,
    }
}

/// The process in whose mount namespace bpffs lies, if that is not ours: the first one, or where
/// that may not be looked at, as in a sandbox, the eldest of those that led to this one.
///
/// It stays where it is, so it is looked for once.
fn elsewhere() -> Option<u32> {
    static ELSEWHERE: OnceLock<Option<u32>> = OnceLock::new();
    *ELSEWHERE.get_or_init(find_elsewhere)
}

fn find_elsewhere() -> Option<u32> {
    let ours = mount_namespace(process::id())?;
    let first = mount_namespace(1).map(|theirs| (1, theirs));
    let (pid, theirs) = first.or_else(eldest_ancestor)?;
    (theirs != ours).then_some(pid)
}

fn eldest_ancestor() -> Option<(u32, PathBuf)> {
    let ancestors = iter::successors(parent(process::id()), |&pid| parent(pid));
    ancestors.filter_map(|pid| Some((pid, mount_namespace(pid)?))).last()
}

fn mount_namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|&pid| pid != 0)
}

fn is_bpffs(path: &Path) -> Result<bool> {
    match statfs(path) {
        Ok(stat) => Ok(stat.filesystem_type() == BPF_FS_MAGIC),
        Err(error) => Err(Error::io(format!("look at {}", path.display()), &error.into())
            .with_fix("nicctl keeps its state in bpffs: mount sysfs on /sys first")),
    }
}

/// Mounts bpffs where it outlives this process, on a thread of its own: the caller stays where it
/// is.
fn mount_bpffs() -> io::Result<()> {
    thread::scope(|scope| {
        let mounted = thread::Builder::new().spawn_scoped(scope, || {
            if let Some(pid) = elsewhere() {
                // A mount namespace can be entered only by a thread with a root of its own.
                unshare(CloneFlags::CLONE_FS)?;
                setns(File::open(format!("/proc/{pid}/ns/mnt"))?, CloneFlags::CLONE_NEWNS)?;
            }
            mount(Some("bpf"), MOUNT_POINT, Some("bpf"), MsFlags::empty(), Some("mode=0700"))?;
            Ok(())
        })?;
        mounted.join().unwrap_or_else(|_| Err(io::Error::other("the mounting thread failed")))
    })
}
