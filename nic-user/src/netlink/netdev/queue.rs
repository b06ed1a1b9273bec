//! Queues: which NAPI instance polls which of them, and what they counted (`NETDEV_A_QUEUE_*`,
//! `NETDEV_A_QSTATS_*`).

use std::collections::BTreeMap;

use super::Netdev;
use crate::netlink::Result;
use crate::netlink::attribute::{Attribute, Attributes};

const QUEUE_GET: u8 = 10;
const QSTATS_GET: u8 = 12;

const QUEUE_ID: u16 = 1;
const QUEUE_IFINDEX: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI_ID: u16 = 4;
const QUEUE_XSK: u16 = 7;

const QSTATS_IFINDEX: u16 = 1;
const QSTATS_QUEUE_TYPE: u16 = 2;
const QSTATS_QUEUE_ID: u16 = 3;
const QSTATS_SCOPE: u16 = 4;
const QSTATS_SCOPE_QUEUE: u64 = 1;

/// The attribute of the first counter in [`COUNTERS`].
const FIRST_COUNTER: u16 = 8;

/// The kernel's names for the counters, in the order of their attributes.
const COUNTERS: [&str; 27] = [
    "rx-packets",
    "rx-bytes",
    "tx-packets",
    "tx-bytes",
    "rx-alloc-fail",
    "rx-hw-drops",
    "rx-hw-drop-overruns",
    "rx-csum-complete",
    "rx-csum-unnecessary",
    "rx-csum-none",
    "rx-csum-bad",
    "rx-hw-gro-packets",
    "rx-hw-gro-bytes",
    "rx-hw-gro-wire-packets",
    "rx-hw-gro-wire-bytes",
    "rx-hw-drop-ratelimits",
    "tx-hw-drops",
    "tx-hw-drop-errors",
    "tx-csum-none",
    "tx-needs-csum",
    "tx-hw-gso-packets",
    "tx-hw-gso-bytes",
    "tx-hw-gso-wire-packets",
    "tx-hw-gso-wire-bytes",
    "tx-hw-drop-ratelimits",
    "tx-stop",
    "tx-wake",
];

/// Which way the packets of a queue go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Received.
    Rx,
    /// Sent.
    Tx,
}

impl Direction {
    const fn decode(queue_type: u32) -> Option<Self> {
        match queue_type {
            0 => Some(Self::Rx),
            1 => Some(Self::Tx),
            _ => None,
        }
    }
}

/// A queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// Which way its packets go.
    pub direction: Direction,
    /// Its number, from 0.
    pub number: u32,
}

/// What the kernel knows of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The NAPI instance that polls it, if the driver says.
    pub napi_id: Option<u32>,
    /// Whether an AF_XDP socket has it.
    pub af_xdp: bool,
}

/// What a queue counted, by the kernel's names. One that the driver does not count is absent.
pub type QueueCounters = BTreeMap<&'static str, u64>;

impl Netdev {
    /// The queues in use of the device with this index; none before Linux 6.8, and none while the
    /// device is down.
    pub fn queues(&mut self, ifindex: u32) -> Result<BTreeMap<QueueId, Queue>> {
        let queues =
            self.dump(QUEUE_GET, |query| query.u32(QUEUE_IFINDEX, ifindex), decode_queue)?;
        Ok(queues.into_iter().collect())
    }

    /// What the queues of the device with this index counted; none if its driver does not count,
    /// and none before Linux 6.9.
    pub fn queue_counters(&mut self, ifindex: u32) -> Result<BTreeMap<QueueId, QueueCounters>> {
        let counters = self.dump(
            QSTATS_GET,
            |query| query.u32(QSTATS_IFINDEX, ifindex).uint(QSTATS_SCOPE, QSTATS_SCOPE_QUEUE),
            decode_counters,
        )?;
        Ok(counters.into_iter().collect())
    }
}

pub(crate) fn decode_queue(attributes: Attributes<'_>) -> Result<Option<(QueueId, Queue)>> {
    let mut queue = Queue::default();
    let mut number = None;
    let mut direction = None;
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            QUEUE_ID => number = Some(attribute.u32()?),
            QUEUE_TYPE => direction = Direction::decode(attribute.u32()?),
            QUEUE_NAPI_ID => queue.napi_id = Some(attribute.u32()?),
            QUEUE_XSK => queue.af_xdp = true,
            _ => {}
        }
    }
    let id = direction.zip(number).map(|(direction, number)| QueueId { direction, number });
    Ok(id.map(|id| (id, queue)))
}

pub(crate) fn decode_counters(
    attributes: Attributes<'_>,
) -> Result<Option<(QueueId, QueueCounters)>> {
    let mut counters = QueueCounters::new();
    let mut number = None;
    let mut direction = None;
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            QSTATS_QUEUE_ID => number = Some(attribute.u32()?),
            QSTATS_QUEUE_TYPE => direction = Direction::decode(attribute.u32()?),
            _ => {
                if let Some(name) = counter_name(attribute) {
                    counters.insert(name, attribute.uint()?);
                }
            }
        }
    }
    let id = direction.zip(number).map(|(direction, number)| QueueId { direction, number });
    Ok(id.map(|id| (id, counters)))
}

fn counter_name(attribute: Attribute<'_>) -> Option<&'static str> {
    let index = attribute.kind.checked_sub(FIRST_COUNTER)?;
    COUNTERS.get(usize::from(index)).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::request::Request;

    const TX_3: QueueId = QueueId { direction: Direction::Tx, number: 3 };

    #[test]
    fn a_queue_names_its_napi_instance() {
        let message = Request::default().u32(QUEUE_ID, 3).u32(QUEUE_TYPE, 1);
        let decode = |message: &Request| decode_queue(Attributes::new(message.as_bytes()));
        assert_eq!(decode(&message), Ok(Some((TX_3, Queue::default()))));
        let message = message.u32(QUEUE_NAPI_ID, 8195).nest(QUEUE_XSK, |nest| nest);
        let queue = Queue { napi_id: Some(8195), af_xdp: true };
        assert_eq!(decode(&message), Ok(Some((TX_3, queue))));
        assert_eq!(decode(&Request::default().u32(QUEUE_ID, 3).u32(QUEUE_TYPE, 9)), Ok(None));
    }

    #[test]
    fn counters_have_the_kernels_names() {
        let message = Request::default()
            .u32(QSTATS_QUEUE_ID, 3)
            .u32(QSTATS_QUEUE_TYPE, 1)
            .uint(10, 5_000_000_000)
            .uint(33, 2)
            .uint(90, 1);
        let counters = [("tx-packets", 5_000_000_000), ("tx-stop", 2)].into();
        assert_eq!(
            decode_counters(Attributes::new(message.as_bytes())),
            Ok(Some((TX_3, counters)))
        );
    }

    proptest! {
        #[test]
        fn no_attributes_make_the_decoders_panic(attributes: Vec<(u16, Vec<u8>)>, raw: Vec<u8>) {
            let message = attributes.iter().fold(Request::default(), |message, (kind, value)| {
                message.bytes(kind % 40, value)
            });
            for bytes in [message.as_bytes(), &raw] {
                let _ = decode_queue(Attributes::new(bytes));
                let _ = decode_counters(Attributes::new(bytes));
            }
        }
    }
}
