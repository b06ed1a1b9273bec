//! What a change interrupts, by driver.

use serde::{Deserialize, Serialize};

use super::Names;
use crate::nic::{
    preflight::MERGING,
    setting::{Group, Key},
};

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
            Self::Queues => "queues restart; packets in them are lost",
            Self::Link => "the link goes down briefly",
        }
    }
}

pub(super) struct InterruptionRow {
    /// Drivers as `ethtool -i` shows them; none: all that have no row above.
    drivers: &'static [&'static str],
    of: Names,
    what: Option<Interruption>,
    #[cfg_attr(not(test), expect(dead_code, reason = "it is for readers"))]
    pub source: &'static str,
}

const INTEL_DOWN: &[&str] = &["igb", "igbvf", "igc", "ixgbe", "ixgbevf", "e1000", "e1000e"];
const INTEL_SOURCE: &str = "drivers/net/ethernet/intel: *_set_ringparam, *_set_channels, \
                            *_change_mtu call *_down, which turns the carrier off (igb_down, \
                            e1000e_down, ixgbe_down)";
const VIRTUAL: &[&str] = &["veth", "tun", "ifb", "vxlan", "macvlan", "bridge", "netdevsim"];
const VIRTUAL_SOURCE: &str = "software devices: no rings are reallocated";

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
pub(super) const INTERRUPTIONS: &[InterruptionRow] = &[
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
        "most drivers reallocate their rings",
    ),
    interrupts(
        &[],
        Names::all(Group::Channels),
        Some(Interruption::Queues),
        "most drivers reallocate their rings",
    ),
    interrupts(
        &[],
        Names::all(Group::PrivateFlag),
        Some(Interruption::Queues),
        "most of the relevant flags reallocate rings (mlx5, ice, i40e)",
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
