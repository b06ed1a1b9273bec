//! One process at a time changes the settings of interfaces.

use std::{fs::File, io};

use super::Journals;
use crate::{
    error::{Error, Result},
    locked, trusted,
};

/// Held while settings are changed, whichever bpffs programs are pinned in. It lies on the folder of
/// journals itself. The folder stays: removing one takes away what is mounted on it in other mount
/// namespaces.
#[derive(Debug)]
pub struct Lock {
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
    pub fn lock(&self, waiting: &dyn Fn(Option<u32>)) -> Result<Option<Lock>> {
        let Some(folder) = self.folder()? else { return Ok(None) };
        locked::lock(&self.dir, &folder, waiting)?;
        Ok(Some(Lock { _folder: folder }))
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

    fn error(&self, action: &str, error: &io::Error) -> Error {
        Error::io(format!("{action} {}", self.dir.display()), error)
    }
}

fn has_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EROFS | libc::ENOSPC | libc::EDQUOT))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn one_at_a_time() {
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
    }
}
