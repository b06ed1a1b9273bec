//! What limits the settings of an interface besides its driver: the machine's CPUs, sockets on its
//! queues, the other end of a veth.

use super::{Nic, cpus::CpuSet, namespace};
use crate::{
    error::{Error, Kind, Result},
    netlink::{
        IfSupported,
        link::{Links, XdpMode},
        netdev::Netdev,
    },
};

/// What limits the settings of an interface besides its driver. What the kernel does not tell, or
/// not to this process, limits nothing: it has the last word.
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
    ///
    /// # Errors
    ///
    /// Something of them could not be read, which may be there.
    pub fn of(nic: &Nic) -> Result<Self> {
        let read = || {
            Ok(Self {
                cpus: CpuSet::online()?,
                af_xdp: af_xdp(nic.ifindex())?,
                has_napis: has_napis(nic)?,
                native_xdp: has_native_xdp(nic),
                peer: peer(nic)?,
                mtu: mtu_below(nic)?,
            })
        };
        let action = || format!("read what limits the settings of {}", nic.name());
        read().map_err(|error: Error| error.while_doing(action()))
    }
}

fn has_native_xdp(nic: &Nic) -> bool {
    nic.xdp().iter().any(|program| program.mode == XdpMode::Native)
}

fn af_xdp(ifindex: u32) -> Result<Option<u32>> {
    let queues = Netdev::open().and_then(|mut netdev| netdev.queues(ifindex)).if_supported();
    let queues = if_told(queues.map_err(|error| error.while_doing("list its queues")))?;
    let with_sockets = queues.flatten().into_iter().flatten().filter(|(_, queue)| queue.af_xdp);
    Ok(with_sockets.map(|(id, _)| id.number).max())
}

fn mtu_below(nic: &Nic) -> Result<Option<MtuBelow>> {
    let is_stacked = STACKED.iter().any(|(kind, _)| Some(*kind) == nic.kind());
    let below = nic.link.lower.filter(|below| is_stacked && below.netnsid.is_none());
    let Some(below) = below else { return Ok(None) };
    let below = Links::open().and_then(|mut links| links.by_index(below.ifindex));
    let below = if_told(below.map_err(|error| error.while_doing("look at what is below it")))?;
    Ok(below.map(|below| MtuBelow { name: below.name, most: below.mtu.into() }))
}

fn has_napis(nic: &Nic) -> Result<Option<bool>> {
    let napis = Netdev::open().and_then(|mut netdev| netdev.napis(nic.ifindex())).if_supported();
    let napis = if_told(napis.map_err(|error| error.while_doing("list its NAPIs")))?;
    Ok(napis.flatten().filter(|_| nic.link.up).map(|napis| !napis.is_empty()))
}

/// The other end of a veth, if it can be looked at.
pub fn peer_of(nic: &Nic) -> Result<Option<Nic>> {
    let Some(other) = nic.peer() else { return Ok(None) };
    let Some(id) = other.netnsid else { return if_told(Nic::by_index(other.ifindex)) };
    // It may be in a namespace that cannot be seen.
    let Some(namespace) = if_told(namespace::of_id(id))?.flatten() else { return Ok(None) };
    if_told(namespace.run(|| Nic::by_index(other.ifindex)).flatten())
}

fn peer(nic: &Nic) -> Result<Option<Peer>> {
    Ok(peer_of(nic)?.map(|nic| Peer {
        name: nic.name().to_owned(),
        rx_queues: nic.rx_queues(),
        tx_queues: nic.tx_queues(),
        native_xdp: has_native_xdp(&nic),
    }))
}

/// `None` of what is not there, or may not be looked at.
fn if_told<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotPermitted) => Ok(None),
        Err(error) => Err(error),
    }
}
