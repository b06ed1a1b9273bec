//! Offloads, and the short names that people know them by.

use super::{Named, switch, unknown};
use crate::netlink;
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool::features::{Feature, FeatureChanges, FeatureState};
use crate::nic::setting::{Access, Setting, Value};

/// ethtool's short and long names, and the kernel's that they stand for, one `*` in them standing
/// for anything (`off_flag_def` in ethtool's common.c).
const ALIASES: &[(&str, &str, &str)] = &[
    ("rx", "rx-checksumming", "rx-checksum"),
    ("tx", "tx-checksumming", "tx-checksum-*"),
    ("sg", "scatter-gather", "tx-scatter-gather*"),
    ("tso", "tcp-segmentation-offload", "tx-tcp*-segmentation"),
    ("ufo", "udp-fragmentation-offload", "tx-udp-fragmentation"),
    ("gso", "generic-segmentation-offload", "tx-generic-segmentation"),
    ("gro", "generic-receive-offload", "rx-gro"),
    ("lro", "large-receive-offload", "rx-lro"),
    ("rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"),
    ("txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"),
    ("ntuple", "ntuple-filters", "rx-ntuple-filter"),
    ("rxhash", "receive-hashing", "rx-hashing"),
];

/// The features among `known` that a user means by `name`: the one of that name, or those that
/// ethtool's `name` stands for. None if it means nothing.
pub fn named<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let alias = ALIASES.iter().find(|(short, long, _)| *short == name || *long == name);
    let is_meant = |feature: &&str| match alias {
        Some((_, _, pattern)) => matches(pattern, feature),
        None => *feature == name,
    };
    known.into_iter().filter(is_meant).collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
    }
}

pub(super) fn read(ethtool: &mut Ethtool, ifindex: u32) -> netlink::Result<Named> {
    let features = ethtool.features(ifindex)?;
    Ok(features.into_iter().map(|(name, feature)| (name, setting(feature))).collect())
}

fn setting(feature: Feature) -> Setting {
    let fixed = |by: &str| Access::Fixed { by: by.to_owned() };
    let (access, note) = match feature.state() {
        FeatureState::AsWanted => (Access::ReadWrite, None),
        FeatureState::Requested => {
            (Access::ReadWrite, Some(format!("requested {}", Value::from(feature.wanted))))
        }
        FeatureState::Fixed => (fixed("driver"), None),
        FeatureState::Never => (fixed("kernel"), None),
    };
    Setting { access, note, ..Setting::new(feature.active) }
}

pub(super) fn write(ifindex: u32, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    let mut ethtool = Ethtool::open()?;
    let features = ethtool.features(ifindex)?;
    let mut asked: Vec<(&str, bool)> = Vec::new();
    for (name, value) in changes {
        let on = switch(name, value)?;
        let names = named(name, features.keys().map(String::as_str));
        if names.is_empty() {
            return Err(unknown(name));
        }
        // Of several that a name stands for, those that the device has.
        let only = names.len() == 1;
        let can_change = |name: &&str| {
            features.get(*name).is_some_and(|feature| feature.changeable && !feature.never_changes)
        };
        asked.extend(names.into_iter().filter(|name| only || can_change(name)).map(|n| (n, on)));
    }
    outcome(&asked, ethtool.set_features(ifindex, &asked)?)
}

/// The kernel takes a change of features as a wish; here, a wish that was not granted is an error.
fn outcome(asked: &[(&str, bool)], done: FeatureChanges) -> netlink::Result<Option<String>> {
    if let Some((name, &on)) = done.refused.first_key_value() {
        let message = format!("the device did not turn it {}", Value::from(on));
        return Err(netlink::Error::new(libc::EOPNOTSUPP, message).at(name));
    }
    let others = done.changed.iter().filter(|(name, _)| !asked.iter().any(|(a, _)| a == name));
    let others: Vec<_> = others.map(|(name, &on)| format!("{name} {}", Value::from(on))).collect();
    let also = (!others.is_empty()).then(|| format!("this also turned {}", others.join(", ")));
    Ok(match (done.warning, also) {
        (Some(warning), Some(also)) => Some(format!("{warning}; {also}")),
        (warning, also) => warning.or(also),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 7] = [
        "rx-gro",
        "rx-gro-hw",
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-generic-segmentation",
        "tx-checksum-ipv4",
    ];

    #[test]
    fn names_mean_what_ethtool_means_by_them() {
        assert_eq!(named("gro", KNOWN), ["rx-gro"]);
        assert_eq!(named("rx-gro-hw", KNOWN), ["rx-gro-hw"]);
        assert_eq!(
            named("tso", KNOWN),
            ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"]
        );
        assert_eq!(named("tx-checksumming", KNOWN), ["tx-checksum-ipv4"]);
        assert_eq!(named("lro", KNOWN), Vec::<&str>::new());
    }

    #[test]
    fn a_feature_says_who_decides() {
        let free = Feature { active: true, wanted: true, changeable: true, never_changes: false };
        assert_eq!(setting(free), Setting::new(true));
        let requested = setting(Feature { active: false, ..free });
        assert_eq!(requested.note.as_deref(), Some("requested on"));
        let by = |feature| match setting(feature).access {
            Access::Fixed { by } => by,
            other => panic!("{other:?}"),
        };
        assert_eq!(by(Feature { changeable: false, ..free }), "driver");
        assert_eq!(by(Feature { never_changes: true, ..free }), "kernel");
    }

    #[test]
    fn a_wish_that_was_not_granted_is_an_error_and_a_side_effect_a_remark() {
        let changes = |refused: &[(&str, bool)], changed: &[(&str, bool)]| {
            let own = |list: &[(&str, bool)]| {
                list.iter().map(|&(name, on)| (name.to_owned(), on)).collect()
            };
            FeatureChanges { refused: own(refused), changed: own(changed), warning: None }
        };
        let asked = [("tx-checksum-ipv4", false)];
        let refused = outcome(&asked, changes(&[("rx-lro", true)], &[])).unwrap_err();
        assert_eq!(refused.attribute.as_deref(), Some("rx-lro"));
        assert!(refused.to_string().contains("did not turn it on"), "{refused}");
        let also = changes(&[], &[("tx-checksum-ipv4", false), ("tx-tcp-segmentation", false)]);
        assert_eq!(
            outcome(&asked, also),
            Ok(Some("this also turned tx-tcp-segmentation off".to_owned()))
        );
        assert_eq!(outcome(&asked, changes(&[], &[("tx-checksum-ipv4", false)])), Ok(None));
    }
}
