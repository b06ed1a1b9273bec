//! Back to what there was before nicctl came, by the journal alone.

use std::path::PathBuf;

use super::{
    device::{Device, Difference},
    give_back::{self, GivenBack, give_back},
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
    /// Why what nicctl had changed is no more: the journal of it is removed, or would be.
    pub gone: Option<Difference>,
    /// What was given back, or would be; `None` if nicctl had changed nothing.
    pub given_back: Option<GivenBack>,
    /// Whether nothing was written, because only the plan was asked for.
    pub dry_run: bool,
}

impl Restored {
    fn new(device: &dyn Device, journal: Option<&Journal>) -> Self {
        let interface = device.identity().name;
        let former_name = journal.map(|journal| journal.identity.name.clone());
        let former_name = former_name.filter(|name| *name != interface);
        Self { interface, former_name, gone: None, given_back: None, dry_run: false }
    }

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
/// was interrupted. The journal is removed when all is as it was, or is no more.
///
/// # Errors
///
/// The journal is about another interface, which is left alone; or it can not be read.
pub fn restore(device: &mut dyn Device, journals: &Journals) -> Result<Restored> {
    let mut journal = match saved(device, journals)? {
        Saved::Nothing => return Ok(Restored::new(device, None)),
        Saved::Gone(difference, path) => {
            journals.remove_file(&path)?;
            return Ok(Restored { gone: Some(difference), ..Restored::new(device, None) });
        }
        Saved::Journal(journal) => journal,
    };
    let mut restored = Restored::new(device, Some(&journal));
    journal.phase = Phase::Restoring;
    journals.save(&journal, Durability::Lazy)?;
    let given = give_back(device, &journal.originals);
    if given.is_complete() {
        journals.remove(&journal.identity)?;
    }
    restored.given_back = Some(given);
    Ok(restored)
}

/// Says what [`restore`] would give back, and does nothing.
///
/// # Errors
///
/// As [`restore`], and what reading the interface ends in.
pub fn preview(device: &mut dyn Device, journals: &Journals) -> Result<Restored> {
    let restored = match saved(device, journals)? {
        Saved::Nothing => Restored::new(device, None),
        Saved::Gone(difference, _) => {
            Restored { gone: Some(difference), ..Restored::new(device, None) }
        }
        Saved::Journal(journal) => {
            let given_back = Some(give_back::preview(&journal.originals, &device.read()?));
            Restored { given_back, ..Restored::new(device, Some(&journal)) }
        }
    };
    Ok(Restored { dry_run: true, ..restored })
}

/// What there is to give back.
enum Saved {
    Nothing,
    /// The interface is no more, and its settings with it; only its journal is there.
    Gone(Difference, PathBuf),
    Journal(Box<Journal>),
}

/// What nicctl changed on this interface.
///
/// # Errors
///
/// The journal is about another interface that had its place or its name and may still be
/// somewhere; or it can not be read.
fn saved(device: &dyn Device, journals: &Journals) -> Result<Saved> {
    let identity = device.identity();
    match journals.find(&identity)? {
        Found::Nothing => Ok(Saved::Nothing),
        Found::Same(journal) => Ok(Saved::Journal(journal)),
        Found::Other { difference, path, .. } if difference.is_end_of_settings(device) => {
            Ok(Saved::Gone(difference, path))
        }
        // The one that had its name has another one now.
        Found::Other { difference: Difference::Index { .. }, .. } => Ok(Saved::Nothing),
        Found::Other { difference, identity: was, path } => {
            let error = Error::failed(format!(
                "restore {}: what nicctl changed was another interface called {}: {difference}",
                identity.name, was.name
            ));
            let path = path.display();
            Err(match difference {
                Difference::Namespace => error.with_fix(format!(
                    "move it back and restore it there; it stays as it is if you remove {path}"
                )),
                _ => error.with_fix(format!("its settings are gone with it: remove {path}")),
            })
        }
    }
}
