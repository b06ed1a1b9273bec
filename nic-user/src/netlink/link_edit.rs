//! Changes to links: creation, settings, addresses, and XDP the way before `BPF_LINK_CREATE`.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Result;
use super::link::Links;
use super::request::{Request, ifinfomsg};

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_XDP: u16 = 43;
const IFLA_GRO_MAX_SIZE: u16 = 58;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;

const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_PORT: u16 = 15;

const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;

const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;

/// A size limit of segmentation or receive offload that a link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxSize {
    /// Largest packet handed to the device. Writing 65536 or less also writes [`Self::GsoIpv4`].
    Gso,
    /// Largest packet built on receive. Writing 65536 or less also writes [`Self::GroIpv4`].
    Gro,
    /// [`Self::Gso`] for IPv4.
    GsoIpv4,
    /// [`Self::Gro`] for IPv4.
    GroIpv4,
}

impl MaxSize {
    const fn attribute(self) -> u16 {
        match self {
            Self::Gso => IFLA_GSO_MAX_SIZE,
            Self::Gro => IFLA_GRO_MAX_SIZE,
            Self::GsoIpv4 => IFLA_GSO_IPV4_MAX_SIZE,
            Self::GroIpv4 => IFLA_GRO_IPV4_MAX_SIZE,
        }
    }
}

/// A setting of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// Largest packet without the link header, in bytes.
    Mtu(u32),
    /// A limit of segmentation or receive offload, in bytes.
    MaxSize(MaxSize, u32),
    /// Most segments that a packet handed to the device may become.
    GsoMaxSegs(u32),
}

impl LinkChange {
    fn encode(self, request: Request) -> Request {
        match self {
            Self::Mtu(bytes) => request.u32(IFLA_MTU, bytes),
            Self::MaxSize(which, bytes) => request.u32(which.attribute(), bytes),
            Self::GsoMaxSegs(segments) => request.u32(IFLA_GSO_MAX_SEGS, segments),
        }
    }
}

/// One end of a veth pair to be made.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: &'a str,
    /// Receive queues, and as many transmit queues.
    pub queues: u32,
    /// MTU in bytes.
    pub mtu: u32,
    /// The namespace to make it in; `None`: the socket's.
    pub netns: Option<BorrowedFd<'a>>,
}

impl VethEnd<'_> {
    fn encode(&self, request: Request) -> Request {
        let request = request
            .string(IFLA_IFNAME, self.name)
            .u32(IFLA_MTU, self.mtu)
            .u32(IFLA_NUM_TX_QUEUES, self.queues)
            .u32(IFLA_NUM_RX_QUEUES, self.queues);
        match self.netns {
            Some(netns) => request.u32(IFLA_NET_NS_FD, netns.as_raw_fd() as u32),
            None => request,
        }
    }
}

/// A VXLAN to one other host.
#[derive(Clone, Copy, Debug)]
pub struct Vxlan {
    /// The link that it runs over.
    pub parent: u32,
    /// Its number (VNI).
    pub network: u32,
    /// The other host.
    pub remote: Ipv4Addr,
    /// UDP port, of both hosts.
    pub port: u16,
}

impl Links {
    /// Sets the MTU, in bytes.
    pub fn set_mtu(&mut self, ifindex: u32, mtu: u32) -> Result<()> {
        self.set(edit(ifindex).u32(IFLA_MTU, mtu))
    }

    /// Brings a link up or down.
    pub fn set_up(&mut self, ifindex: u32, up: bool) -> Result<()> {
        let flag = libc::IFF_UP as u32;
        self.set(Request::with_header(&ifinfomsg(ifindex, if up { flag } else { 0 }, flag)))
    }

    /// Sets a limit of segmentation or receive offload, in bytes.
    pub fn set_max_size(&mut self, ifindex: u32, which: MaxSize, bytes: u32) -> Result<()> {
        self.set(edit(ifindex).u32(which.attribute(), bytes))
    }

    /// Changes several settings with one message; returns what the kernel remarks. Whatever their
    /// order is here, it sets the MTU first, and the sizes for IPv4 last, so that those that
    /// overwrite them do no harm (`do_setlink`).
    pub fn change(&mut self, ifindex: u32, changes: &[LinkChange]) -> Result<Option<String>> {
        let request = changes.iter().fold(edit(ifindex), |request, change| change.encode(request));
        Ok(self.socket.request(libc::RTM_SETLINK, 0, request.as_bytes())?.warning)
    }

    /// Stops the kernel from giving the link an IPv6 link-local address when it comes up, and so
    /// from soliciting routers and neighbours by itself.
    pub fn set_no_link_local(&mut self, ifindex: u32) -> Result<()> {
        self.set(edit(ifindex).nest(IFLA_AF_SPEC, |families| {
            families.nest(libc::AF_INET6 as u16, |inet6| {
                inet6.bytes(IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE])
            })
        }))
    }

    /// Moves a link into another network namespace. Its index may change on the way.
    pub fn move_to(&mut self, ifindex: u32, netns: BorrowedFd<'_>) -> Result<()> {
        self.set(edit(ifindex).u32(IFLA_NET_NS_FD, netns.as_raw_fd() as u32))
    }

    /// Moves a link that is down into another network namespace, where it is called `name`.
    pub fn move_as(&mut self, ifindex: u32, netns: BorrowedFd<'_>, name: &str) -> Result<()> {
        let request = edit(ifindex).u32(IFLA_NET_NS_FD, netns.as_raw_fd() as u32);
        let mut name = super::name::bytes(name);
        name.push(0);
        self.set(request.bytes(IFLA_IFNAME, &name))
    }

    /// Makes a veth pair.
    pub fn add_veth(&mut self, end: VethEnd<'_>, peer: VethEnd<'_>) -> Result<()> {
        let request = end.encode(edit(0)).nest(IFLA_LINKINFO, |info| {
            info.string(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |nest| peer.encode(nest.raw(&ifinfomsg(0, 0, 0))))
            })
        });
        self.add(request)
    }

    /// Makes a VLAN of another link.
    pub fn add_vlan(&mut self, name: &str, parent: u32, id: u16) -> Result<()> {
        let request = edit(0).string(IFLA_IFNAME, name).u32(IFLA_LINK, parent);
        self.add(request.nest(IFLA_LINKINFO, |info| {
            info.string(IFLA_INFO_KIND, "vlan")
                .nest(IFLA_INFO_DATA, |data| data.bytes(IFLA_VLAN_ID, &id.to_ne_bytes()))
        }))
    }

    /// Makes a VXLAN.
    pub fn add_vxlan(&mut self, name: &str, vxlan: &Vxlan) -> Result<()> {
        let Vxlan { parent, network, remote, port } = *vxlan;
        let request = edit(0).string(IFLA_IFNAME, name);
        self.add(request.nest(IFLA_LINKINFO, |info| {
            info.string(IFLA_INFO_KIND, "vxlan").nest(IFLA_INFO_DATA, |data| {
                data.u32(IFLA_VXLAN_ID, network)
                    .u32(IFLA_VXLAN_LINK, parent)
                    .bytes(IFLA_VXLAN_GROUP, &remote.octets())
                    .bytes(IFLA_VXLAN_PORT, &port.to_be_bytes())
            })
        }))
    }

    /// Makes a link of a kind that needs to be told nothing else: a bond, a team.
    pub fn add_plain(&mut self, name: &str, kind: &str) -> Result<()> {
        let request = edit(0).string(IFLA_IFNAME, name);
        self.add(request.nest(IFLA_LINKINFO, |info| info.string(IFLA_INFO_KIND, kind)))
    }

    /// Makes a link that is down a port of another one.
    pub fn set_master(&mut self, ifindex: u32, master: u32) -> Result<()> {
        self.set(edit(ifindex).u32(IFLA_MASTER, master))
    }

    /// Deletes a virtual link; a veth's peer goes with it.
    pub fn delete(&mut self, ifindex: u32) -> Result<()> {
        self.socket.request(libc::RTM_DELLINK, 0, edit(ifindex).as_bytes())?;
        Ok(())
    }

    /// Adds an address that is usable at once (no duplicate address detection).
    pub fn add_address(&mut self, ifindex: u32, address: IpAddr, prefix_len: u8) -> Result<()> {
        let (family, octets) = family_and_octets(address);
        // struct ifaddrmsg: family, prefix length, flags, scope (0: global), index.
        let [i0, i1, i2, i3] = ifindex.to_ne_bytes();
        let request = Request::with_header(&[family, prefix_len, 0, 0, i0, i1, i2, i3])
            .bytes(IFA_LOCAL, &octets)
            .bytes(IFA_ADDRESS, &octets)
            .u32(IFA_FLAGS, IFA_F_NODAD);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.socket.request(libc::RTM_NEWADDR, flags, request.as_bytes())?;
        Ok(())
    }

    /// Says for good which Ethernet address a neighbour has, so that nobody asks.
    pub fn add_neighbour(&mut self, ifindex: u32, address: IpAddr, mac: [u8; 6]) -> Result<()> {
        let (family, octets) = family_and_octets(address);
        // struct ndmsg: family, padding, index, state, flags, type.
        let [i0, i1, i2, i3] = ifindex.to_ne_bytes();
        let [s0, s1] = NUD_PERMANENT.to_ne_bytes();
        let header = [family, 0, 0, 0, i0, i1, i2, i3, s0, s1, 0, 0];
        let request = Request::with_header(&header).bytes(NDA_DST, &octets).bytes(NDA_LLADDR, &mac);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.socket.request(libc::RTM_NEWNEIGH, flags, request.as_bytes())?;
        Ok(())
    }

    /// Attaches an XDP program, or with `None` detaches the one of the mode in `flags`
    /// (`XDP_FLAGS_*`).
    ///
    /// The program belongs to the device afterwards, not to a link with an owner. `BPF_LINK_CREATE`
    /// is the way to attach; this one makes the kernel say why it refuses, and returns what it
    /// remarks when it does not.
    pub fn set_xdp(
        &mut self,
        ifindex: u32,
        program: Option<BorrowedFd<'_>>,
        flags: u32,
    ) -> Result<Option<String>> {
        let fd = program.map_or(-1, |program| program.as_raw_fd());
        let request = edit(ifindex).nest(IFLA_XDP, |xdp| {
            xdp.bytes(IFLA_XDP_FD, &fd.to_ne_bytes()).u32(IFLA_XDP_FLAGS, flags)
        });
        let reply = self.socket.request(libc::RTM_SETLINK, 0, request.as_bytes())?;
        Ok(reply.warning)
    }

    fn add(&mut self, request: Request) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.socket.request(libc::RTM_NEWLINK, flags, request.as_bytes())?;
        Ok(())
    }

    fn set(&mut self, request: Request) -> Result<()> {
        self.socket.request(libc::RTM_SETLINK, 0, request.as_bytes())?;
        Ok(())
    }
}

fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

fn edit(ifindex: u32) -> Request {
    Request::with_header(&ifinfomsg(ifindex, 0, 0))
}
