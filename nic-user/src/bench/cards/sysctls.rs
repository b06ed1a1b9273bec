//! What the kernel can be told of an interface below `/proc/sys/net`, and forgets when the interface
//! goes elsewhere.
//!
//! What was written down names tables of a fixed list and files in them, and so no other path: only
//! the files that the kernel has for the interface are ever written.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    netlink,
    nic::sysfs,
};

const ROOT: &str = "/proc/sys/net";

/// A directory that has one for each interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Table {
    /// IPv4.
    #[serde(rename = "ipv4/conf")]
    Ipv4,
    /// Neighbours of IPv4.
    #[serde(rename = "ipv4/neigh")]
    Ipv4Neighbours,
    /// IPv6.
    #[serde(rename = "ipv6/conf")]
    Ipv6,
    /// Neighbours of IPv6.
    #[serde(rename = "ipv6/neigh")]
    Ipv6Neighbours,
}

/// What an interface was told: by the table, and the name of the file in it.
pub type Sysctls = BTreeMap<Table, BTreeMap<String, String>>;

impl Table {
    const ALL: [Self; 4] = [Self::Ipv4, Self::Ipv4Neighbours, Self::Ipv6, Self::Ipv6Neighbours];

    const fn path(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4/conf",
            Self::Ipv4Neighbours => "ipv4/neigh",
            Self::Ipv6 => "ipv6/conf",
            Self::Ipv6Neighbours => "ipv6/neigh",
        }
    }

    /// Where the files of an interface are.
    fn directory(self, interface: &str) -> PathBuf {
        let name = netlink::name::bytes(interface);
        Path::new(ROOT).join(self.path()).join(OsStr::from_bytes(&name))
    }
}

/// Reads all of an interface of the present namespace.
///
/// # Errors
///
/// Something is there and cannot be read.
pub fn read(interface: &str) -> Result<Sysctls> {
    Table::ALL.into_iter().map(|table| Ok((table, read_table(table, interface)?))).collect()
}

fn read_table(table: Table, interface: &str) -> Result<BTreeMap<String, String>> {
    let directory = table.directory(interface);
    let mut values = BTreeMap::new();
    for name in names(&directory)? {
        let file = directory.join(&name);
        match fs::read_to_string(&file) {
            Ok(value) => values.extend([(name, value)]),
            // A secret that nobody has set (`addrconf_sysctl_stable_secret`, net/ipv6/addrconf.c).
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
            Err(error) => return Err(unread(&file, &error)),
        }
    }
    Ok(values)
}

/// Makes those of an interface of the present namespace what they were.
///
/// # Errors
///
/// It cannot be told which files the interface has.
pub fn give_back(interface: &str, were: &Sysctls) -> Result<()> {
    for (table, were) in were {
        let directory = table.directory(interface);
        for name in names(&directory)? {
            let file = directory.join(&name);
            let Some(was) = were.get(&name) else { continue };
            if fs::read_to_string(&file).is_ok_and(|is| is == *was) {
                continue;
            }
            // Some have a limit that depends on others, or are two names of one thing.
            let _ = sysfs::write(&file, was);
        }
    }
    Ok(())
}

fn names(directory: &Path) -> Result<Vec<String>> {
    sysfs::names(directory).map_err(|error| unread(directory, &error))
}

fn unread(path: &Path, error: &io::Error) -> Error {
    Error::io(format!("read {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_text_have_their_own_directory() {
        let directory = Table::Ipv6.directory("a\\xff");
        assert_eq!(directory.as_os_str().as_bytes(), b"/proc/sys/net/ipv6/conf/a\xff");
    }

    #[test]
    fn what_the_loopback_device_was_told_is_read_and_nothing_else_is_named() {
        let read = read("lo").unwrap();
        assert!(read[&Table::Ipv4].contains_key("forwarding"), "{read:?}");
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Sysctls>(&text).unwrap(), read);
        for table in ["ipv4/conf/../..", "core", "/etc", ""] {
            let forged = format!("{{\"{table}\": {{\"forwarding\": \"1\"}}}}");
            assert!(serde_json::from_str::<Sysctls>(&forged).is_err(), "{table}");
        }
        for file in ["../../../../../etc/passwd", "/etc/passwd", "..", ""] {
            let forged = [(Table::Ipv4, [(file.to_owned(), "1".to_owned())].into())].into();
            give_back("lo", &forged).unwrap();
        }
    }
}
