//! Back to what there was before nicctl came, by the journal alone.

use super::{
    device::Device,
    give_back::{GivenBack, give_back},
    journal::{Durability, Found, Journal, Journals, Phase},
};
use crate::error::{Error, Result};

/// What came of restoring an interface.
#[derive(Debug)]
pub struct Restored {
    /// The interface.
    pub interface: String,
    /// Its name when nicctl changed it, if it has another one now.
    pub former_name: Option<String>,
    /// What was given back; `None` if nicctl had changed nothing.
    pub given_back: Option<GivenBack>,
}

impl Restored {
    /// The error that this amounts to: something could not be given back.
    pub fn error(&self) -> Option<Error> {
        let given = self.given_back.as_ref()?;
        let name = &self.interface;
        if let Some(vanished) = &given.vanished {
            return Some(Error::not_found(format!("restore {name}: {vanished}")));
        }
        let left = given.left.len();
        (left > 0).then(|| {
            Error::failed(format!("restore {name}: {left} settings are not as they were"))
                .with_fix("remove what the kernel names, and restore again: the journal is kept")
        })
    }
}

/// Gives back everything that nicctl changed on this interface, also where an apply or a restore
/// was interrupted. The journal is removed when all is as it was.
///
/// # Errors
///
/// The journal is about another interface, which is left alone; or it can not be read.
pub fn restore(device: &mut dyn Device, journals: &Journals) -> Result<Restored> {
    let identity = device.identity();
    let mut restored =
        Restored { interface: identity.name.clone(), former_name: None, given_back: None };
    let mut journal = match saved(device, journals)? {
        Some(journal) => journal,
        None => return Ok(restored),
    };
    if journal.identity.name != identity.name {
        restored.former_name = Some(journal.identity.name.clone());
    }
    journal.phase = Phase::Restoring;
    journals.save(&journal, Durability::Lazy)?;
    let given = give_back(device, &journal.originals);
    if given.is_complete() {
        journals.remove(&journal.identity)?;
    }
    restored.given_back = Some(given);
    Ok(restored)
}

/// The journal of this interface, if nicctl changed anything on it.
///
/// # Errors
///
/// The journal is about another interface that had its place or its name; or it can not be read.
pub fn saved(device: &dyn Device, journals: &Journals) -> Result<Option<Journal>> {
    let identity = device.identity();
    match journals.find(&identity)? {
        Found::Nothing => Ok(None),
        Found::Same(journal) => Ok(Some(*journal)),
        Found::Other { difference, identity: was, path } => Err(Error::failed(format!(
            "restore {}: what nicctl changed was another interface called {}: {difference}",
            identity.name, was.name
        ))
        .with_fix(format!("its settings are gone with it: remove {}", path.display()))),
    }
}
