//! The `ethtool` family of generic netlink, a file for each group of settings
//! (linux/ethtool_netlink.h).

mod bitset;
pub mod channels;
pub mod coalesce;
pub mod features;
pub mod parameter;
pub mod pause;
pub mod private_flags;
pub mod rings;
pub mod rss;

use super::Result;
use super::generic::{self, Family};
use super::request::{Places, Request};
use super::socket::Reply;

const FAMILY: &str = "ethtool";

/// The first attribute of every command: the device.
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;

/// Reads and changes devices of the network namespace in which it was opened.
pub struct Ethtool {
    family: Family,
}

impl Ethtool {
    /// Opens a socket in the current network namespace.
    pub fn open() -> Result<Self> {
        Ok(Self { family: Family::open(FAMILY)? })
    }

    /// The same; `None` before Linux 5.6, where there is only the ioctl.
    pub fn find() -> Result<Option<Self>> {
        Ok(Family::find(FAMILY)?.map(|family| Self { family }))
    }

    /// The beginning of a request about the device with this index.
    fn command(number: u8, ifindex: u32) -> Request {
        generic::command(number)
            .nest(ETHTOOL_A_HEADER, |header| header.u32(ETHTOOL_A_HEADER_DEV_INDEX, ifindex))
    }

    /// Sends a request to change what is at `places`.
    fn change(&mut self, request: &Request, places: &Places<'_>) -> Result<Reply> {
        self.family.request(request).map_err(|error| places.name_in(error))
    }
}
