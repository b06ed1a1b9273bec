//! Maps and the values that userspace sets.

use aya_ebpf::{
    Global,
    btf_maps::{Array, DevMapHash, LruHashMap, PerCpuArray, XskMap},
    macros::btf_map,
};
use nic_common::{
    counters::{ForwardCounters, IngressCounters, RxCounters, TxCounters},
    forward::Gate,
    policy::CopyPolicy,
    record::AttachRecord,
    steer::Rules,
};

/// Counters per receive queue at XDP. Userspace sets the number of entries to the device's queues.
#[btf_map]
pub static NIC_RX: PerCpuArray<RxCounters, 1> = PerCpuArray::new();

/// Counters per receive queue at TC ingress.
#[btf_map]
pub static NIC_INGRESS: PerCpuArray<IngressCounters, 1> = PerCpuArray::new();

/// Counters per transmit queue at TC egress.
#[btf_map]
pub static NIC_TX: PerCpuArray<TxCounters, 1> = PerCpuArray::new();

/// What userspace notes about the attachment; no program reads it.
#[btf_map]
pub static NIC_RECORD: Array<AttachRecord, 1> = Array::new();

/// Which frames go to the rings of a user, per receive queue.
#[btf_map]
pub static NIC_STEER: Array<Rules, 1> = Array::new();

/// The sockets of users' rings, per receive queue. The kernel takes out those that are closed.
#[btf_map]
pub static NIC_XSKS: XskMap<1> = XskMap::new();

/// Forwarding: where a frame may go. For whole frames the key is the interface that it came from,
/// for routed packets the one that the route leads to.
#[btf_map]
pub static NIC_PORTS: DevMapHash<2> = DevMapHash::new();

/// Forwarding: counters of either direction, that from [`FORWARD_FIRST`] first.
#[btf_map]
pub static NIC_FORWARD: PerCpuArray<ForwardCounters, 2> = PerCpuArray::new();

/// Forwarding: which packets of either interface may be routed; none until userspace has written it.
#[btf_map]
pub static NIC_GATES: Array<Gate, 2> = Array::new();

/// Forwarding of whole frames: the interface at which a station was last seen.
#[btf_map]
pub static NIC_STATIONS: LruHashMap<u64, u32, 256> = LruHashMap::new();

/// The [`CopyPolicy`] as a word, with [`nic_common::policy::STEERING`], alone in its map; userspace changes it while
/// the programs run.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.policy")]
static mut POLICY: u64 = CopyPolicy::DEFAULT.to_word();

/// Always 0. The verifier takes what lies in a map for any value.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data")]
static mut ZERO: u64 = 0;

/// Whether TC ingress pulls small non-linear packets together. Constant from load on.
#[unsafe(no_mangle)]
pub static PULL: Global<u8> = Global::new(0);

/// Whether malformed frames are logged. Constant from load on: off, the verifier removes the code.
#[unsafe(no_mangle)]
pub static LOG: Global<u8> = Global::new(0);

/// Transmit queues in use (`real_num_tx_queues`). Constant from load on.
#[unsafe(no_mangle)]
pub static TX_QUEUES: Global<u32> = Global::new(1);

/// Forwarding: index of the first interface. Constant from load on.
#[unsafe(no_mangle)]
pub static FORWARD_FIRST: Global<u32> = Global::new(0);

/// Forwarding: index of the second interface. Constant from load on.
#[unsafe(no_mangle)]
pub static FORWARD_SECOND: Global<u32> = Global::new(0);

/// Forwarding: cookie of the network namespace of both interfaces: others have interfaces of the
/// same indices. Constant from load on.
#[unsafe(no_mangle)]
pub static FORWARD_NETNS: Global<u64> = Global::new(0);

/// Where the kernel's `struct net_device` has the index, in bytes. Constant from load on.
#[unsafe(no_mangle)]
pub static IFINDEX_AT: Global<u32> = Global::new(0);

/// Where the kernel's `struct net_device` has its `struct net *`, in bytes. Constant from load on.
#[unsafe(no_mangle)]
pub static NET_AT: Global<u32> = Global::new(0);

/// Where the kernel's `struct net` has its cookie, in bytes. Constant from load on.
#[unsafe(no_mangle)]
pub static COOKIE_AT: Global<u32> = Global::new(0);

/// The policy in force and whether any queue has rules of steering.
#[inline(always)]
pub fn policy_word() -> u64 {
    // SAFETY: one aligned 64-bit load, which cannot be torn by userspace's 64-bit store.
    unsafe { core::ptr::read_volatile(&raw const POLICY) }
}

/// `value`, as something that the verifier knows nothing about: it then checks what follows once,
/// not once for every path that leads there.
#[inline(always)]
pub fn hide(value: u64) -> u64 {
    // SAFETY: one aligned load of what nobody writes.
    value.wrapping_add(unsafe { core::ptr::read_volatile(&raw const ZERO) })
}
