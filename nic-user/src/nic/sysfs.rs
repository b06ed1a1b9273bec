//! An interface's directory in sysfs.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::detached;
use crate::netlink::{self, link::LinkInfo};

/// `/sys/class/net/X` of an interface of the calling thread's network namespace.
///
/// What sysfs shows is the namespace of whoever mounted it, so that after `setns` the directory
/// at `/sys` may be that of another interface with the same name. Then sysfs is mounted anew,
/// nowhere in the file system; it is gone when this is dropped.
#[derive(Debug)]
pub struct Sysfs {
    directory: PathBuf,
    /// Keeps the mount that `directory` leads to.
    _mount: Option<OwnedFd>,
}

impl Sysfs {
    /// The directory of `link`, an interface of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// `EPERM` for an interface of another namespace than that of `/sys`, without `CAP_SYS_ADMIN`.
    pub fn of(link: &LinkInfo) -> io::Result<Self> {
        let directory = class_net(Path::new("/sys"), link);
        if has_index(&directory, link) && has_address(&directory, link) {
            return Ok(Self { directory, _mount: None });
        }
        match detached::mount(c"sysfs") {
            Ok(mount) => {
                let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
                Ok(Self { directory: class_net(&root, link), _mount: Some(mount) })
            }
            // Who may not mount could not change namespaces, either.
            Err(_) if has_index(&directory, link) => Ok(Self { directory, _mount: None }),
            Err(error) => Err(error),
        }
    }

    /// The text in `file`, without the newline at its end.
    pub fn read(&self, file: impl AsRef<Path>) -> io::Result<String> {
        let mut text = fs::read_to_string(self.path(file))?;
        text.truncate(text.trim_end().len());
        Ok(text)
    }

    /// Writes `text` into `file`.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) -> io::Result<()> {
        write(&self.path(file), text)
    }

    /// The names in `directory`; none if it does not exist.
    pub fn list(&self, directory: impl AsRef<Path>) -> Vec<String> {
        names(&self.path(directory))
    }

    /// The directories of the device and of those that it sits on, nearest first, as a virtio
    /// device sits on a PCI function; none for a virtual interface.
    pub fn devices(&self) -> Vec<PathBuf> {
        // Made of `..`, for only the kernel can follow a path through the mount.
        let device = std::iter::successors(Some(self.path("device")), |path| Some(path.join("..")));
        device.take_while(|path| path.join("subsystem").exists()).collect()
    }

    fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.directory.join(file)
    }
}

/// Writes `text` into an existing file of sysfs or procfs, in one piece.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut fs::File::options().write(true).open(path)?, text.as_bytes())
}

/// Whether the kernel takes writes to a file, from whoever may.
pub fn is_writable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o222 != 0)
}

/// The names in a directory, sorted; none if it can not be read.
pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<_> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn class_net(sysfs: &Path, link: &LinkInfo) -> PathBuf {
    sysfs.join("class/net").join(OsStr::from_bytes(&netlink::name::bytes(&link.name)))
}

/// Whether the interface in this directory has the index of `link`, as one in every namespace may.
fn has_index(directory: &Path, link: &LinkInfo) -> bool {
    has(directory, "ifindex", &link.ifindex.to_string())
}

/// Whether it has the address of `link`, which no other interface has. One without an address of
/// its own, as loopback is, can not be told.
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
        let sysfs = Sysfs { directory: interface, _mount: None };
        let devices = sysfs.devices();
        let devices: Vec<_> = devices.iter().map(|path| path.canonicalize().unwrap()).collect();
        let ends: Vec<_> = devices.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(ends, ["virtio2", "0000:00:03.0"]);
        let virtual_one = Sysfs { directory: root.path().to_owned(), _mount: None };
        assert_eq!(virtual_one.devices(), Vec::<PathBuf>::new());
    }

    #[test]
    fn names_of_a_directory_that_is_not_there_are_none() {
        assert_eq!(names(Path::new("/proc/self/none")), Vec::<String>::new());
    }
}
