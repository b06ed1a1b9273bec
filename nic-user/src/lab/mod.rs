//! Two hosts on one machine: network namespaces joined by a multi-queue veth pair, for the demo,
//! tests and benchmarks. It needs root.

pub mod bpf;
pub mod frames;
pub mod generator;
pub mod interruption;
mod netns;
pub mod sockets;
pub mod traffic;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netns::{DirectoryLock, OwnedNetNs};

use crate::error::{Error, Result};
use crate::netlink;
use crate::netlink::link::{LinkInfo, LinkStats, Links};
use crate::netlink::link_edit::{MaxSize, VethEnd};
use crate::nic::namespace::{NetNs, named_namespaces, named_path};

/// What every namespace of a lab is called first.
const PREFIX: &str = "nic-";
/// Part of the names of those for interfaces that are lent.
pub(crate) const LENT: &str = "lent";

/// Limit of any single wait.
const PATIENCE: Duration = Duration::from_secs(30);

const IPV4_PREFIX_LEN: u8 = 24;
const IPV6_PREFIX_LEN: u8 = 64;

/// The measures of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Receive queues of either interface, and as many transmit queues.
    pub queues: u32,
    /// MTU of both interfaces, in bytes.
    pub mtu: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { queues: 4, mtu: 1500 }
    }
}

/// Two hosts joined by a cable; gone, with all that is in them, when dropped, unless the cable is
/// [lent](Lab::around).
#[derive(Debug)]
pub struct Lab {
    a: Host,
    b: Host,
    is_lent: bool,
}

/// One end of a lab.
pub struct Host {
    netns: OwnedNetNs,
    interface: String,
    ifindex: u32,
    mac: [u8; 6],
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
}

impl Lab {
    /// Makes a lab and brings its interfaces up.
    pub fn new(shape: Shape) -> Result<Self> {
        Self::with(["nic-a", "nic-b"], |a, b| a.netns.run(|| join(shape, &b.netns))?)
    }

    /// Makes a lab of two network cards that a cable joins already, and brings them up. Its end
    /// gives them back to the first process's namespace.
    pub fn of_cards(cards: [u32; 2]) -> Result<Self> {
        Self::with(["nic-a", "nic-b"], |a, b| {
            let [first, second] = cards;
            let moved = Links::open().and_then(|mut links| {
                links.move_as(first, a.netns.as_fd(), "nic-a")?;
                links.move_as(second, b.netns.as_fd(), "nic-b")
            });
            moved.map_err(|error| error.while_doing("move interfaces into a lab"))
        })
    }

    /// Makes a lab around two interfaces of the present namespace that stay somebody else's, and
    /// brings them up. They keep their names. `record` is told in what namespaces they will be,
    /// before anything happens to them: whoever made the lab must take them out of there, and then
    /// remove the namespaces by [`remove_lent`], also if this fails. Nothing else does.
    pub fn around(
        interfaces: [&LinkInfo; 2],
        record: impl FnOnce([&str; 2]) -> Result<()>,
    ) -> Result<Self> {
        let directory = DirectoryLock::acquire()?;
        let (a, b) = create_namespaces(&format!("-{LENT}"), &directory)?;
        drop(directory);
        record([&a.name, &b.name])?;
        let (a, b) = (a.keep(), b.keep());
        let [first, second] = interfaces;
        let moved = Links::open().and_then(|mut links| {
            links.move_to(first.ifindex, a.netns.as_fd())?;
            links.move_to(second.ifindex, b.netns.as_fd())
        });
        moved.map_err(|error| error.while_doing("move interfaces into a lab"))?;
        Self::of_ends((a, &first.name), (b, &second.name), true)
    }

    fn with(
        [first, second]: [&str; 2],
        join: impl FnOnce(&OwnedNetNs, &OwnedNetNs) -> Result<()>,
    ) -> Result<Self> {
        let directory = DirectoryLock::acquire()?;
        let (a, b) = create_namespaces("", &directory)?;
        drop(directory);
        join(&a, &b)?;
        Self::of_ends((a, first), (b, second), false)
    }

    fn of_ends(a: (OwnedNetNs, &str), b: (OwnedNetNs, &str), is_lent: bool) -> Result<Self> {
        let lab = Self { a: Host::new(a.0, a.1, 1)?, b: Host::new(b.0, b.1, 2)?, is_lent };
        lab.both(Host::bring_up)?;
        lab.both(Host::wait_until_running)?;
        Ok(lab)
    }

    /// The first host.
    pub const fn a(&self) -> &Host {
        &self.a
    }

    /// The second host.
    pub const fn b(&self) -> &Host {
        &self.b
    }

    /// Lets TCP build packets of up to `bytes` in both directions: BIG TCP, if over 65536.
    pub fn set_max_packet_size(&self, bytes: u32) -> Result<()> {
        self.both(|host| host.set_max_packet_size(bytes))
    }

    /// Removes what labs of killed processes left behind; returns how many namespaces that was.
    pub fn sweep() -> Result<usize> {
        sweep(is_lab, |_| true)
    }

    /// Removes namespaces for [lent](Self::around) interfaces that killed processes left behind,
    /// unless something is `recorded` of them: then there may be interfaces in them.
    pub fn sweep_lent(recorded: impl Fn(&str) -> bool) -> Result<usize> {
        sweep(is_lent, |name| !recorded(name))
    }

    fn both(&self, work: impl Fn(&Host) -> Result<()>) -> Result<()> {
        work(&self.a)?;
        work(&self.b)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        // The kernel dismantles a namespace some time after its last user is gone. Deleting the
        // pair first makes sure that the programs on it are detached when this returns.
        let ifindex = self.a.ifindex;
        let _ = self.a.links(|links| links.delete(ifindex));
    }
}

impl Host {
    fn new(netns: OwnedNetNs, interface: &str, number: u8) -> Result<Self> {
        let find = || Links::open().and_then(|mut links| links.by_name(interface));
        let link = netns.netns.run(find)?.map_err(|error| error.while_doing("make a lab"))?;
        Ok(Self {
            netns,
            interface: interface.to_owned(),
            ifindex: link.ifindex,
            mac: link.mac.unwrap_or_default(),
            ipv4: Ipv4Addr::new(192, 0, 2, number),
            ipv6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()),
        })
    }

    /// Runs `work` inside this host, on a thread of its own, and waits for it.
    ///
    /// Sockets opened by `work` stay in this host and may be used anywhere.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.netns.netns.run(work)
    }

    /// Its network namespace.
    pub const fn netns(&self) -> &NetNs {
        &self.netns.netns
    }

    /// Its network namespace's name, for `ip netns exec`.
    pub fn netns_name(&self) -> &str {
        &self.netns.name
    }

    /// Its interface's name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Its interface's index.
    pub const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Its interface's Ethernet address.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Its IPv4 address.
    pub const fn ipv4(&self) -> Ipv4Addr {
        self.ipv4
    }

    /// Its IPv6 address.
    pub const fn ipv6(&self) -> Ipv6Addr {
        self.ipv6
    }

    /// Its interface as it is now.
    pub fn link(&self) -> Result<LinkInfo> {
        self.links(|links| links.by_index(self.ifindex))
    }

    /// What its interface counted so far.
    pub fn stats(&self) -> Result<LinkStats> {
        self.links(|links| links.stats(self.ifindex))
    }

    /// Works on the links of this host.
    pub fn links<T: Send>(
        &self,
        work: impl FnOnce(&mut Links) -> netlink::Result<T> + Send,
    ) -> Result<T> {
        self.run(|| Links::open().and_then(|mut links| work(&mut links)))?
            .map_err(|error| error.while_doing(format_args!("set up {}", self.interface)))
    }

    fn bring_up(&self) -> Result<()> {
        self.links(|links| {
            let loopback = links.by_name("lo")?.ifindex;
            links.set_up(loopback, true)?;
            // Fewer packets that nobody sent: counts in tests are exact.
            links.set_no_link_local(self.ifindex)?;
            links.set_up(self.ifindex, true)?;
            links.add_address(self.ifindex, IpAddr::V4(self.ipv4), IPV4_PREFIX_LEN)?;
            links.add_address(self.ifindex, IpAddr::V6(self.ipv6), IPV6_PREFIX_LEN)
        })
    }

    /// Until the kernel has noticed the carrier, it drops what is sent.
    pub fn wait_until_running(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.link()?.running {
            if Instant::now() > deadline {
                let (interface, seconds) = (&self.interface, PATIENCE.as_secs());
                return Err(Error::failed(format!(
                    "make a lab: {interface} has no carrier after {seconds} s"
                )));
            }
            thread::yield_now();
        }
        Ok(())
    }

    fn set_max_packet_size(&self, bytes: u32) -> Result<()> {
        self.links(|links| {
            // The first two may overwrite the others.
            [MaxSize::Gso, MaxSize::Gro, MaxSize::GsoIpv4, MaxSize::GroIpv4]
                .into_iter()
                .try_for_each(|which| links.set_max_size(self.ifindex, which, bytes))
        })
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.interface, self.netns_name())
    }
}

/// Makes the veth pair from within the first host, so that it never shows up anywhere else.
fn join(shape: Shape, peer: &NetNs) -> Result<()> {
    let Shape { queues, mtu } = shape;
    let end = VethEnd { name: "nic-a", queues, mtu, netns: None };
    let peer = VethEnd { name: "nic-b", netns: Some(peer.as_fd()), ..end };
    Links::open()
        .and_then(|mut links| links.add_veth(end, peer))
        .map_err(|error| error.while_doing("create a veth pair"))
}

/// Makes two namespaces whose names are free: those of a process that had our number before us
/// may not be.
fn create_namespaces(purpose: &str, directory: &DirectoryLock) -> Result<(OwnedNetNs, OwnedNetNs)> {
    const ATTEMPTS: usize = 1000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..ATTEMPTS {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("{PREFIX}{}-{number}{purpose}-{end}", process::id());
        if let Some(a) = OwnedNetNs::create(name('a'), directory)?
            && let Some(b) = OwnedNetNs::create(name('b'), directory)?
        {
            return Ok((a, b));
        }
    }
    Err(Error::failed("make a lab: all names of network namespaces are taken"))
}

/// Removes a namespace that was made for a lent interface, if it is there; by force.
pub fn remove_lent(name: &str) {
    netns::remove(&named_path(name));
}

fn sweep(is_ours: impl Fn(&str) -> bool, may: impl Fn(&str) -> bool) -> Result<usize> {
    let names: Vec<_> = named_namespaces()?.into_iter().filter(|name| is_ours(name)).collect();
    if names.is_empty() {
        return Ok(0);
    }
    Ok(netns::sweep(&names, may, &DirectoryLock::acquire()?))
}

/// Whether a namespace of this name can only have been made by [`create_namespaces`], and has
/// nothing in it that is somebody else's.
fn is_lab(name: &str) -> bool {
    matches!(parts(name)[..], [pid, number, "a" | "b"] if is_number(pid) && is_number(number))
}

/// Whether a namespace of this name can only have been made for a lent interface.
pub(crate) fn is_lent(name: &str) -> bool {
    let parts = parts(name);
    matches!(parts[..], [pid, number, LENT, "a" | "b"] if is_number(pid) && is_number(number))
}

fn parts(name: &str) -> Vec<&str> {
    name.strip_prefix(PREFIX).unwrap_or_default().split('-').collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_labs_are_swept() {
        for name in ["nic-12-0-a", "nic-4194304-17-b"] {
            assert!(is_lab(name));
        }
        for name in [
            "",
            "nic-",
            "nic-a",
            "nic-1-2-c",
            "nic-x-2-a",
            "nic-1-2-a-b",
            "nic-1-2-lent-a",
            "blue-1-2-a",
        ] {
            assert!(!is_lab(name), "{name}");
            assert_eq!(is_lent(name), name == "nic-1-2-lent-a", "{name}");
        }
    }
}
