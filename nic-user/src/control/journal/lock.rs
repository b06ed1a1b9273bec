//! One process at a time changes the settings of interfaces.

use std::{
    fs::{self, File},
    io,
    os::linux::fs::MetadataExt,
};

use super::Journals;
use crate::{
    error::{Error, Result},
    locked, trusted,
};

/// Held while settings are changed, whichever bpffs programs are pinned in. It lies on the folder of
/// journals itself, which goes with it if nothing is left in it.
#[derive(Debug)]
pub struct Lock<'a> {
    journals: &'a Journals,
    /// Closing it lets go, which cannot fail.
    _folder: File,
}

impl Journals {
    /// Waits for the lock, as [`locked::lock`] does. `None` where the folder is not there and there is
    /// no room for it: nobody can change settings then.
    ///
    /// # Errors
    ///
    /// Another process held it all that time; the folder cannot be made, or is not to be believed.
    pub fn lock(&self, waiting: &dyn Fn(Option<u32>)) -> Result<Option<Lock<'_>>> {
        loop {
            let Some(folder) = self.folder()? else { return Ok(None) };
            locked::lock(&self.dir, &folder, waiting)?;
            if self.is_at(&folder)? {
                return Ok(Some(Lock { journals: self, _folder: folder }));
            }
            // Whoever had it has removed it.
        }
    }

    fn folder(&self) -> Result<Option<File>> {
        loop {
            if let Some(folder) = trusted::open_folder(&self.dir)? {
                return Ok(Some(folder));
            }
            match trusted::create_folder(&self.dir) {
                Err(error) if has_no_room(&error) => return Ok(None),
                made => made.map_err(|error| self.error("make", &error))?,
            }
        }
    }

    fn is_at(&self, folder: &File) -> Result<bool> {
        let identity = |it: fs::Metadata| (it.st_dev(), it.st_ino());
        let ours = folder.metadata().map_err(|error| self.error("look at", &error))?;
        match fs::symlink_metadata(&self.dir) {
            Ok(there) => Ok(identity(there) == identity(ours)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.error("look at", &error)),
        }
    }

    fn error(&self, action: &str, error: &io::Error) -> Error {
        Error::io(format!("{action} {}", self.dir.display()), error)
    }
}

fn has_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EROFS | libc::ENOSPC | libc::EDQUOT))
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Nothing is left of nicctl where nothing is left to restore.
        let _ = fs::remove_dir(&self.journals.dir);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_is_left_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let journals = Journals::new(folder.path().join("nicctl"));
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _lock = journals.lock(&|_| {}).unwrap().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(!journals.dir.exists());
    }

    #[test]
    fn what_is_in_the_folder_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let journals = Journals::new(folder.path());
        fs::write(folder.path().join("1.json"), "{}").unwrap();
        drop(journals.lock(&|_| {}).unwrap());
        assert!(folder.path().join("1.json").exists());
    }
}
