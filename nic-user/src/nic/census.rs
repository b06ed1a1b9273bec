//! Where interfaces are now: in which of the network namespaces that can be seen, under which name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Nic;
use super::identity::{self, Identified, InterfaceId, InterfaceKey};
use super::namespace::{self, NetNs};
use crate::error::{Error, Kind, Result};

/// Where an interface is.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which it is.
    pub id: InterfaceId,
    /// Its name.
    pub name: String,
    /// Its index in its network namespace.
    pub ifindex: u32,
    /// Its network namespace.
    pub netns: Arc<NetNs>,
    /// What that is called, unless it is the one of the calling thread.
    pub netns_name: Option<String>,
}

impl Place {
    /// Of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// It cannot be told from others.
    pub fn here(nic: &Nic) -> Result<Self> {
        Ok(Self {
            id: InterfaceId::of(&nic.link)?,
            name: nic.name().to_owned(),
            ifindex: nic.ifindex(),
            netns: Arc::new(NetNs::current()?),
            netns_name: None,
        })
    }
}

/// What is known of an interface that has state.
#[derive(Clone, Debug)]
pub enum Presence {
    /// It is there.
    There(Place),
    /// It no longer exists.
    Gone,
    /// It is in none of the network namespaces that can be seen, and may be in another.
    Unseen,
    /// Not every network namespace could be looked at.
    Unread(Error),
}

impl Presence {
    /// Where it is, if that is known.
    pub const fn place(&self) -> Option<&Place> {
        match self {
            Self::There(place) => Some(place),
            Self::Gone | Self::Unseen | Self::Unread(_) => None,
        }
    }
}

/// What was found of the interfaces that were looked for.
#[derive(Debug, Default)]
pub struct Census {
    places: BTreeMap<InterfaceKey, Place>,
    /// Cookies of the network namespaces that were looked at.
    seen: BTreeSet<u64>,
    failed: Option<Error>,
}

impl Census {
    /// Looks for interfaces in the network namespace of the calling thread, and, until all are
    /// found, in all others that can be seen.
    ///
    /// # Errors
    ///
    /// It cannot be told which network namespaces there are.
    pub fn of(wanted: impl IntoIterator<Item = InterfaceKey>) -> Result<Self> {
        let wanted: BTreeSet<InterfaceKey> = wanted.into_iter().collect();
        let mut census = Self::default();
        if wanted.is_empty() {
            return Ok(census);
        }
        let here = namespace::current_cookie()?;
        for namespace in namespace::visible()? {
            match namespace.and_then(|netns| census.look(&wanted, netns, here)) {
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => census.failed = census.failed.or(Some(error)),
                Ok(()) if census.places.len() == wanted.len() => break,
                Ok(()) => {}
            }
        }
        Ok(census)
    }

    fn look(&mut self, wanted: &BTreeSet<InterfaceKey>, netns: NetNs, here: u64) -> Result<()> {
        let read = || -> Result<_> { Ok((namespace::current_cookie()?, identity::all()?)) };
        let (cookie, interfaces) = netns.run(read)??;
        let netns_name = (cookie != here).then(|| netns.name().to_owned());
        let netns = Arc::new(netns);
        for Identified { id, ifindex, name } in interfaces {
            let keys = [InterfaceKey::Id(id), InterfaceKey::Place { netns: cookie, ifindex }];
            for key in keys.into_iter().filter(|key| wanted.contains(key)) {
                let (name, netns_name) = (name.clone(), netns_name.clone());
                let place = Place { id, name, ifindex, netns: Arc::clone(&netns), netns_name };
                self.places.insert(key, place);
            }
        }
        self.seen.insert(cookie);
        Ok(())
    }

    /// What is known of an interface that was looked for, and was last seen in the network
    /// namespace with this cookie.
    pub fn presence(&self, key: InterfaceKey, last_seen_in: u64) -> Presence {
        match (self.places.get(&key), &self.failed) {
            (Some(place), _) => Presence::There(place.clone()),
            (None, Some(error)) => Presence::Unread(error.clone()),
            (None, None) if self.seen.contains(&last_seen_in) => Presence::Gone,
            (None, None) => Presence::Unseen,
        }
    }
}
