//! An interface's directory in sysfs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::detached;
use crate::netlink::{self, link::LinkInfo};

/// `/sys/class/net/X` of an interface of the calling thread's network namespace.
///
/// What sysfs shows is the namespace of whoever mounted it, so that after `setns` the directory
/// at `/sys` may be that of another interface with the same name. Then sysfs is mounted anew,
/// nowhere in the file system; it is gone when this is dropped.
///
/// The directory is held open, so that it stays the interface's when that gets another name: a
/// file that is not there is one that the kernel does not have.
#[derive(Debug)]
pub struct Sysfs {
    directory: File,
    /// Keeps the mount that `directory` is in.
    _mount: Option<OwnedFd>,
}

impl Sysfs {
    /// The directory of `link`, an interface of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// `EPERM` for an interface of another namespace than that of `/sys`, without `CAP_SYS_ADMIN`.
    pub fn of(link: &LinkInfo) -> io::Result<Self> {
        let shown = if_there(File::open(class_net(Path::new("/sys"), link)))?;
        let shown = shown.filter(|directory| has_index(&opened(directory), link));
        match shown {
            Some(directory) if has_address(&opened(&directory), link) => {
                Ok(Self { directory, _mount: None })
            }
            shown => match (Self::mounted(link), shown) {
                // Who may not mount could not change namespaces, either.
                (Err(error), Some(directory)) if is_refused_mount(&error) => {
                    Ok(Self { directory, _mount: None })
                }
                (mounted, _) => mounted,
            },
        }
    }

    /// The same, and never that of an interface that is only like it in another namespace, as long
    /// as sysfs may be mounted.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn exactly(link: &LinkInfo) -> io::Result<Self> {
        match Self::mounted(link) {
            Err(error) if is_refused_mount(&error) => Self::of(link),
            mounted => mounted,
        }
    }

    /// The number of the directory.
    pub fn inode(&self) -> io::Result<u64> {
        self.directory.metadata().map(|metadata| metadata.ino())
    }

    /// The directory of `link` in a sysfs of the calling thread's network namespace.
    fn mounted(link: &LinkInfo) -> io::Result<Self> {
        let mount = detached::mount(c"sysfs")?;
        let directory = File::open(class_net(&opened(&mount), link))?;
        if !has_index(&opened(&directory), link) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        Ok(Self { directory, _mount: Some(mount) })
    }

    /// The text in `file`, without the newline at its end.
    pub fn read(&self, file: impl AsRef<Path>) -> io::Result<String> {
        let mut text = fs::read_to_string(self.path(file))?;
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    /// The same; `None` where the kernel has no such file, or says that the device has no such
    /// thing: `ENOENT` is also what a device of one transmit queue answers of XPS
    /// (net/core/net-sysfs.c `xps_cpus_show`).
    pub fn read_if_there(&self, file: impl AsRef<Path>) -> io::Result<Option<String>> {
        match self.read(file) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            read => if_there(read),
        }
    }

    /// Writes `text` into `file`.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) -> io::Result<()> {
        write(&self.path(file), text)
    }

    /// The names in `directory`; none if it does not exist.
    pub fn list(&self, directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
        names(&self.path(directory))
    }

    /// The directories of the device and of those that it sits on, nearest first, as a virtio
    /// device sits on a PCI function; none for a virtual interface.
    pub fn devices(&self) -> io::Result<Vec<PathBuf>> {
        // Made of `..`, for only the kernel can follow a path through the mount.
        let mut device = self.path("device");
        let mut devices = Vec::new();
        while device.join("subsystem").try_exists()? {
            let below = device.join("..");
            devices.push(device);
            device = below;
        }
        Ok(devices)
    }

    fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        opened(&self.directory).join(file)
    }
}

/// Writes `text` into an existing file of sysfs or procfs, in one piece.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut fs::File::options().write(true).open(path)?, text.as_bytes())
}

/// Whether the kernel takes writes to a file, from whoever may.
pub fn is_writable(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o222 != 0)
}

/// The names in a directory that are text, sorted; none if there is no such directory.
pub fn names(directory: &Path) -> io::Result<Vec<String>> {
    let names = file_names(directory)?.into_iter();
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// All names in a directory; none if there is no such directory.
pub fn file_names(directory: &Path) -> io::Result<Vec<OsString>> {
    let Some(entries) = if_there(fs::read_dir(directory))? else { return Ok(Vec::new()) };
    entries.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// What was read of a file; `None` if there is no such file.
pub fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of what is open here.
fn opened(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether nobody mounts anything here: without the right to, or in a sandbox.
fn is_refused_mount(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

fn class_net(sysfs: &Path, link: &LinkInfo) -> PathBuf {
    sysfs.join("class/net").join(OsStr::from_bytes(&netlink::name::bytes(&link.name)))
}

/// Whether the interface in this directory has the index of `link`, as one in every namespace may.
fn has_index(directory: &Path, link: &LinkInfo) -> bool {
    has(directory, "ifindex", &link.ifindex.to_string())
}

/// Whether it has the address of `link`, which no other interface has. One without an address of
/// its own, as loopback is, cannot be told.
fn has_address(directory: &Path, link: &LinkInfo) -> bool {
    let Some([a, b, c, d, e, f]) = link.mac.filter(|mac| *mac != [0; 6]) else {
        return false;
    };
    has(directory, "address", &format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"))
}

fn has(directory: &Path, file: &str, expected: &str) -> bool {
    fs::read_to_string(directory.join(file)).is_ok_and(|text| text.trim_end() == expected)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_known_by_index_and_address() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("address"), "02:00:00:00:00:0a\n").unwrap();
        fs::write(directory.path().join("ifindex"), "7\n").unwrap();
        let link = |ifindex, last| LinkInfo {
            ifindex,
            mac: Some([2, 0, 0, 0, 0, last]),
            ..LinkInfo::default()
        };
        assert!(has_index(directory.path(), &link(7, 10)));
        assert!(!has_index(directory.path(), &link(8, 10)));
        assert!(has_address(directory.path(), &link(7, 10)));
        assert!(!has_address(directory.path(), &link(7, 11)));
        assert!(!has_address(directory.path(), &LinkInfo { mac: None, ..link(7, 10) }));
        assert!(!has_index(&directory.path().join("gone"), &link(7, 10)));
    }

    #[test]
    fn devices_are_followed_down_to_the_bus() {
        let root = tempfile::tempdir().unwrap();
        let virtio = root.path().join("pci0000:00/0000:00:03.0/virtio2");
        let interface = virtio.join("net/eth0");
        fs::create_dir_all(&interface).unwrap();
        symlink("../../../virtio2", interface.join("device")).unwrap();
        for device in [&virtio, &root.path().join("pci0000:00/0000:00:03.0")] {
            symlink("/sys/bus", device.join("subsystem")).unwrap();
        }
        let sysfs = Sysfs { directory: File::open(interface).unwrap(), _mount: None };
        let devices = sysfs.devices().unwrap();
        let devices: Vec<_> = devices.iter().map(|path| path.canonicalize().unwrap()).collect();
        let ends: Vec<_> = devices.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(ends, ["virtio2", "0000:00:03.0"]);
        let virtual_one = Sysfs { directory: File::open(root.path()).unwrap(), _mount: None };
        assert_eq!(virtual_one.devices().unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn names_of_a_directory_that_is_not_there_are_none_and_of_one_that_cannot_be_read_unknown() {
        assert_eq!(names(Path::new("/proc/self/none")).unwrap(), Vec::<String>::new());
        assert!(names(Path::new("/proc/self/comm")).is_err());
    }

    #[test]
    fn a_directory_stays_that_of_its_interface_under_another_name() {
        let root = tempfile::tempdir().unwrap();
        let interface = root.path().join("eth0");
        fs::create_dir(&interface).unwrap();
        fs::write(interface.join("threaded"), "0\n").unwrap();
        let sysfs = Sysfs { directory: File::open(&interface).unwrap(), _mount: None };
        fs::rename(&interface, root.path().join("wan0")).unwrap();
        assert_eq!(sysfs.read_if_there("threaded").unwrap().as_deref(), Some("0"));
        assert_eq!(sysfs.read_if_there("gro_flush_timeout").unwrap(), None);
        assert!(sysfs.read_if_there("threaded/none").is_err());
    }
}
