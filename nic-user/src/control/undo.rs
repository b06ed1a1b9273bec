//! Back to what there was before an owner came, or before nicctl did, by the journal alone.

use std::collections::BTreeMap;

use super::{
    device::Device,
    give_back::{self, GivenBack, give_back},
    journal::{Durability, Journal, Journals, Phase},
    kept::{Kept, Whose},
    plan,
};
use crate::{
    error::{Error, Kind, Result},
    nic::setting::{Key, Settings, Value},
};

/// What is undone.
#[derive(Clone, Copy, Debug)]
pub struct Undo<'a> {
    /// Whose changes.
    pub whose: Whose<'a>,
    /// Also of what something else has changed since.
    pub force: bool,
}

/// A setting that is left as it is, because something else has changed it since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Which.
    pub key: Key,
    /// What it is.
    pub is: Value,
    /// What nicctl had made of it.
    pub made: Value,
    /// What it was before.
    pub was: Value,
}

/// What came of undoing the changes to an interface.
#[derive(Debug)]
pub struct Restored {
    /// The interface.
    pub interface: String,
    /// Its name when nicctl changed it, if it has another one now.
    pub former_name: Option<String>,
    /// What was given back, or would be; `None` if nothing had been changed.
    pub given_back: Option<GivenBack>,
    /// What is left to whoever has changed it since.
    pub foreign: Vec<Foreign>,
    /// Whether nothing was written, because only the plan was asked for.
    pub dry_run: bool,
}

impl Restored {
    fn new(device: &dyn Device, journal: Option<&Journal>, dry_run: bool) -> Self {
        let interface = device.identity().name;
        let former_name = journal.map(|journal| journal.identity.name.clone());
        let former_name = former_name.filter(|name| *name != interface);
        Self { interface, former_name, given_back: None, foreign: Vec::new(), dry_run }
    }

    /// The error that this amounts to: something could not be given back.
    pub fn error(&self) -> Option<Error> {
        let given = self.given_back.as_ref()?;
        let name = &self.interface;
        if let Some(vanished) = &given.vanished {
            return Some(Error::not_found(format!("restore {name}: {vanished}")));
        }
        let left = given.left.len();
        let kind = if given.not_permitted { Kind::NotPermitted } else { Kind::Failed };
        (left > 0).then(|| {
            let error =
                Error::new(kind, format!("restore {name}: {left} settings could not be restored"));
            if given.not_permitted {
                return error.with_fix("run it as root or with CAP_NET_ADMIN; the journal is kept");
            }
            error.with_fix(
                "resolve what the kernel reports, then restore again; the journal is kept",
            )
        })
    }
}

/// Undoes changes of nicctl to this interface, also where an apply or an undo was interrupted. What
/// something else has changed since is left alone. The journal is removed when nothing is left in
/// it.
///
/// # Errors
///
/// The journal or the interface cannot be read.
pub fn undo(device: &mut dyn Device, journals: &Journals, undo: Undo<'_>) -> Result<Restored> {
    let Some(mut journal) = journals.find(&device.identity())? else {
        return Ok(Restored::new(device, None, false));
    };
    let mut restored = Restored::new(device, Some(&journal), false);
    let current = match device.read() {
        Err(error) if error.kind() == Kind::NotFound => {
            restored.given_back = Some(GivenBack { vanished: Some(error), ..Default::default() });
            return Ok(restored);
        }
        current => current?,
    };
    let Targets { values, foreign } = Targets::of(&journal, &current, undo);
    journal.phase = Phase::Restoring;
    for change in give_back::differing(&values, &current) {
        journal.settings.entry(change.key).and_modify(Kept::unsettle);
    }
    journals.save(&journal, Durability::Lazy)?;
    let given = give_back(device, &values);
    if given.vanished.is_none() {
        let left = given.left.iter().map(|left| &left.key);
        let kept: Vec<&Key> = left.chain(foreign.iter().map(|foreign| &foreign.key)).collect();
        finish(journal, journals, undo.whose, &kept, given.is_complete())?;
    }
    (restored.given_back, restored.foreign) = (Some(given), foreign);
    Ok(restored)
}

/// Leaves in the journal what is still to be given back.
fn finish(
    mut journal: Journal,
    journals: &Journals,
    whose: Whose<'_>,
    kept: &[&Key],
    is_complete: bool,
) -> Result<()> {
    let settings = std::mem::take(&mut journal.settings).into_iter();
    journal.settings = settings
        .filter_map(|(key, setting)| match kept.contains(&&key) {
            true => Some((key, setting)),
            false => Some((key, setting.undone(whose)?)),
        })
        .collect();
    if journal.settings.is_empty() {
        return journals.remove(&journal);
    }
    if is_complete {
        journal.phase = Phase::Applied;
    }
    journals.save(&journal, Durability::Lazy)
}

/// Says what [`undo`] would give back, and does nothing.
///
/// # Errors
///
/// As [`undo`].
pub fn preview(device: &mut dyn Device, journals: &Journals, undo: Undo<'_>) -> Result<Restored> {
    let journal = journals.find(&device.identity())?;
    let mut restored = Restored::new(device, journal.as_ref(), true);
    if let Some(journal) = journal {
        let current = device.read()?;
        let Targets { values, foreign } = Targets::of(&journal, &current, undo);
        restored.given_back = Some(give_back::preview(&values, &current));
        restored.foreign = foreign;
    }
    Ok(restored)
}

/// What settings are to be afterwards: also those of other owners, which giving back may disturb.
struct Targets {
    values: BTreeMap<Key, Value>,
    foreign: Vec<Foreign>,
}

impl Targets {
    fn of(journal: &Journal, current: &Settings, undo: Undo<'_>) -> Self {
        let mut targets = Self { values: BTreeMap::new(), foreign: Vec::new() };
        for (key, kept) in &journal.settings {
            let Some(target) = kept.target(undo.whose) else { continue };
            match foreign(key, kept, &target, current) {
                Some(foreign) if !undo.force => targets.foreign.push(foreign),
                _ => {
                    targets.values.insert(key.clone(), target);
                }
            }
        }
        targets
    }
}

/// The setting, if something else has changed it since nicctl did, to something else than it is to
/// be.
fn foreign(key: &Key, kept: &Kept, target: &Value, current: &Settings) -> Option<Foreign> {
    let (setting, made) = (current.get(key)?, kept.in_force()?.clone());
    let is_ours = kept.is_ours(key, setting) || plan::is_now(key, setting, target);
    let foreign = || Foreign { key: key.clone(), is: setting.state(), made, was: target.clone() };
    (!is_ours).then(foreign)
}
