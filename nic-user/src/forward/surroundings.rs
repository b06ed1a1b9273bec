//! What decides over routing beside routes: the interfaces, and whether this host routes at all.
//! It is followed while it changes.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    netlink::{
        self,
        link::{LinkInfo, Links},
        route::{Changed, Changes, Routes},
    },
    nic::Nic,
};

/// What no message tells of is read again after this time.
const FRESH: Duration = Duration::from_secs(1);

/// The interfaces that are routed between, and the host.
pub struct Surroundings {
    changes: Changes,
    links: Links,
    routes: Routes,
    until: Instant,
    now: Now,
}

/// What they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// The interfaces.
    pub ends: [End; 2],
    /// Whether this host routes IPv4 and IPv6, by addresses, type of service and interface alone.
    pub routes: [bool; 2],
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
}

impl Surroundings {
    /// Of these interfaces of the present network namespace.
    pub fn of(nics: [&Nic; 2]) -> Result<Self> {
        let fail = |error: netlink::Error| error.while_doing("follow changes of routes");
        // Changes first: what changes after it was read is told.
        let changes = Changes::open().map_err(fail)?;
        let mut links = Links::open().map_err(fail)?;
        let mut routes = Routes::open().map_err(fail)?;
        let [first, second] = nics.map(|nic| End::of(&nic.link));
        let now = Now::read(&[first?, second?], &mut links, &mut routes)?;
        Ok(Self { changes, links, routes, until: Instant::now() + FRESH, now })
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
        let now = Now::read(&self.now.ends, &mut self.links, &mut self.routes)?;
        changed.any |= now != self.now;
        self.now = now;
        Ok(changed)
    }
}

impl Now {
    fn read(ends: &[End; 2], links: &mut Links, routes: &mut Routes) -> Result<Self> {
        let deeper = routes
            .rules_look_deeper()
            .map_err(|error| error.while_doing("ask for rules of routing"))?;
        let [first, second] = ends.each_ref().map(|end| end.again(links));
        let forwards = [routes_ipv4() && !is_on("ipv4/ip_forward_use_pmtu"), routes_ipv6()];
        let policies = ["ipv4", "ipv6"].map(|it| format!("{it}/fib_multipath_hash_policy"));
        Ok(Self {
            ends: [first?, second?],
            routes: [0, 1].map(|family| forwards[family] && !deeper[family]),
            chooses_by_address: policies.map(|policy| !is_on(&policy)),
        })
    }
}

impl AsFd for Surroundings {
    /// Readable when something has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

impl End {
    /// As it is now.
    fn again(&self, links: &mut Links) -> Result<Self> {
        let link = links.by_index(self.ifindex).map_err(|error| match error.errno {
            libc::ENODEV => Error::not_found(format!("{} is gone", self.name)),
            _ => error.while_doing(format_args!("read {}", self.name)),
        })?;
        Self::of(&link)
    }

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
    is_on("ipv4/ip_forward")
}

/// Whether this host routes IPv6 (`net.ipv6.conf.all.forwarding`).
pub fn routes_ipv6() -> bool {
    is_on("ipv6/conf/all/forwarding")
}

/// Whether a sysctl of the network is not 0. Where it cannot be read, as without IPv6, it is.
fn is_on(sysctl: &str) -> bool {
    fs::read_to_string(format!("/proc/sys/net/{sysctl}")).is_ok_and(|value| value.trim() != "0")
}
