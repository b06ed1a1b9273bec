//! What depends on what, as data with its source: the order of writing, what a write changes
//! besides, what contradicts what, and what is interrupted.

use serde::{Deserialize, Serialize};

use crate::{
    netlink::link::XdpMode,
    nic::{
        Nic,
        preflight::{self, MERGING},
        setting::{Group, Key, Settings, Value},
    },
};

use super::wanted::{Desired, Origin, Request, Wanted};

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

/// When a row of [`ORDER`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// When there will be fewer queues.
    FewerQueues,
}

/// What is written together, and why there.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// What is written.
    pub names: Names,
    /// When it is written here, and not further down.
    pub when: When,
    /// Why it comes after those above.
    pub why: &'static str,
    /// Where that is from.
    pub source: &'static str,
}

const fn stage(names: Names, why: &'static str, source: &'static str) -> Stage {
    Stage { names, when: When::Always, why, source }
}

const ADAPTIVE: &[&str] = &["adaptive-rx", "adaptive-tx", "cqe-mode-rx", "cqe-mode-tx"];
const OF_ALL_NAPIS: &[&str] = &["gro-flush-timeout", "defer-hard-irqs", "threaded"];
const GSO_SIZE: &str = "gso-max-size";
const GRO_SIZE: &str = "gro-max-size";
const GSO_IPV4_SIZE: &str = "gso-ipv4-max-size";
const GRO_IPV4_SIZE: &str = "gro-ipv4-max-size";

/// The order of writing: a setting belongs to the first row that has it, and a row is one write.
pub const ORDER: &[Stage] = &[
    stage(
        Names::all(Group::PrivateFlag),
        "first: they change what the other settings are and can be",
        "drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c set_pflag_rx_striding_rq",
    ),
    Stage {
        names: Names::all(Group::Rss),
        when: When::FewerQueues,
        why: "before channels, when they get fewer: the table may not name queues that go",
        source: "net/ethtool/common.c ethtool_get_max_rxfh_channel",
    },
    stage(
        Names::all(Group::Channels),
        "before rings and everything that is per queue: it makes the queues",
        "net/ethtool/channels.c; drivers' set_channels allocate rings anew",
    ),
    stage(
        Names::all(Group::Rss),
        "after channels: the table may name only queues that there are",
        "net/ethtool/rss.c, net/ethtool/ioctl.c ethtool_set_rxfh",
    ),
    stage(
        Names::of(Group::Feature, MERGING),
        "LRO and hardware GRO before what they keep from working: split headers, and XDP, which \
         is attached after all settings",
        "drivers/net/virtio_net.c virtnet_xdp_set; net/core/dev.c netdev_fix_features",
    ),
    stage(
        Names::of(Group::Link, &["mtu"]),
        "before rings: the size of their buffers follows from it",
        "drivers/net/ethernet/intel/igb/igb_main.c igb_change_mtu",
    ),
    stage(
        Names::all(Group::Ring),
        "all in one write, so that tcp-data-split and hds-thresh are judged together",
        "net/ethtool/rings.c ethnl_set_rings",
    ),
    stage(
        Names::all(Group::Feature),
        "after rings: hardware GRO and its like ask what they are",
        "net/core/dev.c netdev_fix_features",
    ),
    stage(
        Names::of(Group::Coalesce, ADAPTIVE),
        "before the times and counts: a change of mode resets them, or forbids to change them",
        "net/ethtool/coalesce.c ethnl_set_coalesce; \
         drivers/net/ethernet/intel/ice/ice_ethtool.c ice_set_rc_coalesce",
    ),
    stage(
        Names::all(Group::Coalesce),
        "after the modes",
        "net/ethtool/coalesce.c ethnl_set_coalesce",
    ),
    stage(
        Names::of(Group::Link, &[GSO_SIZE, GRO_SIZE, "gso-max-segs"]),
        "before the sizes for IPv4: up to 65536 they overwrite those",
        "net/core/dev.h netif_set_gso_max_size, netif_set_gro_max_size",
    ),
    stage(
        Names::of(Group::Link, &[GSO_IPV4_SIZE, GRO_IPV4_SIZE]),
        "after the sizes that overwrite them",
        "net/core/dev.h netif_set_gso_max_size, netif_set_gro_max_size",
    ),
    stage(
        Names::all(Group::Copybreak),
        "it depends on nothing but the MTU",
        "drivers' set_tunable",
    ),
    stage(
        Names::all(Group::Pause),
        "late: it negotiates with the other side, and the link may be down after it",
        "net/ethtool/pause.c",
    ),
    stage(
        Names::of(Group::Napi, OF_ALL_NAPIS),
        "per queue: after channels; of all instances: before those of single ones",
        "net/core/dev.h netdev_set_gro_flush_timeout, netdev_set_defer_hard_irqs (6.13)",
    ),
    stage(
        Names::all(Group::Napi),
        "of single instances: after what overwrites them",
        "net/core/netdev-genl.c netdev_nl_napi_set_doit",
    ),
    stage(Names::all(Group::Rps), "per queue: after channels", "net/core/net-sysfs.c"),
    stage(Names::all(Group::Xps), "per queue: after channels", "net/core/net-sysfs.c"),
    stage(
        Names::all(Group::Irq),
        "last: rings and channels request interrupts anew",
        "kernel/irq/proc.c",
    ),
    stage(Names::all(Group::Link), "what else there is", "net/core/rtnetlink.c do_setlink"),
];

/// Where in [`ORDER`] a setting is written.
pub fn stage_of(key: &Key, fewer_queues: bool) -> usize {
    let counts = |stage: &Stage| stage.when == When::Always || fewer_queues;
    ORDER.iter().position(|stage| counts(stage) && stage.names.has(key)).unwrap_or(ORDER.len())
}

/// What a write changes besides what it names.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    /// A change of one of these ...
    pub of: Names,
    /// ... may change these.
    pub disturbs: Names,
    /// Where that is from.
    pub source: &'static str,
}

/// What writes change besides what they name. It is written to the journal, so that it is given
/// back too.
pub const DISTURBANCES: &[Disturbance] = &[
    Disturbance {
        of: Names::all(Group::Channels),
        disturbs: Names::all(Group::Rss),
        source: "drivers spread flows over the new queues; net/ethtool/channels.c",
    },
    Disturbance {
        of: Names::all(Group::Channels),
        disturbs: Names::all(Group::Channels),
        source: "drivers that couple counts, drivers/net/ethernet/broadcom/bnxt",
    },
    Disturbance {
        of: Names::all(Group::Channels),
        disturbs: Names::all(Group::Rps),
        source: "net/core/net-sysfs.c net_rx_queue_update_kobjects",
    },
    Disturbance {
        of: Names::all(Group::Channels),
        disturbs: Names::all(Group::Xps),
        source: "net/core/dev.c netif_reset_xps_queues_gt",
    },
    Disturbance {
        of: Names::all(Group::PrivateFlag),
        disturbs: Names::all(Group::Ring),
        source: "drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c set_pflag_rx_striding_rq",
    },
    Disturbance {
        of: Names::all(Group::PrivateFlag),
        disturbs: Names::all(Group::Coalesce),
        source: "drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c set_pflag_rx_cqe_based_moder",
    },
    Disturbance {
        of: Names::of(Group::Coalesce, ADAPTIVE),
        disturbs: Names::all(Group::Coalesce),
        source: "net/ethtool/coalesce.c ethnl_set_coalesce",
    },
    Disturbance {
        of: Names::of(Group::Napi, OF_ALL_NAPIS),
        disturbs: Names::but(Group::Napi, OF_ALL_NAPIS),
        source: "net/core/dev.h netdev_set_gro_flush_timeout, netdev_set_defer_hard_irqs (6.13)",
    },
    Disturbance {
        of: Names::of(Group::Link, &[GSO_SIZE]),
        disturbs: Names::of(Group::Link, &[GSO_IPV4_SIZE]),
        source: "net/core/dev.h netif_set_gso_max_size",
    },
    Disturbance {
        of: Names::of(Group::Link, &[GRO_SIZE]),
        disturbs: Names::of(Group::Link, &[GRO_IPV4_SIZE]),
        source: "net/core/dev.h netif_set_gro_max_size",
    },
];

/// `GSO_LEGACY_MAX_SIZE`, `GRO_LEGACY_MAX_SIZE`: up to this, a size also becomes that for IPv4.
const LEGACY_MAX_SIZE: u64 = 65536;

/// The setting that writing `to` to `key` overwrites, although nobody named it
/// (`netif_set_gso_max_size`, `netif_set_gro_max_size`, net/core/dev.h).
pub fn overwritten_by(key: &Key, to: &Value) -> Option<Key> {
    let overwritten = match (key.group, key.name.as_str()) {
        (Group::Link, GSO_SIZE) => GSO_IPV4_SIZE,
        (Group::Link, GRO_SIZE) => GRO_IPV4_SIZE,
        _ => return None,
    };
    matches!(to, Value::Number(size) if *size <= LEGACY_MAX_SIZE)
        .then(|| Key::new(Group::Link, overwritten))
}

/// A value, or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Switched on, or a number above zero.
    On,
    /// Switched off, or zero.
    Off,
    /// Whatever it is.
    Any,
}

impl State {
    /// Whether `value` is so. Text is neither on nor off, unless it says so.
    pub fn is(self, value: &Value) -> bool {
        let on = match value {
            Value::Number(number) => Some(*number > 0),
            Value::Switch(on) => Some(*on),
            Value::Text(text) => match text.as_str() {
                "on" | "enabled" => Some(true),
                "off" | "disabled" => Some(false),
                _ => None,
            },
        };
        match self {
            Self::On => on == Some(true),
            Self::Off => on == Some(false),
            Self::Any => true,
        }
    }
}

/// Two wishes that can not both come true.
#[derive(Clone, Copy, Debug)]
pub struct Contradiction {
    /// One of these being so ...
    pub these: Names,
    /// Being how.
    pub are: State,
    /// ... does nothing, or is undone, with one of these being so.
    pub with: Names,
    /// Being how.
    pub being: State,
    /// Where that is from.
    pub source: &'static str,
}

const fn needs(
    these: &'static [&'static str],
    with: &'static [&'static str],
    source: &'static str,
) -> Contradiction {
    Contradiction {
        these: Names::of(Group::Feature, these),
        are: State::On,
        with: Names::of(Group::Feature, with),
        being: State::Off,
        source,
    }
}

/// What contradicts what. Wanting both is refused; wanting one while the device has the other is
/// told.
pub const CONTRADICTIONS: &[Contradiction] = &[
    Contradiction {
        these: Names::of(Group::Coalesce, &["rx-usecs", "rx-frames"]),
        are: State::Any,
        with: Names::of(Group::Coalesce, &["adaptive-rx"]),
        being: State::On,
        source: "include/linux/dim.h: adaptive moderation sets them by itself; \
                 drivers/net/ethernet/intel/ice/ice_ethtool.c ice_set_rc_coalesce refuses",
    },
    Contradiction {
        these: Names::of(Group::Coalesce, &["tx-usecs", "tx-frames"]),
        are: State::Any,
        with: Names::of(Group::Coalesce, &["adaptive-tx"]),
        being: State::On,
        source: "include/linux/dim.h: adaptive moderation sets them by itself",
    },
    Contradiction {
        these: Names::of(Group::Ring, &["hds-thresh"]),
        are: State::On,
        with: Names::of(Group::Ring, &["tcp-data-split"]),
        being: State::Off,
        source: "Documentation/networking/ethtool-netlink.rst: the threshold of tcp-data-split",
    },
    needs(
        &[
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-udp-segmentation",
            "tx-generic-segmentation",
        ],
        &["tx-scatter-gather"],
        "net/core/dev.c netdev_fix_features",
    ),
    needs(&["rx-gro-hw"], &["rx-checksum"], "net/core/dev.c netdev_fix_features"),
    Contradiction {
        these: Names::of(Group::Feature, &["rx-lro"]),
        are: State::On,
        with: Names::of(Group::Feature, &["rx-gro-hw"]),
        being: State::On,
        source: "net/core/dev.c netdev_fix_features",
    },
    Contradiction {
        these: Names::of(Group::Feature, MERGING),
        are: State::On,
        with: Names::of(Group::Feature, &["rx-fcs"]),
        being: State::On,
        source: "net/core/dev.c netdev_fix_features",
    },
];

/// Whether a setting does nothing as long as others are what they are: something contradicts it.
pub fn is_without_effect(key: &Key, settings: &Settings) -> bool {
    let is = |names: Names, state: State| {
        settings.iter().any(|(key, setting)| names.has(key) && state.is(&setting.value))
    };
    let value = settings.get(key).map(|setting| &setting.value);
    CONTRADICTIONS.iter().any(|rule| {
        rule.these.has(key)
            && value.is_some_and(|value| rule.are.is(value))
            && is(rule.with, rule.being)
    })
}

/// What a change brings with it that a user may not expect.
#[derive(Clone, Copy, Debug)]
pub struct Warning {
    /// Setting one of these ...
    pub of: Names,
    /// ... to this.
    pub to: State,
    /// What happens.
    pub what: &'static str,
    /// Where that is from.
    pub source: &'static str,
}

/// What changes bring with them.
pub const WARNINGS: &[Warning] = &[
    Warning {
        of: Names::of(
            Group::Feature,
            &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"],
        ),
        to: State::Off,
        what: "TSO and UDP segmentation go off, and before Linux 6.11 sockets that send with \
               UDP_SEGMENT (QUIC) get EIO",
        source: "net/core/dev.c netdev_fix_features; net/ipv4/udp.c udp_send_skb; 10154dbded6d; \
                 envoy#21200, quic-go#3911, neqo#3032, quinn#2399",
    },
    Warning {
        of: Names::of(Group::Feature, &["rx-gro-list"]),
        to: State::On,
        what: "forwarding by lists has had wrong checksums and lockups behind NAT",
        source: "openwrt PR#19190, rtpengine#1792",
    },
    Warning {
        of: Names::of(Group::Feature, &["rx-lro"]),
        to: State::On,
        what: "packets that were merged can not be forwarded as they were",
        source: "Documentation/networking/netdev-features.rst",
    },
];

/// What a change interrupts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Interruption {
    /// Queues are stopped and started: packets that are in them are lost.
    Queues,
    /// The link goes down and comes back, which the other side sees and which can take seconds.
    Link,
}

impl Interruption {
    /// A sentence for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Queues => "restarts queues: packets in them are lost",
            Self::Link => "the link goes down and comes back",
        }
    }
}

struct InterruptionRow {
    /// Drivers as `ethtool -i` shows them; none: all that have no row above.
    drivers: &'static [&'static str],
    of: Names,
    what: Option<Interruption>,
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for readers"))]
    source: &'static str,
}

const INTEL_DOWN: &[&str] = &["igb", "igbvf", "igc", "ixgbe", "ixgbevf", "e1000", "e1000e"];
const INTEL_SOURCE: &str = "drivers/net/ethernet/intel: *_set_ringparam, *_set_channels, *_change_mtu call *_down, which \
     turns the carrier off (igb_down, e1000e_down, ixgbe_down)";
const VIRTUAL: &[&str] = &["veth", "tun", "ifb", "vxlan", "macvlan", "bridge", "netdevsim"];
const VIRTUAL_SOURCE: &str = "software devices: no ring is made anew under traffic";

const fn interrupts(
    drivers: &'static [&'static str],
    of: Names,
    what: Option<Interruption>,
    source: &'static str,
) -> InterruptionRow {
    InterruptionRow { drivers, of, what, source }
}

const MTU: Names = Names::of(Group::Link, &["mtu"]);

/// The first row that fits counts.
const INTERRUPTIONS: &[InterruptionRow] = &[
    interrupts(VIRTUAL, Names::all(Group::Ring), None, VIRTUAL_SOURCE),
    interrupts(VIRTUAL, Names::all(Group::Channels), None, VIRTUAL_SOURCE),
    interrupts(VIRTUAL, MTU, None, VIRTUAL_SOURCE),
    interrupts(
        &["virtio_net"],
        Names::all(Group::Channels),
        None,
        "drivers/net/virtio_net.c virtnet_set_channels tells the device a number",
    ),
    interrupts(&["virtio_net"], MTU, None, "drivers/net/virtio_net.c has no ndo_change_mtu"),
    interrupts(INTEL_DOWN, Names::all(Group::Ring), Some(Interruption::Link), INTEL_SOURCE),
    interrupts(INTEL_DOWN, Names::all(Group::Channels), Some(Interruption::Link), INTEL_SOURCE),
    interrupts(INTEL_DOWN, MTU, Some(Interruption::Link), INTEL_SOURCE),
    interrupts(
        &["tg3"],
        Names::all(Group::Ring),
        Some(Interruption::Link),
        "drivers/net/ethernet/broadcom/tg3.c tg3_set_ringparam; systemd#28696: 3 s without carrier",
    ),
    interrupts(
        &[],
        Names::all(Group::Pause),
        Some(Interruption::Link),
        "Documentation/networking/ethtool-netlink.rst: flow control is negotiated",
    ),
    interrupts(
        &[],
        Names::all(Group::Ring),
        Some(Interruption::Queues),
        "most drivers free and allocate their rings",
    ),
    interrupts(
        &[],
        Names::all(Group::Channels),
        Some(Interruption::Queues),
        "most drivers free and allocate their rings",
    ),
    interrupts(
        &[],
        Names::all(Group::PrivateFlag),
        Some(Interruption::Queues),
        "most flags that matter make rings anew (mlx5, ice, i40e)",
    ),
    interrupts(
        &[],
        MTU,
        Some(Interruption::Queues),
        "most drivers allocate buffers of another size",
    ),
    interrupts(
        &[],
        Names::of(Group::Feature, MERGING),
        Some(Interruption::Queues),
        "drivers reconfigure their rings (mlx5, bnxt, vmxnet3, ixgbe)",
    ),
];

/// What changing `key` interrupts on a device of this driver, as far as that is known.
pub fn interruption(driver: Option<&str>, key: &Key) -> Option<Interruption> {
    let fits = |row: &&InterruptionRow| {
        row.of.has(key)
            && (row.drivers.is_empty() || driver.is_some_and(|name| row.drivers.contains(&name)))
    };
    INTERRUPTIONS.iter().find(fits)?.what
}

/// What an XDP program in this mode needs of the settings of `nic` and does not have: wishes to be
/// planned together with those of a user.
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
    use super::*;
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
        stage_of(&key(first), false) < stage_of(&key(then), false)
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
            stage_of(&key("ring.tcp-data-split"), false),
            stage_of(&key("ring.hds-thresh"), false)
        );
    }

    #[test]
    fn the_table_of_flows_goes_before_queues_do() {
        assert!(stage_of(&key("rss.indirection"), true) < stage_of(&key("channels.rx"), true));
    }

    #[test]
    fn every_group_has_its_place_and_every_row_its_source() {
        for group in Group::ALL {
            assert!(stage_of(&Key::new(group, "anything"), false) < ORDER.len(), "{group}");
        }
        assert!(ORDER.iter().all(|row| !row.why.is_empty() && !row.source.is_empty()));
        assert!(DISTURBANCES.iter().all(|row| !row.source.is_empty()));
        assert!(CONTRADICTIONS.iter().all(|row| !row.source.is_empty()));
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
