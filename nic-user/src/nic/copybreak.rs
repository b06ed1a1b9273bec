//! What each driver does with small received packets, as data with its source.
//!
//! A copybreak is the size up to which a driver copies a packet into a buffer of its own size, so
//! that the large one can be used again. Defaults are those of Linux 6.1 where nothing else is
//! said.

use super::setting::{Access, Setting};

/// How a driver decides what is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copybreak {
    /// `ethtool --set-tunable`, or `nicctl set`.
    Tunable {
        /// Bytes, when nobody has set it.
        default: u64,
        /// The least that the driver takes, where that is known.
        min: Option<u64>,
        /// The most that the driver takes, where that is known.
        max: Option<u64>,
    },
    /// A parameter of the driver's module, for all of its interfaces.
    ModuleParameter {
        /// The module.
        module: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Bytes, when nobody has set it.
        default: u64,
    },
    /// Compiled into the driver.
    Fixed(u64),
    /// It has none: see the note.
    None,
}

/// What is known about one driver's receive copybreak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopybreakFacts {
    /// The driver's name, as `ethtool -i` shows it.
    pub driver: &'static str,
    /// How it decides.
    pub rx: Copybreak,
    /// What exactly is copied.
    pub note: &'static str,
    /// Where this is from.
    pub source: &'static str,
}

/// What is known about `driver`, a name as `ethtool -i` shows it.
pub fn facts(driver: &str) -> Option<&'static CopybreakFacts> {
    COPYBREAK.iter().find(|facts| facts.driver == driver)
}

/// What can be said of the receive copybreak of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The user decides about it.
    Tunable,
    /// Somebody else does.
    Fixed,
    /// The driver copies nothing of the kind.
    None,
    /// It cannot be tuned, and nothing is known of the driver.
    Unknown,
}

/// The state of the receive copybreak of an interface of `driver`; `rx` is its setting, if it has
/// one.
pub fn state(driver: &str, rx: Option<&Setting>) -> State {
    match rx {
        Some(Setting { access: Access::ReadWrite, .. }) => State::Tunable,
        Some(_) => State::Fixed,
        None if facts(driver).is_some() => State::None,
        None => State::Unknown,
    }
}

const fn tunable(default: u64) -> Copybreak {
    Copybreak::Tunable { default, min: None, max: None }
}

const fn parameter(module: &'static str, parameter: &'static str, default: u64) -> Copybreak {
    Copybreak::ModuleParameter { module, parameter, default }
}

const fn row(
    driver: &'static str,
    rx: Copybreak,
    note: &'static str,
    source: &'static str,
) -> CopybreakFacts {
    CopybreakFacts { driver, rx, note, source }
}

const INTEL_NOTE: &str = "packets up to its 256-byte header buffer are copied whole; of larger \
                          ones, the headers";
const SOFTWARE_NOTE: &str = "its packets come from other software, not from a receive ring";

/// 0 where the architecture's asm/processor.h says so, because unaligned access is cheap there.
const NET_IP_ALIGN: u64 = if cfg!(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
)) {
    0
} else {
    2
};

/// All rows.
pub const COPYBREAK: &[CopybreakFacts] = &[
    row(
        "ena",
        tunable(256 - NET_IP_ALIGN),
        "packets of one descriptor; at most the MTU, and a page",
        "drivers/net/ethernet/amazon/ena/ena_netdev.h ENA_DEFAULT_RX_COPYBREAK",
    ),
    row(
        "enic",
        tunable(256),
        "",
        "drivers/net/ethernet/cisco/enic/enic_main.c RX_COPYBREAK_DEFAULT",
    ),
    row("fec", tunable(256), "", "drivers/net/ethernet/freescale/fec_main.c COPYBREAK_DEFAULT"),
    row(
        "ionic",
        tunable(256),
        "",
        "drivers/net/ethernet/pensando/ionic IONIC_RX_COPYBREAK_DEFAULT",
    ),
    row(
        "st_gmac",
        tunable(256),
        "",
        "drivers/net/ethernet/stmicro/stmmac/stmmac_main.c STMMAC_RX_COPYBREAK",
    ),
    row(
        "r8152",
        Copybreak::Tunable { default: 256, min: Some(60), max: None },
        "",
        "drivers/net/usb/r8152.c RTL8152_RXFG_HEADSZ, rtl8152_set_tunable",
    ),
    row(
        "gve",
        tunable(256),
        "packets of one fragment; at most half a page with GQI queues",
        "drivers/net/ethernet/google/gve/gve.h GVE_DEFAULT_RX_COPYBREAK, gve_set_tunable",
    ),
    row(
        "qede",
        Copybreak::Tunable { default: 256, min: None, max: Some(256) },
        "counts the padding in front of the packet",
        "drivers/net/ethernet/qlogic/qede/qede_ethtool.c qede_set_tunable",
    ),
    row(
        "fsl_dpaa2_eth",
        tunable(512),
        "",
        "drivers/net/ethernet/freescale/dpaa2/dpaa2-eth.h DPAA2_ETH_DEFAULT_COPYBREAK",
    ),
    row("fs_enet", tunable(240), "", "drivers/net/ethernet/freescale/fs_enet fs_get_tunable"),
    row(
        "hns3",
        tunable(0),
        "off by default; fragments whose page cannot be reused",
        "drivers/net/ethernet/hisilicon/hns3/hns3_ethtool.c hns3_set_tunable",
    ),
    row(
        "bnxt_en",
        Copybreak::Tunable { default: 256, min: None, max: Some(1024) },
        "fixed by the driver before it became tunable",
        "drivers/net/ethernet/broadcom/bnxt/bnxt.h BNXT_DEFAULT_RX_COPYBREAK",
    ),
    row(
        "e1000",
        parameter("e1000", "copybreak", 256),
        "",
        "drivers/net/ethernet/intel/e1000/e1000_main.c copybreak",
    ),
    row(
        "e1000e",
        parameter("e1000e", "copybreak", 256),
        "",
        "drivers/net/ethernet/intel/e1000e/netdev.c copybreak",
    ),
    row(
        "sky2",
        parameter("sky2", "copybreak", 128),
        "packets shorter than this",
        "drivers/net/ethernet/marvell/sky2.c copybreak",
    ),
    row(
        "mvneta",
        parameter("mvneta", "rx_copybreak", 256),
        "",
        "drivers/net/ethernet/marvell/mvneta.c rx_copybreak",
    ),
    row(
        "ibmveth",
        parameter("ibmveth", "rx_copybreak", 128),
        "packets shorter than this",
        "drivers/net/ethernet/ibm/ibmveth.c rx_copybreak",
    ),
    row(
        "tg3",
        Copybreak::Fixed(256),
        "",
        "drivers/net/ethernet/broadcom/tg3.c TG3_RX_COPY_THRESHOLD",
    ),
    row(
        "cxgb4",
        Copybreak::Fixed(256),
        "",
        "drivers/net/ethernet/chelsio/cxgb4/sge.c RX_COPY_THRES",
    ),
    row(
        "virtio_net",
        Copybreak::Fixed(128),
        "a packet that fits is copied whole; of a larger one, the Ethernet header",
        "drivers/net/virtio_net.c GOOD_COPY_LEN, page_to_skb",
    ),
    row(
        "mlx5_core",
        Copybreak::None,
        "packets are built in place; of those in several pieces, the headers are copied, 256 bytes",
        "drivers/net/ethernet/mellanox/mlx5/core/en.h MLX5E_RX_MAX_HEAD",
    ),
    row("igb", Copybreak::Fixed(256), INTEL_NOTE, "drivers/net/ethernet/intel/igb IGB_RX_HDR_LEN"),
    row("igc", Copybreak::Fixed(256), INTEL_NOTE, "drivers/net/ethernet/intel/igc IGC_RX_HDR_LEN"),
    row(
        "ixgbe",
        Copybreak::Fixed(256),
        INTEL_NOTE,
        "drivers/net/ethernet/intel/ixgbe IXGBE_RX_HDR_SIZE",
    ),
    row(
        "i40e",
        Copybreak::Fixed(256),
        INTEL_NOTE,
        "drivers/net/ethernet/intel/i40e I40E_RX_HDR_SIZE",
    ),
    row("ice", Copybreak::Fixed(256), INTEL_NOTE, "drivers/net/ethernet/intel/ice ICE_RX_HDR_SIZE"),
    row(
        "iavf",
        Copybreak::Fixed(256),
        INTEL_NOTE,
        "drivers/net/ethernet/intel/iavf IAVF_RX_HDR_SIZE",
    ),
    row("vmxnet3", Copybreak::None, "", "drivers/net/vmxnet3/vmxnet3_drv.c"),
    row("mlx4_en", Copybreak::None, "", "drivers/net/ethernet/mellanox/mlx4/en_rx.c"),
    row("veth", Copybreak::None, SOFTWARE_NOTE, "drivers/net/veth.c"),
    row("tun", Copybreak::None, SOFTWARE_NOTE, "drivers/net/tun.c"),
    row("bridge", Copybreak::None, SOFTWARE_NOTE, "net/bridge/br_device.c"),
    row("macvlan", Copybreak::None, SOFTWARE_NOTE, "drivers/net/macvlan.c"),
    row("vxlan", Copybreak::None, SOFTWARE_NOTE, "drivers/net/vxlan/vxlan_core.c"),
    row("ifb", Copybreak::None, SOFTWARE_NOTE, "drivers/net/ifb.c"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_one_row_and_every_row_a_source() {
        for facts in COPYBREAK {
            assert!(!facts.source.is_empty(), "{facts:?}");
            let rows = COPYBREAK.iter().filter(|other| other.driver == facts.driver);
            assert_eq!(rows.count(), 1, "{facts:?}");
        }
    }

    #[test]
    fn three_states_are_told_apart_and_ignorance_is_admitted() {
        let fixed = Access::Fixed { by: "driver".to_owned() };
        let fixed = Setting { access: fixed, ..Setting::new(256_u32) };
        assert_eq!(state("ena", Some(&Setting::new(256_u32))), State::Tunable);
        assert_eq!(state("igb", Some(&fixed)), State::Fixed);
        assert_eq!(state("vmxnet3", None), State::None);
        assert_eq!(state("brand-new", None), State::Unknown);
    }

    #[test]
    fn limits_hold_the_default() {
        for facts in COPYBREAK {
            if let Copybreak::Tunable { default, min, max } = facts.rx {
                assert!(min.is_none_or(|min| min <= default), "{facts:?}");
                assert!(max.is_none_or(|max| max >= default), "{facts:?}");
            }
        }
    }
}
