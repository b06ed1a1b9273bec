//! What decides over routing beside routes: the interfaces, and whether this host routes at all.
//! It is followed while it changes.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    netlink::{
        self, IfSupported,
        link::{LinkInfo, Links},
        netdev::{Netdev, XdpFeatures},
        route::{Changed, Changes, Routes},
    },
    nic::Nic,
};

/// What no message tells of is read again after this time.
const FRESH: Duration = Duration::from_secs(1);

/// The interfaces that are routed between, and the host.
pub struct Surroundings {
    changes: Changes,
    asked: Asked,
    until: Instant,
    now: Now,
}

/// Whom it is asked of.
struct Asked {
    links: Links,
    routes: Routes,
    /// None before Linux 6.3.
    netdev: Option<Netdev>,
}

/// What they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// The interfaces.
    pub ends: [End; 2],
    /// Whether this host routes what arrives at them, of IPv4 and of IPv6, by addresses, type of
    /// service and interface alone.
    pub routes: [bool; 2],
    /// Whether rules of IPv4 and of IPv6 pass over some routes.
    pub suppresses: [bool; 2],
    /// Whether one of several ways is chosen by addresses alone, of IPv4 and of IPv6
    /// (`fib_multipath_hash_policy`).
    pub chooses_by_address: [bool; 2],
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
    /// Whether what arrives is its own: not that of a bridge, a bond or a VRF.
    is_on_its_own: bool,
    /// Whether it takes what XDP redirects to it, as far as the kernel tells.
    pub takes_redirects: bool,
}

impl Surroundings {
    /// Of these interfaces of the present network namespace.
    pub fn of(nics: [&Nic; 2]) -> Result<Self> {
        let fail = |error: netlink::Error| error.while_doing("follow changes of routes");
        // Changes first: what changes after it was read is told.
        let changes = Changes::open().map_err(fail)?;
        let mut asked = Asked {
            links: Links::open().map_err(fail)?,
            routes: Routes::open().map_err(fail)?,
            netdev: Netdev::find().map_err(fail)?,
        };
        let now = asked.now(nics.map(|nic| (nic.ifindex(), nic.name())))?;
        Ok(Self { changes, asked, until: Instant::now() + FRESH, now })
    }

    /// What they are, when last looked at.
    pub const fn now(&self) -> &Now {
        &self.now
    }

    /// Reads everything again if anything may have changed; what has.
    pub fn look(&mut self) -> Result<Changed> {
        let mut changed = self.changes.take();
        if !changed.any && Instant::now() < self.until {
            return Ok(changed);
        }
        self.until = Instant::now() + FRESH;
        let ends = self.now.ends.each_ref();
        let now = self.asked.now(ends.map(|end| (end.ifindex, &*end.name)))?;
        changed.any |= now != self.now;
        self.now = now;
        Ok(changed)
    }
}

impl Asked {
    /// The interfaces of these indices, once of these names, and the host.
    fn now(&mut self, ends: [(u32, &str); 2]) -> Result<Now> {
        let rules = self.routes.rules().map_err(|error| error.while_doing("read routing rules"))?;
        let [first, second] = ends.map(|(ifindex, name)| self.end(ifindex, name));
        let ends = [first?, second?];
        let routes_ipv4 = routes_ipv4() && !is_on("ipv4/ip_forward_use_pmtu");
        let routes_ipv6 = routes_ipv6() && ends.iter().all(|end| has_ipv6(&end.name));
        let is_plain = ends.iter().all(|end| end.is_on_its_own);
        let forwards = [routes_ipv4, routes_ipv6];
        let policies = ["ipv4", "ipv6"].map(|it| format!("{it}/fib_multipath_hash_policy"));
        Ok(Now {
            ends,
            routes: [0, 1].map(|family| is_plain && forwards[family] && !rules[family].look_deeper),
            suppresses: rules.map(|kinds| kinds.suppress),
            chooses_by_address: policies.map(|policy| !is_on(&policy)),
        })
    }

    fn end(&mut self, ifindex: u32, name: &str) -> Result<End> {
        let fail = |error: netlink::Error| match error.errno {
            libc::ENODEV => Error::not_found(format!("{name} is gone")),
            _ => error.while_doing(format_args!("read {name}")),
        };
        let link = self.links.by_index(ifindex).map_err(fail)?;
        let features = match &mut self.netdev {
            Some(netdev) => netdev.xdp_features(ifindex).if_supported().map_err(fail)?,
            None => None,
        };
        Ok(End {
            ifindex,
            mac: ethernet_address(&link)?,
            mtu: link.mtu,
            is_on_its_own: link.master.is_none(),
            takes_redirects: features.is_none_or(XdpFeatures::takes_redirects),
            name: link.name,
        })
    }
}

impl AsFd for Surroundings {
    /// Readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

/// The Ethernet address of an interface: those that have none take no Ethernet frames.
pub fn ethernet_address(link: &LinkInfo) -> Result<[u8; 6]> {
    link.mac.ok_or_else(|| {
        Error::failed(format!(
            "cannot forward through {}: its frames have no Ethernet header",
            link.name
        ))
        .with_fix(format!(
            "let the kernel route there: {}",
            CommandLine::networking(&["sysctl", "-w", "net.ipv4.ip_forward=1"]).quoted()
        ))
    })
}

/// Whether this host routes IPv4 (`net.ipv4.ip_forward`).
pub fn routes_ipv4() -> bool {
    is_on("ipv4/ip_forward")
}

/// Whether this host routes IPv6 (`net.ipv6.conf.all.forwarding`).
pub fn routes_ipv6() -> bool {
    is_on("ipv6/conf/all/forwarding")
}

/// Whether an interface has IPv6 (`net.ipv6.conf.NAME.disable_ipv6`): it has not if its MTU is too
/// small.
fn has_ipv6(name: &str) -> bool {
    let disabled = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"));
    disabled.is_ok_and(|value| value.trim() == "0")
}

/// Whether a sysctl of the network is not 0. Where it cannot be read, as without IPv6, it is.
fn is_on(sysctl: &str) -> bool {
    fs::read_to_string(format!("/proc/sys/net/{sysctl}")).is_ok_and(|value| value.trim() != "0")
}
