//! What limits the settings of an interface besides its driver: the machine's CPUs, sockets on its
//! queues, the other end of a veth.

use super::{Nic, cpus::CpuSet, namespace};
use crate::netlink::{
    link::{Links, XdpMode},
    netdev::Netdev,
};

/// What limits the settings of an interface besides its driver. What can not be read limits
/// nothing: the kernel has the last word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The CPUs that run.
    pub cpus: Option<CpuSet>,
    /// The highest number of a queue that an AF_XDP socket has. Since Linux 6.14.
    pub af_xdp: Option<u32>,
    /// Whether it has NAPI instances; `None` while it is down, when the kernel does not tell.
    pub has_napis: Option<bool>,
    /// Whether a native XDP program is on the interface.
    pub native_xdp: bool,
    /// The other end of a veth.
    pub peer: Option<Peer>,
    /// What the MTU of the interface below allows.
    pub mtu: Option<MtuBelow>,
}

/// What the MTU of the interface below allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtuBelow {
    /// The interface below.
    pub name: String,
    /// The most that the MTU above it can be, in bytes.
    pub most: u64,
}

/// Kinds of interfaces whose MTU is limited by that of the one below (`RTM_GETLINK`
/// names that one), with the source.
const STACKED: &[(&str, &str)] = &[
    ("vlan", "net/8021q/vlan_dev.c vlan_dev_change_mtu"),
    ("macvlan", "drivers/net/macvlan.c macvlan_change_mtu"),
    ("macvtap", "drivers/net/macvlan.c macvlan_change_mtu"),
];

/// The other end of a veth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name, in its own network namespace.
    pub name: String,
    /// Its receive queues in use.
    pub rx_queues: u32,
    /// Its transmit queues in use.
    pub tx_queues: u32,
    /// Whether a native XDP program is on it.
    pub native_xdp: bool,
}

impl Surroundings {
    /// Those of an interface of the current network namespace.
    pub fn of(nic: &Nic) -> Self {
        Self {
            cpus: CpuSet::online(),
            af_xdp: af_xdp(nic.ifindex()),
            has_napis: has_napis(nic),
            native_xdp: has_native_xdp(nic),
            peer: peer(nic),
            mtu: mtu_below(nic),
        }
    }
}

fn has_native_xdp(nic: &Nic) -> bool {
    nic.xdp().iter().any(|program| program.mode == XdpMode::Native)
}

fn af_xdp(ifindex: u32) -> Option<u32> {
    let queues = Netdev::open().and_then(|mut netdev| netdev.queues(ifindex)).ok()?;
    queues.into_iter().filter(|(_, queue)| queue.af_xdp).map(|(id, _)| id.number).max()
}

fn mtu_below(nic: &Nic) -> Option<MtuBelow> {
    let kind = nic.kind()?;
    STACKED.iter().find(|(of, _)| *of == kind)?;
    let below = nic.link.lower.filter(|below| below.netnsid.is_none())?;
    let below = Links::open().and_then(|mut links| links.by_index(below.ifindex)).ok()?;
    Some(MtuBelow { name: below.name, most: below.mtu.into() })
}

fn has_napis(nic: &Nic) -> Option<bool> {
    let napis = Netdev::open().and_then(|mut netdev| netdev.napis(nic.ifindex()));
    napis.ok().filter(|_| nic.link.up).map(|napis| !napis.is_empty())
}

/// The other end of a veth, if it can be looked at.
pub fn peer_of(nic: &Nic) -> Option<Nic> {
    let other = nic.peer()?;
    let peer = match other.netnsid {
        None => Nic::by_index(other.ifindex),
        Some(id) => namespace::of_id(id)?.run(|| Nic::by_index(other.ifindex)).ok()?,
    };
    peer.ok()
}

fn peer(nic: &Nic) -> Option<Peer> {
    let nic = peer_of(nic)?;
    Some(Peer {
        name: nic.name().to_owned(),
        rx_queues: nic.rx_queues(),
        tx_queues: nic.tx_queues(),
        native_xdp: has_native_xdp(&nic),
    })
}
