//! How a queue's packets reach CPUs: queue → NAPI → interrupt → CPUs → NUMA nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::interrupts::{self, Interrupt};
use super::sysfs::Sysfs;
use crate::netlink::netdev::napi::Napi;
use crate::netlink::netdev::queue::{Direction, Queue, QueueId};

/// One queue in use, and what serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePath {
    /// Which queue.
    pub queue: QueueId,
    /// The id of its NAPI instance; `None` if it has none, or the kernel does not tell.
    pub napi: Option<u32>,
    /// The process id of the NAPI's kernel thread.
    pub thread: Option<u32>,
    /// Its interrupt; `None` if it has none, or neither the kernel nor its name tells.
    pub interrupt: Option<Interrupt>,
    /// The NUMA nodes of the CPUs that serve the interrupt.
    pub nodes: Vec<u32>,
    /// Whether an AF_XDP socket has it.
    pub af_xdp: bool,
}

/// The queues of `interface`, receive first. Kernels before 6.7 do not list them with their NAPIs;
/// then they are those of sysfs.
pub(super) fn paths(
    interface: &str,
    sysfs: &Sysfs,
    queues: &BTreeMap<QueueId, Queue>,
    napis: &[Napi],
    interrupts: &[Interrupt],
) -> io::Result<Vec<QueuePath>> {
    let nodes = interrupts::nodes()?;
    let path = |(id, queue)| path(interface, id, queue, napis, interrupts, &nodes);
    if queues.is_empty() {
        let names = sysfs.list("queues")?;
        let ids: BTreeSet<_> = names.iter().filter_map(|name| from_name(name)).collect();
        return Ok(ids.into_iter().map(|id| path((id, Queue::default()))).collect());
    }
    Ok(queues.iter().map(|(&id, &queue)| path((id, queue))).collect())
}

/// A queue by the name that sysfs has for it: `rx-0`.
fn from_name(name: &str) -> Option<QueueId> {
    let (direction, number) = name.split_once('-')?;
    let direction = match direction {
        "rx" => Direction::Rx,
        "tx" => Direction::Tx,
        _ => return None,
    };
    Some(QueueId { direction, number: number.parse().ok()? })
}

fn path(
    interface: &str,
    id: QueueId,
    queue: Queue,
    napis: &[Napi],
    interrupts: &[Interrupt],
    nodes: &[(u32, BTreeSet<u32>)],
) -> QueuePath {
    let napi = queue.napi_id.and_then(|id| napis.iter().find(|napi| napi.id == id));
    let told = napi.and_then(|napi| napi.irq);
    // Not every driver tells the kernel, but most name their interrupts after queues.
    let interrupt = match told {
        Some(number) => interrupts.iter().find(|interrupt| interrupt.number == number),
        None => interrupts.iter().find(|irq| irq.serves(interface, id)),
    };
    let cpus = interrupt.map(|interrupt| interrupts::cpus(interrupt.cpus())).unwrap_or_default();
    let has_one = |(_, of_node): &&(u32, BTreeSet<u32>)| !of_node.is_disjoint(&cpus);
    QueuePath {
        queue: id,
        napi: queue.napi_id,
        thread: napi.and_then(|napi| napi.pid),
        interrupt: interrupt.cloned(),
        nodes: nodes.iter().filter(has_one).map(|(node, _)| *node).collect(),
        af_xdp: queue.af_xdp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(number: u32, name: &str, effective: &str) -> Interrupt {
        Interrupt {
            number,
            name: name.to_owned(),
            affinity: "0-7".to_owned(),
            effective: effective.to_owned(),
            writable: true,
        }
    }

    fn nodes() -> Vec<(u32, BTreeSet<u32>)> {
        vec![(0, (0..4).collect()), (1, (4..8).collect())]
    }

    #[test]
    fn the_kernels_word_goes_before_names() {
        let queue = Queue { napi_id: Some(8193), ..Queue::default() };
        let napis = [Napi { id: 8193, irq: Some(41), pid: Some(77), ..Napi::default() }];
        let interrupts = [interrupt(40, "eth0-rx-0", "0"), interrupt(41, "eth0-rx-1", "5")];
        let path = path("eth0", from_name("rx-0").unwrap(), queue, &napis, &interrupts, &nodes());
        assert_eq!((path.napi, path.thread, path.nodes), (Some(8193), Some(77), vec![1]));
        assert_eq!(path.interrupt.map(|interrupt| interrupt.number), Some(41));
    }

    #[test]
    fn without_it_names_do() {
        let interrupts =
            [interrupt(40, "virtio2-input.0", "2"), interrupt(41, "virtio2-output.0", "")];
        let of = |name| {
            let id = from_name(name).unwrap();
            path("eth0", id, Queue::default(), &[], &interrupts, &nodes())
        };
        assert_eq!(of("rx-0").interrupt.map(|interrupt| interrupt.number), Some(40));
        assert_eq!(of("rx-0").nodes, [0]);
        // Nobody tells which of its CPUs it is.
        assert_eq!(of("tx-0").nodes, [0, 1]);
        assert_eq!(of("tx-1").interrupt, None);
        assert_eq!(of("tx-1").nodes, Vec::<u32>::new());
    }

    #[test]
    fn other_directories_are_no_queues() {
        assert_eq!(from_name("rx-x"), None);
        assert_eq!(from_name("xdp-0"), None);
    }
}
