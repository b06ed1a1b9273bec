//! Files that a user names: they can be anything, of any size.

use std::{
    ffi::OsString,
    fmt::Display,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Component, Path},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat, readlinkat},
    sys::stat::Mode,
};

use crate::{
    error::{Error, Result},
    trusted,
};

/// Opening a pipe does not wait for who is at its other end.
const AT_ONCE: libc::c_int = libc::O_NONBLOCK | libc::O_NOCTTY;

/// All of a file of at most `limit` bytes; `what` it should be. Nothing is waited for.
///
/// # Errors
///
/// It cannot be read; [`Usage`](crate::error::Kind::Usage) if it is no file, or larger.
pub fn read(path: &Path, what: &str, limit: u64) -> Result<Vec<u8>> {
    let shown = path.display();
    let fail = |error: io::Error| Error::io(format_args!("read {what} {shown}"), &error);
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(AT_ONCE).open(path).map_err(fail)?;
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(Error::usage(format!("{what} {shown} is not a regular file")));
    }
    up_to(file, format_args!("{what} {shown}"), limit)
}

/// All of standard input, up to `limit` bytes; `what` it should be.
///
/// # Errors
///
/// It cannot be read; [`Usage`](crate::error::Kind::Usage) if there is more.
pub fn read_stdin(what: &str, limit: u64) -> Result<Vec<u8>> {
    up_to(io::stdin(), format_args!("{what} on standard input"), limit)
}

fn up_to(source: impl Read, what: impl Display, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = source.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io(format_args!("read {what}"), &error))?;
    if bytes.len() as u64 > limit {
        let limit = if limit < 1 << 20 { (limit >> 10, "KiB") } else { (limit >> 20, "MiB") };
        let (size, unit) = limit;
        return Err(Error::usage(format!(
            "{what} is larger than {size} {unit}, so it must be something else"
        )));
    }
    Ok(bytes)
}

/// Writes a file, also where others may write, too: only to a regular file, never to what a symbolic
/// link leads to, and in no folder that one leads to that somebody else may have made.
///
/// # Errors
///
/// It cannot be written, or something else has its name.
pub fn write_in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = resolve(path)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let flags = flags | OFlag::from_bits_retain(AT_ONCE);
    let mut file = File::from(openat(&folder, name.as_os_str(), flags, READABLE)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("something else that is not a regular file has its name"));
    }
    file.set_len(0)?;
    file.write_all(bytes)
}

/// 0644
const READABLE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR).union(Mode::S_IRGRP).union(Mode::S_IROTH);

/// The folder that a path leads to, and the name in it. Symbolic links to the folder are followed
/// only where nobody else can have made them.
fn resolve(path: &Path) -> io::Result<(File, OsString)> {
    /// As many as the kernel follows (`MAXSYMLINKS`).
    const MAX_LINKS: usize = 40;
    let mut folder = start(path)?;
    let mut rest = names(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if rest.is_empty() {
            return Ok((folder, name));
        }
        match readlinkat(&folder, name.as_os_str()) {
            Err(Errno::EINVAL) => folder = open_folder(&folder, &name)?,
            Err(errno) => return Err(errno.into()),
            Ok(_) if links == MAX_LINKS => return Err(Errno::ELOOP.into()),
            Ok(_) if !trusted::is_trusted(&folder.metadata()?) => {
                let name = name.display();
                let why =
                    format!("{name} is a symbolic link in a directory that others can write to");
                return Err(io::Error::other(why));
            }
            Ok(target) => {
                let target = Path::new(&target);
                if target.is_absolute() {
                    folder = start(target)?;
                }
                rest.extend(names(target));
                links += 1;
            }
        }
    }
    Err(Errno::EISDIR.into())
}

/// The names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(is_name).map(|part| part.as_os_str().to_owned()).collect()
}

/// Where a path begins.
fn start(path: &Path) -> io::Result<File> {
    let start = if path.is_absolute() { "/" } else { "." };
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(start)
}

fn open_folder(folder: &File, name: &OsString) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened: OwnedFd = openat(folder, name.as_os_str(), flags, Mode::empty())?;
    Ok(opened.into())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use nix::unistd::mkfifo;

    use super::*;
    use crate::error::Kind;

    #[test]
    fn what_is_endless_or_would_be_waited_for_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, file] = ["pipe", "file"].map(|name| folder.path().join(name));
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let error = read(path, "profile", 4).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            let shown = path.display();
            assert_eq!(error.to_string(), format!("profile {shown} is not a regular file"));
        }
        fs::write(&file, "1234").unwrap();
        assert_eq!(read(&file, "profile", 4).unwrap(), b"1234");
        let error = read(&file, "profile", 3).unwrap_err();
        assert!(error.to_string().contains("is larger than 0 KiB"), "{error}");
    }

    #[test]
    fn nothing_is_written_through_a_link_of_others_nor_to_what_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "longer than new").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(folder.path(), at("self")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        let mode = |mode| fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        mode(0o1777);
        for through in ["link", "self/file", "self/self/new", "pipe", "none/file", "."] {
            write_in_place(&at(through), b"new").unwrap_err();
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"longer than new");
        assert!(!at("new").exists());
        write_in_place(&at("file"), b"new").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
        // Where only this user writes, links are this user's.
        mode(0o755);
        for through in ["self/file", "self/self/new"] {
            write_in_place(&at(through), b"newer").unwrap();
            assert_eq!(fs::read(at(through)).unwrap(), b"newer");
        }
        symlink("loop", at("loop")).unwrap();
        for through in ["link", "loop/new"] {
            write_in_place(&at(through), b"").unwrap_err();
        }
    }
}
