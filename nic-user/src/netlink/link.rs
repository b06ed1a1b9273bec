//! Links (network interfaces) as rtnetlink describes them (linux/if_link.h).

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_bindings::rt_link::{
    IterableLinkAttrs, IterableXdpAttrs, LinkAttrs, LinkinfoAttrs, OpGetlinkDo, XdpAttrs,
};

use super::attribute::Attributes;
use super::request::{Request, ifinfomsg};
use super::socket::Socket;
use super::{Error, Result, name};

const IFLA_IFNAME: u16 = 3;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_EXT_MASK: u16 = 29;
/// Leave out the statistics blocks, which are most of a reply.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XdpMode {
    /// In the driver, before the kernel has a packet buffer.
    Native,
    /// In the stack, on packet buffers.
    Generic,
    /// In the device.
    Offload,
}

impl XdpMode {
    /// All modes, in the order in which they are listed for a link.
    pub const ALL: [Self; 3] = [Self::Native, Self::Generic, Self::Offload];

    /// The mode in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offload => "offload",
        }
    }

    /// The `XDP_FLAGS_*_MODE` bit that asks for exactly this mode (linux/if_link.h).
    pub const fn flag(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
            Self::Offload => 1 << 3,
        }
    }
}

/// An XDP program on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpAttachment {
    /// Where it runs.
    pub mode: XdpMode,
    /// The program's id, as in `bpftool prog show id`.
    pub prog_id: u32,
}

/// Another device that a link names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceRef {
    /// Its index in its own network namespace.
    pub ifindex: u32,
    /// That namespace's id as seen from the link's; `None`: the same namespace.
    pub netnsid: Option<i32>,
}

/// What rtnetlink says about one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// Index in its network namespace.
    pub ifindex: u32,
    /// Name; what is not UTF-8 in it is escaped ([`name`]).
    pub name: String,
    /// What kind of virtual device it is: `veth`, `bond`, `vlan`, ...; `None` for hardware.
    pub kind: Option<String>,
    /// What its frames begin with (`ARPHRD_*`, linux/if_arp.h).
    pub link_type: u16,
    /// Ethernet address; `None` for links that have none, or one of another length.
    pub mac: Option<[u8; 6]>,
    /// The Ethernet address that the device was made with; `None` for virtual ones. Since Linux
    /// 5.5.
    pub permanent_mac: Option<[u8; 6]>,
    /// Largest packet without the link header, in bytes.
    pub mtu: u32,
    /// The least MTU that the device takes.
    pub min_mtu: Option<u32>,
    /// The largest MTU that the device takes; `None` if it has no limit of its own.
    pub max_mtu: Option<u32>,
    /// Whether it is administratively up (`IFF_UP`).
    pub up: bool,
    /// Whether packets can pass (`IFF_RUNNING`): up, with a carrier, and the kernel knows it.
    pub running: bool,
    /// Receive queues it was created with, in use or not: the most it can ever have.
    pub rx_queues: u32,
    /// Transmit queues it was created with, in use or not.
    pub tx_queues: u32,
    /// The device whose port it is: a bond, team, bridge.
    pub master: Option<u32>,
    /// The device it is stacked on, as a VLAN is on its parent. Never a veth's peer.
    pub lower: Option<DeviceRef>,
    /// A veth's other end.
    pub peer: Option<DeviceRef>,
    /// XDP programs, at most one a mode.
    pub xdp: Vec<XdpAttachment>,
    /// Largest packet handed to the device for segmentation, in bytes, except IPv4.
    pub gso_max_size: Option<u32>,
    /// Largest packet that receive offload builds, in bytes, except IPv4.
    pub gro_max_size: Option<u32>,
    /// `gso_max_size` for IPv4. Since Linux 6.3.
    pub gso_ipv4_max_size: Option<u32>,
    /// `gro_max_size` for IPv4. Since Linux 6.3.
    pub gro_ipv4_max_size: Option<u32>,
    /// Most segments of a packet handed to the device for segmentation.
    pub gso_max_segs: Option<u32>,
    /// Largest packet the device itself can segment, in bytes. Since Linux 6.0.
    pub tso_max_size: Option<u32>,
    /// Most segments that the device itself can make of a packet. Since Linux 6.0.
    pub tso_max_segs: Option<u32>,
}

impl LinkInfo {
    /// Decodes the payload of `RTM_NEWLINK`. Attributes that do not decode are left out; `None`
    /// without an index or a name.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let (header, attributes) = OpGetlinkDo::decode_request(payload);
        let mut info = Self {
            ifindex: u32::try_from(header.ifi_index).ok().filter(|&index| index != 0)?,
            link_type: header.ifi_type,
            up: header.ifi_flags & libc::IFF_UP as u32 != 0,
            running: header.ifi_flags & libc::IFF_RUNNING as u32 != 0,
            ..Self::default()
        };
        info.read(attributes);
        (!info.name.is_empty()).then_some(info)
    }

    fn read(&mut self, attributes: IterableLinkAttrs<'_>) {
        let mut link = None;
        let mut netnsid = None;
        for attribute in attributes.flatten() {
            match attribute {
                LinkAttrs::Ifname(name) => self.name = name::text(name.to_bytes()),
                LinkAttrs::Address(address) => self.mac = address.try_into().ok(),
                LinkAttrs::PermAddress(address) => self.permanent_mac = address.try_into().ok(),
                LinkAttrs::Mtu(mtu) => self.mtu = mtu,
                LinkAttrs::MinMtu(mtu) => self.min_mtu = Some(mtu),
                LinkAttrs::MaxMtu(mtu) => self.max_mtu = Some(mtu).filter(|&mtu| mtu != 0),
                LinkAttrs::NumRxQueues(queues) => self.rx_queues = queues,
                LinkAttrs::NumTxQueues(queues) => self.tx_queues = queues,
                LinkAttrs::Master(ifindex) => self.master = Some(ifindex),
                LinkAttrs::Link(ifindex) => link = Some(ifindex),
                LinkAttrs::LinkNetnsid(id) => netnsid = Some(id),
                LinkAttrs::Xdp(xdp) => self.xdp = decode_xdp(xdp),
                LinkAttrs::GsoMaxSize(bytes) => self.gso_max_size = Some(bytes),
                LinkAttrs::GroMaxSize(bytes) => self.gro_max_size = Some(bytes),
                LinkAttrs::GsoIpv4MaxSize(bytes) => self.gso_ipv4_max_size = Some(bytes),
                LinkAttrs::GroIpv4MaxSize(bytes) => self.gro_ipv4_max_size = Some(bytes),
                LinkAttrs::GsoMaxSegs(segments) => self.gso_max_segs = Some(segments),
                LinkAttrs::TsoMaxSize(bytes) => self.tso_max_size = Some(bytes),
                LinkAttrs::TsoMaxSegs(segments) => self.tso_max_segs = Some(segments),
                LinkAttrs::Linkinfo(info) => {
                    self.kind = info.flatten().find_map(|attribute| match attribute {
                        LinkinfoAttrs::Kind(kind) => Some(text(kind)),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        self.set_link(link, netnsid);
    }

    /// `IFLA_LINK` is the parent of stacked devices, the peer of a veth, the link itself for
    /// some others, and 0 where a tunnel is bound to no device.
    fn set_link(&mut self, link: Option<u32>, netnsid: Option<i32>) {
        let other = link
            .filter(|&ifindex| ifindex != 0 && (ifindex != self.ifindex || netnsid.is_some()))
            .map(|ifindex| DeviceRef { ifindex, netnsid });
        match self.kind.as_deref() {
            Some("veth") => self.peer = other,
            _ => self.lower = other,
        }
    }
}

fn text(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

/// The kernel lists the program of each mode by itself, besides a summary in `PROG_ID` that is
/// absent when there are several (`rtnl_xdp_fill`).
fn decode_xdp(attributes: IterableXdpAttrs<'_>) -> Vec<XdpAttachment> {
    let attachment = |attribute| {
        let (mode, prog_id) = match attribute {
            XdpAttrs::DrvProgId(id) => (XdpMode::Native, id),
            XdpAttrs::SkbProgId(id) => (XdpMode::Generic, id),
            XdpAttrs::HwProgId(id) => (XdpMode::Offload, id),
            _ => return None,
        };
        Some(XdpAttachment { mode, prog_id })
    };
    let mut attachments: Vec<_> = attributes.flatten().filter_map(attachment).collect();
    attachments.sort_by_key(|attachment| attachment.mode);
    attachments
}

/// What a link counted since it was made (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that were dropped instead of sent.
    pub tx_dropped: u64,
}

impl LinkStats {
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let (_, attributes) = OpGetlinkDo::decode_request(payload);
        attributes.flatten().find_map(|attribute| match attribute {
            LinkAttrs::Stats64(stats) => Some(Self {
                rx_packets: stats.rx_packets,
                rx_bytes: stats.rx_bytes,
                rx_dropped: stats.rx_dropped,
                tx_packets: stats.tx_packets,
                tx_bytes: stats.tx_bytes,
                tx_dropped: stats.tx_dropped,
            }),
            _ => None,
        })
    }
}

/// Reads and changes the links of the network namespace in which it was opened.
pub struct Links {
    pub(super) socket: Socket,
}

impl Links {
    /// Opens an rtnetlink socket in the current network namespace.
    pub fn open() -> Result<Self> {
        Ok(Self { socket: Socket::open(libc::NETLINK_ROUTE)? })
    }

    /// The link called `name`, which may be an alternative name of it, with what is not UTF-8
    /// escaped; `ENODEV` if there is none.
    pub fn by_name(&mut self, name: &str) -> Result<LinkInfo> {
        let mut name = name::bytes(name);
        // Shorter ones may be alternative names, too: the kernel looks among both.
        let attribute = if name.len() < libc::IFNAMSIZ { IFLA_IFNAME } else { IFLA_ALT_IFNAME };
        name.push(0);
        self.get(query(0).bytes(attribute, &name))
    }

    /// The link with this index; `ENODEV` if there is none.
    pub fn by_index(&mut self, ifindex: u32) -> Result<LinkInfo> {
        if ifindex == 0 {
            return Err(Error::from_errno(libc::ENODEV));
        }
        self.get(query(ifindex))
    }

    /// What the link with this index counted.
    pub fn stats(&mut self, ifindex: u32) -> Result<LinkStats> {
        let query = Request::with_header(&ifinfomsg(ifindex, 0, 0));
        let reply = self.socket.request(libc::RTM_GETLINK, 0, query.as_bytes())?;
        reply
            .messages
            .iter()
            .find_map(|message| LinkStats::decode(message))
            .ok_or_else(|| Error::malformed("no statistics in it"))
    }

    /// Every link of the namespace, by index.
    pub fn all(&mut self) -> Result<Vec<LinkInfo>> {
        let reply = self.socket.dump(libc::RTM_GETLINK, query(0).as_bytes())?;
        let mut links: Vec<_> =
            reply.messages.iter().filter_map(|message| LinkInfo::decode(message)).collect();
        links.sort_by_key(|link| link.ifindex);
        Ok(links)
    }

    /// The id that another network namespace has as seen from this one; `None` if it has none.
    pub fn namespace_id(&mut self, namespace: BorrowedFd<'_>) -> Result<Option<i32>> {
        // `struct rtgenmsg`, padded.
        let query = Request::with_header(&[0; 4]);
        let query = query.bytes(NETNSA_FD, &namespace.as_raw_fd().to_ne_bytes());
        let reply = self.socket.request(libc::RTM_GETNSID, 0, query.as_bytes())?;
        let id = |message: &Vec<u8>| {
            let attributes = Attributes::new(message.get(4..)?);
            let nsid = attributes.flatten().find(|attribute| attribute.kind == NETNSA_NSID)?;
            Some(i32::from_ne_bytes(nsid.value.try_into().ok()?))
        };
        Ok(reply.messages.iter().find_map(id).filter(|&id| id >= 0))
    }

    fn get(&mut self, query: Request) -> Result<LinkInfo> {
        let reply = self.socket.request(libc::RTM_GETLINK, 0, query.as_bytes())?;
        reply
            .messages
            .iter()
            .find_map(|message| LinkInfo::decode(message))
            .ok_or_else(|| Error::malformed("no link in it"))
    }
}

fn query(ifindex: u32) -> Request {
    Request::with_header(&ifinfomsg(ifindex, 0, 0)).u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IFLA_MTU: u16 = 4;
    const IFLA_LINK: u16 = 5;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_NUM_RX_QUEUES: u16 = 32;
    const IFLA_LINK_NETNSID: u16 = 37;
    const IFLA_XDP: u16 = 43;
    const IFLA_XDP_ATTACHED: u16 = 2;
    const IFLA_XDP_DRV_PROG_ID: u16 = 5;
    const IFLA_XDP_SKB_PROG_ID: u16 = 6;

    fn link(ifindex: u32, kind: &str) -> Request {
        Request::with_header(&ifinfomsg(ifindex, 1, 0))
            .string(IFLA_IFNAME, "nic0")
            .nest(IFLA_LINKINFO, |info| info.string(1, kind))
    }

    #[test]
    fn fields_are_read_from_their_attributes() {
        let message = link(7, "veth").u32(IFLA_MTU, 9000).u32(IFLA_NUM_RX_QUEUES, 4);
        let expected = LinkInfo {
            ifindex: 7,
            name: "nic0".to_owned(),
            kind: Some("veth".to_owned()),
            mtu: 9000,
            up: true,
            rx_queues: 4,
            ..LinkInfo::default()
        };
        assert_eq!(LinkInfo::decode(message.as_bytes()), Some(expected));
    }

    #[test]
    fn programs_of_several_modes_are_all_listed() {
        let message = link(7, "veth").nest(IFLA_XDP, |xdp| {
            xdp.bytes(IFLA_XDP_ATTACHED, &[4])
                .u32(IFLA_XDP_SKB_PROG_ID, 11)
                .u32(IFLA_XDP_DRV_PROG_ID, 12)
        });
        let attachments = [
            XdpAttachment { mode: XdpMode::Native, prog_id: 12 },
            XdpAttachment { mode: XdpMode::Generic, prog_id: 11 },
        ];
        assert_eq!(LinkInfo::decode(message.as_bytes()).unwrap().xdp, attachments);
    }

    #[test]
    fn a_peer_is_not_a_lower_device() {
        let here = Some(DeviceRef { ifindex: 3, netnsid: None });
        let elsewhere = Some(DeviceRef { ifindex: 7, netnsid: Some(0) });
        let decode = |message: Request| {
            let link = LinkInfo::decode(message.as_bytes()).unwrap();
            (link.lower, link.peer)
        };
        assert_eq!(decode(link(7, "vlan").u32(IFLA_LINK, 3)), (here, None));
        assert_eq!(decode(link(7, "veth").u32(IFLA_LINK, 3)), (None, here));
        let foreign = link(7, "veth").u32(IFLA_LINK, 7).u32(IFLA_LINK_NETNSID, 0);
        assert_eq!(decode(foreign), (None, elsewhere));
        assert_eq!(decode(link(7, "dummy").u32(IFLA_LINK, 7)), (None, None));
        assert_eq!(decode(link(7, "gre").u32(IFLA_LINK, 0)), (None, None));
    }

    proptest! {
        #[test]
        fn no_payload_makes_the_decoder_panic(payload: Vec<u8>) {
            let _ = LinkInfo::decode(&payload);
            let _ = LinkStats::decode(&payload);
        }

        #[test]
        fn no_attribute_makes_the_decoder_panic(attributes: Vec<(u16, Vec<u8>)>, cut: usize) {
            let message = attributes.iter().fold(link(7, "veth"), |message, (kind, value)| {
                message.bytes(kind % 80, value)
            });
            let bytes = message.as_bytes();
            let _ = LinkInfo::decode(bytes);
            let _ = LinkStats::decode(bytes);
            let _ = LinkInfo::decode(&bytes[..cut % bytes.len()]);
        }

        #[test]
        fn a_valid_link_survives_unknown_attributes(kind in 80_u16..4000, value: Vec<u8>) {
            let message = link(7, "veth").bytes(kind, &value).u32(IFLA_MTU, 1500);
            prop_assert_eq!(LinkInfo::decode(message.as_bytes()).map(|link| link.mtu), Some(1500));
        }
    }
}
