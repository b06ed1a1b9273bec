//! The names that all drivers share, and the words of each driver for them.
//!
//! Names agree with those of the kernel's queue statistics (the `netdev` family's `qstats-get`)
//! where both exist.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    drivers::Driver,
    model::Direction::{self, Rx, Tx},
};

macro_rules! unified {
    ($($variant:ident $name:literal $about:literal,)*) => {
        /// A counter under the name that all drivers share.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
        pub enum Unified {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl Unified {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it counts.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

unified! {
    Packets "packets" "handled by the queue",
    Bytes "bytes" "handled by the queue",
    UcastPackets "ucast_packets" "the same, to one address",
    McastPackets "mcast_packets" "the same, multicast",
    BcastPackets "bcast_packets" "the same, broadcast",
    UcastBytes "ucast_bytes" "the same, to one address",
    McastBytes "mcast_bytes" "the same, multicast",
    BcastBytes "bcast_bytes" "the same, broadcast",
    Drops "drops" "dropped at the queue, cause not split",
    DropNoBuf "drop_no_buf" "dropped because no receive buffer was posted",
    DropRingFull "drop_ring_full" "dropped because the ring or queue was full",
    Errors "errors" "packets with an error",
    AllocFail "alloc_fail" "a page, buffer or skb could not be allocated",
    DmaMapErr "dma_map_err" "a DMA mapping failed",
    CsumUnnecessary "csum_unnecessary" "receive checksum verified",
    CsumComplete "csum_complete" "receive checksum: the full sum was given",
    CsumNone "csum_none" "checksum not checked, or left to nobody",
    CsumBad "csum_bad" "receive checksum wrong",
    CsumPartial "csum_partial" "transmit checksum left to the device",
    Copybreak "copybreak" "small packets copied out of the ring buffer",
    Recycled "recycled" "receive buffers reused by the driver",
    XdpPackets "xdp_packets" "seen by an XDP program",
    XdpBytes "xdp_bytes" "seen by an XDP program",
    XdpPass "xdp_pass" "XDP verdict PASS",
    XdpDrop "xdp_drop" "XDP verdict DROP",
    XdpTx "xdp_tx" "XDP verdict TX",
    XdpRedirect "xdp_redirect" "XDP verdict REDIRECT",
    XdpAborted "xdp_aborted" "XDP verdict ABORTED",
    XdpInvalid "xdp_invalid" "XDP verdict that there is not",
    XdpTxErr "xdp_tx_err" "XDP verdict TX was given, and failed",
    XdpRedirectErr "xdp_redirect_err" "XDP verdict REDIRECT was given, and failed",
    XdpXmit "xdp_xmit" "frames that XDP put on this transmit queue",
    XdpXmitErr "xdp_xmit_err" "frames that XDP could not put on this transmit queue",
    XdpRingPackets "xdp_ring_packets" "packets of a ring kept for XDP, no part of packets",
    XdpRingBytes "xdp_ring_bytes" "bytes of a ring kept for XDP, no part of bytes",
    XskPackets "xsk_packets" "packets of an AF_XDP ring",
    XskBytes "xsk_bytes" "bytes of an AF_XDP ring",
    XskXmit "xsk_xmit" "packets sent from an AF_XDP ring",
    LroPackets "lro_packets" "packets merged by receive offload",
    LroBytes "lro_bytes" "bytes merged by receive offload",
    TsoPackets "tso_packets" "packets segmented by the device",
    TsoBytes "tso_bytes" "bytes segmented by the device",
    Stop "stop" "transmit queue stopped",
    Wake "wake" "transmit queue started again",
    Busy "busy" "transmit queue was busy",
    Timeout "timeout" "transmit queue hung",
    Linearize "linearize" "packets made one piece before sending",
    XmitMore "xmit_more" "packets sent without a doorbell, as more were to come",
    Kicks "kicks" "doorbells or notifications",
    Irqs "irqs" "interrupts",
    Polls "polls" "NAPI polls",
    SwPackets "sw_packets" "the driver's own count, where packets is the device's",
    QueueIndex "queue_index" "a heading: the value is a queue number, no counter",
    HwPackets "hw_packets" "the device's count, where packets is the driver's",
    HwBytes "hw_bytes" "the device's count, where bytes is the driver's",
    HwDrops "hw_drops" "dropped by the device",
    HwDropOverruns "hw_drop_overruns" "dropped by the device for lack of buffers",
    HwDropErrors "hw_drop_errors" "dropped by the device for errors",
    HwDropRatelimits "hw_drop_ratelimits" "dropped by the device above a rate",
    HwGroPackets "hw_gro_packets" "packets merged by the device (GRO)",
    HwGroBytes "hw_gro_bytes" "bytes merged by the device (GRO)",
    HwGroWirePackets "hw_gro_wire_packets" "the same packets as on the wire",
    HwGroWireBytes "hw_gro_wire_bytes" "the same bytes as on the wire",
    HwGsoPackets "hw_gso_packets" "packets segmented by the device (GSO)",
    HwGsoBytes "hw_gso_bytes" "bytes segmented by the device (GSO)",
    HwGsoWirePackets "hw_gso_wire_packets" "the same packets as on the wire",
    HwGsoWireBytes "hw_gso_wire_bytes" "the same bytes as on the wire",
}

/// What kind of ring a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// A queue of the stack.
    Queue,
    /// A ring kept for XDP.
    Xdp,
    /// A queue as the driver counts it, beside the device's own count.
    Software,
}

/// A driver's word for a counter.
struct Word {
    /// Of which direction; of both if there is none.
    direction: Option<Direction>,
    /// As [`normal`] has it.
    word: &'static str,
    unified: Unified,
    /// The first driver that was seen to say so; [`DRIVERS`](super::drivers::DRIVERS) has its source.
    from: &'static str,
}

const fn both(word: &'static str, unified: Unified, from: &'static str) -> Word {
    Word { direction: None, word, unified, from }
}

const fn rx(word: &'static str, unified: Unified, from: &'static str) -> Word {
    Word { direction: Some(Rx), word, unified, from }
}

const fn tx(word: &'static str, unified: Unified, from: &'static str) -> Word {
    Word { direction: Some(Tx), word, unified, from }
}

/// Words that mean one thing, whoever says them.
const WORDS: &[Word] = &[
    both("packets", Unified::Packets, "igb"),
    both("cnt", Unified::Packets, "ena"),
    both("packets_n", Unified::Packets, "stmmac"),
    both("packets_num", Unified::Packets, "hns"),
    rx("rcv_packets", Unified::Packets, "qede"),
    tx("xmit_packets", Unified::Packets, "qede"),
    tx("batched_packets", Unified::Packets, "ibmvnic"),
    tx("direct_packets", Unified::Packets, "ibmvnic"),
    tx("packets_dequeued", Unified::Packets, "mvpp2"),
    tx("packets_completed", Unified::Packets, "octeon_ep"),
    tx("xmit_finished", Unified::Packets, "qlcnic"),
    both("bytes", Unified::Bytes, "igb"),
    both("ucast_packets", Unified::UcastPackets, "bnxt_en"),
    both("mcast_packets", Unified::McastPackets, "bnxt_en"),
    both("multicast", Unified::McastPackets, "hns3"),
    both("bcast_packets", Unified::BcastPackets, "bnxt_en"),
    both("ucast_bytes", Unified::UcastBytes, "bnxt_en"),
    both("mcast_bytes", Unified::McastBytes, "bnxt_en"),
    both("bcast_bytes", Unified::BcastBytes, "bnxt_en"),
    both("drops", Unified::Drops, "igb"),
    both("dropped", Unified::Drops, "macb"),
    both("dropped_packets", Unified::Drops, "ibmvnic"),
    both("discards", Unified::Drops, "bnxt_en"),
    both("discarded_packets", Unified::Drops, "fsl_enetc"),
    both("drv_drops", Unified::Drops, "be2net"),
    both("drv_dropped_total", Unified::Drops, "vmxnet3"),
    rx("drops_no_frags", Unified::DropNoBuf, "be2net"),
    rx("packets_bm_drops", Unified::DropNoBuf, "mvpp2"),
    rx("packets_oob", Unified::DropNoBuf, "vmxnet3"),
    rx("no_descriptor_errors", Unified::DropNoBuf, "tsnep"),
    rx("packets_bdq_drop", Unified::DropNoBuf, "fbnic"),
    rx("packets_cq_drop", Unified::DropRingFull, "fbnic"),
    both("queue_full_drops", Unified::DropRingFull, "mvpp2"),
    both("errors", Unified::Errors, "bnxt_en"),
    both("hw_errors", Unified::Errors, "qede"),
    both("err_cnt", Unified::Errors, "hns"),
    both("packets_err", Unified::Errors, "vmxnet3"),
    rx("packets_with_error", Unified::Errors, "bna"),
    rx("compl_err", Unified::Errors, "be2net"),
    both("alloc_fail", Unified::AllocFail, "gve"),
    both("alloc_failed", Unified::AllocFail, "igb"),
    both("alloc_fails", Unified::AllocFail, "hns3"),
    both("alloc_err", Unified::AllocFail, "ionic"),
    both("alloc_errors", Unified::AllocFail, "qede"),
    both("alloc_skb_err", Unified::AllocFail, "hinic"),
    both("allocbuf_failed", Unified::AllocFail, "bna"),
    both("allocfails", Unified::AllocFail, "atlantic"),
    both("skballocfails", Unified::AllocFail, "atlantic"),
    both("page_alloc_fail", Unified::AllocFail, "ena"),
    both("skb_alloc_fail", Unified::AllocFail, "ena"),
    both("skb_alloc_discard", Unified::AllocFail, "bnx2x"),
    both("buf_alloc_fail", Unified::AllocFail, "vmxnet3"),
    both("buff_alloc_err", Unified::AllocFail, "mlx5_core"),
    both("buffer_alloc_failure", Unified::AllocFail, "liquidio"),
    both("frag_alloc_err", Unified::AllocFail, "hns3"),
    both("desc_alloc_fail", Unified::AllocFail, "cpsw"),
    both("mem_alloc_err", Unified::AllocFail, "qede"),
    rx("post_fail", Unified::AllocFail, "be2net"),
    rx("drops_no_skbs", Unified::AllocFail, "be2net"),
    rx("dropped_nomem", Unified::AllocFail, "liquidio"),
    both("dma_map_err", Unified::DmaMapErr, "ionic"),
    both("dma_mapping_err", Unified::DmaMapErr, "ena"),
    both("dma_mapping_error", Unified::DmaMapErr, "gve"),
    both("mapping_errors", Unified::DmaMapErr, "funeth"),
    both("mapbuf_failed", Unified::DmaMapErr, "bna"),
    tx("mana_map_err", Unified::DmaMapErr, "mana"),
    both("csum_unnecessary", Unified::CsumUnnecessary, "mlx5_core"),
    rx("csum_good", Unified::CsumUnnecessary, "ena"),
    rx("cso", Unified::CsumUnnecessary, "funeth"),
    both("csum_complete", Unified::CsumComplete, "mlx5_core"),
    both("csum_none", Unified::CsumNone, "mlx5_core"),
    rx("csum_unchecked", Unified::CsumNone, "ena"),
    rx("csum_bad", Unified::CsumBad, "ena"),
    rx("bad_csum", Unified::CsumBad, "ena"),
    rx("csum_err", Unified::CsumBad, "igb"),
    rx("csum_error", Unified::CsumBad, "ionic"),
    rx("csum_errors", Unified::CsumBad, "hinic"),
    rx("csum_offload_errors", Unified::CsumBad, "bnx2x"),
    rx("l4_csum_errors", Unified::CsumBad, "bnxt_en"),
    rx("l3l4_csum_err", Unified::CsumBad, "hns3"),
    rx("l3l4csum_err", Unified::CsumBad, "hns"),
    tx("csum_partial", Unified::CsumPartial, "mlx5_core"),
    tx("csum", Unified::CsumPartial, "ionic"),
    tx("cso", Unified::CsumPartial, "funeth"),
    tx("needs_csum", Unified::CsumPartial, "netdev"),
    rx("copybreak_packets", Unified::Copybreak, "ena"),
    rx("copybreak", Unified::Copybreak, "ena"),
    rx("cache_reuse", Unified::Recycled, "mlx5_core"),
    rx("reuse_pg_cnt", Unified::Recycled, "hns3"),
    rx("reuse_pg", Unified::Recycled, "hns"),
    rx("pagereuses", Unified::Recycled, "atlantic"),
    rx("recycles", Unified::Recycled, "fsl_enetc"),
    rx("xdp_packets", Unified::XdpPackets, "veth"),
    rx("xdp_bytes", Unified::XdpBytes, "veth"),
    rx("xdp_pass", Unified::XdpPass, "ena"),
    rx("xdppass", Unified::XdpPass, "atlantic"),
    rx("xdp_drop", Unified::XdpDrop, "mlx5_core"),
    rx("xdp_drops", Unified::XdpDrop, "veth"),
    rx("xdpdrop", Unified::XdpDrop, "atlantic"),
    rx("xdp_tx", Unified::XdpTx, "veth"),
    rx("xdp_tx_xmit", Unified::XdpTx, "mlx5_core"),
    rx("xdptx", Unified::XdpTx, "atlantic"),
    rx("xdp_redirect", Unified::XdpRedirect, "veth"),
    rx("xdp_redirects", Unified::XdpRedirect, "virtio_net"),
    rx("xdp_redir", Unified::XdpRedirect, "funeth"),
    rx("redirects", Unified::XdpRedirect, "fsl_enetc"),
    rx("xdpredirect", Unified::XdpRedirect, "atlantic"),
    rx("xdp_aborted", Unified::XdpAborted, "ena"),
    rx("xdpabort", Unified::XdpAborted, "atlantic"),
    rx("xdp_invalid", Unified::XdpInvalid, "ena"),
    rx("xdpinvalid", Unified::XdpInvalid, "atlantic"),
    rx("xdp_tx_err", Unified::XdpTxErr, "mlx5_core"),
    rx("xdp_tx_errors", Unified::XdpTxErr, "veth"),
    rx("xdp_redirect_fail", Unified::XdpRedirectErr, "mlx4_en"),
    rx("redirect_failures", Unified::XdpRedirectErr, "fsl_enetc"),
    rx("xdp_redirect_errors", Unified::XdpRedirectErr, "gve"),
    rx("xdp_alloc_fails", Unified::AllocFail, "gve"),
    tx("xdp_xmit", Unified::XdpXmit, "veth"),
    tx("xdp_tx", Unified::XdpXmit, "virtio_net"),
    tx("xdp_packets", Unified::XdpXmit, "ionic"),
    tx("xdp_xmit_errors", Unified::XdpXmitErr, "veth"),
    tx("xdp_drops", Unified::XdpXmitErr, "fsl_enetc"),
    tx("xdp_tx_drops", Unified::XdpXmitErr, "virtio_net"),
    tx("xdp_err", Unified::XdpXmitErr, "mlx5_core"),
    rx("xsk_packets", Unified::XskPackets, "mlx5_core"),
    rx("xsk_bytes", Unified::XskBytes, "mlx5_core"),
    tx("xsk_sent", Unified::XskXmit, "gve"),
    tx("xsk_xmit", Unified::XskXmit, "mlx5_core"),
    rx("lro_packets", Unified::LroPackets, "mlx5_core"),
    rx("lropackets", Unified::LroPackets, "atlantic"),
    rx("tpa_packets", Unified::LroPackets, "bnxt_en"),
    rx("tpa_aggregated_packets", Unified::LroPackets, "bnx2x"),
    rx("lro_bytes", Unified::LroBytes, "mlx5_core"),
    rx("tpa_bytes", Unified::LroBytes, "bnxt_en"),
    rx("gro_hw_packets", Unified::HwGroPackets, "idpf"),
    tx("tso_packets", Unified::TsoPackets, "mlx5_core"),
    tx("lso_packets", Unified::TsoPackets, "idpf"),
    tx("tso", Unified::TsoPackets, "ionic"),
    tx("tso_bytes", Unified::TsoBytes, "mlx5_core"),
    tx("stop", Unified::Stop, "gve"),
    tx("stops", Unified::Stop, "be2net"),
    tx("stopped", Unified::Stop, "mlx5_core"),
    tx("stopped_cnt", Unified::Stop, "qede"),
    tx("queue_stop", Unified::Stop, "ena"),
    tx("queue_stops", Unified::Stop, "funeth"),
    tx("stop_queue", Unified::Stop, "myri10ge"),
    tx("exhaustion_events", Unified::Stop, "bnx2x"),
    tx("xmit_off", Unified::Stop, "qlcnic"),
    tx("wake", Unified::Wake, "mlx5_core"),
    tx("wake_queue", Unified::Wake, "myri10ge"),
    tx("queue_wakeup", Unified::Wake, "ena"),
    tx("queue_restarts", Unified::Wake, "funeth"),
    tx("restart", Unified::Wake, "igb"),
    tx("restarts", Unified::Wake, "atlantic"),
    tx("restart_queue", Unified::Wake, "hns"),
    tx("txq_restart", Unified::Wake, "liquidio"),
    tx("xmit_on", Unified::Wake, "qlcnic"),
    tx("busy", Unified::Busy, "hns3"),
    tx("iq_busy", Unified::Busy, "liquidio"),
    tx("timeouts", Unified::Timeout, "virtio_net"),
    tx("linearize", Unified::Linearize, "ena"),
    tx("linearized", Unified::Linearize, "myri10ge"),
    tx("packets_linearized", Unified::Linearize, "vmxnet3"),
    tx("xmit_more", Unified::XmitMore, "mlx5_core"),
    tx("more", Unified::XmitMore, "hns3"),
    both("kicks", Unified::Kicks, "virtio_net"),
    tx("doorbells", Unified::Kicks, "ena"),
    both("irq_n", Unified::Irqs, "stmmac"),
    both("interrupts", Unified::Irqs, "ibmvnic"),
    both("polls", Unified::Polls, "atlantic"),
    both("pktnum_rcd", Unified::HwPackets, "hns3"),
    both("rcb_packets_num", Unified::HwPackets, "hns"),
    both("ppe_drop_packets_num", Unified::HwDrops, "hns"),
    both("hw_packets", Unified::HwPackets, "virtio_net"),
    both("hw_bytes", Unified::HwBytes, "virtio_net"),
    both("hw_drops", Unified::HwDrops, "virtio_net"),
    rx("hw_drop_overruns", Unified::HwDropOverruns, "virtio_net"),
    both("hw_drop_errors", Unified::HwDropErrors, "netdev"),
    both("hw_drop_ratelimits", Unified::HwDropRatelimits, "netdev"),
    rx("hw_gro_packets", Unified::HwGroPackets, "netdev"),
    rx("hw_gro_bytes", Unified::HwGroBytes, "netdev"),
    rx("hw_gro_wire_packets", Unified::HwGroWirePackets, "netdev"),
    rx("hw_gro_wire_bytes", Unified::HwGroWireBytes, "netdev"),
    tx("hw_gso_packets", Unified::HwGsoPackets, "netdev"),
    tx("hw_gso_bytes", Unified::HwGsoBytes, "netdev"),
    tx("hw_gso_wire_packets", Unified::HwGsoWirePackets, "netdev"),
    tx("hw_gso_wire_bytes", Unified::HwGsoWireBytes, "netdev"),
];

/// Words that mean something else when this driver says them.
const OWN_WORDS: &[Word] = &[
    // no_buff_discards of the firmware's per-client statistics.
    rx("discards", Unified::DropNoBuf, "bnx2x"),
    // tx_ring_full is counted where the queue is stopped.
    tx("ring_full", Unified::Stop, "vmxnet3"),
];

/// Words for the device as a whole: `rtnl_link_stats64` has the same four.
const DEVICE_WORDS: &[(&str, Unified)] = &[
    ("packets", Unified::Packets),
    ("bytes", Unified::Bytes),
    ("errors", Unified::Errors),
    ("dropped", Unified::Drops),
];

/// The shared name of a queue's counter; `driver` is whose it is, as far as that is known.
pub(super) fn of_queue(
    ring: Ring,
    direction: Option<Direction>,
    counter: &str,
    driver: Option<&Driver>,
) -> Option<Unified> {
    let word = normal(counter, direction);
    let fits =
        |row: &&Word| row.word == word && (row.direction.is_none() || row.direction == direction);
    let own = OWN_WORDS.iter().filter(fits).find(|row| driver.is_some_and(|d| d.is(row.from)));
    let unified = own.or_else(|| WORDS.iter().find(fits)).map(|row| row.unified)?;
    match (ring, unified) {
        (Ring::Queue, unified) => Some(unified),
        (Ring::Xdp, Unified::Packets) => Some(Unified::XdpRingPackets),
        (Ring::Xdp, Unified::Bytes) => Some(Unified::XdpRingBytes),
        (Ring::Xdp, _) => None,
        (Ring::Software, Unified::Packets) => Some(Unified::SwPackets),
        (Ring::Software, unified) => Some(unified),
    }
}

/// The shared name of a counter of the whole device. Others than `rx_` and `tx_` with one of the
/// four words are of a MAC, a port or a function: they would be counted twice.
pub(super) fn of_device(name: &str) -> Option<Unified> {
    let word = name.strip_prefix("rx_").or_else(|| name.strip_prefix("tx_"))?;
    DEVICE_WORDS.iter().find(|(known, _)| *known == word).map(|(_, unified)| *unified)
}

/// A counter's words in one spelling: small letters, `_` between them, without the direction, and
/// one word each for packets and bytes.
fn normal(counter: &str, direction: Option<Direction>) -> String {
    let counter = direction.and_then(|side| without_camel(counter, side)).unwrap_or(counter);
    let counter = counter.to_ascii_lowercase();
    let direction = direction.map_or("", Direction::word);
    let words: Vec<_> =
        counter.split(' ').filter(|word| !word.is_empty() && *word != direction).collect();
    let words = words.join("_");
    let mut words: Vec<_> = words.split('_').map(synonym).collect();
    if words.len() > 1 && words.first() == Some(&direction) {
        words.remove(0);
    }
    words.join("_")
}

/// What follows the direction in `InPackets` and `OutPackets`.
fn without_camel(counter: &str, direction: Direction) -> Option<&str> {
    let said = match direction {
        Rx => "In",
        Tx => "Out",
    };
    counter.strip_prefix(said).filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn synonym(word: &str) -> &str {
    match word {
        "pkt" | "pkts" | "packet" | "frame" | "frames" => "packets",
        "byte" | "octets" => "bytes",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{super::drivers::DRIVERS, *};

    #[test]
    fn every_word_is_there_once_in_its_normal_form_and_has_a_source() {
        let mut seen = HashSet::new();
        for Word { direction, word, from, .. } in WORDS {
            assert_eq!(normal(word, None), *word);
            let new = match direction {
                Some(direction) => seen.insert((*direction, word)),
                None => [Rx, Tx].map(|direction| seen.insert((direction, word))).contains(&true),
            };
            assert!(new, "{word} twice");
            let has_source = DRIVERS.iter().any(|driver| driver.is(from));
            assert!(has_source || *from == "netdev", "{from}");
        }
        for Word { from, .. } in OWN_WORDS {
            assert!(DRIVERS.iter().any(|driver| driver.is(from)), "{from}");
        }
    }

    #[test]
    fn names_are_unique_and_what_json_says() {
        let names: HashSet<_> = Unified::ALL.iter().map(|unified| unified.name()).collect();
        assert_eq!(names.len(), Unified::ALL.len());
        for unified in Unified::ALL {
            assert_eq!(serde_json::to_value(unified).unwrap(), unified.name());
        }
    }

    #[test]
    fn spellings_are_one() {
        assert_eq!(normal("rx_rx_copybreak_pkt", Some(Rx)), "rx_copybreak_packets");
        assert_eq!(normal("rx_copybreak_pkt", Some(Rx)), "copybreak_packets");
        assert_eq!(normal("TSO pkts tx", Some(Tx)), "tso_packets");
        assert_eq!(normal("drv dropped tx total", Some(Tx)), "drv_dropped_total");
        assert_eq!(normal("xdp_tx", Some(Tx)), "xdp_tx");
        assert_eq!(normal("InPackets", Some(Rx)), "packets");
        assert_eq!(normal("Input", Some(Rx)), "input");
    }
}
