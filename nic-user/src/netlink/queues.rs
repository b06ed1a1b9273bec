//! Queues, the NAPI instances that poll them, and the page pools that they draw from, as the
//! `netdev` family tells them (linux/netdev.h). Queues and NAPIs since Linux 6.7, page pools since
//! 6.8, settings of single NAPIs since 6.13.

use netlink_bindings::utils::find_attr;

use super::Result;
use super::netdev::{GENL_HEADER_LEN, Netdev};
use super::request::Request;

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
    fn decode(message: &[u8], dmabuf: u16, io_uring: u16) -> Self {
        match uint(message, dmabuf).and_then(|id| u32::try_from(id).ok()) {
            Some(id) => Self::Dmabuf(id),
            None if find_attr(message, io_uring).is_some() => Self::IoUring,
            None => Self::Kernel,
        }
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
    fn decode(message: &[u8]) -> Option<Self> {
        let direction = match uint(message, NETDEV_A_QUEUE_TYPE)? {
            0 => Direction::Rx,
            1 => Direction::Tx,
            _ => return None,
        };
        Some(Self {
            direction,
            id: u32_of(message, NETDEV_A_QUEUE_ID)?,
            napi: u32_of(message, NETDEV_A_QUEUE_NAPI_ID),
            memory: Memory::decode(message, NETDEV_A_QUEUE_DMABUF, NETDEV_A_QUEUE_IO_URING),
            xsk: find_attr(message, NETDEV_A_QUEUE_XSK).is_some(),
        })
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
    fn decode(message: &[u8]) -> Option<Self> {
        Some(Self {
            id: u32_of(message, NETDEV_A_NAPI_ID)?,
            irq: u32_of(message, NETDEV_A_NAPI_IRQ),
            pid: u32_of(message, NETDEV_A_NAPI_PID),
            defer_hard_irqs: uint(message, NETDEV_A_NAPI_DEFER_HARD_IRQS),
            gro_flush_timeout: uint(message, NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT),
            irq_suspend_timeout: uint(message, NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT),
            threaded: uint(message, NETDEV_A_NAPI_THREADED).and_then(Threaded::from_number),
        })
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
    /// Decodes a message about a pool of the device `ifindex`.
    fn decode(message: &[u8], ifindex: u32) -> Option<Self> {
        if u32_of(message, NETDEV_A_PAGE_POOL_IFINDEX)? != ifindex {
            return None;
        }
        Some(Self {
            id: u32_of(message, NETDEV_A_PAGE_POOL_ID)?,
            napi: u32_of(message, NETDEV_A_PAGE_POOL_NAPI_ID),
            inflight: uint(message, NETDEV_A_PAGE_POOL_INFLIGHT),
            inflight_bytes: uint(message, NETDEV_A_PAGE_POOL_INFLIGHT_MEM),
            detached: find_attr(message, NETDEV_A_PAGE_POOL_DETACH_TIME).is_some(),
            memory: Memory::decode(message, NETDEV_A_PAGE_POOL_DMABUF, NETDEV_A_PAGE_POOL_IO_URING),
        })
    }
}

impl Netdev {
    /// The queues of a device; none while it is down.
    pub fn queues(&mut self, ifindex: u32) -> Result<Vec<Queue>> {
        let request = request(NETDEV_CMD_QUEUE_GET).u32(NETDEV_A_QUEUE_IFINDEX, ifindex);
        self.list(&request, Queue::decode)
    }

    /// The NAPI instances of a device; none while it is down.
    pub fn napis(&mut self, ifindex: u32) -> Result<Vec<Napi>> {
        let request = request(NETDEV_CMD_NAPI_GET).u32(NETDEV_A_NAPI_IFINDEX, ifindex);
        self.list(&request, Napi::decode)
    }

    /// The page pools of a device. The kernel only lists those of all devices.
    pub fn page_pools(&mut self, ifindex: u32) -> Result<Vec<PagePool>> {
        self.list(&request(NETDEV_CMD_PAGE_POOL_GET), |message| PagePool::decode(message, ifindex))
    }

    /// Changes the NAPI instance `napi` and nothing else of it; returns what the kernel remarks.
    pub fn set_napi(&mut self, napi: u32, changes: &[NapiChange]) -> Result<Option<String>> {
        let request = request(NETDEV_CMD_NAPI_SET).u32(NETDEV_A_NAPI_ID, napi);
        let request = changes.iter().fold(request, |request, change| change.encode(request));
        Ok(self.socket.request(self.family, 0, request.as_bytes())?.warning)
    }

    fn list<T>(
        &mut self,
        request: &Request,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let reply = self.socket.dump(self.family, request.as_bytes())?;
        let attributes = reply.messages.iter().filter_map(|message| message.get(GENL_HEADER_LEN..));
        Ok(attributes.filter_map(decode).collect())
    }
}

fn request(command: u8) -> Request {
    Request::with_header(&[command, 1, 0, 0])
}

/// An integer of four or eight bytes, as netlink's `uint` may be.
fn uint(message: &[u8], attribute: u16) -> Option<u64> {
    let bytes = find_attr(message, attribute)?;
    match bytes.len() {
        4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn u32_of(message: &[u8], attribute: u16) -> Option<u32> {
    uint(message, attribute).and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(Queue::decode(queue(1).as_bytes()), Some(expected));
        let message = queue(0).u32(NETDEV_A_QUEUE_DMABUF, 5).nest(NETDEV_A_QUEUE_XSK, |nest| nest);
        let decoded = Queue::decode(message.as_bytes()).unwrap();
        assert_eq!((decoded.direction, decoded.memory), (Direction::Rx, Memory::Dmabuf(5)));
        assert!(decoded.xsk);
        assert_eq!(Queue::decode(queue(7).as_bytes()), None);
    }

    #[test]
    fn a_napi_of_an_older_kernel_has_no_settings() {
        let message = Request::default().u32(NETDEV_A_NAPI_ID, 9).u32(NETDEV_A_NAPI_IRQ, 40);
        let expected = Napi { id: 9, irq: Some(40), ..Napi::default() };
        assert_eq!(Napi::decode(message.as_bytes()), Some(expected));
    }

    #[test]
    fn integers_come_in_two_sizes() {
        let message = Request::default()
            .u32(NETDEV_A_NAPI_ID, 9)
            .u32(NETDEV_A_NAPI_GRO_FLUSH_TIMEOUT, 20_000)
            .bytes(NETDEV_A_NAPI_IRQ_SUSPEND_TIMEOUT, &(1_u64 << 40).to_ne_bytes())
            .u32(NETDEV_A_NAPI_THREADED, 2);
        let napi = Napi::decode(message.as_bytes()).unwrap();
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
        assert_eq!(PagePool::decode(pool.as_bytes(), 5), None);
        let decoded = PagePool::decode(pool.as_bytes(), 4).unwrap();
        assert_eq!((decoded.inflight, decoded.detached), (Some(256), false));
    }

    proptest! {
        #[test]
        fn no_message_makes_the_decoders_panic(message: Vec<u8>, ifindex: u32) {
            let _ = Queue::decode(&message);
            let _ = Napi::decode(&message);
            let _ = PagePool::decode(&message, ifindex);
        }
    }
}
