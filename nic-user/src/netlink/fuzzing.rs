//! Every decoder of replies behind one function, for a fuzzer.

use super::attribute::Attributes;
use super::ethtool::channels::Channel;
use super::ethtool::coalesce::Coalesce;
use super::ethtool::pause::Pause;
use super::ethtool::rings::Ring;
use super::ethtool::{features, parameter, private_flags, rss};
use super::ethtool_ioctl;
use super::link::{LinkInfo, LinkStats};
use super::netdev::{self, napi, page_pool, queue};
use super::{generic, socket};

/// Takes `bytes` for a reply of every kind. Whatever they are, that ends, and without a panic.
pub fn decode(bytes: &[u8]) {
    socket::decode(bytes);
    let _ = (LinkInfo::decode(bytes), LinkStats::decode(bytes));
    let (words, _) = bytes.as_chunks();
    let words: Vec<_> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let _ = ethtool_ioctl::rss::decode(&words);
    if let Ok(attributes) = generic::attributes(bytes) {
        decode_ethtool(&attributes);
        decode_netdev(&attributes);
    }
}

fn decode_ethtool(attributes: &Attributes<'_>) {
    let _ = parameter::decode::<Ring>(attributes.clone());
    let _ = parameter::decode::<Channel>(attributes.clone());
    let _ = parameter::decode::<Coalesce>(attributes.clone());
    let _ = parameter::decode::<Pause>(attributes.clone());
    let _ = features::decode(attributes.clone());
    let _ = features::decode_changes(attributes.clone());
    let _ = private_flags::decode(attributes.clone());
    let _ = rss::decode(attributes.clone());
}

fn decode_netdev(attributes: &Attributes<'_>) {
    let _ = netdev::decode_xdp_features(attributes.clone());
    let _ = netdev::decode_xsk_features(attributes.clone());
    let _ = queue::decode_queue(attributes.clone());
    let _ = queue::decode_counters(attributes.clone());
    let _ = napi::decode(attributes.clone());
    let _ = page_pool::decode(attributes.clone());
    let _ = page_pool::decode_stats(attributes.clone());
}
