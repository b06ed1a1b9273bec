//! `struct ethtool_rxnfc`: the request of every command about flows (64-bit layout).

use super::{EthtoolIoctl, bytes_of};
use crate::netlink::Result;

const FLOW_TYPE: usize = 1;
const DATA: usize = 2;
const RULE_FLOW_TYPE: usize = 4;
const RULE_VALUE: usize = 5;
const RULE_MASK: usize = 23;
const RULE_COOKIE: usize = 42;
const RULE_LOCATION: usize = 44;
const RULE_COUNT: usize = 46;
const LOCATIONS: usize = 47;

/// Words of `union ethtool_flow_union` and the `struct ethtool_flow_ext` after it.
const SPEC_WORDS: usize = 18;

/// Words of the structure without the locations after it, which begin in its padding.
const WORDS: usize = 48;

/// A request, and the reply to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rxnfc(Vec<u32>);

impl Rxnfc {
    /// A request with room for `locations` of rules in the reply.
    pub(super) fn new(command: u32, locations: usize) -> Self {
        let mut words = vec![0; WORDS + locations];
        words[0] = command;
        words[RULE_COUNT] = u32::try_from(locations).unwrap_or(u32::MAX);
        Self(words)
    }

    /// Asks about flows of a type.
    pub(super) fn with_flow_type(mut self, flow_type: u32) -> Self {
        self.0[FLOW_TYPE] = flow_type;
        self
    }

    /// Asks about the rule at a location.
    pub(super) fn with_location(mut self, location: u32) -> Self {
        self.0[RULE_LOCATION] = location;
        self
    }

    /// Sets what the command calls data.
    pub(super) fn with_data(mut self, data: u32) -> Self {
        let [low, high] = split(data.into());
        self.0[DATA] = low;
        self.0[DATA + 1] = high;
        self
    }

    pub(super) fn call(mut self, ioctl: &EthtoolIoctl, interface: &str) -> Result<Self> {
        ioctl.call(interface, &mut self.0)?;
        Ok(self)
    }

    pub(super) fn data(&self) -> u64 {
        join([self.0[DATA], self.0[DATA + 1]])
    }

    pub(super) fn rule_count(&self) -> u32 {
        self.0[RULE_COUNT]
    }

    /// The locations of rules; no more than there was room for.
    pub(super) fn locations(&self) -> &[u32] {
        let room = self.0.len() - WORDS;
        let count = room.min(self.rule_count() as usize);
        &self.0[LOCATIONS..LOCATIONS + count]
    }

    pub(super) fn rule_flow_type(&self) -> u32 {
        self.0[RULE_FLOW_TYPE]
    }

    pub(super) fn rule_cookie(&self) -> u64 {
        join([self.0[RULE_COOKIE], self.0[RULE_COOKIE + 1]])
    }

    /// What a rule compares packets with: 52 bytes of headers, 20 of extensions.
    pub(super) fn rule_value(&self) -> Vec<u8> {
        bytes_of(&self.0[RULE_VALUE..RULE_VALUE + SPEC_WORDS])
    }

    /// The bits of [`Self::rule_value`] that count.
    pub(super) fn rule_mask(&self) -> Vec<u8> {
        bytes_of(&self.0[RULE_MASK..RULE_MASK + SPEC_WORDS])
    }

    /// A reply as a driver would give it.
    #[cfg(test)]
    pub(super) fn reply(flow_type: u32, cookie: u64, value: &[u8], mask: &[u8]) -> Self {
        let mut reply = Self::new(0, 0);
        reply.0[RULE_FLOW_TYPE] = flow_type;
        reply.0[RULE_COOKIE..RULE_COOKIE + 2].copy_from_slice(&split(cookie));
        for (start, bytes) in [(RULE_VALUE, value), (RULE_MASK, mask)] {
            for (word, bytes) in reply.0[start..start + SPEC_WORDS].iter_mut().zip(bytes.chunks(4))
            {
                let mut padded = [0; 4];
                padded[..bytes.len()].copy_from_slice(bytes);
                *word = u32::from_ne_bytes(padded);
            }
        }
        reply
    }
}

/// The words of a 64-bit number in memory.
fn split(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// The 64-bit number that is these words in memory.
fn join(words: [u32; 2]) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = words.map(u32::to_ne_bytes);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
