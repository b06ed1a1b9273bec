//! Hand-made readings for tests.

use std::{
    array,
    time::{Duration, Instant, UNIX_EPOCH},
};

use nic_common::{
    counters::{Counters, IngressCounters, RxCounters, TxCounters, header_bin, size_bin},
    policy::{CopyPolicy, Verdict},
};

use proptest::{collection::vec, prelude::*};

use super::Snapshot;

/// A reading without any traffic.
pub fn snapshot(name: &str, rx_queues: usize, tx_queues: usize) -> Snapshot {
    Snapshot {
        name: name.to_owned(),
        ifindex: 7,
        netns: None,
        mode: "native".to_owned(),
        not_at_xdp: None,
        tx_queue_guess: None,
        policy: CopyPolicy::DEFAULT,
        attached_at: UNIX_EPOCH + Duration::from_secs(1_735_689_599),
        taken_at: Instant::now(),
        rx: vec![RxCounters::ZERO; rx_queues],
        ingress: vec![IngressCounters::ZERO; rx_queues],
        tx: vec![TxCounters::ZERO; tx_queues],
    }
}

/// `packets` TCP frames of `len` bytes under the default policy.
pub fn rx(packets: u64, len: u32) -> RxCounters {
    const HEADERS: u32 = 54;
    let verdict = if len <= 256 { Verdict::Copy } else { Verdict::Split };
    let mut rx = RxCounters::ZERO;
    rx.verdicts[verdict as usize] = packets;
    rx.bytes = packets * u64::from(len);
    rx.header_bytes = packets * u64::from(HEADERS);
    rx.copied_bytes = packets * u64::from(verdict.copied(len, HEADERS));
    rx.sizes[size_bin(len)] = packets;
    rx.headers[header_bin(HEADERS)] = packets;
    rx
}

/// Four queues with traffic of different kinds, each of them a little busier than the one before.
pub fn busy() -> Snapshot {
    let mut busy = snapshot("eth7", 4, 4);
    for (queue, n) in (1..=4).enumerate() {
        busy.rx[queue] = rx(1_234_567 * n, 1514);
        let small = rx(98_765 * n, 66);
        Counters::add(&mut busy.rx[queue], &small);
        busy.ingress[queue] = IngressCounters {
            packets: 150_000 * n,
            bytes: 1_800_000_000 * n,
            linear_bytes: 20_000_000 * n,
            linear_payload_bytes: 9_000_000 * n,
            gro_packets: 100_000 * n,
            gro_segments: 1_234_000 * n,
            largest: 65_226 + n,
            pulled: 0,
            pull_failed: 0,
        };
        busy.tx[queue] = TxCounters {
            packets: 54_321 * n,
            bytes: 2_222_222_222 * n,
            header_bytes: 54_321 * 66 * n,
            gso_tcp_packets: 40_000 * n,
            gso_tcp_segments: 1_500_000 * n,
            gso_udp_packets: 1_000 * n,
            gso_udp_segments: 20_000 * n,
            over_64k: 12 * n,
        };
    }
    busy.rx[2].fragments = 17;
    busy.rx[2].malformed = 2;
    busy
}

/// 64 queues, of which only three have traffic.
pub fn mostly_idle() -> Snapshot {
    let mut wide = snapshot("eth7", 64, 64);
    for queue in [0, 1, 9] {
        wide.rx[queue] = rx(1_000, 1514);
        wide.tx[queue].packets = 10;
        wide.tx[queue].bytes = 660;
    }
    wide
}

/// Every counter as large as it can be.
pub fn huge() -> Snapshot {
    let mut huge = snapshot("eth7", 2, 2);
    huge.rx.fill(rx_of(vec![u64::MAX; RX_FIELDS]));
    huge.ingress.fill(ingress_of(vec![u64::MAX; INGRESS_FIELDS]));
    huge.tx.fill(tx_of(vec![u64::MAX; TX_FIELDS]));
    huge
}

/// Any reading, possible or not.
pub fn any() -> impl Strategy<Value = Snapshot> {
    any_up_to(u64::MAX)
}

/// Any reading of counters that have not wrapped and do not contradict each other.
pub fn any_plausible() -> impl Strategy<Value = Snapshot> {
    any_up_to(1 << 48).prop_map(|mut any| {
        any.rx.iter_mut().for_each(|rx| rx.copied_bytes = rx.copied_bytes.min(rx.bytes));
        let ingress = any.ingress.iter_mut();
        ingress.for_each(|ingress| ingress.linear_bytes = ingress.linear_bytes.min(ingress.bytes));
        any
    })
}

fn any_up_to(max: u64) -> impl Strategy<Value = Snapshot> {
    let counter = || prop_oneof![Just(0), 0..=1000_u64, 0..=max, Just(max)];
    let side = |fields| vec(vec(counter(), fields), 0..12);
    let names = (".*", proptest::option::of(".*"), ".*");
    let sides = (side(RX_FIELDS), side(INGRESS_FIELDS), side(TX_FIELDS));
    (names, sides).prop_map(|((name, netns, mode), (rx, ingress, tx))| Snapshot {
        netns,
        mode,
        rx: rx.into_iter().map(rx_of).collect(),
        ingress: ingress.into_iter().map(ingress_of).collect(),
        tx: tx.into_iter().map(tx_of).collect(),
        ..snapshot(&name, 0, 0)
    })
}

const RX_FIELDS: usize = size_of::<RxCounters>() / size_of::<u64>();
const INGRESS_FIELDS: usize = size_of::<IngressCounters>() / size_of::<u64>();
const TX_FIELDS: usize = size_of::<TxCounters>() / size_of::<u64>();

fn rx_of(fields: Vec<u64>) -> RxCounters {
    let mut fields = fields.into_iter();
    let mut next = || fields.next().unwrap();
    RxCounters {
        verdicts: array::from_fn(|_| next()),
        bytes: next(),
        header_bytes: next(),
        copied_bytes: next(),
        malformed: next(),
        unparsed: next(),
        fragments: next(),
        vlan: next(),
        tunnelled: next(),
        no_metadata: next(),
        redirected: next(),
        logged_at: next(),
        sizes: array::from_fn(|_| next()),
        headers: array::from_fn(|_| next()),
    }
}

fn ingress_of(fields: Vec<u64>) -> IngressCounters {
    let mut fields = fields.into_iter();
    let mut next = || fields.next().unwrap();
    IngressCounters {
        packets: next(),
        bytes: next(),
        linear_bytes: next(),
        linear_payload_bytes: next(),
        gro_packets: next(),
        gro_segments: next(),
        largest: next(),
        pulled: next(),
        pull_failed: next(),
    }
}

fn tx_of(fields: Vec<u64>) -> TxCounters {
    let mut fields = fields.into_iter();
    let mut next = || fields.next().unwrap();
    TxCounters {
        packets: next(),
        bytes: next(),
        header_bytes: next(),
        gso_tcp_packets: next(),
        gso_tcp_segments: next(),
        gso_udp_packets: next(),
        gso_udp_segments: next(),
        over_64k: next(),
    }
}
