//! What tells an interface from every other one since the machine was started.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{namespace, sysfs::Sysfs};
use crate::error::{Error, Result};
use crate::netlink::link::{LinkInfo, Links};

/// The inode of an interface's directory in sysfs, `/sys/class/net/NAME` (kernfs id, fs/kernfs/dir.c
/// `__kernfs_new_node`).
///
/// It stays when the interface gets another name or address, and when it goes to another network
/// namespace; no other interface gets it until the machine is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterfaceId(u64);

impl InterfaceId {
    /// That of no interface.
    #[cfg(test)]
    pub(crate) const fn fake(id: u64) -> Self {
        Self(id)
    }

    /// Of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// The interface is gone ([`NotFound`](crate::error::Kind::NotFound)), or sysfs can neither be
    /// mounted nor shows it.
    pub fn of(link: &LinkInfo) -> Result<Self> {
        let directory = Sysfs::exactly(link).and_then(|sysfs| sysfs.inode());
        directory.map(Self).map_err(|error| unidentified(&link.name, &error))
    }
}

fn unidentified(name: &str, error: &std::io::Error) -> Error {
    let action = format!("identify {name}");
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV) => Error::not_found(format!("{action}: it is gone")),
        _ => Error::io(action, error).with_fix(
            "mount its network namespace's sysfs on /sys, or run nicctl with CAP_SYS_ADMIN",
        ),
    }
}

/// What nicctl calls the state of one interface: its directory of pins and its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterfaceKey {
    /// By the interface itself.
    Id(InterfaceId),
    /// By where it was, as the first releases did.
    Place {
        /// Cookie of its network namespace.
        netns: u64,
        /// Its index there.
        ifindex: u32,
    },
}

impl InterfaceKey {
    /// Both keys that the state of an interface of the calling thread's network namespace can
    /// have.
    pub fn both(link: &LinkInfo) -> Result<[Self; 2]> {
        let (netns, ifindex) = (namespace::current_cookie()?, link.ifindex);
        Ok([Self::Id(InterfaceId::of(link)?), Self::Place { netns, ifindex }])
    }
}

impl fmt::Display for InterfaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(InterfaceId(id)) => write!(f, "{id}"),
            Self::Place { netns, ifindex } => write!(f, "{netns}-{ifindex}"),
        }
    }
}

impl FromStr for InterfaceKey {
    type Err = std::num::ParseIntError;

    fn from_str(key: &str) -> Result<Self, Self::Err> {
        Ok(match key.split_once('-') {
            Some((netns, ifindex)) => {
                Self::Place { netns: netns.parse()?, ifindex: ifindex.parse()? }
            }
            None => Self::Id(InterfaceId(key.parse()?)),
        })
    }
}

/// An interface of the calling thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// Which it is.
    pub id: InterfaceId,
    /// Its index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
}

/// All interfaces of the calling thread's network namespace.
///
/// # Errors
///
/// They cannot be read; or one of them can neither be told from others nor is gone.
pub fn all() -> Result<Vec<Identified>> {
    let links = Links::open().and_then(|mut links| links.all());
    let links = links.map_err(|error| error.while_doing("list the interfaces"))?;
    let mut identified = Vec::with_capacity(links.len());
    for mut link in links {
        if let Some(id) = id_of(&mut link)? {
            identified.push(Identified { id, ifindex: link.ifindex, name: link.name });
        }
    }
    Ok(identified)
}

/// Looked for again by its index as long as it gets another name meanwhile; `None` if it is gone.
fn id_of(link: &mut LinkInfo) -> Result<Option<InterfaceId>> {
    loop {
        match InterfaceId::of(link) {
            Err(error) if error.kind() == crate::error::Kind::NotFound => {}
            id => return id.map(Some),
        }
        let again = Links::open().and_then(|mut links| links.by_index(link.ifindex));
        match again {
            Ok(now) if now.name != link.name => *link = now,
            Ok(_) => return Err(Error::failed(format!("{} is not in sysfs", link.name))),
            Err(error) if error.is_gone() => return Ok(None),
            Err(error) => return Err(error.while_doing(format_args!("read {}", link.name))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for key in [
            InterfaceKey::Id(InterfaceId(4_294_997_312)),
            InterfaceKey::Place { netns: 7, ifindex: 3 },
        ] {
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        assert!("new-7".parse::<InterfaceKey>().is_err());
    }

    #[test]
    fn interfaces_are_told_apart() {
        let all = all().unwrap();
        let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
        let ids: std::collections::BTreeSet<_> = all.iter().map(|interface| interface.id).collect();
        assert_eq!(ids.len(), all.len());
        let link = Links::open().unwrap().by_name("lo").unwrap();
        assert_eq!(InterfaceId::of(&link).unwrap(), lo.id);
    }
}
