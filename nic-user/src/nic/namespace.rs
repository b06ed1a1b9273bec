//! Network namespaces, by name and by number.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns};

use super::sysfs;
use crate::command_line::CommandLine;
use crate::error::{Error, Kind, Result};
use crate::netlink::{self, link::Links};

/// Where `ip netns` keeps its names.
pub const NAMED_DIR: &str = "/run/netns";

/// That of the calling thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace, kept alive while this exists.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    label: String,
}

impl NetNs {
    /// The namespace of the calling thread.
    pub fn current() -> Result<Self> {
        Self::open(Path::new(CURRENT), "this network namespace".to_owned())
    }

    /// The namespace of the first process, where the kernel puts network cards whose namespace
    /// ends.
    pub fn first() -> Result<Self> {
        Self::open(Path::new("/proc/1/ns/net"), "the initial network namespace".to_owned())
    }

    /// The namespace that `ip netns` calls `name`.
    pub fn named(name: &str) -> Result<Self> {
        let bytes = netlink::name::bytes(name);
        let is_path = bytes.iter().any(|byte| matches!(byte, b'/' | b'\0'));
        if is_path || matches!(&bytes[..], b"" | b"." | b"..") {
            return Err(Error::usage(format!(
                "{name:?} is not a valid name of a network namespace"
            )));
        }
        let path = named_path(name);
        match Self::called(name)? {
            Some(namespace) => Ok(namespace),
            None if !path.exists() => Err(unknown(name, &path)),
            None => Err(Error::failed(format!("{} is just an empty file", label(name))).with_fix(
                CommandLine::other(&["ip", "netns", "delete"])
                    .on(name)
                    .and(&CommandLine::other(&["ip", "netns", "add"]).on(name)),
            )),
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

    /// The namespace that is mounted here, or that this link in `/proc` stands for.
    fn at(path: &Path) -> Result<Self> {
        match open(path) {
            Ok(file) => Ok(Self { file, label: path.display().to_string() }),
            Err(error) => Err(unopened(path, &error)),
        }
    }

    /// What people can call it: a name that `ip netns` knows, or a path.
    pub fn name(&self) -> &str {
        self.label.strip_prefix(NAMED_LABEL).unwrap_or(&self.label)
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
    ///
    /// Who is in it already needs no privilege for that.
    pub fn enter(&self) -> Result<()> {
        if self.is_current()? {
            return Ok(());
        }
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|error| {
            Error::io(format!("enter {}", self.label), &error.into())
                .with_fix_if_not_permitted("run it as root or with CAP_SYS_ADMIN")
        })
    }

    fn is_current(&self) -> Result<bool> {
        let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let here = fs::metadata(CURRENT).map(inode);
        let here = here.map_err(|error| Error::io(format!("look at {CURRENT}"), &error))?;
        let this = self.file.metadata().map(inode);
        Ok(here == this.map_err(|error| Error::io(format!("look at {}", self.label), &error))?)
    }

    /// Runs `work` in the namespace, and waits for it: on a thread of its own, unless the calling one
    /// is there already.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        if self.is_current()? {
            return Ok(work());
        }
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
    let action = "read the cookie of the network namespace";
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

/// The names that `ip netns` knows, sorted; none if nobody has given any. What is not UTF-8 in them
/// is escaped, as in those of interfaces.
///
/// # Errors
///
/// Their folder cannot be read.
pub fn named_namespaces() -> Result<Vec<String>> {
    let named = sysfs::file_names(Path::new(NAMED_DIR));
    let named = named.map_err(|error| Error::io(format!("read {NAMED_DIR}"), &error))?;
    let mut names: Vec<_> = named.iter().map(|name| netlink::name::text(name.as_bytes())).collect();
    names.sort();
    Ok(names)
}

/// The namespace with this cookie, of all that can be seen. `None` if it is none of those.
///
/// # Errors
///
/// One of them could not be looked at, and none of the others is it.
pub fn of_cookie(cookie: u64) -> Result<Option<NetNs>> {
    first_of_cookie(cookie, visible()?, &[Kind::NotFound])
}

/// Every namespace that can be seen, each once: the present one, those with names, those that are
/// mounted elsewhere, as container engines do, and those of processes. One that has ended meanwhile
/// is [`NotFound`](Kind::NotFound).
///
/// # Errors
///
/// It cannot be told which there are.
pub fn visible() -> Result<impl Iterator<Item = Result<NetNs>>> {
    let names = named_namespaces()?;
    let named = names.into_iter().filter_map(|name| NetNs::called(&name).transpose());
    let mounted = mounted()?.into_iter().map(|path| NetNs::at(&path));
    let all = std::iter::once_with(NetNs::current).chain(named).chain(mounted);
    let mut seen = HashSet::new();
    let is_new = move |namespace: &Result<NetNs>| {
        let inode = namespace.as_ref().ok().and_then(|it| it.file.metadata().ok());
        inode.is_none_or(|metadata| seen.insert(metadata.ino()))
    };
    Ok(all.chain(of_processes()?).filter(is_new))
}

/// Where namespaces are mounted, as far as this mount namespace has them (proc_pid_mountinfo(5)).
fn mounted() -> Result<Vec<PathBuf>> {
    const MOUNTS: &str = "/proc/self/mountinfo";
    let mounts = fs::read(MOUNTS).map_err(|e| Error::io(format!("read {MOUNTS}"), &e))?;
    Ok(String::from_utf8_lossy(&mounts).lines().filter_map(namespace_mount).collect())
}

/// The mount point of a namespace, from `36 25 0:4 net:[4026532281] /run/netns/a rw - nsfs ...`.
fn namespace_mount(line: &str) -> Option<PathBuf> {
    let mut fields = line.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    // Octal escapes are for names that nobody gives a namespace.
    root.starts_with("net:[").then(|| PathBuf::from(at))
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

/// The namespaces that processes are in, each once. Those that this process may not look at
/// (ptrace(2), `PTRACE_MODE_READ_FSCREDS`) cannot be seen.
fn of_processes() -> Result<impl Iterator<Item = Result<NetNs>>> {
    let is_process = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let proc = Path::new("/proc");
    let processes = sysfs::names(proc).map_err(|error| unopened(proc, &error))?;
    let mut seen = HashSet::new();
    Ok(processes.into_iter().filter(is_process).filter_map(move |process| {
        let path = proc.join(process).join("ns/net");
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Ok(metadata) if !seen.insert(metadata.ino()) => None,
            Ok(_) => match NetNs::at(&path) {
                // It has become another user's meanwhile.
                Err(error) if error.kind() == Kind::NotPermitted => None,
                namespace => Some(namespace),
            },
            Err(error) => Some(Err(unopened(&path, &error))),
        }
    }))
}

fn unopened(path: &Path, error: &io::Error) -> Error {
    match error.raw_os_error() {
        // It has ended.
        Some(libc::ENOENT | libc::ESRCH) => Error::not_found(path.display().to_string()),
        _ => Error::io(format!("look at {}", path.display()), error),
    }
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

const NAMED_LABEL: &str = "network namespace ";

fn label(name: &str) -> String {
    format!("{NAMED_LABEL}{name}")
}

/// Where the namespace called `name` is mounted.
pub(crate) fn named_path(name: &str) -> PathBuf {
    Path::new(NAMED_DIR).join(OsStr::from_bytes(&netlink::name::bytes(name)))
}

fn unknown(name: &str, path: &Path) -> Error {
    let error = Error::not_found(format!(
        "there is no network namespace {name}: {} does not exist",
        path.display()
    ));
    match named_namespaces() {
        Err(_) => error,
        Ok(names) if names.is_empty() => error.with_fix(format!("{NAMED_DIR} has none")),
        Ok(names) => error.with_fix(format!("available: {}", names.join(", "))),
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
            "there is no network namespace nic-none: /run/netns/nic-none does not exist"
        );
        assert!(error.fix().is_some());
    }

    #[test]
    fn an_impossible_name_is_a_usage_error() {
        for name in ["", "..", "../../proc/1/ns/net", "a\0b", "a\\x2fb", "\\x2e\\x2e"] {
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
        let visible: Vec<_> = visible().unwrap().flatten().collect();
        let inode = |namespace: &NetNs| namespace.file.metadata().unwrap().ino();
        let inodes: HashSet<_> = visible.iter().map(inode).collect();
        assert!(inodes.len() == visible.len() && !visible.is_empty());
    }

    #[test]
    fn mounts_of_namespaces_are_told_from_others() {
        let docker = "36 25 0:4 net:[4026532281] /run/docker/netns/a rw shared:7 - nsfs nsfs rw";
        assert_eq!(namespace_mount(docker), Some("/run/docker/netns/a".into()));
        for other in
            ["36 25 0:4 mnt:[4026532281] /run/a rw - nsfs nsfs rw", "36 25 0:4 / /proc rw", ""]
        {
            assert_eq!(namespace_mount(other), None);
        }
    }
}
