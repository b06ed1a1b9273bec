//! Network namespaces, by name and by number.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns};

use crate::error::{Error, Result};
use crate::netlink::link::Links;

/// Where `ip netns` keeps its names.
pub const NAMED_DIR: &str = "/run/netns";

/// A network namespace, kept alive while this exists.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    label: String,
}

impl NetNs {
    /// The namespace of the calling thread.
    pub fn current() -> Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"), "this network namespace".to_owned())
    }

    /// The namespace of the first process, where the kernel puts network cards whose namespace
    /// ends.
    pub fn first() -> Result<Self> {
        Self::open(Path::new("/proc/1/ns/net"), "the first network namespace".to_owned())
    }

    /// The namespace that `ip netns` calls `name`.
    pub fn named(name: &str) -> Result<Self> {
        if name.is_empty() || name.contains(['/', '\0']) || matches!(name, "." | "..") {
            return Err(Error::usage(format!("network namespace name {name:?} is not possible")));
        }
        let path = named_path(name);
        if !path.exists() {
            return Err(unknown(name, &path));
        }
        let namespace = Self::open(&path, format!("network namespace {name}"))?;
        // A file without a namespace mounted on it stays behind when `ip netns add` fails.
        namespace.check()?;
        Ok(namespace)
    }

    fn open(path: &Path, label: String) -> Result<Self> {
        // A pipe in its place is not waited for.
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| Error::io(format!("open {}", path.display()), &error))?;
        Ok(Self { file, label })
    }

    fn check(&self) -> Result<()> {
        const NSFS_MAGIC: libc::__fsword_t = 0x6e73_6673;
        let action = format!("look at {}", self.label);
        let stat =
            nix::sys::statfs::fstatfs(&self.file).map_err(|e| Error::io(action, &e.into()))?;
        if stat.filesystem_type().0 == NSFS_MAGIC {
            return Ok(());
        }
        Err(Error::failed(format!("{} is only an empty file", self.label))
            .with_fix("remove it with `ip netns delete`, and create it again"))
    }

    /// Moves the calling thread into the namespace. Sockets opened before stay where they are.
    pub fn enter(&self) -> Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|error| {
            Error::io(format!("enter {}", self.label), &error.into())
                .with_fix_if_not_permitted("it takes root, or CAP_SYS_ADMIN")
        })
    }

    /// Runs `work` in the namespace, on a thread of its own, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = thread::Builder::new()
                .spawn_scoped(scope, || self.enter().map(|()| work()))
                .map_err(|error| Error::io(format!("begin a thread in {}", self.label), &error))?;
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// The number that no other network namespace has had since boot (`SO_NETNS_COOKIE`).
    pub fn cookie(&self) -> Result<u64> {
        self.run(current_cookie)?
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The cookie of the calling thread's network namespace. Since Linux 5.14.
pub fn current_cookie() -> Result<u64> {
    let action = "read the number of the network namespace";
    let socket = std::os::unix::net::UnixDatagram::unbound().map_err(|e| Error::io(action, &e))?;
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `cookie`; both outlive the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if done < 0 { Err(Error::io(action, &io::Error::last_os_error())) } else { Ok(cookie) }
}

/// The names that `ip netns` knows, sorted.
pub fn named_namespaces() -> Vec<String> {
    let Ok(entries) = fs::read_dir(NAMED_DIR) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The namespace with this cookie: the present one, one with a name, or that of a process.
pub fn of_cookie(cookie: u64) -> Option<NetNs> {
    let is = |namespace: &NetNs| namespace.cookie().is_ok_and(|number| number == cookie);
    let named = named_namespaces().into_iter().filter_map(|name| NetNs::named(&name).ok());
    let mut known = NetNs::current().into_iter().chain(named);
    known.find(is).or_else(|| of_processes().find(is))
}

/// The namespace that has this id as seen from the current one (`NETNSA_NSID`): one with a name, or
/// that of a process.
pub fn of_id(id: i32) -> Option<NetNs> {
    let mut links = Links::open().ok()?;
    let named = named_namespaces().into_iter().filter_map(|name| NetNs::named(&name).ok());
    let mut known = named.chain(of_processes());
    known.find(|namespace| links.namespace_id(namespace.as_fd()).is_ok_and(|its| its == Some(id)))
}

/// The namespaces that processes are in, each once.
fn of_processes() -> impl Iterator<Item = NetNs> {
    let mut seen = HashSet::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        let path = process.path().join("ns/net");
        let inode = fs::metadata(&path).ok()?.ino();
        let new = seen.insert(inode);
        new.then(|| NetNs::open(&path, path.display().to_string()).ok()).flatten()
    })
}

/// The name of the namespace with this cookie, if it has one and may be entered.
pub fn name_of_cookie(cookie: u64) -> Option<String> {
    named_namespaces().into_iter().find(|name| {
        NetNs::named(name).and_then(|namespace| namespace.cookie()).is_ok_and(|c| c == cookie)
    })
}

/// Where the namespace called `name` is mounted.
pub(crate) fn named_path(name: &str) -> PathBuf {
    Path::new(NAMED_DIR).join(name)
}

fn unknown(name: &str, path: &Path) -> Error {
    let error = Error::not_found(format!(
        "no network namespace is called {name}: {} does not exist",
        path.display()
    ));
    match named_namespaces() {
        names if names.is_empty() => error.with_fix(format!("{NAMED_DIR} has none at all")),
        names => error.with_fix(format!("there are: {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn an_unknown_namespace_is_not_found() {
        let error = NetNs::named("nic-none").unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(
            error.to_string(),
            "no network namespace is called nic-none: /run/netns/nic-none does not exist"
        );
        assert!(error.fix().is_some());
    }

    #[test]
    fn an_impossible_name_is_a_usage_error() {
        for name in ["", "..", "../../proc/1/ns/net", "a\0b"] {
            assert_eq!(NetNs::named(name).unwrap_err().kind(), Kind::Usage);
        }
    }

    #[test]
    fn the_current_namespace_has_one_cookie() {
        assert_eq!(current_cookie().unwrap(), current_cookie().unwrap());
        assert_ne!(current_cookie().unwrap(), 0);
        let found = of_cookie(current_cookie().unwrap()).unwrap();
        assert_eq!(found.cookie().unwrap(), current_cookie().unwrap());
        assert!(of_processes().any(|namespace| namespace.cookie().is_ok()));
    }
}
