//! A tunnel between the hosts of a lab.

use std::net::{IpAddr, Ipv4Addr};

use crate::{
    error::Result,
    lab::{Host, Lab},
    netlink::{link::LinkInfo, link_edit::Vxlan},
};

const NAME: &str = "nic-vxlan";
/// Its number (VNI).
pub const NETWORK: u32 = 42;
const PORT: u16 = 4789;
const PREFIX_LEN: u8 = 24;

/// Two VXLAN devices; they are gone with their lab.
pub struct Tunnel(());

impl Tunnel {
    /// The addresses of both ends (RFC 5737).
    pub const ADDRESSES: [Ipv4Addr; 2] =
        [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(198, 51, 100, 2)];

    /// Makes a tunnel between the interfaces of a lab.
    pub fn new(lab: &Lab) -> Result<Self> {
        let [first, second] = Self::ADDRESSES;
        add_end(lab.a(), lab.a().ifindex(), lab.b().ipv4(), first)?;
        add_end(lab.b(), lab.b().ifindex(), lab.a().ipv4(), second)?;
        Ok(Self(()))
    }
}

/// Makes one end on `host`: over the link `parent` to `remote`, with an address of its own.
pub fn add_end(host: &Host, parent: u32, remote: Ipv4Addr, address: Ipv4Addr) -> Result<LinkInfo> {
    host.links(|links| {
        links.add_vxlan(NAME, &Vxlan { parent, network: NETWORK, remote, port: PORT })?;
        let link = links.by_name(NAME)?;
        links.set_no_link_local(link.ifindex)?;
        links.set_up(link.ifindex, true)?;
        links.add_address(link.ifindex, IpAddr::V4(address), PREFIX_LEN)?;
        Ok(link)
    })
}
