//! Tables of queues besides the default one, which flow rules can choose (`ethtool -x IFACE
//! context N`; `ETHTOOL_A_RSS_*`).

use super::Ethtool;
use crate::netlink::attribute::Attributes;
use crate::netlink::{IfSupported, Result, generic};

const RSS_GET: u8 = 38;

const CONTEXT: u16 = 2;
const INDIR: u16 = 4;

/// A table of queues of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssContext {
    /// Its id, from 1.
    pub id: u32,
    /// The queue for each remainder of the hash.
    pub table: Vec<u32>,
}

impl Ethtool {
    /// The additional tables of queues of the device with this index, by id; none if its driver
    /// has no such thing, and none before Linux 6.12, which does not list them.
    pub fn rss_contexts(&mut self, ifindex: u32) -> Result<Vec<RssContext>> {
        let reply = self.family.dump(&Self::command(RSS_GET, ifindex)).if_supported()?;
        let reply = reply.unwrap_or_default();
        let decoded = reply.messages.iter().map(|message| decode(generic::attributes(message)?));
        let mut contexts: Vec<_> = decoded.filter_map(Result::transpose).collect::<Result<_>>()?;
        contexts.sort_by_key(|context| context.id);
        Ok(contexts)
    }
}

/// `None` for the default table, which has no id.
pub(crate) fn decode(attributes: Attributes<'_>) -> Result<Option<RssContext>> {
    let mut context = RssContext::default();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            CONTEXT => context.id = attribute.u32()?,
            INDIR => context.table = attribute.u32s()?,
            _ => {}
        }
    }
    Ok((context.id != 0).then_some(context))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::request::Request;

    #[test]
    fn the_default_table_is_no_context() {
        let table: Vec<u8> =
            [0_u32, 1, 0, 1].iter().flat_map(|queue| queue.to_ne_bytes()).collect();
        let message = Request::default().bytes(INDIR, &table);
        assert_eq!(decode(Attributes::new(message.as_bytes())), Ok(None));
        let message = message.u32(CONTEXT, 2);
        let context = RssContext { id: 2, table: vec![0, 1, 0, 1] };
        assert_eq!(decode(Attributes::new(message.as_bytes())), Ok(Some(context)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(indir: Vec<u8>, raw: Vec<u8>) {
            let message = Request::default().bytes(INDIR, &indir);
            let _ = decode(Attributes::new(message.as_bytes()));
            let _ = decode(Attributes::new(&raw));
        }
    }
}
