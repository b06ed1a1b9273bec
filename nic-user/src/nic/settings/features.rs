//! Offloads, by the kernel's names for them.

use super::{Named, switch};
use crate::netlink;
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool::features::{Feature, FeatureChanges, FeatureState};
use crate::nic::setting::{Access, Setting, Value};

pub(super) fn read(ethtool: &mut Ethtool, ifindex: u32) -> netlink::Result<Named> {
    let features = ethtool.features(ifindex)?;
    Ok(features.into_iter().map(|(name, feature)| (name, setting(feature))).collect())
}

fn setting(feature: Feature) -> Setting {
    let fixed = |by: &str| Access::Fixed { by: by.to_owned() };
    let (access, requested) = match feature.state() {
        FeatureState::AsWanted => (Access::ReadWrite, None),
        FeatureState::Requested => (Access::ReadWrite, Some(feature.wanted.into())),
        FeatureState::Fixed => (fixed("driver"), None),
        FeatureState::Never => (fixed("kernel"), None),
    };
    Setting { access, requested, ..Setting::new(feature.active) }
}

pub(super) fn write(ifindex: u32, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    let ask = |(name, value): &(String, Value)| match value.requested() {
        Some(on) => Ok((name.clone(), on)),
        None => Ok((name.clone(), switch(name, value)?)),
    };
    let asked = changes.iter().map(ask).collect::<netlink::Result<Vec<_>>>()?;
    let mut done = Ethtool::open()?.set_features(ifindex, &asked)?;
    // What is only to be requested may stay ungranted.
    let must_be_granted =
        |name: &String| changes.iter().any(|(n, v)| n == name && v.requested().is_none());
    done.refused.retain(|name, _| must_be_granted(name));
    outcome(&asked, done)
}

/// The kernel takes a change of features as a wish; here, a wish that was not granted is an error.
fn outcome(asked: &[(String, bool)], done: FeatureChanges) -> netlink::Result<Option<String>> {
    if let Some((name, &on)) = done.refused.first_key_value() {
        let message = format!("the device did not turn it {}", Value::from(on));
        return Err(netlink::Error::new(libc::EOPNOTSUPP, message).at(name));
    }
    let others = done.changed.iter().filter(|(name, _)| !asked.iter().any(|(a, _)| a == *name));
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

    #[test]
    fn a_feature_says_who_decides() {
        let free = Feature { active: true, wanted: true, changeable: true, never_changes: false };
        assert_eq!(setting(free), Setting::new(true));
        let requested = setting(Feature { active: false, ..free });
        assert_eq!(requested.requested, Some(true.into()));
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
        let asked = [("tx-checksum-ipv4".to_owned(), false)];
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
