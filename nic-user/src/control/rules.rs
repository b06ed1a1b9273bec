//! What depends on what, as data with its source: the order of writing, what a write changes
//! besides, what contradicts what, and what is interrupted.

mod contradictions;
mod features;
mod interruptions;
mod order;

pub use self::{
    contradictions::{CONTRADICTIONS, Contradiction, State, WARNINGS, Warning, is_without_effect},
    features::{Being, DEPENDENCIES, Dependency, Fixed, fix},
    interruptions::{Interruption, interruption},
    order::{DISTURBANCES, Disturbance, ORDER, Stage, When, overwritten_by, stage_of},
};
use super::wanted::{Desired, Origin, Request, Wanted};
use crate::{
    netlink::link::XdpMode,
    nic::{
        Nic,
        preflight::{self, MERGING},
        setting::{Group, Key},
    },
};

/// Some settings of one group.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The group.
    pub group: Group,
    /// The names; none: all of the group.
    pub names: &'static [&'static str],
    /// Whether it is all of the group but those.
    pub inverted: bool,
}

impl Names {
    const fn all(group: Group) -> Self {
        Self { group, names: &[], inverted: false }
    }

    const fn of(group: Group, names: &'static [&'static str]) -> Self {
        Self { group, names, inverted: false }
    }

    const fn but(group: Group, names: &'static [&'static str]) -> Self {
        Self { group, names, inverted: true }
    }

    /// Whether `key` is one of them.
    pub fn has(&self, key: &Key) -> bool {
        let is_listed = || self.names.contains(&key.name.as_str()) != self.inverted;
        self.group == key.group && (self.names.is_empty() || is_listed())
    }
}

/// What an XDP program in this mode needs of the settings of `nic` and does not have: requests to
/// be planned together with those of a user.
pub fn needs_of_xdp(nic: &Nic, mode: XdpMode) -> Desired {
    let findings = preflight::xdp_findings(nic, mode).into_iter();
    findings
        .flat_map(|finding| finding.remedy)
        .map(|(key, value)| {
            let wanted = Wanted::Value(value);
            (key, Request { wanted, origin: Origin::Xdp, alias: None })
        })
        .collect()
}

/// Features that are off as long as an XDP program is attached: for a generic one the kernel turns
/// them off (net/core/dev.c generic_xdp_install), for a native one most drivers want it.
pub fn is_off_with_xdp(key: &Key) -> bool {
    Names::of(Group::Feature, MERGING).has(key)
}

#[cfg(test)]
mod tests {
    use super::{interruptions::INTERRUPTIONS, *};
    use crate::netlink::{
        ethtool::{
            channels::{ChannelCounts, Channels},
            features::Feature,
        },
        ethtool_ioctl::DriverInfo,
    };

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    fn before(first: &str, then: &str) -> bool {
        stage_of(&key(first), &false.into(), false) < stage_of(&key(then), &false.into(), false)
    }

    #[test]
    fn what_depends_comes_later() {
        assert!(before("channels.combined", "ring.rx"));
        assert!(before("feature.rx-lro", "ring.tcp-data-split"));
        assert!(before("ring.rx", "feature.rx-gro"));
        assert!(before("coalesce.adaptive-rx", "coalesce.rx-usecs"));
        assert!(before("link.gso-max-size", "link.gso-ipv4-max-size"));
        assert!(before("channels.rx", "xps.tx-0"));
        assert!(before("napi.threaded", "napi.8193/threaded"));
        assert!(before("channels.rx", "rss.indirection"));
        assert_eq!(
            stage_of(&key("ring.tcp-data-split"), &true.into(), false),
            stage_of(&key("ring.hds-thresh"), &true.into(), false)
        );
    }

    #[test]
    fn what_needs_others_comes_on_with_them() {
        let stage = |name, on: bool| stage_of(&key(name), &on.into(), false);
        assert_eq!(stage("feature.rx-gro-hw", true), stage("feature.rx-checksum", true));
        assert!(stage("feature.rx-gro-hw", false) < stage("feature.rx-checksum", true));
    }

    #[test]
    fn the_table_of_flows_goes_before_queues_do() {
        assert!(
            stage_of(&key("rss.indirection"), &2_u64.into(), true)
                < stage_of(&key("channels.rx"), &2_u64.into(), true)
        );
    }

    #[test]
    fn every_group_has_its_place_and_every_row_its_source() {
        for group in Group::ALL {
            assert!(
                stage_of(&Key::new(group, "anything"), &true.into(), false) < ORDER.len(),
                "{group}"
            );
        }
        assert!(ORDER.iter().all(|row| !row.why.is_empty() && !row.source.is_empty()));
        assert!(DISTURBANCES.iter().all(|row| !row.source.is_empty()));
        assert!(CONTRADICTIONS.iter().all(|row| !row.source.is_empty()));
        assert!(DEPENDENCIES.iter().all(|row| !row.source.is_empty() && !row.needs.is_empty()));
        assert!(WARNINGS.iter().all(|row| !row.source.is_empty()));
        assert!(INTERRUPTIONS.iter().all(|row| !row.source.is_empty()));
    }

    #[test]
    fn interruptions_by_driver() {
        let of = |driver, text| interruption(driver, &key(text));
        assert_eq!(of(Some("igb"), "ring.rx"), Some(Interruption::Link));
        assert_eq!(of(Some("mlx5_core"), "ring.rx"), Some(Interruption::Queues));
        assert_eq!(of(None, "channels.rx"), Some(Interruption::Queues));
        assert_eq!(of(Some("veth"), "channels.rx"), None);
        assert_eq!(of(Some("igb"), "coalesce.rx-usecs"), None);
    }

    #[test]
    fn small_sizes_overwrite_those_for_ipv4() {
        let gso = key("link.gso-max-size");
        assert_eq!(overwritten_by(&gso, &65536_u64.into()), Some(key("link.gso-ipv4-max-size")));
        assert_eq!(overwritten_by(&gso, &65537_u64.into()), None);
        assert_eq!(overwritten_by(&key("link.mtu"), &1500_u64.into()), None);
    }

    #[test]
    fn xdp_wants_merging_off_and_half_of_the_channels() {
        let feature =
            Feature { active: true, wanted: true, changeable: true, never_changes: false };
        let counts = ChannelCounts { combined: 8, ..ChannelCounts::default() };
        let wanted = |driver: &str, mode| -> Vec<String> {
            let nic = Nic {
                driver: Some(DriverInfo { driver: driver.to_owned(), ..DriverInfo::default() }),
                features: [("rx-lro".to_owned(), feature)].into(),
                channels: Some(Channels { current: counts, max: counts }),
                ..Nic::default()
            };
            let needs = needs_of_xdp(&nic, mode).into_iter();
            needs.map(|(key, request)| format!("{key}={}", request.wanted)).collect()
        };
        assert_eq!(wanted("mlx5_core", XdpMode::Native), ["feature.rx-lro=off"]);
        assert_eq!(wanted("ena", XdpMode::Native), ["channels.combined=4"]);
        // It does without LRO by itself, and has it again afterwards.
        assert_eq!(wanted("virtio_net", XdpMode::Native), [""; 0]);
        assert_eq!(wanted("unheard-of", XdpMode::Native), ["feature.rx-lro=off"]);
        assert_eq!(wanted("ena", XdpMode::Generic), ["feature.rx-lro=off"]);
    }
}
