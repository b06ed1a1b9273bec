//! A tunnel between the hosts of a lab.

use std::net::{IpAddr, Ipv4Addr};

use crate::{
    error::Result,
    lab::{Host, Lab},
    netlink::link_edit::Vxlan,
};

const NAME: &str = "nic-vxlan";
const NETWORK: u32 = 42;
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
        add_end(lab.a(), lab.b().ipv4(), first)?;
        add_end(lab.b(), lab.a().ipv4(), second)?;
        Ok(Self(()))
    }
}

fn add_end(host: &Host, remote: Ipv4Addr, address: Ipv4Addr) -> Result<()> {
    host.links(|links| {
        let parent = host.ifindex();
        links.add_vxlan(NAME, &Vxlan { parent, network: NETWORK, remote, port: PORT })?;
        let ifindex = links.by_name(NAME)?.ifindex;
        links.set_no_link_local(ifindex)?;
        links.set_up(ifindex, true)?;
        links.add_address(ifindex, IpAddr::V4(address), PREFIX_LEN)
    })
}
