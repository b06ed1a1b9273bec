//! What a NIC is and has: its links, queues, driver, and the programs on it.

pub mod census;
pub mod copybreak;
pub mod cpus;
pub mod detached;
pub mod drivers;
pub mod identity;
pub mod interrupts;
pub mod mode;
pub mod name;
pub mod namespace;
pub mod preflight;
pub mod resolve;
pub mod setting;
pub mod settings;
pub mod surroundings;
pub mod sysfs;
pub mod topology;

pub use name::InterfaceName;

use std::fmt;

use crate::command_line::CommandLine;
use crate::error::{Error, Kind, Result};
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool::channels::Channels;
use crate::netlink::ethtool::features::Features;
use crate::netlink::ethtool::rings::Ring;
use crate::netlink::ethtool_ioctl::{DriverInfo, EthtoolIoctl};
use crate::netlink::link::{DeviceRef, LinkInfo, Links, XdpAttachment};
use crate::netlink::netdev::{Netdev, XdpFeatures};
use crate::netlink::{self, IfSupported};

/// `ETHTOOL_TCP_DATA_SPLIT_ENABLED` (linux/ethtool.h).
const TCP_DATA_SPLIT_ENABLED: u32 = 2;

/// One interface of the current network namespace, as it was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// What rtnetlink says.
    pub link: LinkInfo,
    /// What the driver says of itself; `None` if it does not say.
    pub driver: Option<DriverInfo>,
    /// Queues as the driver counts them; `None` if it has no such notion.
    pub channels: Option<Channels>,
    /// Offloads by the kernel's name for them.
    pub features: Features,
    /// Whether the device was told to put headers and data into buffers of their own
    /// (tcp-data-split).
    pub splits_headers: bool,
    /// What the driver says it can do with XDP; `None` before Linux 6.3.
    pub xdp_features: Option<XdpFeatures>,
}

impl Nic {
    /// The interface called `name`.
    pub fn by_name(name: &InterfaceName) -> Result<Self> {
        Self::of(link(name)?)
    }

    /// The interface with this index.
    pub fn by_index(ifindex: u32) -> Result<Self> {
        let mut links = open(format_args!("read interface with index {ifindex}"))?;
        match links.by_index(ifindex) {
            Ok(link) => Self::of(link),
            Err(error) if error.is_gone() => {
                Err(Error::not_found(format!("no interface has the index {ifindex}")))
            }
            Err(error) => {
                Err(error.while_doing(format_args!("read interface with index {ifindex}")))
            }
        }
    }

    /// Every interface of the current network namespace, by index; without those that go meanwhile.
    pub fn all() -> Result<Vec<Self>> {
        let is_there =
            |nic: &Result<Self>| !nic.as_ref().is_err_and(|error| error.kind() == Kind::NotFound);
        links()?.into_iter().map(Self::of).filter(is_there).collect()
    }

    /// Adds what the driver says to what rtnetlink says.
    pub fn of(link: LinkInfo) -> Result<Self> {
        let action = format_args!("query the driver of {}", link.name);
        Self::ask(link.clone()).map_err(|error| gone_or(error, &link, action))
    }

    /// What a driver does not have is absent; everything else is an error.
    fn ask(link: LinkInfo) -> netlink::Result<Self> {
        let driver = EthtoolIoctl::open()?.driver(&link.name).if_supported()?;
        let mut ethtool = Ethtool::open()?;
        let channels = ethtool.channels(link.ifindex)?;
        let features = ethtool.features(link.ifindex).if_supported()?.unwrap_or_default();
        let rings = ethtool.get::<Ring>(link.ifindex)?;
        let splits_headers = rings
            .get(&Ring::TcpDataSplit)
            .is_some_and(|reading| reading.value == TCP_DATA_SPLIT_ENABLED);
        let xdp_features = match Netdev::find()? {
            Some(mut netdev) => netdev.xdp_features(link.ifindex).if_supported()?,
            None => None,
        };
        Ok(Self { link, driver, channels, features, splits_headers, xdp_features })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.link.name
    }

    /// Its index in its network namespace.
    pub const fn ifindex(&self) -> u32 {
        self.link.ifindex
    }

    /// The kind of virtual device (`veth`, `bond`, ...); `None` for hardware.
    pub fn kind(&self) -> Option<&str> {
        self.link.kind.as_deref()
    }

    /// The driver's name.
    pub fn driver_name(&self) -> Option<&str> {
        self.driver.as_ref().map(|driver| driver.driver.as_str())
    }

    /// Largest packet without the link header, in bytes.
    pub const fn mtu(&self) -> u32 {
        self.link.mtu
    }

    /// Receive queues that it can ever have.
    pub const fn max_rx_queues(&self) -> u32 {
        self.link.rx_queues
    }

    /// Transmit queues that it can ever have.
    pub const fn max_tx_queues(&self) -> u32 {
        self.link.tx_queues
    }

    /// Receive queues in use; all there can be, if the driver does not say.
    pub fn rx_queues(&self) -> u32 {
        let in_use = self
            .channels
            .map(|channels| channels.current.rx.saturating_add(channels.current.combined));
        in_use.filter(|&queues| queues > 0).unwrap_or(self.link.rx_queues)
    }

    /// Transmit queues in use; all there can be, if the driver does not say.
    pub fn tx_queues(&self) -> u32 {
        let in_use = self
            .channels
            .map(|channels| channels.current.tx.saturating_add(channels.current.combined));
        in_use.filter(|&queues| queues > 0).unwrap_or(self.link.tx_queues)
    }

    /// The XDP programs on it.
    pub fn xdp(&self) -> &[XdpAttachment] {
        &self.link.xdp
    }

    /// A veth's other end.
    pub const fn peer(&self) -> Option<DeviceRef> {
        self.link.peer
    }
}

/// The link called `name`, without asking its driver.
pub fn link(name: &InterfaceName) -> Result<LinkInfo> {
    let mut links = open(format_args!("read interface {name}"))?;
    links.by_name(name.as_str()).map_err(|error| match error.is_gone() {
        true => not_found(name, &mut links),
        false => error.while_doing(format_args!("read interface {name}")),
    })
}

/// The link with the index of `link`, as it is now.
///
/// # Errors
///
/// [`NotFound`](crate::error::Kind::NotFound) only if it is gone for certain.
pub(crate) fn current(link: &LinkInfo) -> Result<LinkInfo> {
    let action = format_args!("read {}", link.name);
    open(action)?.by_index(link.ifindex).map_err(|error| match error.is_gone() {
        true => Error::not_found(format!("{} is gone", link.name)),
        false => error.while_doing(action),
    })
}

/// The error of asking about `link`: that it is gone, or else the one that there was. Drivers
/// answer `ENODEV` in a reset, too.
fn gone_or(error: netlink::Error, link: &LinkInfo, action: impl fmt::Display) -> Error {
    match (error.errno == libc::ENODEV).then(|| current(link)) {
        Some(Err(gone)) if gone.kind() == Kind::NotFound => gone,
        _ => error.while_doing(action),
    }
}

/// Every link of the current network namespace, by index, without asking drivers.
pub fn links() -> Result<Vec<LinkInfo>> {
    let action = "list the interfaces";
    open(format_args!("{action}"))?.all().map_err(|error| error.while_doing(action))
}

fn open(action: std::fmt::Arguments<'_>) -> Result<Links> {
    Links::open().map_err(|error: netlink::Error| error.while_doing(action))
}

fn not_found(name: &InterfaceName, links: &mut Links) -> Error {
    let error = Error::not_found(format!("there is no interface {name}"));
    let links = links.all().unwrap_or_default();
    match name::nearest(name.as_str(), links.iter().map(|link| link.name.as_str())) {
        Some(nearest) => error.with_fix(format!("did you mean {nearest}?")),
        None => error.with_fix(format!(
            "{} lists the interfaces of this network namespace",
            CommandLine::networking(&["ip", "link"]).quoted()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> InterfaceName {
        InterfaceName::new(name).unwrap()
    }

    #[test]
    fn the_loopback_device_is_read() {
        let lo = Nic::by_name(&name("lo")).unwrap();
        assert_eq!((lo.name(), lo.kind()), ("lo", None));
        assert_eq!(Nic::by_index(lo.ifindex()).unwrap().name(), "lo");
        assert!(Nic::all().unwrap().iter().any(|nic| nic.name() == "lo"));
        assert!(lo.rx_queues() >= 1 && lo.max_rx_queues() >= lo.rx_queues());
    }

    #[test]
    fn an_unknown_name_is_not_found_and_a_near_one_suggested() {
        let error = Nic::by_name(&name("lo0")).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(error.to_string(), "there is no interface lo0");
        assert_eq!(error.fix(), Some("did you mean lo?"));
    }

    #[test]
    fn an_unknown_index_is_not_found() {
        assert_eq!(Nic::by_index(0).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(Nic::by_index(u32::MAX / 2).unwrap_err().kind(), Kind::NotFound);
    }
}
