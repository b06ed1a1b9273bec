//! The directory of bpffs that holds what is attached to one interface.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{linux::fs::MetadataExt, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
};

use super::{bpffs, link::Link};
use crate::{error::Result, netlink::link::LinkInfo, nic::identity::InterfaceKey, trusted};

/// Below the root of bpffs.
const DIRECTORY: &str = "nicctl";
/// In front of a slot's name while it is being made or cleared away. bpffs refuses names with a
/// dot.
const STAGING: &str = "new-";

/// The XDP link.
pub const XDP_LINK: &str = "link_xdp";
/// The TCX link of TC ingress.
pub const INGRESS_LINK: &str = "link_ingress";
/// The TCX link of TC egress.
pub const EGRESS_LINK: &str = "link_egress";
/// All links, in the order in which they are attached.
pub const LINKS: [&str; 3] = [XDP_LINK, INGRESS_LINK, EGRESS_LINK];

/// The map of receive counters.
pub const RX: &str = "rx";
/// The map of TC ingress counters.
pub const INGRESS: &str = "ingress";
/// The map of transmit counters.
pub const TX: &str = "tx";
/// The map of the attach record.
pub const RECORD: &str = "record";
/// The map of the copy policy.
pub const POLICY: &str = "policy";
/// The map of steering rules.
pub const STEER: &str = "steer";
/// The map of users' AF_XDP sockets.
pub const SOCKETS: &str = "sockets";
/// The ring of the log.
pub const LOG: &str = "log";
/// All maps.
pub const MAPS: [&str; 8] = [RX, INGRESS, TX, RECORD, POLICY, STEER, SOCKETS, LOG];

/// Where the pins of one interface are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    path: PathBuf,
    /// Whose they are.
    pub key: InterfaceKey,
    /// Index of the interface in its network namespace, where that is known: a link of another one
    /// is none of nicctl's.
    pub ifindex: Option<u32>,
}

impl Slot {
    /// The slot of an interface of the calling thread's network namespace, which need not exist.
    ///
    /// # Errors
    ///
    /// The interface cannot be told from others, or bpffs cannot be looked at.
    pub fn of(link: &LinkInfo) -> Result<Self> {
        let [id, place] = InterfaceKey::both(link)?.map(|key| Self::new(key, Some(link.ifindex)));
        let is_old = bpffs::existing_root()?.is_some() && !id.exists()? && place.exists()?;
        Ok(if is_old { place } else { id })
    }

    /// The slot of this name.
    pub fn new(key: InterfaceKey, ifindex: Option<u32>) -> Self {
        Self { path: bpffs::path().join(DIRECTORY).join(key.to_string()), key, ifindex }
    }

    /// All slots there are, in order. What others may have put beside them is passed over.
    pub fn all() -> Result<Vec<Self>> {
        // What cannot be looked at may be one.
        let is_other = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| !it.is_dir());
        let mut slots: Vec<Self> =
            entries()?.into_iter().filter(|path| !is_other(path)).filter_map(Self::parse).collect();
        slots.sort_by_key(|slot| slot.key);
        Ok(slots)
    }

    fn parse(path: PathBuf) -> Option<Self> {
        let key = path.file_name()?.to_str()?.parse().ok()?;
        Some(Self { path, key, ifindex: None })
    }

    /// The same, for an interface with this index.
    #[must_use]
    pub fn at(self, ifindex: Option<u32>) -> Self {
        Self { ifindex, ..self }
    }

    /// Whether anything is there.
    pub fn exists(&self) -> Result<bool> {
        let action = || format!("look at {}", self.path.display());
        bpffs::seen_root()?;
        if let Some(directory) = self.path.parent() {
            trusted::folder(directory)?;
        }
        self.path.try_exists().map_err(|error| bpffs::error(action(), &error))
    }

    /// One pin in it.
    pub fn pin(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Its directory: for a lock that tells who uses what is pinned there.
    pub fn open_directory(&self) -> Result<File> {
        trusted::open_folder(&self.path)?.ok_or_else(|| {
            let gone = io::Error::from_raw_os_error(libc::ENOENT);
            bpffs::error(format!("open {}", self.path.display()), &gone)
        })
    }

    /// Whether `directory` is still this slot's, not one that was removed or replaced.
    pub fn is_at(&self, directory: &File) -> bool {
        let inode = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|it| it.st_ino());
        let held = inode(directory.metadata());
        held.is_some() && held == inode(fs::metadata(&self.path))
    }

    /// An empty directory beside it in which to make it. Whatever an earlier process left there
    /// must have been cleared away.
    pub fn stage(&self) -> Result<Self> {
        let directory = bpffs::root()?.join(DIRECTORY);
        make_directory(&directory)?;
        trusted::folder(&directory)?;
        let staged = self.staging();
        make_directory(&staged.path)?;
        Ok(staged)
    }

    /// Whether a process that was killed left it half made, or half removed.
    pub fn is_half_made(&self) -> Result<bool> {
        let path = self.staging().path;
        path.try_exists()
            .map_err(|error| bpffs::error(format!("look at {}", path.display()), &error))
    }

    /// Whether this is where a slot is made or removed.
    pub fn is_stage(&self) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(STAGING))
    }

    /// Whether this is where `slot` is made or removed.
    pub fn is_stage_of(&self, slot: &Self) -> bool {
        self.path == slot.staging().path
    }

    /// The slot that is made or removed here.
    #[must_use]
    pub fn unstaged(&self) -> Self {
        Self::new(self.key, self.ifindex)
    }

    /// Where it is made or removed.
    #[must_use]
    pub fn staging(&self) -> Self {
        let name = format!("{STAGING}{}", self.key);
        Self { path: self.path.with_file_name(name), ..self.clone() }
    }

    /// Puts the staged slot in this one's place, in one step.
    pub fn commit(&self, staged: &Self) -> Result<()> {
        fs::rename(&staged.path, &self.path)
            .map_err(|error| bpffs::error(format!("rename {}", staged.path.display()), &error))
    }

    /// Takes the slot out of sight, in one step: what is left to do is done to the staged one.
    pub fn unstage(&self) -> Result<Self> {
        let staged = self.staging();
        fs::rename(&self.path, &staged.path)
            .map_err(|error| bpffs::error(format!("rename {}", self.path.display()), &error))?;
        Ok(staged)
    }

    /// Removes every pin that is left, and the directory.
    pub fn remove_directory(&self) -> Result<()> {
        let Some(folder) = trusted::open_folder(&self.path)? else { return Ok(()) };
        trusted::remove_files(&folder)
            .and_then(|()| fs::remove_dir(&self.path))
            .map_err(|error| bpffs::error(format!("remove {}", self.path.display()), &error))
    }

    /// Detaches one link and removes its pin; it may be gone already.
    ///
    /// # Errors
    ///
    /// It is not nicctl's link on this interface.
    pub fn detach_link(&self, name: &str) -> Result<()> {
        Link::open(self, name)?.map_or(Ok(()), Link::detach)
    }
}

/// What processes that were killed left half made, or half removed.
pub fn staged() -> Result<Vec<Slot>> {
    let staged = |path: PathBuf| {
        let rest = path.file_name()?.to_str()?.strip_prefix(STAGING)?;
        let slot = Slot::parse(path.with_file_name(rest))?;
        Some(Slot { path, ..slot })
    };
    Ok(entries()?.into_iter().filter_map(staged).collect())
}

/// Removes the directory of all slots if none is left.
pub fn remove_directory_if_empty() {
    if let Ok(Some(root)) = bpffs::existing_root() {
        // Not empty, or not there: both are fine.
        let _ = fs::remove_dir(root.join(DIRECTORY));
    }
}

fn entries() -> Result<Vec<PathBuf>> {
    let directory = bpffs::seen_root()?.join(DIRECTORY);
    let action = || format!("read {}", directory.display());
    trusted::folder(&directory)?;
    match fs::read_dir(&directory) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()
            .map_err(|error| bpffs::error(action(), &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(bpffs::error(action(), &error)),
    }
}

fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(bpffs::error(format!("make {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}
