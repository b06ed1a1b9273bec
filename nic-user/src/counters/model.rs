//! The JSON of `nicctl stats`. Names are kept; what is added later does not change version 1.

use nic_common::{
    counters::{RxCounters, header_bin_start, size_bin_start},
    policy::{CopyPolicy, Verdict},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Sides, Snapshot, View,
    rates::{Rate, Rates, SideRates},
};
use crate::{
    error::Result,
    report::{json::Version, time::rfc3339},
    statistics::model::Source,
};

/// What `nicctl stats --json` prints; with `--watch`, once a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "nicctl stats")]
pub struct Document {
    /// Version of this format.
    pub version: Version<1>,
    /// The interfaces in the order in which they were asked for; none with --from.
    pub interfaces: Vec<Interface>,
    /// What others count. Only with --from; one for every list in the file.
    pub sources: Vec<Source>,
}

/// The counters of one interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Its index in its network namespace.
    pub ifindex: u32,
    /// Name of the network namespace; null for the caller's own.
    pub netns: Option<String>,
    /// How XDP is attached: native, generic or offload; tc without it.
    pub mode: String,
    /// What is not being counted, and why. What was counted before is still there.
    pub missing: Vec<Missing>,
    /// Why the transmit queue of a packet is a guess; null where it is known. Totals are exact all
    /// the same.
    pub tx_queue_guess: Option<&'static str>,
    /// The policy in force.
    pub policy: Policy,
    /// When the programs were attached: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub attached_at: String,
    /// Seconds between this reading and the one before it. Only with --watch; null in the first
    /// document that has the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Option<f64>>,
    /// Receive queues that are counted.
    pub rx_queues: usize,
    /// Transmit queues that are counted.
    pub tx_queues: usize,
    /// One row a queue number; with --queue only that one. Where there are more queues on one side
    /// than on the other, the side that a queue does not have is zero.
    pub queues: Vec<Queue>,
    /// The sum of the rows in `queues`.
    pub total: Counted,
}

/// Counters that do not count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Missing {
    /// Where they are in every row: `rx`.
    pub counters: &'static str,
    /// Why they do not.
    pub why: &'static str,
}

/// What decides which bytes of a frame are copied.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Policy {
    /// Frames up to this many bytes are copied whole.
    pub rx_copybreak: u16,
    /// Headers up to this many bytes are copied out when a payload follows them.
    pub max_linear: u16,
    /// Whether headers are split from payloads.
    pub split: bool,
}

/// The counters of one queue number.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Queue {
    /// Number of the queue, from 0.
    pub queue: u32,
    /// Its counters.
    #[serde(flatten)]
    pub counted: Counted,
}

/// The counters of one queue number, or of several together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Counted {
    /// Received frames, counted by XDP.
    pub rx: Rx,
    /// The same as the stack gets them, counted by TC ingress after GRO.
    pub ingress: Ingress,
    /// Packets as the stack sends them, counted by TC egress before segmentation.
    pub tx: Tx,
    /// What happened since the reading before this one. Only with --watch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<PerSecond>,
}

/// What XDP counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rx {
    /// Frames: the sum of copy, split and whole.
    pub packets: u64,
    /// Bytes of all frames, without FCS.
    pub bytes: u64,
    /// Frames that are copied whole.
    pub copy: u64,
    /// Frames whose headers are copied out.
    pub split: u64,
    /// Frames that are taken as they are.
    pub whole: u64,
    /// Frames whose headers are cut off or contradict themselves.
    pub malformed: u64,
    /// Frames whose headers could not be walked to their end.
    pub unparsed: u64,
    /// IP fragments, first and later.
    pub fragments: u64,
    /// Frames with at least one VLAN tag in their bytes.
    pub vlan: u64,
    /// Frames with an IP, GRE or MPLS tunnel, or UDP to a tunnel's port.
    pub tunnelled: u64,
    /// Frames for which the driver had no room for metadata.
    pub no_metadata: u64,
    /// Frames that went to the AF_XDP rings of a user instead of to the stack.
    pub redirected: u64,
    /// Header bytes of all frames.
    pub header_bytes: u64,
    /// Bytes that the verdicts copy.
    pub copied_bytes: u64,
    /// Bytes that they do not copy.
    pub spared_bytes: u64,
    /// Averages over all frames.
    pub averages: RxAverages,
    /// Frames by length. In the total, and with --histogram in every queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<Bin>>,
    /// Frames by header length. In the total, and with --histogram in every queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_lengths: Option<Vec<Bin>>,
}

/// Averages over received frames; null where nothing was received.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RxAverages {
    /// Bytes of a frame.
    pub packet_bytes: Option<f64>,
    /// Header bytes of a frame.
    pub header_bytes: Option<f64>,
    /// Share of the bytes that is not copied: 0 to 1.
    pub spared_share: Option<f64>,
}

/// Frames whose length lies between two ends, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bin {
    /// Smallest length in bytes.
    pub from: u32,
    /// Largest length in bytes; null for the last bin, which has no end.
    pub to: Option<u32>,
    /// Frames.
    pub packets: u64,
}

/// What TC ingress counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ingress {
    /// Packets as the stack gets them: after GRO.
    pub packets: u64,
    /// Bytes of all packets, link-layer header included.
    pub bytes: u64,
    /// Bytes in the linear part.
    pub linear_bytes: u64,
    /// Payload bytes in the linear part, where they keep GRO from merging by fragments.
    pub linear_payload_bytes: u64,
    /// Bytes in page fragments.
    pub paged_bytes: u64,
    /// Packets that GRO or LRO merged.
    pub gro_packets: u64,
    /// Segments in them.
    pub gro_segments: u64,
    /// Bytes of the largest packet.
    pub largest: u64,
    /// Packets pulled together (attach --pull).
    pub pulled: u64,
    /// Packets that could not be pulled together.
    pub pull_failed: u64,
    /// Averages over all packets.
    pub averages: IngressAverages,
}

/// Averages over packets as the stack gets them; null where there were none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IngressAverages {
    /// Bytes of a packet.
    pub packet_bytes: Option<f64>,
    /// Segments of a packet that GRO or LRO merged.
    pub gro_segments: Option<f64>,
    /// Share of the payload that lies in the linear part: 0 to 1.
    pub linear_payload_share: Option<f64>,
}

/// What TC egress counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tx {
    /// Packets as the stack sends them: super-packets count once.
    pub packets: u64,
    /// Bytes of all packets, link-layer header included.
    pub bytes: u64,
    /// Header bytes of all packets.
    pub header_bytes: u64,
    /// TCP super-packets.
    pub gso_tcp_packets: u64,
    /// Segments in them.
    pub gso_tcp_segments: u64,
    /// UDP super-packets.
    pub gso_udp_packets: u64,
    /// Segments in them.
    pub gso_udp_segments: u64,
    /// Packets over 65536 bytes: BIG TCP.
    pub over_64k: u64,
    /// Averages over all packets.
    pub averages: TxAverages,
}

/// Averages over packets as the stack sends them; null where there were none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TxAverages {
    /// Bytes of a packet.
    pub packet_bytes: Option<f64>,
    /// Header bytes of a packet.
    pub header_bytes: Option<f64>,
    /// Segments of a TCP super-packet.
    pub gso_tcp_segments: Option<f64>,
    /// Segments of a UDP super-packet.
    pub gso_udp_segments: Option<f64>,
}

/// Rates in both directions. Null where they are not known: in the first reading of an interface,
/// and when counters started anew.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PerSecond {
    /// Received, as XDP counts it; where `rx` is missing, as TC ingress does.
    pub rx: Option<DirectionRate>,
    /// Sent, as TC egress counts it.
    pub tx: Option<DirectionRate>,
}

/// Rates in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DirectionRate {
    /// Packets per second.
    pub packets_per_second: f64,
    /// Bits per second, of the bytes that are counted.
    pub bits_per_second: f64,
}

impl Document {
    /// What `view` shows of `now`; with `before`, the reading before it, also the rates.
    ///
    /// # Errors
    /// If an interface lacks the queue that is asked for.
    pub fn new(view: &View, before: Option<&[Snapshot]>, now: &[Snapshot]) -> Result<Self> {
        let interface = |snapshot| {
            let watched = before.map(|before| Rates::since(before, snapshot));
            Interface::new(view, snapshot, watched)
        };
        let interfaces = now.iter().map(interface).collect::<Result<_>>()?;
        Ok(Self { version: Version, interfaces, sources: Vec::new() })
    }

    /// What was saved of interfaces that may be far away.
    pub fn saved(sources: Vec<Source>) -> Self {
        Self { version: Version, interfaces: Vec::new(), sources }
    }
}

impl Interface {
    /// `watched` is there with `--watch`, and has rates from the second reading on.
    fn new(view: &View, snapshot: &Snapshot, watched: Option<Option<Rates>>) -> Result<Self> {
        let queues = snapshot.queues(view.queue)?;
        let per_second = |of: &dyn Fn(&Rates) -> SideRates| {
            watched.as_ref().map(|rates| rates.as_ref().map(of).unwrap_or_default().into())
        };
        let row = |(queue, sides): &(u32, Sides)| Queue {
            queue: *queue,
            counted: Counted::new(sides, view.histogram, per_second(&|rates| rates.queue(*queue))),
        };
        Ok(Self {
            name: snapshot.name.clone(),
            ifindex: snapshot.ifindex,
            netns: snapshot.netns.clone(),
            mode: snapshot.mode.clone(),
            missing: snapshot
                .not_at_xdp
                .map(|why| Missing { counters: "rx", why })
                .into_iter()
                .collect(),
            tx_queue_guess: snapshot.tx_queue_guess,
            policy: snapshot.policy.into(),
            attached_at: rfc3339(snapshot.attached_at),
            interval_seconds: watched
                .as_ref()
                .map(|rates| rates.as_ref().map(|rates| rates.interval.as_secs_f64())),
            rx_queues: snapshot.rx.len(),
            tx_queues: snapshot.tx.len(),
            queues: queues.rows.iter().map(row).collect(),
            total: Counted::new(&queues.total, true, per_second(&|rates| rates.total(&queues))),
        })
    }
}

impl From<CopyPolicy> for Policy {
    fn from(policy: CopyPolicy) -> Self {
        let CopyPolicy { rx_copybreak, max_linear, split } = policy;
        Self { rx_copybreak, max_linear, split }
    }
}

impl Counted {
    fn new(sides: &Sides, histogram: bool, rates: Option<PerSecond>) -> Self {
        Self {
            rx: Rx::new(sides, histogram),
            ingress: Ingress::new(sides),
            tx: Tx::new(sides),
            rates,
        }
    }
}

impl Rx {
    fn new(sides: &Sides, histogram: bool) -> Self {
        let rx = &sides.rx;
        Self {
            packets: rx.packets(),
            bytes: rx.bytes,
            copy: rx.verdict(Verdict::Copy),
            split: rx.verdict(Verdict::Split),
            whole: rx.verdict(Verdict::Whole),
            malformed: rx.malformed,
            unparsed: rx.unparsed,
            fragments: rx.fragments,
            vlan: rx.vlan,
            tunnelled: rx.tunnelled,
            no_metadata: rx.no_metadata,
            redirected: rx.redirected,
            header_bytes: rx.header_bytes,
            copied_bytes: rx.copied_bytes,
            spared_bytes: rx.spared_bytes(),
            averages: RxAverages {
                packet_bytes: sides.rx_size(),
                header_bytes: sides.rx_header_length(),
                spared_share: sides.spared_share(),
            },
            sizes: histogram.then(|| size_bins(rx)),
            header_lengths: histogram.then(|| header_bins(rx)),
        }
    }
}

impl Ingress {
    fn new(sides: &Sides) -> Self {
        let ingress = &sides.ingress;
        Self {
            packets: ingress.packets,
            bytes: ingress.bytes,
            linear_bytes: ingress.linear_bytes,
            linear_payload_bytes: ingress.linear_payload_bytes,
            paged_bytes: ingress.paged_bytes(),
            gro_packets: ingress.gro_packets,
            gro_segments: ingress.gro_segments,
            largest: ingress.largest,
            pulled: ingress.pulled,
            pull_failed: ingress.pull_failed,
            averages: IngressAverages {
                packet_bytes: sides.ingress_size(),
                gro_segments: sides.gro_segments(),
                linear_payload_share: sides.linear_payload_share(),
            },
        }
    }
}

impl Tx {
    fn new(sides: &Sides) -> Self {
        let tx = &sides.tx;
        Self {
            packets: tx.packets,
            bytes: tx.bytes,
            header_bytes: tx.header_bytes,
            gso_tcp_packets: tx.gso_tcp_packets,
            gso_tcp_segments: tx.gso_tcp_segments,
            gso_udp_packets: tx.gso_udp_packets,
            gso_udp_segments: tx.gso_udp_segments,
            over_64k: tx.over_64k,
            averages: TxAverages {
                packet_bytes: sides.tx_size(),
                header_bytes: sides.tx_header_length(),
                gso_tcp_segments: sides.gso_tcp_segments(),
                gso_udp_segments: sides.gso_udp_segments(),
            },
        }
    }
}

impl From<SideRates> for PerSecond {
    fn from(rates: SideRates) -> Self {
        let direction = |rate: Rate| DirectionRate {
            packets_per_second: rate.packets,
            bits_per_second: rate.bits,
        };
        Self { rx: rates.rx.map(direction), tx: rates.tx.map(direction) }
    }
}

/// All bins of the packet-size histogram.
pub(super) fn size_bins(rx: &RxCounters) -> Vec<Bin> {
    bins(&rx.sizes, size_bin_start)
}

/// All bins of the header-length histogram.
pub(super) fn header_bins(rx: &RxCounters) -> Vec<Bin> {
    bins(&rx.headers, header_bin_start)
}

fn bins(counts: &[u64], start: fn(usize) -> u32) -> Vec<Bin> {
    let bin = |(bin, packets): (usize, &u64)| Bin {
        from: start(bin),
        to: (bin + 1 < counts.len()).then(|| start(bin + 1) - 1),
        packets: *packets,
    };
    counts.iter().enumerate().map(bin).collect()
}

#[cfg(test)]
#[path = "../../tests/schema/mod.rs"]
mod schema;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{prelude::ProptestConfig, prop_assert, proptest};
    use schemars::schema_for;
    use serde_json::{Value, json};

    use super::*;
    use crate::counters::fixtures;

    const VIEW: View = View { queue: None, histogram: false };

    fn json_of(view: &View, before: Option<&[Snapshot]>, now: &[Snapshot]) -> Value {
        serde_json::to_value(Document::new(view, before, now).unwrap()).unwrap()
    }

    #[test]
    fn names_of_version_1_are_kept() {
        let mut one = fixtures::snapshot("eth7", 1, 1);
        one.rx[0] = fixtures::rx(3, 1000);
        one.netns = Some("blue".to_owned());
        let mut document = Document::new(&VIEW, None, &[one]).unwrap();
        let total = &mut document.interfaces[0].total;
        (total.rx.sizes, total.rx.header_lengths) = (None, None);
        let json = serde_json::to_string(&document).unwrap();
        // A line an object, to be read by people.
        insta::assert_snapshot!(json.replace("},", "},\n"), @r#"
        {"version":1,"interfaces":[{"name":"eth7","ifindex":7,"netns":"blue","mode":"native","missing":[],"tx_queue_guess":null,"policy":{"rx_copybreak":256,"max_linear":256,"split":true},
        "attached_at":"2024-12-31T23:59:59Z","rx_queues":1,"tx_queues":1,"queues":[{"queue":0,"rx":{"packets":3,"bytes":3000,"copy":0,"split":3,"whole":0,"malformed":0,"unparsed":0,"fragments":0,"vlan":0,"tunnelled":0,"no_metadata":0,"redirected":0,"header_bytes":162,"copied_bytes":162,"spared_bytes":2838,"averages":{"packet_bytes":1000.0,"header_bytes":54.0,"spared_share":0.946}},
        "ingress":{"packets":0,"bytes":0,"linear_bytes":0,"linear_payload_bytes":0,"paged_bytes":0,"gro_packets":0,"gro_segments":0,"largest":0,"pulled":0,"pull_failed":0,"averages":{"packet_bytes":null,"gro_segments":null,"linear_payload_share":null}},
        "tx":{"packets":0,"bytes":0,"header_bytes":0,"gso_tcp_packets":0,"gso_tcp_segments":0,"gso_udp_packets":0,"gso_udp_segments":0,"over_64k":0,"averages":{"packet_bytes":null,"header_bytes":null,"gso_tcp_segments":null,"gso_udp_segments":null}}}],"total":{"rx":{"packets":3,"bytes":3000,"copy":0,"split":3,"whole":0,"malformed":0,"unparsed":0,"fragments":0,"vlan":0,"tunnelled":0,"no_metadata":0,"redirected":0,"header_bytes":162,"copied_bytes":162,"spared_bytes":2838,"averages":{"packet_bytes":1000.0,"header_bytes":54.0,"spared_share":0.946}},
        "ingress":{"packets":0,"bytes":0,"linear_bytes":0,"linear_payload_bytes":0,"paged_bytes":0,"gro_packets":0,"gro_segments":0,"largest":0,"pulled":0,"pull_failed":0,"averages":{"packet_bytes":null,"gro_segments":null,"linear_payload_share":null}},
        "tx":{"packets":0,"bytes":0,"header_bytes":0,"gso_tcp_packets":0,"gso_tcp_segments":0,"gso_udp_packets":0,"gso_udp_segments":0,"over_64k":0,"averages":{"packet_bytes":null,"header_bytes":null,"gso_tcp_segments":null,"gso_udp_segments":null}}}}],"sources":[]}
        "#);
    }

    #[test]
    fn the_total_always_has_histograms_and_queues_on_request() {
        let busy = [fixtures::busy()];
        let without = json_of(&VIEW, None, &busy);
        let with = json_of(&View { histogram: true, ..VIEW }, None, &busy);
        let of = |document: &Value, at: &str| document["interfaces"][0].pointer(at).cloned();
        let full = json!({"from": 1472, "to": 1535, "packets": 12_345_670});
        assert_eq!(of(&without, "/total/rx/sizes/23"), Some(full));
        let headers = json!({"from": 48, "to": 55, "packets": 13_333_320});
        assert_eq!(of(&without, "/total/rx/header_lengths/6"), Some(headers));
        let last = json!({"from": 65536, "to": null, "packets": 0});
        assert_eq!(of(&without, "/total/rx/sizes/30"), Some(last));
        assert_eq!(of(&without, "/queues/1/rx/sizes"), None);
        let one = json!({"from": 1472, "to": 1535, "packets": 2_469_134});
        assert_eq!(of(&with, "/queues/1/rx/sizes/23"), Some(one));
        assert_eq!(of(&with, "/total"), of(&without, "/total"));
    }

    #[test]
    fn a_side_that_a_queue_lacks_is_zero() {
        let mut lopsided = fixtures::snapshot("eth7", 1, 3);
        lopsided.rx[0] = fixtures::rx(3, 1000);
        lopsided.tx[2].packets = 5;
        let document = json_of(&VIEW, None, &[lopsided]);
        let interface = &document["interfaces"][0];
        assert_eq!(interface["rx_queues"], 1);
        assert_eq!(interface["tx_queues"], 3);
        assert_eq!(interface["queues"][2]["rx"]["packets"], 0);
        assert_eq!(interface["queues"][2]["tx"]["packets"], 5);
        assert_eq!(interface["total"]["tx"]["packets"], 5);
    }

    #[test]
    fn one_queue_is_its_own_total() {
        let view = View { queue: Some(2), histogram: false };
        let document = json_of(&view, None, &[fixtures::busy()]);
        let interface = &document["interfaces"][0];
        assert_eq!(interface["queues"].as_array().unwrap().len(), 1);
        assert_eq!(interface["queues"][0]["queue"], 2);
        assert_eq!(interface["total"]["rx"]["malformed"], 2);
        assert_eq!(interface["total"]["tx"], interface["queues"][0]["tx"]);
    }

    #[test]
    fn rates_are_absent_without_watching_and_null_in_the_first_reading() {
        let before = fixtures::busy();
        let mut after = before.clone();
        after.taken_at += Duration::from_secs(2);
        after.rx[1].verdicts[0] += 100;
        after.rx[1].bytes += 10_000;
        let now = [after];
        let rates = |before| {
            let document = json_of(&VIEW, before, &now);
            let interface = &document["interfaces"][0];
            [
                interface.get("interval_seconds").cloned(),
                interface["queues"][1].get("rates").cloned(),
                interface["total"].get("rates").cloned(),
            ]
        };
        assert_eq!(rates(None), [None, None, None]);
        let unknown = Some(json!({"rx": null, "tx": null}));
        assert_eq!(rates(Some(&[])), [Some(Value::Null), unknown.clone(), unknown]);
        let known = Some(json!({
            "rx": {"packets_per_second": 50.0, "bits_per_second": 40_000.0},
            "tx": {"packets_per_second": 0.0, "bits_per_second": 0.0},
        }));
        assert_eq!(rates(Some(&[before])), [Some(json!(2.0)), known.clone(), known]);
    }

    /// Whether `total` is the sum of `queues` in `field`.
    fn adds_up(interface: &Value, side: &str, field: &str) -> bool {
        let of = |sides: &Value| sides[side][field].as_u64();
        let queues = interface["queues"].as_array().into_iter().flatten();
        let sum = queues.map(of).sum::<Option<u64>>();
        let total = of(&interface["total"]);
        total.is_some() && total == sum
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn totals_are_the_sum_of_the_queues(snapshot in fixtures::any_plausible()) {
            let document = json_of(&VIEW, None, &[snapshot]);
            let interface = &document["interfaces"][0];
            for side in ["rx", "ingress", "tx"] {
                for (field, value) in interface["total"][side].as_object().unwrap() {
                    let is_sum = value.is_u64() && field != "largest";
                    prop_assert!(!is_sum || adds_up(interface, side, field), "{field}");
                }
            }
        }
    }

    #[test]
    fn documents_match_their_schema() {
        let schema = schema_for!(Document).to_value();
        let all = [
            fixtures::snapshot("lo", 0, 0),
            fixtures::snapshot("eth7", 1, 3),
            fixtures::busy(),
            fixtures::huge(),
        ];
        for histogram in [false, true] {
            for before in [None, Some(&[][..]), Some(&all[..])] {
                let document = json_of(&View { histogram, ..VIEW }, before, &all);
                assert_eq!(schema::mismatch(&schema, &document), None);
            }
        }
        let wrong = [
            json!({"version": 2, "interfaces": []}),
            json!({"version": 1, "interfaces": [{}]}),
            json!({"version": 1}),
        ];
        assert!(wrong.iter().all(|document| schema::mismatch(&schema, document).is_some()));
    }
}
