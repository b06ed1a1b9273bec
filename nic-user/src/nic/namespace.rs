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

use super::sysfs;
use crate::error::{Error, Kind, Result};
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
        match Self::called(name)? {
            Some(namespace) => Ok(namespace),
            None if !path.exists() => Err(unknown(name, &path)),
            None => Err(Error::failed(format!("{} is only an empty file", label(name)))
                .with_fix("remove it with `ip netns delete`, and create it again")),
        }
    }

    /// The same; `None` if no namespace is called so. A file without one mounted on it stays behind
    /// when `ip netns add` fails.
    fn called(name: &str) -> Result<Option<Self>> {
        let path = named_path(name);
        let opened = sysfs::if_there(open(&path));
        let opened = opened.map_err(|e| Error::io(format!("open {}", path.display()), &e))?;
        let Some(file) = opened else { return Ok(None) };
        let namespace = Self { file, label: label(name) };
        Ok(namespace.is_namespace()?.then_some(namespace))
    }

    fn open(path: &Path, label: String) -> Result<Self> {
        let file =
            open(path).map_err(|error| Error::io(format!("open {}", path.display()), &error))?;
        Ok(Self { file, label })
    }

    fn is_namespace(&self) -> Result<bool> {
        const NSFS_MAGIC: libc::__fsword_t = 0x6e73_6673;
        let action = format!("look at {}", self.label);
        let stat =
            nix::sys::statfs::fstatfs(&self.file).map_err(|e| Error::io(action, &e.into()))?;
        Ok(stat.filesystem_type().0 == NSFS_MAGIC)
    }

    fn is_called(&self, name: &str) -> bool {
        self.label == label(name)
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
                .map_err(|e| Error::io(format!("start a thread in {}", self.label), &e))?;
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// The number that no other network namespace has had since boot (`SO_NETNS_COOKIE`).
    pub fn cookie(&self) -> Result<u64> {
        self.run(current_cookie)?
    }
}

/// A pipe in the place of a namespace is not waited for.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
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

/// The names that `ip netns` knows, sorted; none if nobody has given any.
///
/// # Errors
///
/// Their folder cannot be read.
pub fn named_namespaces() -> Result<Vec<String>> {
    sysfs::names(Path::new(NAMED_DIR)).map_err(|e| Error::io(format!("read {NAMED_DIR}"), &e))
}

/// The namespace with this cookie: the present one, one with a name, or that of a process. `None`
/// if it is none of those.
///
/// # Errors
///
/// One of them could not be looked at, and none of the others is it.
pub fn of_cookie(cookie: u64) -> Result<Option<NetNs>> {
    let named = named_namespaces()?;
    let named = named.iter().filter_map(|name| NetNs::called(name).transpose());
    let known = std::iter::once_with(NetNs::current).chain(named);
    match first_of_cookie(cookie, known, &[Kind::NotFound])? {
        Some(namespace) => Ok(Some(namespace)),
        None => first_of_cookie(cookie, of_processes()?, &[Kind::NotFound]),
    }
}

/// The first with this cookie. Those that fail in one of these ways are passed over: they are gone
/// by now, or no namespaces.
fn first_of_cookie(
    cookie: u64,
    namespaces: impl IntoIterator<Item = Result<NetNs>>,
    passed_over: &[Kind],
) -> Result<Option<NetNs>> {
    let mut failed = None;
    for namespace in namespaces {
        match namespace.and_then(|namespace| Ok((namespace.cookie()?, namespace))) {
            Ok((number, namespace)) if number == cookie => return Ok(Some(namespace)),
            Ok(_) => {}
            Err(error) if passed_over.contains(&error.kind()) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// The namespace that has this id as seen from the current one (`NETNSA_NSID`): one with a name, or
/// that of a process. `None` also if one of them could not be looked at.
pub fn of_id(id: i32) -> Option<NetNs> {
    let mut links = Links::open().ok()?;
    let named = named_namespaces().ok()?;
    let named = named.iter().filter_map(|name| NetNs::called(name).transpose());
    let mut known = named.chain(of_processes().ok()?).flatten();
    known.find(|namespace| links.namespace_id(namespace.as_fd()).is_ok_and(|its| its == Some(id)))
}

/// The namespaces that processes are in, each once.
fn of_processes() -> Result<impl Iterator<Item = Result<NetNs>>> {
    let failed = |path: &Path, error: io::Error| match error.raw_os_error() {
        // It has ended.
        Some(libc::ENOENT | libc::ESRCH) => Error::not_found(path.display().to_string()),
        _ => Error::io(format!("look at {}", path.display()), &error),
    };
    let is_process = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let proc = Path::new("/proc");
    let processes = sysfs::names(proc).map_err(|error| failed(proc, error))?;
    let mut seen = HashSet::new();
    Ok(processes.into_iter().filter(is_process).filter_map(move |process| {
        let path = proc.join(process).join("ns/net");
        let opened = fs::metadata(&path).and_then(|metadata| {
            let new = seen.insert(metadata.ino());
            new.then(|| File::open(&path)).transpose()
        });
        let label = path.display().to_string();
        let opened = opened.map_err(|error| failed(&path, error)).transpose()?;
        Some(opened.map(|file| NetNs { file, label }))
    }))
}

/// The name of the namespace with this cookie; `None` if it has none, or may not be entered.
///
/// # Errors
///
/// One of those that have names could not be looked at, and none of the others is it.
pub fn name_of_cookie(cookie: u64) -> Result<Option<String>> {
    let named = named_namespaces()?;
    let of_name = named.iter().filter_map(|name| NetNs::called(name).transpose());
    let found = first_of_cookie(cookie, of_name, &[Kind::NotFound, Kind::NotPermitted])?;
    Ok(found.and_then(|found| named.into_iter().find(|name| found.is_called(name))))
}

fn label(name: &str) -> String {
    format!("network namespace {name}")
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
        Err(_) => error,
        Ok(names) if names.is_empty() => error.with_fix(format!("{NAMED_DIR} has none at all")),
        Ok(names) => error.with_fix(format!("there are: {}", names.join(", "))),
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
        let found = of_cookie(current_cookie().unwrap()).unwrap().unwrap();
        assert_eq!(found.cookie().unwrap(), current_cookie().unwrap());
        assert!(of_processes().unwrap().flatten().any(|namespace| namespace.cookie().is_ok()));
    }
}
