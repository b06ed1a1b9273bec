//! What decides over routing beside routes: the interfaces, and whether this host routes at all.
//! It is followed while it changes.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use nic_common::forward::Gate;

use crate::{
    error::{Error, Result},
    netlink::{
        self,
        link::{LinkInfo, Links},
        route::Changes,
    },
    nic::Nic,
};

/// What no message tells of is read again after this time.
const FRESH: Duration = Duration::from_secs(1);

/// The interfaces that are routed between, and the host.
pub struct Surroundings {
    changes: Changes,
    links: Links,
    /// The interfaces.
    pub ends: [End; 2],
    /// Whether this host routes IPv6 (`net.ipv6.conf.all.forwarding`).
    pub routes_ipv6: bool,
    until: Instant,
}

/// An interface that is routed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    name: String,
    /// Its index.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet that it sends, from the IP header on, in bytes.
    pub mtu: u32,
}

impl Surroundings {
    /// Of these interfaces of the present network namespace.
    pub fn of(nics: [&Nic; 2]) -> Result<Self> {
        let fail = |error: netlink::Error| error.while_doing("follow changes of routes");
        // Changes first: what changes after it was read is told.
        let changes = Changes::open().map_err(fail)?;
        let links = Links::open().map_err(fail)?;
        let [first, second] = nics.map(|nic| End::of(&nic.link));
        let ends = [first?, second?];
        let until = Instant::now() + FRESH;
        let mut all = Self { changes, links, ends, routes_ipv6: routes_ipv6(), until };
        all.read()?;
        Ok(all)
    }

    /// Reads everything again if anything may have changed, and says whether it did so.
    pub fn look(&mut self) -> Result<bool> {
        let changed = self.changes.any();
        if !changed && Instant::now() < self.until {
            return Ok(false);
        }
        self.read()?;
        Ok(true)
    }

    /// Which packets the programs may route that arrive at either interface.
    pub fn gates(&self) -> [Gate; 2] {
        let routes_ipv6 = self.routes_ipv6;
        self.ends.each_ref().map(|end| Gate { mac: Gate::mac(&end.mac), routes_ipv6 })
    }

    fn read(&mut self) -> Result<()> {
        self.until = Instant::now() + FRESH;
        self.routes_ipv6 = routes_ipv6();
        for end in &mut self.ends {
            let link = self.links.by_index(end.ifindex).map_err(|error| match error.errno {
                libc::ENODEV => Error::not_found(format!("{} is gone", end.name)),
                _ => error.while_doing(format_args!("read {}", end.name)),
            })?;
            *end = End::of(&link)?;
        }
        Ok(())
    }
}

impl AsFd for Surroundings {
    /// Readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

impl End {
    fn of(link: &LinkInfo) -> Result<Self> {
        let mac = ethernet_address(link)?;
        Ok(Self { name: link.name.clone(), ifindex: link.ifindex, mac, mtu: link.mtu })
    }
}

/// The Ethernet address of an interface: those that have none take no Ethernet frames.
pub fn ethernet_address(link: &LinkInfo) -> Result<[u8; 6]> {
    link.mac.ok_or_else(|| {
        Error::failed(format!(
            "cannot forward through {}: its frames have no Ethernet header",
            link.name
        ))
        .with_fix("let the kernel route to it: sysctl -w net.ipv4.ip_forward=1")
    })
}

/// Whether this host routes IPv4 (`net.ipv4.ip_forward`).
pub fn routes_ipv4() -> bool {
    is_on("/proc/sys/net/ipv4/ip_forward")
}

/// Whether this host routes IPv6 (`net.ipv6.conf.all.forwarding`).
pub fn routes_ipv6() -> bool {
    is_on("/proc/sys/net/ipv6/conf/all/forwarding")
}

/// Where it cannot be read, as without IPv6, the kernel routes nothing.
fn is_on(path: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
}
