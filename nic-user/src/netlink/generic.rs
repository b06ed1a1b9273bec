//! Generic netlink: families of commands that are found by their name (linux/genetlink.h).

use super::attribute::Attributes;
use super::request::Request;
use super::socket::{Reply, Socket};
use super::{Error, Result};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const HEADER_LEN: usize = 4;

/// A socket for the commands of one family.
pub(crate) struct Family {
    socket: Socket,
    id: u16,
}

impl Family {
    /// Opens a socket in the current network namespace. A kernel that lacks the family lacks what is
    /// asked of it: [`Error::is_unsupported`].
    pub(crate) fn open(name: &str) -> Result<Self> {
        let lacking = || Error::new(libc::EOPNOTSUPP, format!("this kernel has no {name} family"));
        Self::find(name)?.ok_or_else(lacking)
    }

    /// The same; `None` if the kernel lacks the family.
    pub(crate) fn find(name: &str) -> Result<Option<Self>> {
        let mut socket = Socket::open(libc::NETLINK_GENERIC)?;
        let query = command(CTRL_CMD_GETFAMILY).string(CTRL_ATTR_FAMILY_NAME, name);
        match socket.request(GENL_ID_CTRL, 0, query.as_bytes()) {
            Ok(reply) => Ok(Some(Self { socket, id: family_id(&reply)? })),
            // net/netlink/genetlink.c ctrl_getfamily
            Err(error) if error.answered && error.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request made by [`command`].
    pub(crate) fn request(&mut self, request: &Request) -> Result<Reply> {
        self.socket.request(self.id, 0, request.as_bytes())
    }

    /// Asks with a request made by [`command`] for everything there is of a kind.
    pub(crate) fn dump(&mut self, request: &Request) -> Result<Reply> {
        self.socket.dump(self.id, request.as_bytes())
    }
}

/// The beginning of a request: `struct genlmsghdr` with the only version that any family has.
pub(crate) fn command(number: u8) -> Request {
    Request::with_header(&[number, 1, 0, 0])
}

/// The attributes of one message of a reply.
pub(crate) fn attributes(message: &[u8]) -> Result<Attributes<'_>> {
    let attributes =
        message.get(HEADER_LEN..).ok_or_else(|| Error::malformed("no generic header"))?;
    Ok(Attributes::new(attributes))
}

/// The attributes of the only message of a reply.
pub(crate) fn only_message(reply: &Reply) -> Result<Attributes<'_>> {
    attributes(reply.messages.first().ok_or_else(|| Error::malformed("empty"))?)
}

fn family_id(reply: &Reply) -> Result<u16> {
    for attribute in only_message(reply)? {
        let attribute = attribute?;
        if attribute.kind == CTRL_ATTR_FAMILY_ID {
            return attribute.u16();
        }
    }
    Err(Error::malformed("no family id"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_family_that_no_kernel_has_is_unsupported() {
        let error = Family::open("nic-none").err().unwrap();
        assert!(error.is_unsupported(), "{error}");
    }

    proptest! {
        #[test]
        fn no_message_makes_the_decoder_panic(message: Vec<u8>) {
            let _ = family_id(&Reply { messages: vec![message], warning: None });
        }
    }
}
