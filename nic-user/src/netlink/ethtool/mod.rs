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

use super::generic::{self, Family};
use super::request::Request;
use super::socket::Reply;
use super::{Error, Result};

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

/// Where in a request each change begins, to tell which one the kernel points at.
#[derive(Default)]
struct Places<'a>(Vec<(usize, &'a str)>);

impl<'a> Places<'a> {
    /// The change called `name` is what comes next in `request`.
    fn mark(&mut self, request: &Request, name: &'a str) {
        self.0.push((request.as_bytes().len(), name));
    }

    fn name_in(&self, error: Error) -> Error {
        let Some(offset) = error.offset else { return error };
        match self.0.iter().rev().find(|(start, _)| *start <= offset) {
            Some((_, name)) => error.at(name),
            None => error,
        }
    }
}
