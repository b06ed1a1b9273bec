//! Queues, the NAPI instances that poll them, and the page pools that they draw from, as the
//! `netdev` family tells them (linux/netdev.h). Queues and NAPIs since Linux 6.7, page pools since
//! 6.8, settings of single NAPIs since 6.13.

use std::collections::BTreeMap;

use super::attribute::{Attribute, Attributes};
use super::netdev::Netdev;
use super::request::Request;
use super::{Result, generic};

const NETDEV_CMD_PAGE_POOL_GET: u8 = 5;
const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;

const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const NETDEV_A_QUEUE_DMABUF: u16 = 5;
const NETDEV_A_QUEUE_IO_URING: u16 = 6;
const NETDEV_A_QUEUE_XSK: u16 = 7;

const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;
const NETDEV_A_NAPI_PID: u16 = 4;
const NETDEV_A_NAPI_DEFER_HARD_IRQS: u16 = 5;
const NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT: u16 = 6;
const NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT: u16 = 7;
const NETDEV_A_NAPI_THREADED: u16 = 8;

const NETDEV_A_PAGE_POOL_ID: u16 = 1;
const NETDEV_A_PAGE_POOL_IFINDEX: u16 = 2;
const NETDEV_A_PAGE_POOL_NAPI_ID: u16 = 3;
const NETDEV_A_PAGE_POOL_INFLIGHT: u16 = 4;
const NETDEV_A_PAGE_POOL_INFLIGHT_MEM: u16 = 5;
const NETDEV_A_PAGE_POOL_DETACH_TIME: u16 = 6;
const NETDEV_A_PAGE_POOL_DMABUF: u16 = 7;
const NETDEV_A_PAGE_POOL_IO_URING: u16 = 8;

/// Which way a queue's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Receive.
    Rx,
    /// Transmit.
    Tx,
}

impl Direction {
    /// `rx` or `tx`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
        }
    }
}

/// What a queue's or a page pool's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// The kernel's own.
    #[default]
    Kernel,
    /// A dmabuf, with the id of its binding.
    Dmabuf(u32),
    /// An io_uring's area.
    IoUring,
}

impl Memory {
    fn of(message: &Message<'_>, dmabuf: u16, io_uring: u16) -> Result<Self> {
        Ok(match message.number(dmabuf)? {
            Some(id) => Self::Dmabuf(id),
            None if message.has(io_uring) => Self::IoUring,
            None => Self::Kernel,
        })
    }
}

/// One queue of a device that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its direction.
    pub direction: Direction,
    /// Its number among those of its direction.
    pub id: u32,
    /// The NAPI instance that serves it.
    pub napi: Option<u32>,
    /// Where its packets are received into.
    pub memory: Memory,
    /// Whether an AF_XDP socket is bound to it. Since Linux 6.16.
    pub xsk: bool,
}

impl Queue {
    /// `None` for a type of queue that is not known here.
    fn of(message: &Message<'_>) -> Result<Option<Self>> {
        let direction = match message.number(NETDEV_A_QUEUE_TYPE)? {
            Some(0) => Direction::Rx,
            Some(1) => Direction::Tx,
            _ => return Ok(None),
        };
        let Some(id) = message.number(NETDEV_A_QUEUE_ID)? else { return Ok(None) };
        Ok(Some(Self {
            direction,
            id,
            napi: message.number(NETDEV_A_QUEUE_NAPI_ID)?,
            memory: Memory::of(message, NETDEV_A_QUEUE_DMABUF, NETDEV_A_QUEUE_IO_URING)?,
            xsk: message.has(NETDEV_A_QUEUE_XSK),
        }))
    }
}

/// How a NAPI instance polls (`enum netdev_napi_threaded`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threaded {
    /// In softirqs.
    Off,
    /// In a kernel thread of its own.
    On,
    /// In a kernel thread that never stops polling. Since Linux 6.18.
    BusyPoll,
}

impl Threaded {
    /// From the kernel's number for it.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::On),
            2 => Some(Self::BusyPoll),
            _ => None,
        }
    }

    /// The kernel's number for it.
    pub const fn number(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::On => 1,
            Self::BusyPoll => 2,
        }
    }
}

/// One NAPI instance of a device that is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Napi {
    /// Its number, unique in the system.
    pub id: u32,
    /// Its interrupt, where the driver tells.
    pub irq: Option<u32>,
    /// The process id of its kernel thread.
    pub pid: Option<u32>,
    /// Empty polls before interrupts are enabled again.
    pub defer_hard_irqs: Option<u64>,
    /// Nanoseconds that a packet may wait for others to merge with.
    pub gro_flush_timeout: Option<u64>,
    /// Nanoseconds that interrupts stay off after a busy-polling application found packets.
    pub irq_suspend_timeout: Option<u64>,
    /// How it polls. Since Linux 6.17.
    pub threaded: Option<Threaded>,
}

impl Napi {
    fn of(message: &Message<'_>) -> Result<Option<Self>> {
        let Some(id) = message.number(NETDEV_A_NAPI_ID)? else { return Ok(None) };
        Ok(Some(Self {
            id,
            irq: message.number(NETDEV_A_NAPI_IRQ)?,
            pid: message.number(NETDEV_A_NAPI_PID)?,
            defer_hard_irqs: message.uint(NETDEV_A_NAPI_DEFER_HARD_IRQS)?,
            gro_flush_timeout: message.uint(NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT)?,
            irq_suspend_timeout: message.uint(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT)?,
            threaded: message.uint(NETDEV_A_NAPI_THREADED)?.and_then(Threaded::from_number),
        }))
    }
}

/// A setting of a single NAPI instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NapiChange {
    /// See [`Napi::defer_hard_irqs`]; at most `i32::MAX`.
    DeferHardIrqs(u32),
    /// See [`Napi::gro_flush_timeout`].
    GroFlushTimeout(u64),
    /// See [`Napi::irq_suspend_timeout`].
    IrqSuspendTimeout(u64),
    /// See [`Napi::threaded`].
    Threaded(Threaded),
}

impl NapiChange {
    fn encode(self, request: Request) -> Request {
        match self {
            Self::DeferHardIrqs(polls) => request.u32(NETDEV_A_NAPI_DEFER_HARD_IRQS, polls),
            Self::GroFlushTimeout(ns) => {
                request.bytes(NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, &ns.to_ne_bytes())
            }
            Self::IrqSuspendTimeout(ns) => {
                request.bytes(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &ns.to_ne_bytes())
            }
            Self::Threaded(threaded) => request.u32(NETDEV_A_NAPI_THREADED, threaded.number()),
        }
    }
}

/// One page pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePool {
    /// Its number.
    pub id: u32,
    /// The NAPI instance that uses it.
    pub napi: Option<u32>,
    /// Pages that were taken from it and are not back.
    pub inflight: Option<u64>,
    /// The memory in those pages, in bytes.
    pub inflight_bytes: Option<u64>,
    /// Whether the driver gave it up, and it only waits for its pages.
    pub detached: bool,
    /// Where its pages are.
    pub memory: Memory,
}

impl PagePool {
    /// `None` for a pool of another device than `ifindex`.
    fn of(message: &Message<'_>, ifindex: u32) -> Result<Option<Self>> {
        let Some(id) = message.number(NETDEV_A_PAGE_POOL_ID)? else { return Ok(None) };
        if message.number(NETDEV_A_PAGE_POOL_IFINDEX)? != Some(ifindex) {
            return Ok(None);
        }
        Ok(Some(Self {
            id,
            napi: message.number(NETDEV_A_PAGE_POOL_NAPI_ID)?,
            inflight: message.uint(NETDEV_A_PAGE_POOL_INFLIGHT)?,
            inflight_bytes: message.uint(NETDEV_A_PAGE_POOL_INFLIGHT_MEM)?,
            detached: message.has(NETDEV_A_PAGE_POOL_DETACH_TIME),
            memory: Memory::of(message, NETDEV_A_PAGE_POOL_DMABUF, NETDEV_A_PAGE_POOL_IO_URING)?,
        }))
    }
}

impl Netdev {
    /// The queues of a device; none while it is down.
    pub fn queues(&mut self, ifindex: u32) -> Result<Vec<Queue>> {
        let request = generic::command(NETDEV_CMD_QUEUE_GET).u32(NETDEV_A_QUEUE_IFINDEX, ifindex);
        self.list(&request, Queue::of)
    }

    /// The NAPI instances of a device; none while it is down.
    pub fn napis(&mut self, ifindex: u32) -> Result<Vec<Napi>> {
        let request = generic::command(NETDEV_CMD_NAPI_GET).u32(NETDEV_A_NAPI_IFINDEX, ifindex);
        self.list(&request, Napi::of)
    }

    /// The page pools of a device. The kernel only lists those of all devices.
    pub fn page_pools(&mut self, ifindex: u32) -> Result<Vec<PagePool>> {
        let request = generic::command(NETDEV_CMD_PAGE_POOL_GET);
        self.list(&request, |message| PagePool::of(message, ifindex))
    }

    /// Changes the NAPI instance `napi` and nothing else of it; returns what the kernel remarks.
    pub fn set_napi(&mut self, napi: u32, changes: &[NapiChange]) -> Result<Option<String>> {
        let request = generic::command(NETDEV_CMD_NAPI_SET).u32(NETDEV_A_NAPI_ID, napi);
        let request = changes.iter().fold(request, |request, change| change.encode(request));
        Ok(self.family.request(&request)?.warning)
    }

    fn list<T>(
        &mut self,
        request: &Request,
        decode: impl Fn(&Message<'_>) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let reply = self.family.dump(request)?;
        let decode = |message: &Vec<u8>| {
            let message = generic::attributes(message).and_then(Message::new);
            message.and_then(|message| decode(&message)).transpose()
        };
        reply.messages.iter().filter_map(decode).collect()
    }
}

/// The attributes of a message by their type.
struct Message<'a>(BTreeMap<u16, Attribute<'a>>);

impl<'a> Message<'a> {
    fn new(attributes: Attributes<'a>) -> Result<Self> {
        let by_kind = attributes.map(|attribute| attribute.map(|found| (found.kind, found)));
        Ok(Self(by_kind.collect::<Result<_>>()?))
    }

    fn has(&self, kind: u16) -> bool {
        self.0.contains_key(&kind)
    }

    fn uint(&self, kind: u16) -> Result<Option<u64>> {
        self.0.get(&kind).map(Attribute::uint).transpose()
    }

    fn number(&self, kind: u16) -> Result<Option<u32>> {
        self.0.get(&kind).map(Attribute::u32).transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(request: &Request) -> Message<'_> {
        Message::new(Attributes::new(request.as_bytes())).unwrap()
    }

    #[test]
    fn a_queue_has_its_napi_and_its_memory() {
        let queue = |kind| {
            Request::default()
                .u32(NETDEV_A_QUEUE_ID, 3)
                .u32(NETDEV_A_QUEUE_TYPE, kind)
                .u32(NETDEV_A_QUEUE_NAPI_ID, 8200)
        };
        let expected = Queue {
            direction: Direction::Tx,
            id: 3,
            napi: Some(8200),
            memory: Memory::Kernel,
            xsk: false,
        };
        assert_eq!(Queue::of(&message(&queue(1))), Ok(Some(expected)));
        let bound = queue(0).u32(NETDEV_A_QUEUE_DMABUF, 5).nest(NETDEV_A_QUEUE_XSK, |nest| nest);
        let decoded = Queue::of(&message(&bound)).unwrap().unwrap();
        assert_eq!((decoded.direction, decoded.memory), (Direction::Rx, Memory::Dmabuf(5)));
        assert!(decoded.xsk);
        assert_eq!(Queue::of(&message(&queue(7))), Ok(None));
    }

    #[test]
    fn a_napi_of_an_older_kernel_has_no_settings() {
        let napi = Request::default().u32(NETDEV_A_NAPI_ID, 9).u32(NETDEV_A_NAPI_IRQ, 40);
        let expected = Napi { id: 9, irq: Some(40), ..Napi::default() };
        assert_eq!(Napi::of(&message(&napi)), Ok(Some(expected)));
    }

    #[test]
    fn integers_come_in_two_sizes() {
        let napi = Request::default()
            .u32(NETDEV_A_NAPI_ID, 9)
            .u32(NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, 20_000)
            .bytes(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &(1_u64 << 40).to_ne_bytes())
            .u32(NETDEV_A_NAPI_THREADED, 2);
        let napi = Napi::of(&message(&napi)).unwrap().unwrap();
        assert_eq!(napi.gro_flush_timeout, Some(20_000));
        assert_eq!(napi.irq_suspend_timeout, Some(1 << 40));
        assert_eq!(napi.threaded, Some(Threaded::BusyPoll));
    }

    #[test]
    fn page_pools_of_other_devices_are_left_out() {
        let pool = Request::default()
            .u32(NETDEV_A_PAGE_POOL_ID, 1)
            .u32(NETDEV_A_PAGE_POOL_IFINDEX, 4)
            .u32(NETDEV_A_PAGE_POOL_INFLIGHT, 256);
        assert_eq!(PagePool::of(&message(&pool), 5), Ok(None));
        let decoded = PagePool::of(&message(&pool), 4).unwrap().unwrap();
        assert_eq!((decoded.inflight, decoded.detached), (Some(256), false));
    }

    proptest! {
        #[test]
        fn no_attributes_make_the_decoders_panic(
            attributes: Vec<(u16, Vec<u8>)>,
            ifindex: u32,
        ) {
            let request = attributes.iter().fold(Request::default(), |request, (kind, value)| {
                request.bytes(kind % 10, value)
            });
            let message = message(&request);
            let _ = (Queue::of(&message), Napi::of(&message), PagePool::of(&message, ifindex));
        }
    }
}
