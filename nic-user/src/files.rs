//! Files that a user names: they can be anything, of any size.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::error::{Error, Result};

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
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > limit {
        let limit = if limit < 1 << 20 { (limit >> 10, "KiB") } else { (limit >> 20, "MiB") };
        let (size, unit) = limit;
        return Err(Error::usage(format!(
            "{what} {shown} is larger than {size} {unit}: it is something else"
        )));
    }
    Ok(bytes)
}

/// Writes a file in a directory where others may write, too: never through a symbolic link, and
/// only to a regular file.
///
/// # Errors
///
/// It cannot be written, or something else has its name.
pub fn write_in_place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o644).custom_flags(libc::O_NOFOLLOW | AT_ONCE);
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("something that is not a regular file has its name"));
    }
    file.set_len(0)?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use nix::{sys::stat::Mode, unistd::mkfifo};

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
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [link, file, pipe] = ["link", "file", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "longer than new").unwrap();
        symlink(&file, &link).unwrap();
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        write_in_place(&link, b"new").unwrap_err();
        write_in_place(&pipe, b"new").unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"longer than new");
        write_in_place(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }
}
