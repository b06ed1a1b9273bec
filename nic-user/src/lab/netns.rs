//! Named network namespaces, made and removed as `ip netns` does, so that `ip netns exec` works.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::error::{Error, Result};
use crate::nic::namespace::{NAMED_DIR, NetNs, named_path};
use crate::trusted;

/// A named namespace of our own. While it exists its file is locked, which tells namespaces in
/// use from those that a killed process left behind.
pub(super) struct OwnedNetNs {
    pub(super) netns: NetNs,
    pub(super) name: String,
    _in_use: File,
    /// Whether its name stays when this is dropped.
    is_kept: bool,
}

impl OwnedNetNs {
    /// Makes a namespace called `name`; `None` if there is one already.
    pub(super) fn create(name: String, _directory: &DirectoryLock) -> Result<Option<Self>> {
        let action = format!("create network namespace {name}");
        let fail = |error: io::Error| Error::io(&action, &error);
        let path = named_path(&name);
        match OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            other => drop(other.map_err(fail)?),
        }
        let in_use = match mount_new_namespace(&path) {
            Ok(in_use) => in_use,
            Err(error) => {
                remove(&path);
                return Err(fail(error));
            }
        };
        let netns = NetNs::named(&name)?;
        Ok(Some(Self { netns, name, _in_use: in_use, is_kept: false }))
    }

    /// Leaves it to somebody else to remove it.
    pub(super) fn keep(mut self) -> Self {
        self.is_kept = true;
        self
    }
}

impl Drop for OwnedNetNs {
    fn drop(&mut self) {
        if !self.is_kept {
            remove(&named_path(&self.name));
        }
    }
}

/// Held while namespaces are made or swept: a namespace being made is not yet locked itself.
/// `ip netns add` takes the same lock.
pub(super) struct DirectoryLock {
    _lock: File,
}

impl DirectoryLock {
    /// Prepares and locks the directory of names.
    pub(super) fn acquire() -> Result<Self> {
        let fail = |error: io::Error| Error::io(format!("prepare {NAMED_DIR}"), &error);
        prepare_directory().map_err(fail)?;
        trusted::folder(Path::new(NAMED_DIR))?;
        let directory = File::open(NAMED_DIR).map_err(fail)?;
        directory.lock().map_err(fail)?;
        Ok(Self { _lock: directory })
    }
}

/// Removes those of the namespaces called `names` that no process uses and that `may` go; returns
/// how many. Who made one says nothing new of it once `may` is asked.
pub(super) fn sweep(
    names: &[String],
    may: impl Fn(&str) -> bool,
    _directory: &DirectoryLock,
) -> usize {
    let in_use = |path: &Path| File::open(path).is_ok_and(|file| file.try_lock().is_err());
    let mut removed = 0;
    for name in names {
        let path = named_path(name);
        if !in_use(&path) && may(name) {
            remove(&path);
            removed += 1;
        }
    }
    removed
}

/// Mounts of namespaces must reach other mount namespaces, or deleting one there leaves it alive
/// here; so the directory becomes a shared mount, as in iproute2's ipnetns.c.
fn prepare_directory() -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(NAMED_DIR)?;
    let share = || {
        let flags = MsFlags::MS_SHARED | MsFlags::MS_REC;
        mount(None::<&str>, NAMED_DIR, None::<&str>, flags, None::<&str>)
    };
    if share().is_err() {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(NAMED_DIR), NAMED_DIR, None::<&str>, flags, None::<&str>)?;
        share()?;
    }
    Ok(())
}

/// Makes a namespace, locks it, and mounts it on `path`; on a thread that ends in it.
fn mount_new_namespace(path: &Path) -> io::Result<File> {
    const OWN: &str = "/proc/thread-self/ns/net";
    let work = || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let in_use = File::open(OWN)?;
        in_use.try_lock()?;
        mount(Some(OWN), path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        Ok(in_use)
    };
    thread::scope(|scope| {
        let inside = thread::Builder::new().spawn_scoped(scope, work)?;
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Best effort: a name that is already gone is as good as removed.
pub(super) fn remove(path: &Path) {
    let _ = umount2(path, MntFlags::MNT_DETACH);
    let _ = fs::remove_file(path);
}
