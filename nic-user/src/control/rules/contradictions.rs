//! What keeps what from working, and what a change brings with it.

use super::Names;
use crate::nic::setting::{Group, Key, Settings, Value};

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

/// Two requests that cannot both be met.
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

/// What contradicts what, besides features that need others
/// ([`DEPENDENCIES`](super::DEPENDENCIES)). Wanting both is refused; wanting one while the device
/// has the other is told.
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
        what: "merged packets cannot be forwarded as they were",
        source: "Documentation/networking/netdev-features.rst",
    },
];
