//! Whose a setting is: what it was before nicctl came, and what each that changed it made of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::plan;
use crate::nic::setting::{Key, Setting, Value};

/// Who changed a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// `nicctl attach`: what XDP needs, and the profile that came with it.
    Attach,
    /// `nicctl apply`, with the profile of this name.
    Profile(String),
    /// `nicctl set`.
    Set,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attach => f.write_str("attach"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Set => f.write_str("set"),
        }
    }
}

/// What one owner made of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    owner: Owner,
    /// What was read afterwards; `None` while it is being written, or if that was interrupted.
    value: Option<Value>,
}

/// A setting that nicctl changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// What it was before.
    pub original: Value,
    /// What owners made of it; the last is what is in force.
    made: Vec<Made>,
}

/// Whose changes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Those of all.
    Everybody,
    /// Those of one.
    Of(&'a Owner),
}

impl Kept {
    /// One that nobody has changed yet.
    pub const fn new(original: Value) -> Self {
        Self { original, made: Vec::new() }
    }

    /// One that `owner` changed, to what is not known.
    pub fn changed_by(owner: Owner, original: Value) -> Self {
        Self { original, made: vec![Made { owner, value: None }] }
    }

    /// What is in force if nobody else has changed it; `None` if that is not known.
    pub fn in_force(&self) -> Option<&Value> {
        self.made.last().map_or(Some(&self.original), |made| made.value.as_ref())
    }

    /// Whether it is what nicctl made of it, as far as that is known.
    pub fn is_ours(&self, key: &Key, now: &Setting) -> bool {
        self.in_force().is_none_or(|value| plan::is_now(key, now, value))
    }

    /// `owner` is about to change it; it is `now`.
    #[must_use]
    pub fn begin(&self, key: &Key, now: &Value, owner: &Owner) -> Self {
        // What somebody else made of it is what that one finds again.
        let is_ours = self.in_force().is_none_or(|value| plan::same(key, value, now));
        let mut kept = if is_ours { self.without(owner) } else { Self::new(now.clone()) };
        kept.made.push(Made { owner: owner.clone(), value: None });
        kept
    }

    /// The last owner has changed it, to `value`.
    pub fn settle(&mut self, value: Value) {
        if let Some(made) = self.made.last_mut() {
            made.value = Some(value);
        }
    }

    /// Nobody knows what it is until it is given back.
    pub fn unsettle(&mut self) {
        if let Some(made) = self.made.last_mut() {
            made.value = None;
        }
    }

    /// What there is without the changes that are undone; `None` if nothing is left of it.
    pub fn undone(&self, whose: Whose<'_>) -> Option<Self> {
        let rest = match whose {
            Whose::Everybody => return None,
            Whose::Of(owner) => self.without(owner),
        };
        (!rest.made.is_empty()).then_some(rest)
    }

    /// What it is when the changes are undone; `None` if that is not known, because the change
    /// that is in force then was interrupted.
    pub fn target(&self, whose: Whose<'_>) -> Option<Value> {
        match self.undone(whose) {
            Some(rest) => rest.in_force().cloned(),
            None => Some(self.original.clone()),
        }
    }

    /// Who changed it, the first one first.
    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.made.iter().map(|made| &made.owner)
    }

    fn without(&self, owner: &Owner) -> Self {
        let others = self.made.iter().filter(|made| made.owner != *owner);
        Self { original: self.original.clone(), made: others.cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACH: Owner = Owner::Attach;
    const SET: Owner = Owner::Set;

    fn key() -> Key {
        "ring.rx".parse().unwrap()
    }

    /// What `owners` made one after the other of what was 256.
    fn kept(owners: &[(Owner, u64)]) -> Kept {
        owners.iter().fold(Kept::new(256_u64.into()), |kept, (owner, value)| {
            let now = kept.in_force().cloned().unwrap();
            let mut kept = kept.begin(&key(), &now, owner);
            kept.settle((*value).into());
            kept
        })
    }

    fn is(kept: &Kept, value: u64) -> bool {
        kept.is_ours(&key(), &Setting::new(value))
    }

    #[test]
    fn the_last_owner_is_in_force_and_undone_alone() {
        let both = kept(&[(ATTACH, 512), (SET, 1024)]);
        assert!(is(&both, 1024) && !is(&both, 512) && !is(&both, 256));
        assert_eq!(both.target(Whose::Of(&SET)), Some(512_u64.into()));
        assert_eq!(both.target(Whose::Of(&ATTACH)), Some(1024_u64.into()));
        assert_eq!(both.target(Whose::Everybody), Some(256_u64.into()));
        let set = both.undone(Whose::Of(&ATTACH)).unwrap();
        assert_eq!(set.target(Whose::Of(&SET)), Some(256_u64.into()));
        assert_eq!(set.undone(Whose::Of(&SET)), None);
    }

    #[test]
    fn an_owner_who_comes_again_is_on_top_once() {
        let again = kept(&[(ATTACH, 512), (SET, 1024), (ATTACH, 2048)]);
        assert_eq!(again.owners().collect::<Vec<_>>(), [&SET, &ATTACH]);
        assert_eq!(again.target(Whose::Of(&ATTACH)), Some(1024_u64.into()));
    }

    #[test]
    fn what_somebody_else_made_of_it_becomes_the_original() {
        let theirs = kept(&[(ATTACH, 512)]).begin(&key(), &777_u64.into(), &SET);
        assert_eq!(theirs.original, 777_u64.into());
        assert_eq!(theirs.owners().collect::<Vec<_>>(), [&SET]);
    }

    #[test]
    fn what_was_interrupted_is_ours_whatever_it_is() {
        let begun = kept(&[(ATTACH, 512)]).begin(&key(), &512_u64.into(), &SET);
        assert!(is(&begun, 512) && is(&begun, 1000));
        assert_eq!(begun.target(Whose::Of(&SET)), Some(512_u64.into()));
        assert_eq!(begun.target(Whose::Of(&ATTACH)), None);
    }
}
