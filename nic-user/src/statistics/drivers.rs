//! The drivers whose words are known, and where they were read.

/// A driver whose statistics were looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// What `ethtool -i` and the module call it; the first one is the usual name.
    names: &'static [&'static str],
    /// Where its names come from, below `drivers/net/` of Linux.
    pub source: &'static str,
    /// Patterns of a name that no other driver has, where a list must be known by it: its words mean
    /// something of their own.
    pub(super) marks: &'static [&'static str],
}

impl Driver {
    /// Whether it is called so.
    pub fn is(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

const fn driver(names: &'static [&'static str], source: &'static str) -> Driver {
    Driver { names, source, marks: &[] }
}

const fn marked(
    names: &'static [&'static str],
    source: &'static str,
    marks: &'static [&'static str],
) -> Driver {
    Driver { names, source, marks }
}

/// The driver of this name.
pub fn named(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| driver.is(name))
}

/// Every driver whose names were looked up: Linux 6.1, or the first release that has it.
pub const DRIVERS: &[Driver] = &[
    driver(&["am65-cpsw-nuss", "am65-cpsw"], "ethernet/ti/am65-cpsw-ethtool.c"),
    driver(&["atlantic"], "ethernet/aquantia/atlantic/aq_ethtool.c"),
    driver(&["xilinx_axienet", "axienet"], "ethernet/xilinx/xilinx_axienet_main.c"),
    driver(&["bcmgenet"], "ethernet/broadcom/genet/bcmgenet.c"),
    driver(&["brcm-systemport", "bcmsysport"], "ethernet/broadcom/bcmsysport.c"),
    driver(&["be2net"], "ethernet/emulex/benet/be_ethtool.c"),
    driver(&["bna"], "ethernet/brocade/bna/bnad_ethtool.c"),
    driver(&["bnx2"], "ethernet/broadcom/bnx2.c"),
    marked(
        &["bnx2x"],
        "ethernet/broadcom/bnx2x/bnx2x_ethtool.c",
        &["[{n}]: rx_phy_ip_err_discards", "[{n}]: rx_skb_alloc_discard"],
    ),
    driver(&["bnxt_en"], "ethernet/broadcom/bnxt/bnxt_ethtool.c"),
    driver(&["cpsw"], "ethernet/ti/cpsw_ethtool.c"),
    driver(&["cxgb3"], "ethernet/chelsio/cxgb3/cxgb3_main.c"),
    driver(&["cxgb4"], "ethernet/chelsio/cxgb4/cxgb4_ethtool.c"),
    driver(&["fsl_dpaa", "fsl_dpa", "dpaa"], "ethernet/freescale/dpaa/dpaa_ethtool.c"),
    driver(&["fsl_dpaa2_eth", "dpaa2"], "ethernet/freescale/dpaa2/dpaa2-ethtool.c"),
    driver(&["e1000e"], "ethernet/intel/e1000e/ethtool.c"),
    driver(&["ena"], "ethernet/amazon/ena/ena_ethtool.c"),
    driver(&["fsl_enetc", "enetc"], "ethernet/freescale/enetc/enetc_ethtool.c"),
    driver(&["enic"], "ethernet/cisco/enic/enic_ethtool.c"),
    driver(&["fbnic"], "ethernet/meta/fbnic/fbnic_ethtool.c"),
    driver(&["fec"], "ethernet/freescale/fec_main.c"),
    driver(&["fm10k"], "ethernet/intel/fm10k/fm10k_ethtool.c"),
    driver(&["funeth"], "ethernet/fungible/funeth/funeth_ethtool.c"),
    driver(&["gve", "gvnic"], "ethernet/google/gve/gve_ethtool.c"),
    driver(&["hinic"], "ethernet/huawei/hinic/hinic_ethtool.c"),
    driver(&["hns"], "ethernet/hisilicon/hns/hns_dsaf_rcb.c"),
    driver(&["hns3", "hns3_vf"], "ethernet/hisilicon/hns3/hns3_ethtool.c"),
    driver(&["hv_netvsc"], "hyperv/netvsc_drv.c"),
    driver(&["i40e"], "ethernet/intel/i40e/i40e_ethtool.c"),
    driver(&["iavf", "i40evf"], "ethernet/intel/iavf/iavf_ethtool.c"),
    driver(&["ibmvnic"], "ethernet/ibm/ibmvnic.c"),
    driver(&["ice"], "ethernet/intel/ice/ice_ethtool.c"),
    driver(&["icssg-prueth", "icssg"], "ethernet/ti/icssg/icssg_stats.h"),
    driver(&["idpf"], "ethernet/intel/idpf/idpf_ethtool.c"),
    driver(&["ifb"], "ifb.c"),
    driver(&["igb"], "ethernet/intel/igb/igb_ethtool.c"),
    driver(&["igc"], "ethernet/intel/igc/igc_ethtool.c"),
    driver(&["ionic"], "ethernet/pensando/ionic/ionic_stats.c"),
    driver(&["ixgbe"], "ethernet/intel/ixgbe/ixgbe_ethtool.c"),
    driver(&["ixgbevf"], "ethernet/intel/ixgbevf/ethtool.c"),
    driver(&["lan743x"], "ethernet/microchip/lan743x_ethtool.c"),
    driver(&["liquidio", "LiquidIO", "LiquidIO_VF"], "ethernet/cavium/liquidio/lio_ethtool.c"),
    driver(&["macb"], "ethernet/cadence/macb.h"),
    driver(&["mana"], "ethernet/microsoft/mana/mana_ethtool.c"),
    driver(&["mlx4_en", "mlx4_core"], "ethernet/mellanox/mlx4/en_ethtool.c"),
    driver(&["mlx5_core"], "ethernet/mellanox/mlx5/core/en_stats.c"),
    driver(&["mlxsw_spectrum"], "ethernet/mellanox/mlxsw/spectrum_ethtool.c"),
    driver(&["mtk_soc_eth", "mtk"], "ethernet/mediatek/mtk_eth_soc.c"),
    driver(&["mvneta"], "ethernet/marvell/mvneta.c"),
    driver(&["mvpp2"], "ethernet/marvell/mvpp2/mvpp2_main.c"),
    driver(&["myri10ge"], "ethernet/myricom/myri10ge/myri10ge.c"),
    driver(&["netxen_nic", "netxen"], "ethernet/qlogic/netxen/netxen_nic_ethtool.c"),
    driver(&["nfp"], "ethernet/netronome/nfp/nfp_net_ethtool.c"),
    driver(&["thunder-nicvf", "nicvf"], "ethernet/cavium/thunder/nicvf_ethtool.c"),
    driver(&["niu"], "ethernet/sun/niu.c"),
    driver(&["octeon_ep"], "ethernet/marvell/octeon_ep/octep_ethtool.c"),
    driver(
        &["rvu-nicpf", "rvu-nicvf", "rvu_nicpf", "rvu_nicvf", "octeontx2"],
        "ethernet/marvell/octeontx2/nic/otx2_ethtool.c",
    ),
    driver(&["qede"], "ethernet/qlogic/qede/qede_ethtool.c"),
    driver(&["qlcnic"], "ethernet/qlogic/qlcnic/qlcnic_ethtool.c"),
    driver(&["r8169"], "ethernet/realtek/r8169_main.c"),
    driver(&["ravb"], "ethernet/renesas/ravb_main.c"),
    driver(&["s2io"], "ethernet/neterion/s2io.c"),
    driver(&["sfc", "sfc_siena", "sfc-falcon"], "ethernet/sfc/ethtool_common.c"),
    driver(
        &["stmmac", "st_gmac", "dwmac-loongson", "dwmac-intel", "stmmaceth"],
        "ethernet/stmicro/stmmac/stmmac_ethtool.c",
    ),
    driver(&["tg3"], "ethernet/broadcom/tg3.c"),
    driver(&["tsnep"], "ethernet/engleder/tsnep_ethtool.c"),
    driver(&["tun"], "tun.c"),
    driver(&["veth"], "veth.c"),
    driver(&["vif", "xen-netfront", "xen_netfront"], "xen-netfront.c"),
    driver(&["virtio_net"], "virtio_net.c"),
    marked(&["vmxnet3"], "vmxnet3/vmxnet3_ethtool.c", &["{dir} Queue#"]),
    driver(&["amd-xgbe", "xgbe"], "ethernet/amd/xgbe/xgbe-ethtool.c"),
];
