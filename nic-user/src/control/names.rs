//! The names of settings that nicctl knows: for suggestions, aliases, and the schema of profiles.

use crate::nic::{
    name,
    setting::{Group, Key},
};

/// The ring setting that puts headers and data into buffers of their own.
pub const TCP_DATA_SPLIT: &str = "tcp-data-split";

/// The settings that a group can have, where they do not depend on the driver or the machine.
/// Features are the kernel's (`netdev_features_strings`, net/ethtool/common.c, and older names).
pub const fn known(group: Group) -> &'static [&'static str] {
    match group {
        Group::Ring => &[
            "rx",
            "rx-mini",
            "rx-jumbo",
            "tx",
            "rx-buf-len",
            "cqe-size",
            "tx-push",
            "rx-push",
            "tx-push-buf-len",
            TCP_DATA_SPLIT,
            "hds-thresh",
        ],
        Group::Channels => &["rx", "tx", "other", "combined"],
        Group::Coalesce => &[
            "rx-usecs",
            "rx-frames",
            "rx-usecs-irq",
            "rx-frames-irq",
            "tx-usecs",
            "tx-frames",
            "tx-usecs-irq",
            "tx-frames-irq",
            "stats-block-usecs",
            "adaptive-rx",
            "adaptive-tx",
            "pkt-rate-low",
            "rx-usecs-low",
            "rx-frames-low",
            "tx-usecs-low",
            "tx-frames-low",
            "pkt-rate-high",
            "rx-usecs-high",
            "rx-frames-high",
            "tx-usecs-high",
            "tx-frames-high",
            "sample-interval",
            "cqe-mode-rx",
            "cqe-mode-tx",
            "rx-cqe-frames",
            "rx-cqe-nsecs",
            "tx-aggr-max-bytes",
            "tx-aggr-max-frames",
            "tx-aggr-time-usecs",
        ],
        Group::Feature => FEATURES,
        Group::Copybreak => &["rx", "tx", "tx-buf-size"],
        Group::Pause => &["autoneg", "rx", "tx"],
        Group::Link => &[
            "mtu",
            "gso-max-size",
            "gro-max-size",
            "gso-ipv4-max-size",
            "gro-ipv4-max-size",
            "gso-max-segs",
        ],
        Group::PrivateFlag | Group::Rss | Group::Napi | Group::Rps | Group::Xps | Group::Irq => &[],
    }
}

const FEATURES: &[&str] = &[
    "esp-hw-offload",
    "esp-tx-csum-hw-offload",
    "fcoe-mtu",
    "highdma",
    "hsr-dup-offload",
    "hsr-fwd-offload",
    "hsr-tag-ins-offload",
    "hsr-tag-rm-offload",
    "hw-tc-offload",
    "l2-fwd-offload",
    "loopback",
    "macsec-hw-offload",
    "netns-local",
    "rx-all",
    "rx-checksum",
    "rx-fcs",
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-hashing",
    "rx-lro",
    "rx-ntuple-filter",
    "rx-udp-gro-forwarding",
    "rx-udp_tunnel-port-offload",
    "rx-vlan-filter",
    "rx-vlan-hw-parse",
    "rx-vlan-stag-filter",
    "rx-vlan-stag-hw-parse",
    "tls-hw-record",
    "tls-hw-rx-offload",
    "tls-hw-tx-offload",
    "tx-checksum-fcoe-crc",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
    "tx-checksum-sctp",
    "tx-esp-segmentation",
    "tx-fcoe-segmentation",
    "tx-generic-segmentation",
    "tx-gre-csum-segmentation",
    "tx-gre-segmentation",
    "tx-gso-list",
    "tx-gso-partial",
    "tx-gso-robust",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-nocache-copy",
    "tx-scatter-gather",
    "tx-scatter-gather-fraglist",
    "tx-sctp-segmentation",
    "tx-tcp-accecn-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tunnel-remcsum-segmentation",
    "tx-udp-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-vlan-hw-insert",
    "tx-vlan-stag-hw-insert",
    "vlan-challenged",
];

/// ethtool's own names for features: short (`ethtool -K`), long (`ethtool -k`), and the kernel's
/// that they stand for (`off_flag_def` in ethtool's common.c).
const ALIASES: &[(&str, &str, &[&str])] = &[
    ("rx", "rx-checksumming", &["rx-checksum"]),
    (
        "tx",
        "tx-checksumming",
        &[
            "tx-checksum-ipv4",
            "tx-checksum-ip-generic",
            "tx-checksum-ipv6",
            "tx-checksum-fcoe-crc",
            "tx-checksum-sctp",
        ],
    ),
    ("sg", "scatter-gather", &["tx-scatter-gather", "tx-scatter-gather-fraglist"]),
    (
        "tso",
        "tcp-segmentation-offload",
        &[
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
        ],
    ),
    ("gso", "generic-segmentation-offload", &["tx-generic-segmentation"]),
    ("gro", "generic-receive-offload", &["rx-gro"]),
    ("lro", "large-receive-offload", &["rx-lro"]),
    ("rxvlan", "rx-vlan-offload", &["rx-vlan-hw-parse"]),
    ("txvlan", "tx-vlan-offload", &["tx-vlan-hw-insert"]),
    ("ntuple", "ntuple-filters", &["rx-ntuple-filter"]),
    ("rxhash", "receive-hashing", &["rx-hashing"]),
];

/// The features that one of ethtool's names stands for: that name, and the kernel's.
pub fn alias(group: Group, name: &str) -> Option<(&'static str, &'static [&'static str])> {
    if group != Group::Feature {
        return None;
    }
    let row = ALIASES.iter().find(|(short, long, _)| name == *short || name == *long);
    row.map(|&(short, long, features)| (if name == long { long } else { short }, features))
}

/// Whether nicctl knows that there can be such a setting; always, where names depend on the
/// driver or the machine.
pub fn is_possible(key: &Key) -> bool {
    let known = known(key.group);
    known.is_empty() || known.contains(&key.name.as_str())
}

/// What `name` was most likely meant to be: a setting that is known in this group, or one of
/// `others`.
pub fn suggestion<'a>(
    group: Group,
    name: &str,
    others: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let aliases = ALIASES.iter().filter(|_| group == Group::Feature).map(|(short, ..)| *short);
    name::nearest(name, others.into_iter().chain(known(group).iter().copied()).chain(aliases))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::ethtool::{
        channels::Channel, coalesce::Coalesce, parameter::Parameter, pause::Pause, rings::Ring,
    };

    #[test]
    fn everything_that_netlink_has_is_known() {
        fn check<P: Parameter>(group: Group) {
            let mut names: Vec<_> = P::ALL.iter().map(|parameter| parameter.name()).collect();
            let mut known = known(group).to_vec();
            names.sort_unstable();
            known.sort_unstable();
            assert_eq!(known, names, "{group}");
        }
        check::<Ring>(Group::Ring);
        check::<Channel>(Group::Channels);
        check::<Coalesce>(Group::Coalesce);
        check::<Pause>(Group::Pause);
    }

    #[test]
    fn aliases_stand_for_known_features() {
        for (short, long, features) in ALIASES {
            for feature in *features {
                assert!(FEATURES.contains(feature), "{feature}");
            }
            assert_eq!(alias(Group::Feature, short), Some((*short, *features)));
            assert_eq!(alias(Group::Feature, long), Some((*long, *features)));
            assert!(!FEATURES.contains(short) && !FEATURES.contains(long));
        }
        assert_eq!(alias(Group::Ring, "rx"), None);
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        assert_eq!(suggestion(Group::Coalesce, "rx-usec", []), Some("rx-usecs"));
        assert_eq!(suggestion(Group::Feature, "tsoo", []), Some("tso"));
        assert_eq!(
            suggestion(Group::PrivateFlag, "rx_stridng", ["rx_striding"]),
            Some("rx_striding")
        );
        assert_eq!(suggestion(Group::Irq, "1", []), None);
    }

    #[test]
    fn names_of_the_driver_are_always_possible() {
        assert!(is_possible(&Key::new(Group::PrivateFlag, "anything")));
        assert!(is_possible(&Key::new(Group::Ring, "rx")));
        assert!(!is_possible(&Key::new(Group::Ring, "rxx")));
    }
}
