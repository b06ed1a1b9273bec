//! Page pools: the memory that receive queues recycle (`NETDEV_A_PAGE_POOL_*`). Since Linux 6.8.

use std::collections::BTreeMap;

use super::Netdev;
use crate::netlink::Result;
use crate::netlink::attribute::{Attribute, Attributes};

const PAGE_POOL_GET: u8 = 5;
const PAGE_POOL_STATS_GET: u8 = 9;

const ID: u16 = 1;
const IFINDEX: u16 = 2;
const NAPI_ID: u16 = 3;
const INFLIGHT: u16 = 4;
const INFLIGHT_MEM: u16 = 5;
const DETACH_TIME: u16 = 6;

const STATS_INFO: u16 = 1;
/// The attribute of the first counter in [`COUNTERS`].
const FIRST_COUNTER: u16 = 8;

/// The kernel's names for the counters, in the order of their attributes.
const COUNTERS: [&str; 11] = [
    "alloc-fast",
    "alloc-slow",
    "alloc-slow-high-order",
    "alloc-empty",
    "alloc-refill",
    "alloc-waive",
    "recycle-cached",
    "recycle-cache-full",
    "recycle-ring",
    "recycle-ring-full",
    "recycle-released-refcnt",
];

/// A page pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagePool {
    /// Its id.
    pub id: u64,
    /// The NAPI instance that it belongs to, if the driver says.
    pub napi_id: Option<u64>,
    /// Pages that are out: in rings, in sockets.
    pub inflight: u64,
    /// The memory in those pages, in bytes.
    pub inflight_bytes: u64,
    /// When the driver let go of it, in seconds since boot; it waits for its pages since then.
    pub detach_time: Option<u64>,
    /// What it counted, by the kernel's names; empty if the kernel is built without.
    pub counters: BTreeMap<&'static str, u64>,
}

impl Netdev {
    /// The page pools of the device with this index, by id; none before Linux 6.8, and none if
    /// the driver does not say which are its own.
    pub fn page_pools(&mut self, ifindex: u32) -> Result<Vec<PagePool>> {
        // The kernel filters by device only since very recently.
        let mut pools = self.dump(PAGE_POOL_GET, |query| query, decode)?;
        pools.retain(|(owner, _)| *owner == ifindex);
        if pools.is_empty() {
            return Ok(Vec::new());
        }
        let mut counters: BTreeMap<_, _> =
            self.dump(PAGE_POOL_STATS_GET, |query| query, decode_stats)?.into_iter().collect();
        let mut pools: Vec<_> = pools
            .into_iter()
            .map(|(_, pool)| PagePool {
                counters: counters.remove(&pool.id).unwrap_or_default(),
                ..pool
            })
            .collect();
        pools.sort_by_key(|pool| pool.id);
        Ok(pools)
    }
}

/// A pool and the device that owns it.
pub(crate) fn decode(attributes: Attributes<'_>) -> Result<Option<(u32, PagePool)>> {
    let mut owner = None;
    let mut pool = PagePool::default();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            ID => pool.id = attribute.uint()?,
            IFINDEX => owner = Some(attribute.u32()?),
            NAPI_ID => pool.napi_id = Some(attribute.uint()?),
            INFLIGHT => pool.inflight = attribute.uint()?,
            INFLIGHT_MEM => pool.inflight_bytes = attribute.uint()?,
            DETACH_TIME => pool.detach_time = Some(attribute.uint()?),
            _ => {}
        }
    }
    Ok(owner.map(|owner| (owner, pool)))
}

/// A pool's id and counters.
pub(crate) fn decode_stats(
    attributes: Attributes<'_>,
) -> Result<Option<(u64, BTreeMap<&'static str, u64>)>> {
    let mut id = None;
    let mut counters = BTreeMap::new();
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == STATS_INFO {
            id = decode(attribute.nested())?.map(|(_, pool)| pool.id);
        } else if let Some(name) = counter_name(attribute) {
            counters.insert(name, attribute.uint()?);
        }
    }
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

    #[test]
    fn a_pool_and_its_counters_are_read() {
        let message = Request::default()
            .uint(ID, 7)
            .u32(IFINDEX, 2)
            .uint(NAPI_ID, 8193)
            .uint(INFLIGHT, 256)
            .uint(INFLIGHT_MEM, 1 << 20);
        let pool = PagePool {
            id: 7,
            napi_id: Some(8193),
            inflight: 256,
            inflight_bytes: 1 << 20,
            ..PagePool::default()
        };
        assert_eq!(decode(Attributes::new(message.as_bytes())), Ok(Some((2, pool))));

        let stats = Request::default()
            .nest(STATS_INFO, |info| info.uint(ID, 7).u32(IFINDEX, 2))
            .uint(8, 11)
            .uint(18, 13);
        let counters = [("alloc-fast", 11), ("recycle-released-refcnt", 13)].into();
        assert_eq!(decode_stats(Attributes::new(stats.as_bytes())), Ok(Some((7, counters))));
    }

    #[test]
    fn a_pool_whose_device_is_gone_belongs_to_none() {
        let message = Request::default().uint(ID, 7).uint(DETACH_TIME, 100);
        assert_eq!(decode(Attributes::new(message.as_bytes())), Ok(None));
    }

    proptest! {
        #[test]
        fn no_attributes_make_the_decoders_panic(attributes: Vec<(u16, Vec<u8>)>, raw: Vec<u8>) {
            let message = attributes.iter().fold(Request::default(), |message, (kind, value)| {
                message.bytes(kind % 24, value)
            });
            for bytes in [message.as_bytes(), &raw] {
                let _ = decode(Attributes::new(bytes));
                let _ = decode_stats(Attributes::new(bytes));
            }
        }
    }
}
