//! Which features need which: what the kernel turns off by itself, whatever is asked.

use std::collections::BTreeMap;

/// A feature being on or off.
pub type Being = (&'static str, bool);

/// Features that the kernel keeps off unless others are as they need them.
#[derive(Debug)]
pub struct Dependency {
    /// These stay on only ...
    pub of: &'static [&'static str],
    /// ... with one of these combinations.
    pub needs: &'static [&'static [Being]],
    /// The drivers that it is true of, as `ethtool -i` shows them; none: all.
    pub drivers: &'static [&'static str],
    /// Where that is from.
    pub source: &'static str,
}

const CORE: &str = "net/core/dev.c netdev_fix_features";

const fn core(of: &'static [&'static str], needs: &'static [&'static [Being]]) -> Dependency {
    Dependency { of, needs, drivers: &[], source: CORE }
}

const ALL_TSO: &[&str] = &[
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
];

const ANY_CHECKSUM: &[&[Being]] = &[
    &[("tx-checksum-ip-generic", true)],
    &[("tx-checksum-ipv4", true), ("tx-checksum-ipv6", true)],
];

/// In the order in which the kernel looks: drivers first, then its own rules.
pub const DEPENDENCIES: &[Dependency] = &[
    Dependency {
        of: &["rx-lro"],
        needs: &[&[("rx-checksum", true)]],
        drivers: &["ixgbe", "qede", "bnx2x", "vmxnet3", "mlx5_core"],
        source: "ndo_fix_features: ixgbe_fix_features, qede_fix_features, bnx2x_fix_features, \
                 vmxnet3_fix_features, mlx5e_fix_features",
    },
    Dependency {
        of: &["rx-gro-hw"],
        needs: &[&[("rx-gro", true)]],
        drivers: &["bnx2x", "qede"],
        source: "ndo_fix_features: bnx2x_fix_features, qede_fix_features",
    },
    Dependency {
        of: &["tx-vlan-hw-insert"],
        needs: &[&[("rx-vlan-hw-parse", true)]],
        drivers: &["igb", "igc", "ixgbe", "r8152"],
        source: "ndo_fix_features: igb_fix_features, igc_fix_features, ixgbe_fix_features \
                 (without DCB): both or neither",
    },
    core(&["tx-checksum-ipv4", "tx-checksum-ipv6"], &[&[("tx-checksum-ip-generic", false)]]),
    core(ALL_TSO, &[&[("tx-scatter-gather", true)]]),
    core(
        &["tx-tcp-segmentation", "tx-tcp-ecn-segmentation"],
        &[&[("tx-checksum-ip-generic", true)], &[("tx-checksum-ipv4", true)]],
    ),
    core(
        &["tx-tcp6-segmentation"],
        &[&[("tx-checksum-ip-generic", true)], &[("tx-checksum-ipv6", true)]],
    ),
    core(&["tx-tcp-mangleid-segmentation"], &[&[("tx-tcp-segmentation", true)]]),
    core(
        &["tx-tcp-ecn-segmentation"],
        &[
            &[("tx-tcp-segmentation", true)],
            &[("tx-tcp6-segmentation", true)],
            &[("tx-tcp-mangleid-segmentation", true)],
        ],
    ),
    core(&["tx-generic-segmentation"], &[&[("tx-scatter-gather", true)]]),
    // Since Linux 6.11; before, sockets that use it got EIO.
    core(&["tx-udp-segmentation"], ANY_CHECKSUM),
    Dependency {
        of: &[
            "tx-gre-segmentation",
            "tx-gre-csum-segmentation",
            "tx-ipxip4-segmentation",
            "tx-ipxip6-segmentation",
            "tx-udp_tnl-segmentation",
            "tx-udp_tnl-csum-segmentation",
        ],
        needs: &[&[("tx-gso-partial", true)]],
        drivers: &["igb", "igbvf", "igc", "ixgbe", "ixgbevf"],
        source: "net/core/dev.c netdev_fix_features; gso_partial_features of the driver: \
                 IGB_GSO_PARTIAL_FEATURES, IXGBE_GSO_PARTIAL_FEATURES",
    },
    Dependency {
        of: &["tx-gre-csum-segmentation", "tx-udp_tnl-csum-segmentation"],
        needs: &[&[("tx-gso-partial", true)]],
        drivers: &["ice", "i40e"],
        source: "net/core/dev.c netdev_fix_features; gso_partial_features in ice_set_netdev_features \
                 and i40e_config_netdev",
    },
    core(&["rx-gro-hw"], &[&[("rx-checksum", true)]]),
    core(&["rx-lro", "rx-gro-hw"], &[&[("rx-fcs", false)]]),
    core(&["rx-lro"], &[&[("rx-gro-hw", false)]]),
    core(&["tls-hw-tx-offload"], ANY_CHECKSUM),
    core(&["tls-hw-rx-offload"], &[&[("rx-checksum", true)]]),
];

/// What becomes of features that are wanted so.
#[derive(Debug, Default)]
pub struct Fixed<'a> {
    /// What each is in the end.
    state: BTreeMap<&'a str, bool>,
    /// What the kernel turns off, and by which rule.
    pub lost: BTreeMap<&'a str, &'static Dependency>,
}

/// What the kernel makes of features that are wanted so, by their names.
pub fn fix<'a>(driver: Option<&str>, wanted: BTreeMap<&'a str, bool>) -> Fixed<'a> {
    let mut fixed = Fixed { state: wanted, lost: BTreeMap::new() };
    let is_of = |rule: &&Dependency| {
        rule.drivers.is_empty() || driver.is_some_and(|driver| rule.drivers.contains(&driver))
    };
    for rule in DEPENDENCIES.iter().filter(is_of) {
        // A kernel or device without the features has no such rule.
        let mut known = fixed.alternatives(rule).peekable();
        if known.peek().is_none() || known.any(|alternative| fixed.unmet(alternative).is_empty()) {
            continue;
        }
        drop(known);
        for (&name, on) in &mut fixed.state {
            if *on && rule.of.contains(&name) {
                *on = false;
                fixed.lost.insert(name, rule);
            }
        }
    }
    fixed
}

impl Fixed<'_> {
    fn alternatives(&self, rule: &'static Dependency) -> impl Iterator<Item = &'static [Being]> {
        let is_known = |alternative: &&[Being]| {
            alternative.iter().all(|(name, _)| self.state.contains_key(name))
        };
        rule.needs.iter().copied().filter(is_known)
    }

    fn unmet(&self, alternative: &[Being]) -> Vec<Being> {
        let is_unmet = |(name, on): &&Being| self.state.get(name) != Some(on);
        alternative.iter().filter(is_unmet).copied().collect()
    }

    /// What would have to be otherwise for `rule` not to turn anything off: each way to do it.
    pub fn ways_out(&self, rule: &'static Dependency) -> Vec<Vec<Being>> {
        let roots = |alternative| {
            self.unmet(alternative).into_iter().flat_map(|being| self.roots(being)).collect()
        };
        self.alternatives(rule).map(roots).collect()
    }

    /// What has to be otherwise for a feature to be so; itself, unless it was turned off, too. The
    /// rules come in order, so that this ends.
    fn roots(&self, being: Being) -> Vec<Being> {
        let rule = self.lost.get(being.0).filter(|_| being.1);
        let first = rule.and_then(|rule| self.ways_out(rule).into_iter().next());
        first.filter(|roots| !roots.is_empty()).unwrap_or_else(|| vec![being])
    }
}
