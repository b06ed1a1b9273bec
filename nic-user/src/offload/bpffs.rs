//! Where pins live: the bpffs that this process sees, or else the machine's.

use std::{
    fmt,
    fs::{self, File},
    io, iter,
    os::linux::fs::MetadataExt,
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
    command_line::CommandLine,
    error::{Error, Result},
    report::terminal::say,
    trusted,
};

const MOUNT_POINT: &str = "/sys/fs/bpf";

/// The one that the user has chosen.
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// Pins are in this bpffs from now on, whatever is mounted elsewhere. Only the first choice counts.
pub fn choose(directory: PathBuf) {
    // Nothing was looked for before.
    let _ = CHOSEN.set(directory);
}

/// The bpffs that outlives this process; mounted if there is none, and none was chosen.
///
/// `ip netns exec` hides the machine's bpffs behind a fresh `/sys` without one, in a mount namespace
/// that ends with the command. Then the one of the first process counts.
pub fn root() -> Result<PathBuf> {
    let root = path();
    if !is_bpffs(&root)? {
        refuse_if_chosen(&root)?;
        refuse_if_hidden()?;
        mount_bpffs().map_err(|error| {
            Error::io(format!("mount bpffs on {MOUNT_POINT}"), &error)
                .with_fix(mount_here_command())
        })?;
        if is_in_container() {
            say(ENDS_WITH_CONTAINER);
        }
    }
    trusted::folder(&root)?;
    Ok(root)
}

const ENDS_WITH_CONTAINER: &str =
    "bpffs was mounted inside this container: attachments end with it and are invisible outside
  fix: start the container with -v /sys/fs/bpf:/sys/fs/bpf -v /var/lib/nicctl:/var/lib/nicctl";

/// Whether this PID namespace is not the first one (`PROC_PID_INIT_INO`, include/linux/proc_ns.h),
/// as that of a container.
fn is_in_container() -> bool {
    const PROC_PID_INIT_INO: u64 = 0xEFFF_FFFC;
    let namespace = fs::metadata("/proc/self/ns/pid");
    namespace.is_ok_and(|namespace| namespace.st_ino() != PROC_PID_INIT_INO)
}

fn refuse_if_chosen(root: &Path) -> Result<()> {
    let Some(chosen) = CHOSEN.get() else { return Ok(()) };
    Err(Error::failed(format!("{} is not a bpffs", chosen.display())).with_fix(mount_command(root)))
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
    refuse_if_chosen(&root)?;
    refuse_if_hidden()?;
    Ok(None)
}

/// The bpffs in which what is attached can be seen; never mounts.
///
/// # Errors
///
/// [`NotPermitted`](crate::error::Kind::NotPermitted): there is none, or this process may not look.
pub fn seen_root() -> Result<PathBuf> {
    existing_root()?.ok_or_else(|| {
        Error::not_permitted(format!(
            "attachments cannot be read: no bpffs is mounted on {MOUNT_POINT}"
        ))
        .with_fix(mount_here_command())
    })
}

/// The command that mounts it where it is looked for.
pub fn mount_here_command() -> CommandLine {
    mount_command(Path::new(MOUNT_POINT))
}

/// The command that mounts a bpffs there, for root alone.
fn mount_command(at: &Path) -> CommandLine {
    let mode: &[_] = &["mount", "-t", "bpf", "-o", "mode=0700", "bpf"];
    CommandLine::other(mode).on(at.display())
}

/// Where this process has no bpffs, the machine's may be hidden from it, as by `ip netns exec`.
fn refuse_if_hidden() -> Result<()> {
    match place() {
        Place::Here | Place::Of(_) => Ok(()),
        Place::Untold => Err(Error::not_permitted(format!(
            "look for bpffs: none on {MOUNT_POINT}, and that of process 1 is not accessible"
        ))
        .with_fix(
            "run it as root with CAP_SYS_PTRACE, outside `ip netns exec`, or with --bpffs DIR, \
             where DIR is a bpffs that stays mounted",
        )),
    }
}

/// Where it is, or would be.
pub fn path() -> PathBuf {
    if let Some(chosen) = CHOSEN.get() {
        return chosen.clone();
    }
    match place() {
        Place::Of(pid) => PathBuf::from(format!("/proc/{pid}/root{MOUNT_POINT}")),
        Place::Here | Place::Untold => PathBuf::from(MOUNT_POINT),
    }
}

/// Where the bpffs is that pins are in, and the number of its device.
///
/// # Errors
///
/// It cannot be looked at.
pub fn identity() -> Result<(PathBuf, u64)> {
    let path = path();
    let metadata = fs::metadata(&path)
        .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
    Ok((path, metadata.st_dev()))
}

/// An error of doing something with bpffs or a pin in it, with the way out.
pub fn error(action: impl fmt::Display, error: &io::Error) -> Error {
    let told = Error::io(action, error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => told.with_fix(
            "nicctl keeps its state in bpffs, which belongs to root: run it as root or with \
             CAP_DAC_OVERRIDE",
        ),
        // Pins only go together.
        Some(libc::ENOENT) => told.with_fix("it was removed: detach and attach again"),
        Some(libc::EROFS) => {
            told.with_fix(CommandLine::other(&["mount", "-o", "remount,rw"]).on(path().display()))
        }
        _ => told,
    }
}

/// In whose mount namespace bpffs lies.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In that of this process.
    Here,
    /// In that of the first process, or where that may not be looked at, as in a sandbox, of the
    /// eldest of those that led to this one.
    Of(u32),
    /// None of them may be looked at.
    Untold,
}

/// It stays where it is, so it is looked for once.
fn place() -> Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    *PLACE.get_or_init(find_place)
}

fn find_place() -> Place {
    if is_bpffs(Path::new(MOUNT_POINT)).unwrap_or(false) || is_in_first_mount_namespace() {
        return Place::Here;
    }
    let ours = mount_namespace(process::id());
    let of =
        |(pid, theirs)| if Some(&theirs) == ours.as_ref() { Place::Here } else { Place::Of(pid) };
    match (mount_namespace(1), eldest_ancestor()) {
        (Some(first), _) => of((1, first)),
        // One that is in ours says nothing of the first.
        (None, Some(eldest)) if Some(&eldest.1) != ours.as_ref() => of(eldest),
        (None, _) => Place::Untold,
    }
}

/// Whether nothing of the machine's mounts is hidden from this process, as far as the kernel tells:
/// since Linux 6.18 (`MNT_NS_INIT_INO`, include/uapi/linux/nsfs.h).
fn is_in_first_mount_namespace() -> bool {
    const MNT_NS_INIT_INO: u64 = 0xEFFF_FFF8;
    let namespace = fs::metadata("/proc/self/ns/mnt");
    namespace.is_ok_and(|namespace| namespace.st_ino() == MNT_NS_INIT_INO)
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
            .with_fix("nicctl keeps its state in bpffs: mount sysfs on /sys first")
            .with_fix_if_not_permitted("run it as root with CAP_SYS_PTRACE")),
    }
}

/// Mounts bpffs where it outlives this process, on a thread of its own: the caller stays where it
/// is.
fn mount_bpffs() -> io::Result<()> {
    thread::scope(|scope| {
        let mounted = thread::Builder::new().spawn_scoped(scope, || {
            if let Place::Of(pid) = place() {
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
