//! Private flags: switches that only one driver has (`ethtool --show-priv-flags`;
//! `ETHTOOL_A_PRIVFLAGS_*`).

use std::collections::BTreeMap;

use super::{Ethtool, bitset};
use crate::netlink::attribute::Attributes;
use crate::netlink::request::Places;
use crate::netlink::{IfSupported, Result, generic};

const PRIVFLAGS_GET: u8 = 13;
const PRIVFLAGS_SET: u8 = 14;

const FLAGS: u16 = 2;

/// Private flags by the driver's name for them.
pub type PrivateFlags = BTreeMap<String, bool>;

impl Ethtool {
    /// The private flags of the device with this index; none if its driver has no such thing.
    pub fn private_flags(&mut self, ifindex: u32) -> Result<PrivateFlags> {
        match self.family.request(&Self::command(PRIVFLAGS_GET, ifindex)).if_supported()? {
            Some(reply) => decode(generic::only_message(&reply)?),
            None => Ok(PrivateFlags::new()),
        }
    }

    /// Changes private flags of the device with this index, and no others. Returns what the
    /// kernel remarked although it obeyed.
    pub fn set_private_flags<N: AsRef<str>>(
        &mut self,
        ifindex: u32,
        changes: &[(N, bool)],
    ) -> Result<Option<String>> {
        let mut places = Places::default();
        let request = Self::command(PRIVFLAGS_SET, ifindex);
        let request = bitset::encode(request, FLAGS, changes, &mut places);
        self.change(&request, &places).map(|reply| reply.warning)
    }
}

pub(crate) fn decode(attributes: Attributes<'_>) -> Result<PrivateFlags> {
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == FLAGS {
            return bitset::decode(attribute);
        }
    }
    Ok(PrivateFlags::new())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::request::Request;

    #[test]
    fn flags_are_read_by_name() {
        // What e1000e has, in the form of ETHTOOL_A_BITSET_*.
        let message = Request::default().nest(FLAGS, |set| {
            set.u32(2, 2).nest(3, |bits| {
                bits.nest(1, |bit| bit.u32(1, 0).string(2, "s0ix-enabled").bytes(3, &[]))
                    .nest(1, |bit| bit.u32(1, 1).string(2, "disable-k1"))
            })
        });
        let flags = decode(Attributes::new(message.as_bytes())).unwrap();
        let expected = [("s0ix-enabled".to_owned(), true), ("disable-k1".to_owned(), false)];
        assert_eq!(flags, expected.into());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = decode(Attributes::new(&bytes));
        }
    }
}
