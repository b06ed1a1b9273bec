//! Where frames can be counted, and what that costs the traffic of an interface, as data with its
//! measurement.

use super::{Nic, preflight};
use crate::netlink::link::XdpMode;

/// Where the programs of an attachment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// At XDP, and at TC.
    Xdp(XdpMode),
    /// At TC alone.
    Tc,
}

impl Mode {
    /// The mode in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp(mode) => mode.name(),
            Self::Tc => "tc",
        }
    }

    /// The `XDP_FLAGS_*_MODE` bit of it (linux/if_link.h); 0 at TC alone.
    pub const fn flag(self) -> u32 {
        match self {
            Self::Xdp(mode) => mode.flag(),
            Self::Tc => 0,
        }
    }

    /// The mode with this [`flag`](Self::flag).
    pub fn of_flag(flag: u32) -> Self {
        XdpMode::ALL.into_iter().find(|mode| mode.flag() == flag).map_or(Self::Tc, Self::Xdp)
    }

    /// How XDP runs, if it does.
    pub const fn xdp(self) -> Option<XdpMode> {
        match self {
            Self::Xdp(mode) => Some(mode),
            Self::Tc => None,
        }
    }
}

/// What programs cost the bulk traffic of one kind of interface.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The kind, as `ip -d link` has it.
    pub kind: &'static str,
    /// What costs it less than native and generic XDP do, and how much they cost: rates are ratios
    /// to nothing attached, bulk TCP with segmentation offload.
    pub why: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
}

/// Kinds on which XDP costs more than what it counts is worth, unless that is asked for.
pub const COSTS: &[Cost] = &[Cost {
    kind: "veth",
    why: "bulk TCP through a veth keeps its rate with TC programs alone, but only 0.80 of it with \
          generic and 0.35 with native XDP, which disables segmentation offload on its peer",
    source: "docs/performance.md, bench modes (AMD EPYC, Linux 6.18, medians of 7 rounds); \
             drivers/net/veth.c veth_xdp_set",
}];

/// Why TC programs alone cost the traffic of `nic` less than XDP would, if they do.
///
/// Generic XDP is never the cheaper one: with it the kernel does not merge packets
/// (`netif_elide_gro`, include/linux/netdevice.h) and makes those that are merged linear
/// (net/core/dev.c netif_receive_generic_xdp).
pub fn why_tc_alone(nic: &Nic) -> Option<String> {
    if let Some(cost) = COSTS.iter().find(|cost| nic.kind() == Some(cost.kind)) {
        return Some(cost.why.to_owned());
    }
    (!preflight::may_run_natively(nic)).then(|| {
        format!(
            "{} has no native XDP, and with generic XDP the kernel merges no packets (GRO)",
            nic.name()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_its_mode() {
        for mode in XdpMode::ALL.map(Mode::Xdp).into_iter().chain([Mode::Tc]) {
            assert_eq!(Mode::of_flag(mode.flag()), mode);
        }
    }

    #[test]
    fn every_row_has_its_measurement() {
        assert!(COSTS.iter().all(|cost| !cost.why.is_empty() && !cost.source.is_empty()));
    }
}
