//! What is known about XDP in each driver, as data with its source.
//!
//! Limits are from the sources of Linux 6.12, where `source` names the function that checks
//! them. Sizes assume a `struct skb_shared_info` of 320 bytes, as on 64-bit machines.
//!
//! First kernels up to 5.3 are those of bcc's docs/kernel-versions.md, except veth's (4.14 there is
//! generic XDP). Later ones are confirmed only where a commit is cited; since 6.3 they do not
//! matter, because then the kernel itself is asked.

use std::fmt;
use std::str::FromStr;

/// A kernel release's first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion(pub u16, pub u16);

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Reads what `uname -r` prints: `6.12.9-amd64`.
impl FromStr for KernelVersion {
    type Err = String;

    fn from_str(release: &str) -> Result<Self, String> {
        let mut numbers = release
            .split(|character: char| !character.is_ascii_digit())
            .map_while(|number| number.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => Ok(Self(major, minor)),
            _ => Err(format!("kernel release {release:?} does not start with two numbers")),
        }
    }
}

/// The largest MTU at which a driver takes a program that reads single buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuLimit {
    /// It does not look at the MTU.
    None,
    /// This many bytes.
    Bytes(u32),
    /// What is left of a memory page after headroom, headers and `skb_shared_info`: this many
    /// bytes.
    PageLess(u32),
}

impl MtuLimit {
    /// The limit in bytes for a page size, if there is one.
    pub const fn bytes(self, page_size: u32) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::PageLess(bytes) => Some(page_size.saturating_sub(bytes)),
        }
    }
}

/// What a driver wants of its queues before it runs XDP natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRule {
    /// Nothing that is known.
    None,
    /// Its queues are combined receive and transmit channels.
    CombinedOnly,
    /// At most half of the possible combined channels in use: XDP needs the others.
    HalfOfCombined,
    /// As many receive as transmit queues, and at most half of the possible ones.
    HalfOfEach,
    /// One combined channel a CPU beyond those in use; with fewer it was refused before 5.13,
    /// and sending from XDP is slow since.
    OneMorePerCpu,
    /// No more CPUs than it has queues to share among them.
    CpusAtMost {
        /// Possible CPUs.
        cpus: u32,
        /// Since this kernel; it was half as many before.
        since: KernelVersion,
    },
}

/// What is known about one driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverFacts {
    /// Its name, as `ethtool -i` shows it.
    pub driver: &'static str,
    /// The first kernel in which it runs XDP natively; `None`: none up to 6.12.
    pub native_since: Option<KernelVersion>,
    /// The largest MTU for a program that reads single buffers.
    pub single_buffer_mtu: MtuLimit,
    /// The first kernel in which it takes programs that read several buffers (`xdp.frags`);
    /// `None`: none up to 6.12.
    pub frags_since: Option<KernelVersion>,
    /// Offloads that must be off, by the kernel's name for them.
    pub must_be_off: &'static [&'static str],
    /// Features that the driver starts with off, at the expense of what runs after XDP.
    pub better_on: &'static [&'static str],
    /// What it wants of its queues.
    pub queues: QueueRule,
    /// What else a user should know before attaching.
    pub warning: Option<&'static str>,
    /// Where this is from.
    pub source: &'static str,
}

/// What is known about `driver`, a name as `ethtool -i` shows it.
pub fn facts(driver: &str) -> Option<&'static DriverFacts> {
    DRIVERS.iter().find(|facts| facts.driver == driver)
}

/// Drivers that can write descriptors to the device, in either direction
/// (`ETHTOOL_RING_USE_TX_PUSH`, `ETHTOOL_RING_USE_RX_PUSH` in `supported_ring_params`).
const TX_PUSH: &[&str] = &["ena", "hns3", "ionic"];
const RX_PUSH: &[&str] = &["ionic"];

/// Whether `driver` cannot do what a ring setting of this name switches. The kernel says `off` of
/// devices that cannot, too, so only of drivers with a row this is known.
pub fn lacks_push(driver: &str, setting: &str) -> bool {
    let can = match setting {
        "tx-push" => TX_PUSH,
        "rx-push" => RX_PUSH,
        _ => return false,
    };
    facts(driver).is_some() && !can.contains(&driver)
}

const LRO: &str = "rx-lro";
const GRO_HW: &str = "rx-gro-hw";
const GRO: &str = "rx-gro";

const fn v(major: u16, minor: u16) -> Option<KernelVersion> {
    Some(KernelVersion(major, minor))
}

/// A driver of which nothing special is known.
const PLAIN: DriverFacts = DriverFacts {
    driver: "",
    native_since: None,
    single_buffer_mtu: MtuLimit::None,
    frags_since: None,
    must_be_off: &[],
    better_on: &[],
    queues: QueueRule::None,
    warning: None,
    source: "",
};

const fn never(driver: &'static str, source: &'static str) -> DriverFacts {
    DriverFacts { driver, source, ..PLAIN }
}

/// All rows, virtual devices first.
pub const DRIVERS: &[DriverFacts] = &[
    DriverFacts {
        driver: "veth",
        native_since: v(4, 19),
        // 256 headroom, 320 skb_shared_info, 14 Ethernet header.
        single_buffer_mtu: MtuLimit::PageLess(590),
        frags_since: v(5, 18),
        better_on: &[GRO],
        warning: Some(
            "its peer loses segmentation offload while a native program is attached; bulk TCP \
             through it becomes several times slower",
        ),
        source: "drivers/net/veth.c veth_xdp_set (the MTU is the peer's); 7cda76d858a4 (frags); \
                 xdp-tutorial#292 (45 to 8 Gbit/s)",
        ..PLAIN
    },
    DriverFacts {
        driver: "virtio_net",
        native_since: v(4, 10),
        // SKB_DATA_ALIGN(256 headroom + 320 skb_shared_info), 14 Ethernet header.
        single_buffer_mtu: MtuLimit::PageLess(590),
        frags_since: v(6, 3),
        must_be_off: &[GRO_HW, LRO],
        queues: QueueRule::OneMorePerCpu,
        source: "drivers/net/virtio_net.c virtnet_xdp_set; 8d9bc36de5fc (frags); 97c2c69e1926 \
                 (fewer queues); firecracker#2433, katran#18 (GRO_HW fixed by the host)",
        ..PLAIN
    },
    DriverFacts {
        driver: "tun",
        native_since: v(4, 14),
        warning: Some(
            "frames larger than a page, and all frames of a tun (not tap) device, use generic XDP",
        ),
        source: "drivers/net/tun.c tun_xdp_set, tun_can_build_skb, tun_net_initialize",
        ..PLAIN
    },
    DriverFacts {
        driver: "hv_netvsc",
        native_since: v(5, 6),
        // 256 headroom, 320 skb_shared_info, 14 Ethernet header.
        single_buffer_mtu: MtuLimit::PageLess(590),
        must_be_off: &[LRO],
        source: "drivers/net/hyperv/netvsc_bpf.c netvsc_xdp_set",
        ..PLAIN
    },
    DriverFacts {
        driver: "vmxnet3",
        native_since: v(6, 6),
        // 256 headroom, 320 skb_shared_info, 14 Ethernet header, 8 VLAN tags, 4 FCS.
        single_buffer_mtu: MtuLimit::PageLess(602),
        must_be_off: &[LRO],
        source: "drivers/net/vmxnet3/vmxnet3_xdp.c vmxnet3_xdp_set, which turns LRO off and not \
                 on again",
        ..PLAIN
    },
    DriverFacts {
        driver: "ena",
        native_since: v(5, 6),
        // 14 Ethernet header, 4 FCS, 4 VLAN tag, 256 headroom, 320 skb_shared_info.
        single_buffer_mtu: MtuLimit::PageLess(598),
        queues: QueueRule::HalfOfCombined,
        source: "drivers/net/ethernet/amazon/ena/ena_xdp.h ena_xdp_allowed; amzn-drivers#240, \
                 aya#459",
        ..PLAIN
    },
    DriverFacts {
        driver: "gve",
        native_since: v(6, 4),
        // A 2048-byte buffer less 14 Ethernet header and 2 padding.
        single_buffer_mtu: MtuLimit::Bytes(2032),
        must_be_off: &[LRO],
        queues: QueueRule::HalfOfEach,
        source: "drivers/net/ethernet/google/gve/gve_main.c verify_xdp_configuration",
        ..PLAIN
    },
    DriverFacts {
        driver: "mana",
        native_since: v(5, 17),
        // 320 skb_shared_info, 14 Ethernet header, 256 headroom.
        single_buffer_mtu: MtuLimit::PageLess(590),
        source: "drivers/net/ethernet/microsoft/mana/mana_bpf.c mana_xdp_set",
        ..PLAIN
    },
    DriverFacts {
        driver: "ixgbe",
        native_since: v(4, 12),
        // A 3072-byte buffer less 14 Ethernet header, 4 FCS, 4 VLAN tag.
        single_buffer_mtu: MtuLimit::Bytes(3050),
        must_be_off: &[LRO],
        queues: QueueRule::CpusAtMost { cpus: 128, since: KernelVersion(5, 16) },
        warning: Some("it refuses XDP with SR-IOV or DCB on"),
        source: "drivers/net/ethernet/intel/ixgbe/ixgbe_main.c ixgbe_xdp_setup; 4fe815850bdc \
                 (CPUs); cilium#14648, katran#84",
        ..PLAIN
    },
    DriverFacts {
        driver: "ixgbevf",
        native_since: v(4, 17),
        // A 3072-byte buffer less 14 Ethernet header, 4 FCS, 4 VLAN tag.
        single_buffer_mtu: MtuLimit::Bytes(3050),
        source: "drivers/net/ethernet/intel/ixgbevf/ixgbevf_main.c ixgbevf_xdp_setup; \
                 xdp-tools#327",
        ..PLAIN
    },
    DriverFacts {
        driver: "i40e",
        native_since: v(4, 13),
        // A 3072-byte buffer less 14 Ethernet header, 4 FCS, 8 VLAN tags.
        single_buffer_mtu: MtuLimit::Bytes(3046),
        frags_since: v(6, 4),
        source: "drivers/net/ethernet/intel/i40e/i40e_main.c i40e_xdp_setup; e213ced19bef (frags)",
        ..PLAIN
    },
    DriverFacts {
        driver: "ice",
        native_since: v(5, 5),
        // A 3072-byte buffer less 14 Ethernet header, 4 FCS, 8 VLAN tags.
        single_buffer_mtu: MtuLimit::Bytes(3046),
        frags_since: v(6, 3),
        source: "drivers/net/ethernet/intel/ice/ice_main.c ice_xdp_setup_prog; 2fba7dc5157b \
                 (frags)",
        ..PLAIN
    },
    DriverFacts {
        driver: "igb",
        native_since: v(5, 10),
        // A 3072-byte buffer less 14 Ethernet header, 4 FCS, 8 VLAN tags.
        single_buffer_mtu: MtuLimit::Bytes(3046),
        source: "drivers/net/ethernet/intel/igb/igb_main.c igb_xdp_setup",
        ..PLAIN
    },
    DriverFacts {
        driver: "igc",
        native_since: v(5, 13),
        single_buffer_mtu: MtuLimit::Bytes(1500),
        source: "drivers/net/ethernet/intel/igc/igc_xdp.c igc_xdp_set_prog",
        ..PLAIN
    },
    DriverFacts {
        driver: "mlx5_core",
        native_since: v(4, 9),
        // 256 headroom, 320 skb_shared_info, 14 Ethernet header, 4 VLAN tag, 4 FCS.
        single_buffer_mtu: MtuLimit::PageLess(598),
        frags_since: v(5, 18),
        must_be_off: &[GRO_HW, LRO],
        source: "drivers/net/ethernet/mellanox/mlx5/core/en_main.c mlx5e_xdp_allowed, en/xdp.c \
                 mlx5e_xdp_max_mtu",
        ..PLAIN
    },
    DriverFacts {
        driver: "mlx4_en",
        native_since: v(4, 8),
        // 14 Ethernet header, 8 VLAN tags, 256 headroom, 320 skb_shared_info.
        single_buffer_mtu: MtuLimit::PageLess(598),
        source: "drivers/net/ethernet/mellanox/mlx4/en_netdev.c mlx4_xdp_set",
        ..PLAIN
    },
    DriverFacts {
        driver: "bnxt_en",
        native_since: v(4, 11),
        // 18 Ethernet header with VLAN tag, 256 headroom, 320 skb_shared_info.
        single_buffer_mtu: MtuLimit::PageLess(594),
        frags_since: v(5, 19),
        queues: QueueRule::CombinedOnly,
        source: "drivers/net/ethernet/broadcom/bnxt/bnxt_xdp.c bnxt_xdp_set",
        ..PLAIN
    },
    DriverFacts {
        driver: "mvneta",
        native_since: v(5, 5),
        // 256 headroom, 320 skb_shared_info.
        single_buffer_mtu: MtuLimit::PageLess(576),
        frags_since: v(5, 18),
        source: "drivers/net/ethernet/marvell/mvneta.c mvneta_xdp_setup; xdp-tools#235",
        ..PLAIN
    },
    DriverFacts {
        driver: "nicvf",
        native_since: v(4, 12),
        single_buffer_mtu: MtuLimit::Bytes(1508),
        source: "drivers/net/ethernet/cavium/thunder/nicvf_main.c nicvf_xdp_setup; 5ee15c101f29",
        ..PLAIN
    },
    DriverFacts {
        driver: "st_gmac",
        native_since: v(5, 13),
        single_buffer_mtu: MtuLimit::Bytes(1500),
        source: "drivers/net/ethernet/stmicro/stmmac/stmmac_xdp.c stmmac_xdp_set_prog",
        ..PLAIN
    },
    DriverFacts {
        driver: "netdevsim",
        native_since: v(4, 16),
        single_buffer_mtu: MtuLimit::Bytes(4000),
        warning: Some("it keeps the program without running it, up to some kernel after 6.12"),
        source: "drivers/net/netdevsim/bpf.c nsim_setup_prog_checks",
        ..PLAIN
    },
    never("e1000", "drivers/net/ethernet/intel/e1000: no ndo_bpf"),
    never("e1000e", "drivers/net/ethernet/intel/e1000e: no ndo_bpf"),
    never("tg3", "drivers/net/ethernet/broadcom/tg3.c: no ndo_bpf"),
    never("bnx2x", "drivers/net/ethernet/broadcom/bnx2x: no ndo_bpf"),
    never("enic", "drivers/net/ethernet/cisco/enic: no ndo_bpf"),
    never("be2net", "drivers/net/ethernet/emulex/benet: no ndo_bpf"),
    never("r8169", "drivers/net/ethernet/realtek/r8169_main.c: no ndo_bpf"),
    never("r8152", "drivers/net/usb/r8152.c: no ndo_bpf"),
    never("bridge", "net/bridge: no ndo_bpf"),
    never("vxlan", "drivers/net/vxlan: no ndo_bpf"),
    never("macvlan", "drivers/net/macvlan.c: no ndo_bpf"),
    never("ipvlan", "drivers/net/ipvlan: no ndo_bpf"),
    never("ifb", "drivers/net/ifb.c: no ndo_bpf"),
    never("dummy", "drivers/net/dummy.c: no ndo_bpf"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_unique_and_have_a_source() {
        let names: std::collections::BTreeSet<_> = DRIVERS.iter().map(|row| row.driver).collect();
        assert_eq!(names.len(), DRIVERS.len());
        assert!(DRIVERS.iter().all(|row| !row.driver.is_empty() && !row.source.is_empty()));
    }

    #[test]
    fn what_never_runs_natively_has_no_other_facts() {
        for row in DRIVERS.iter().filter(|row| row.native_since.is_none()) {
            assert_eq!(*row, never(row.driver, row.source));
        }
    }

    #[test]
    fn limits_at_pages_of_4096_bytes_are_those_that_are_known() {
        let limit = |driver| facts(driver).unwrap().single_buffer_mtu.bytes(4096);
        assert_eq!(limit("veth"), Some(3506));
        assert_eq!(limit("virtio_net"), Some(3506));
        assert_eq!(limit("ena"), Some(3498));
        assert_eq!(limit("mlx5_core"), Some(3498));
        assert_eq!(limit("bnxt_en"), Some(3502));
        assert_eq!(limit("vmxnet3"), Some(3494));
        assert_eq!(limit("tun"), None);
    }

    #[test]
    fn few_drivers_write_descriptors_to_the_device() {
        assert!(lacks_push("igb", "tx-push") && lacks_push("ena", "rx-push"));
        assert!(!lacks_push("ena", "tx-push") && !lacks_push("ionic", "rx-push"));
        assert!(!lacks_push("unheard-of", "tx-push") && !lacks_push("igb", "rx"));
    }

    #[test]
    fn a_kernel_release_is_read_up_to_its_second_number() {
        assert_eq!("6.12.9-amd64".parse(), Ok(KernelVersion(6, 12)));
        assert_eq!("5.4".parse(), Ok(KernelVersion(5, 4)));
        assert_eq!("7.1-rc2".parse(), Ok(KernelVersion(7, 1)));
        assert!("six".parse::<KernelVersion>().is_err());
        assert!("6".parse::<KernelVersion>().is_err());
        assert!(KernelVersion(5, 19) < KernelVersion(6, 2));
    }
}
