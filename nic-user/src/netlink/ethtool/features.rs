//! Features: what the device or the stack does for packets besides moving them (`ethtool -k`;
//! `ETHTOOL_A_FEATURES_*`).

use std::collections::BTreeMap;

use super::{Ethtool, bitset};
use crate::netlink::attribute::Attributes;
use crate::netlink::request::Places;
use crate::netlink::{Error, Result, generic};

const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;

const HW: u16 = 2;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
const NOCHANGE: u16 = 5;

/// One feature of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feature {
    /// Whether it is on.
    pub active: bool,
    /// Whether somebody asked for it to be on.
    pub wanted: bool,
    /// Whether the driver lets it be changed.
    pub changeable: bool,
    /// Whether no driver could ever let it be changed: it is a property of the device.
    pub never_changes: bool,
}

/// What can be said of a feature in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeatureState {
    /// As asked for, and changeable.
    AsWanted,
    /// It was asked to be the other way, which something prevents: `[requested on]`.
    Requested,
    /// The driver decides: `[fixed]`.
    Fixed,
    /// It cannot be changed on any device; ethtool calls this `[fixed]` as well.
    Never,
}

impl Feature {
    /// What can be said of it in a word, besides whether it is on.
    pub const fn state(self) -> FeatureState {
        match self {
            Self { never_changes: true, .. } => FeatureState::Never,
            Self { changeable: false, .. } => FeatureState::Fixed,
            _ if self.active != self.wanted => FeatureState::Requested,
            _ => FeatureState::AsWanted,
        }
    }

    /// Whether it cannot be changed; `ethtool -k` shows it as `[fixed]`.
    pub const fn is_fixed(self) -> bool {
        !self.changeable || self.never_changes
    }
}

/// Features by the kernel's name for them: `rx-gro`, `tx-tcp-segmentation`, ...
pub type Features = BTreeMap<String, Feature>;

/// What came of a change of features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureChanges {
    /// Features that are not as they were asked to be, with what was asked.
    pub refused: BTreeMap<String, bool>,
    /// Features that are not as they were, with what they are now: besides the ones named, those
    /// that depend on them.
    pub changed: BTreeMap<String, bool>,
    /// What the kernel remarked.
    pub warning: Option<String>,
}

impl Ethtool {
    /// The features of the device with this index: all that the kernel has a name for.
    pub fn features(&mut self, ifindex: u32) -> Result<Features> {
        let reply = self.family.request(&Self::command(FEATURES_GET, ifindex))?;
        decode(generic::only_message(&reply)?)
    }

    /// Turns features of the device with this index on or off, by the kernel's name for them.
    ///
    /// It is not an error if the device does not obey: [`FeatureChanges::refused`] tells.
    /// `EOPNOTSUPP` if the kernel has no feature of that name, and `EINVAL` if it is one that
    /// never changes.
    pub fn set_features<N: AsRef<str>>(
        &mut self,
        ifindex: u32,
        changes: &[(N, bool)],
    ) -> Result<FeatureChanges> {
        let mut places = Places::default();
        let request = Self::command(FEATURES_SET, ifindex);
        let request = bitset::encode(request, WANTED, changes, &mut places);
        let reply = self.change(&request, &places)?;
        let mut outcome = decode_changes(generic::only_message(&reply)?)?;
        outcome.warning = reply.warning;
        Ok(outcome)
    }
}

pub(crate) fn decode(attributes: Attributes<'_>) -> Result<Features> {
    let mut sets = BTreeMap::new();
    for attribute in attributes {
        let attribute = attribute?;
        if let HW | WANTED | ACTIVE | NOCHANGE = attribute.kind {
            sets.insert(attribute.kind, bitset::decode(attribute)?);
        }
    }
    // The only set that lists every feature; the others list what is set.
    let all = sets.get(&HW).ok_or_else(|| Error::malformed("no features in it"))?;
    let is_in =
        |set: u16, name: &String| sets.get(&set).and_then(|set| set.get(name)) == Some(&true);
    let feature = |(name, &changeable): (&String, &bool)| {
        let feature = Feature {
            active: is_in(ACTIVE, name),
            wanted: is_in(WANTED, name),
            changeable,
            never_changes: is_in(NOCHANGE, name),
        };
        (name.clone(), feature)
    };
    Ok(all.iter().map(feature).collect())
}

pub(crate) fn decode_changes(attributes: Attributes<'_>) -> Result<FeatureChanges> {
    let mut changes = FeatureChanges::default();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            WANTED => changes.refused = bitset::decode(attribute)?,
            ACTIVE => changes.changed = bitset::decode(attribute)?,
            _ => {}
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::request::Request;

    const BITS: u16 = 3;

    /// A set as the kernel sends it; without values it is a list (`ETHTOOL_A_BITSET_NOMASK`).
    fn set(message: Request, attribute: u16, bits: &[(&str, Option<bool>)]) -> Request {
        message.nest(attribute, |set| {
            let is_list = bits.iter().all(|(_, value)| value.is_none());
            let set = if is_list { set.bytes(1, &[]) } else { set };
            set.nest(BITS, |nest| {
                bits.iter().fold(nest, |nest, (name, value)| {
                    nest.nest(1, |bit| {
                        let bit = bit.string(2, name);
                        if *value == Some(true) { bit.bytes(3, &[]) } else { bit }
                    })
                })
            })
        })
    }

    fn attributes(message: &Request) -> Attributes<'_> {
        Attributes::new(message.as_bytes())
    }

    #[test]
    fn every_feature_has_one_of_the_states() {
        let hw = [("a", true), ("b", true), ("c", false), ("d", true), ("e", true)];
        let message = set(Request::default(), HW, &hw.map(|(name, value)| (name, Some(value))));
        let message = set(message, WANTED, &[("a", None), ("e", None)]);
        let message = set(message, ACTIVE, &[("a", None), ("b", None), ("c", None)]);
        let message = set(message, NOCHANGE, &[("d", None)]);
        let features = decode(attributes(&message)).unwrap();
        let states: Vec<_> =
            features.values().map(|feature| (feature.active, feature.state())).collect();
        assert_eq!(
            states,
            [
                (true, FeatureState::AsWanted),
                (true, FeatureState::Requested),
                (true, FeatureState::Fixed),
                (false, FeatureState::Never),
                (false, FeatureState::Requested),
            ]
        );
    }

    #[test]
    fn a_refused_feature_is_told_from_a_changed_one() {
        let message = set(Request::default(), WANTED, &[("rx-lro", Some(true))]);
        let message = set(message, ACTIVE, &[("tx-tso", Some(false)), ("tx-sg", Some(false))]);
        let changes = decode_changes(attributes(&message)).unwrap();
        assert_eq!(changes.refused, [("rx-lro".to_owned(), true)].into());
        let changed = [("tx-tso".to_owned(), false), ("tx-sg".to_owned(), false)];
        assert_eq!(changes.changed, changed.into());
    }

    #[test]
    fn a_reply_without_the_list_of_all_is_malformed() {
        let message = set(Request::default(), ACTIVE, &[("a", None)]);
        assert_eq!(decode(attributes(&message)).unwrap_err().errno, libc::EBADMSG);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = decode(Attributes::new(&bytes));
            let _ = decode_changes(Attributes::new(&bytes));
        }

        #[test]
        fn a_cut_reply_is_malformed_or_shorter(cut in 1_usize..60) {
            let message = set(Request::default(), HW, &[("a", Some(true)), ("b", Some(false))]);
            let bytes = message.as_bytes();
            if let Some(cut) = bytes.get(..cut).filter(|cut| cut.len() < bytes.len()) {
                prop_assert_eq!(decode(Attributes::new(cut)).unwrap_err().errno, libc::EBADMSG);
            }
        }
    }
}
