//! The order of writing, and what a write changes besides what it names.

use super::{Names, State};
use crate::nic::{
    preflight::MERGING,
    setting::{Group, Key, Value},
};

/// When a row of [`ORDER`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// When there will be fewer queues.
    FewerQueues,
    /// When it is switched off.
    SwitchedOff,
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
        "first: they change the other settings and their limits",
        "drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c set_pflag_rx_striding_rq",
    ),
    Stage {
        names: Names::all(Group::Rss),
        when: When::FewerQueues,
        why: "before channels, if there will be fewer: the table may not use queues that disappear",
        source: "net/ethtool/common.c ethtool_get_max_rxfh_channel",
    },
    stage(
        Names::all(Group::Channels),
        "before rings and everything per queue: it creates the queues",
        "net/ethtool/channels.c; drivers' set_channels allocate rings anew",
    ),
    stage(
        Names::all(Group::Rss),
        "after channels: the table may use only existing queues",
        "net/ethtool/rss.c, net/ethtool/ioctl.c ethtool_set_rxfh",
    ),
    Stage {
        names: Names::of(Group::Feature, MERGING),
        when: When::SwitchedOff,
        why: "LRO and hardware GRO go off before what they prevent: split headers, and XDP, which \
              is attached after all settings",
        source: "drivers/net/virtio_net.c virtnet_xdp_set; net/core/dev.c netdev_fix_features",
    },
    stage(
        Names::of(Group::Link, &["mtu"]),
        "before rings: it determines the size of their buffers",
        "drivers/net/ethernet/intel/igb/igb_main.c igb_change_mtu",
    ),
    stage(
        Names::all(Group::Ring),
        "all in one write, so that tcp-data-split and hds-thresh are checked together",
        "net/ethtool/rings.c ethnl_set_rings",
    ),
    stage(
        Names::all(Group::Feature),
        "after rings: hardware GRO depends on them; all in one write, so that features come on \
         with those they need",
        "net/core/dev.c netdev_fix_features",
    ),
    stage(
        Names::of(Group::Coalesce, ADAPTIVE),
        "before the times and counts: a mode change resets them, or forbids changing them",
        "net/ethtool/coalesce.c ethnl_set_coalesce; drivers/net/ethernet/intel/ice/ice_ethtool.c \
         ice_set_rc_coalesce",
    ),
    stage(
        Names::all(Group::Coalesce),
        "after the modes",
        "net/ethtool/coalesce.c ethnl_set_coalesce",
    ),
    stage(
        Names::of(Group::Link, &[GSO_SIZE, GRO_SIZE, "gso-max-segs"]),
        "before the sizes for IPv4: up to 65536, they overwrite those",
        "net/core/dev.h netif_set_gso_max_size, netif_set_gro_max_size",
    ),
    stage(
        Names::of(Group::Link, &[GSO_IPV4_SIZE, GRO_IPV4_SIZE]),
        "after the sizes that overwrite them",
        "net/core/dev.h netif_set_gso_max_size, netif_set_gro_max_size",
    ),
    stage(Names::all(Group::Copybreak), "it depends only on the MTU", "drivers' set_tunable"),
    stage(
        Names::all(Group::Pause),
        "late: it renegotiates with the partner, and the link may go down",
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
        "last: rings and channels request new interrupts",
        "kernel/irq/proc.c",
    ),
    stage(Names::all(Group::Link), "everything else", "net/core/rtnetlink.c do_setlink"),
];

/// Where in [`ORDER`] a setting is written that is to become `to`.
pub fn stage_of(key: &Key, to: &Value, fewer_queues: bool) -> usize {
    let counts = |stage: &Stage| match stage.when {
        When::Always => true,
        When::FewerQueues => fewer_queues,
        When::SwitchedOff => State::Off.is(to),
    };
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
