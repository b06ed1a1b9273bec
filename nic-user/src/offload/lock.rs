//! One nicctl at a time changes what is pinned in a bpffs.

use std::fs::File;

use super::bpffs;
use crate::{
    error::{Error, Result},
    locked, trusted,
};

/// Held while attachments are changed; the kernel lets go of it when the process ends.
///
/// It lies on the root of bpffs itself, so it is the same for every network and mount namespace that
/// has this bpffs, and nothing is left of it.
#[derive(Debug)]
pub struct Lock {
    /// Closing it lets go, which cannot fail.
    _file: File,
}

impl Lock {
    /// Waits for the lock, as [`locked::lock`] does.
    ///
    /// # Errors
    ///
    /// Another nicctl held it all that time, or bpffs cannot be had.
    pub fn take(waiting: impl FnOnce(Option<u32>)) -> Result<Self> {
        let root = bpffs::root()?;
        let gone = || Error::failed(format!("lock {}: it is gone", root.display()));
        let file = trusted::open_folder(&root)?.ok_or_else(gone)?;
        locked::lock(&root, &file, waiting)?;
        Ok(Self { _file: file })
    }
}
