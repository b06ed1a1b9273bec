//! Folders and files that root believes: only root, or the user that nicctl runs as, can have
//! written them.
//!
//! Whoever may write into a folder decides what its names lead to. So a folder that others may write,
//! or that is not ours, is refused before anything in it is read, written or removed; a symbolic
//! link is never followed in the place of a folder or a file; and modes are given, whatever the
//! umask is.

use std::{
    fmt,
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use nix::{
    dir::Dir,
    unistd::{UnlinkatFlags, unlinkat},
};

use crate::command_line::CommandLine;
use crate::error::{Error, Result};

/// For folders of ours.
const FOLDER: u32 = 0o700;
/// For files of ours.
const FILE: u32 = 0o600;
/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;

/// Checks a folder; whether there is one. Reading it may still be forbidden.
///
/// # Errors
///
/// It cannot be looked at, is no folder, or is not to be believed.
pub fn folder(path: &Path) -> Result<bool> {
    let opened = open(path, libc::O_DIRECTORY | libc::O_PATH);
    let Some(folder) = there(path, opened)? else { return Ok(false) };
    check(path, &folder).map(|_| true)
}

/// Opens a folder, for a lock or to work in it; `None` if there is none.
///
/// # Errors
///
/// It cannot be opened, is no folder, or is not to be believed.
pub fn open_folder(path: &Path) -> Result<Option<File>> {
    let Some(folder) = there(path, open(path, libc::O_DIRECTORY))? else { return Ok(None) };
    check(path, &folder).map(|_| Some(folder))
}

/// Removes every file in an opened folder, whatever its path leads to by now.
///
/// # Errors
///
/// Those of the kernel; a folder in it is not removed.
pub fn remove_files(folder: &File) -> io::Result<()> {
    for entry in Dir::from_fd(folder.try_clone()?.into())?.iter() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            unlinkat(folder, entry.file_name(), UnlinkatFlags::NoRemoveDir)?;
        }
    }
    Ok(())
}

/// Makes a folder, and those above it that are missing, for nobody else; it may be there already.
///
/// # Errors
///
/// It cannot be made, or is there and not to be believed.
pub fn make_folder(path: &Path) -> Result<()> {
    create_folder(path).map_err(|error| Error::io(format!("make {}", path.display()), &error))?;
    folder(path).map(drop)
}

/// Makes a folder as [`make_folder`] does, and does not look at one that is there.
///
/// # Errors
///
/// Those of the kernel.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// What is in a file of a believed folder, up to `limit` bytes; `None` if there is none.
///
/// # Errors
///
/// It cannot be read, is no regular file or larger, or is not to be believed.
pub fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    open_file(path)?.map(|file| contents(path, &file, limit)).transpose()
}

/// Opens a file of a believed folder; `None` if there is none.
///
/// # Errors
///
/// It cannot be opened, is no regular file, or is not to be believed.
pub fn open_file(path: &Path) -> Result<Option<File>> {
    // A pipe would be waited for.
    let Some(file) = there(path, open(path, libc::O_NONBLOCK))? else { return Ok(None) };
    if !check(path, &file)?.is_file() {
        return Err(unreadable(path, "it is not a regular file"));
    }
    Ok(Some(file))
}

/// What is in an opened file, up to `limit` bytes.
///
/// # Errors
///
/// It cannot be read, or is larger.
pub fn contents(path: &Path, file: &File, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Error::io(format!("read {}", path.display()), &error))?;
    match bytes.len() as u64 > limit {
        true => Err(unreadable(path, format_args!("it is larger than {limit} bytes"))),
        false => Ok(bytes),
    }
}

fn unreadable(path: &Path, why: impl fmt::Display) -> Error {
    Error::failed(format!("read {}: {why}", path.display()))
}

/// Makes a new file in a believed folder, in the place of one that an interrupted process left.
///
/// # Errors
///
/// Those of the kernel.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE).custom_flags(libc::O_NOFOLLOW);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)?
        }
        opened => opened?,
    };
    // The umask may have taken away more.
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

fn open(path: &Path, flags: libc::c_int) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flags | libc::O_NOFOLLOW).open(path)
}

fn there(path: &Path, opened: io::Result<File>) -> Result<Option<File>> {
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
            let what = format!("open {}: it is a symbolic link or not a directory", path.display());
            Err(Error::failed(what).with_fix("find out who made it, and remove it"))
        }
        Err(error) => Err(Error::io(format!("open {}", path.display()), &error)
            .with_fix_if_not_permitted(
                "it belongs to root: run nicctl as root or with CAP_DAC_OVERRIDE",
            )),
    }
}

fn check(path: &Path, file: &File) -> Result<Metadata> {
    let metadata = file
        .metadata()
        .map_err(|error| Error::io(format!("look at {}", path.display()), &error))?;
    let user = nix::unistd::geteuid().as_raw();
    match defect(metadata.uid(), metadata.mode(), user) {
        None => Ok(metadata),
        // Whose it is cannot be told in there.
        Some(_) if is_in_user_namespace() => {
            let message = format!("{} does not belong to this user namespace", path.display());
            Err(Error::not_permitted(message).with_fix(OUTSIDE))
        }
        Some(defect) => {
            let (name, mode) = (path.display(), if metadata.is_dir() { FOLDER } else { FILE });
            let chown = CommandLine::other(&["chown"]).on(user).on(&name);
            let chmod = CommandLine::other(&["chmod"]).on(format_args!("{mode:04o}")).on(&name);
            Err(Error::failed(format!("{name} is not trusted: {defect}"))
                .with_fix(format!("check what is there, then: `{}`", chown.and(&chmod))))
        }
    }
}

/// The way out of a user namespace.
pub const OUTSIDE: &str = "run it outside the user namespace (rootless containers use one)";

/// Whether this process is in another user namespace than the initial one, as far as /proc says.
pub fn is_in_user_namespace() -> bool {
    fs::read_to_string("/proc/thread-self/uid_map").is_ok_and(|map| !is_whole(&map))
}

/// Whether a `/proc/PID/uid_map` maps every user to itself, as only the initial namespace's does.
fn is_whole(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether only root, or the user that nicctl runs as, can have written what has these.
pub fn is_trusted(metadata: &Metadata) -> bool {
    let user = nix::unistd::geteuid().as_raw();
    defect(metadata.uid(), metadata.mode(), user).is_none()
}

/// Why what `owner` has with this mode is not believed by a process of `user`.
fn defect(owner: u32, mode: u32, user: u32) -> Option<String> {
    if owner != 0 && owner != user {
        return Some(format!("it belongs to user {owner}"));
    }
    let permissions = mode & 0o7777;
    (mode & OTHERS_WRITE != 0).then(|| format!("others can write to it (mode {permissions:04o})"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_others_own_or_may_write_is_refused() {
        assert_eq!(defect(0, 0o40755, 0), None);
        assert_eq!(defect(0, 0o40700, 1000), None);
        assert_eq!(defect(1000, 0o40700, 1000), None);
        assert_eq!(defect(1000, 0o40700, 0).unwrap(), "it belongs to user 1000");
        let sticky = defect(0, 0o41777, 0).unwrap();
        assert_eq!(sticky, "others can write to it (mode 1777)");
        assert!(defect(0, 0o40720, 0).is_some());
    }

    #[test]
    fn a_user_namespace_is_told_by_its_map() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
    }

    #[test]
    fn links_pipes_and_large_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "1234").unwrap();
        symlink("file", at("link")).unwrap();
        symlink(".", at("self")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(read(&at("file"), 4).unwrap().unwrap(), b"1234");
        assert!(read(&at("file"), 3).unwrap_err().to_string().contains("larger than 3 bytes"));
        assert!(read(&at("link"), 4).unwrap_err().to_string().contains("symbolic link"));
        assert!(read(&at("pipe"), 4).unwrap_err().to_string().contains("not a regular file"));
        assert_eq!(read(&at("none"), 4).unwrap(), None);
        assert!(super::folder(&at("self")).unwrap_err().to_string().contains("symbolic link"));
        assert!(!super::folder(&at("none")).unwrap());
    }

    #[test]
    fn only_what_is_in_an_opened_folder_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["ours", "precious"] {
            make_folder(&at(name)).unwrap();
            fs::write(at(name).join("file"), "").unwrap();
        }
        symlink(at("precious"), at("ours/link")).unwrap();
        let ours = open_folder(&at("ours")).unwrap().unwrap();
        // Whoever can, puts a link in its place meanwhile.
        fs::rename(at("ours"), at("moved")).unwrap();
        symlink(at("precious"), at("ours")).unwrap();
        remove_files(&ours).unwrap();
        assert_eq!(fs::read_dir(at("moved")).unwrap().count(), 0);
        assert!(at("precious/file").exists());
        assert!(open_folder(&at("ours")).unwrap_err().to_string().contains("symbolic link"));
        fs::create_dir(at("moved/folder")).unwrap();
        remove_files(&ours).unwrap_err();
    }

    #[test]
    fn what_is_made_is_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        make_folder(&folder.path().join("a/b")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&folder.path().join("a/b")), FOLDER);
        let file = folder.path().join("a/b/file");
        fs::write(folder.path().join("target"), "kept").unwrap();
        symlink(folder.path().join("target"), &file).unwrap();
        create(&file).unwrap();
        assert_eq!(mode(&file), FILE);
        assert_eq!(fs::read(folder.path().join("target")).unwrap(), b"kept");
    }
}
