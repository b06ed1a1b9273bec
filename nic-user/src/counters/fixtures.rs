//! Hand-made readings for tests.

use std::time::{Duration, Instant, UNIX_EPOCH};

use nic_common::{
    counters::{
        Counters, HEADER_BINS, IngressCounters, RxCounters, SIZE_BINS, TxCounters, header_bin,
        size_bin,
    },
    policy::{CopyPolicy, Verdict},
};

use super::Snapshot;

/// A reading without any traffic.
pub fn snapshot(name: &str, rx_queues: usize, tx_queues: usize) -> Snapshot {
    Snapshot {
        name: name.to_owned(),
        ifindex: 7,
        netns: None,
        mode: "native".to_owned(),
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
    huge.rx.fill(RxCounters {
        verdicts: [u64::MAX; 3],
        bytes: u64::MAX,
        header_bytes: u64::MAX,
        copied_bytes: u64::MAX,
        malformed: u64::MAX,
        unparsed: u64::MAX,
        fragments: u64::MAX,
        vlan: u64::MAX,
        tunnelled: u64::MAX,
        no_metadata: u64::MAX,
        logged_at: u64::MAX,
        sizes: [u64::MAX; SIZE_BINS],
        headers: [u64::MAX; HEADER_BINS],
    });
    huge.ingress.fill(IngressCounters {
        packets: u64::MAX,
        bytes: u64::MAX,
        linear_bytes: u64::MAX,
        linear_payload_bytes: u64::MAX,
        gro_packets: u64::MAX,
        gro_segments: u64::MAX,
        largest: u64::MAX,
        pulled: u64::MAX,
        pull_failed: u64::MAX,
    });
    huge.tx.fill(TxCounters {
        packets: u64::MAX,
        bytes: u64::MAX,
        header_bytes: u64::MAX,
        gso_tcp_packets: u64::MAX,
        gso_tcp_segments: u64::MAX,
        gso_udp_packets: u64::MAX,
        gso_udp_segments: u64::MAX,
        over_64k: u64::MAX,
    });
    huge
}
