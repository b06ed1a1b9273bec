//! Receive side scaling: which queue a received packet goes to (`ethtool -x`, `ethtool -n IFACE
//! rx-flow-hash`). The ioctl is there on every kernel; of netlink, setting came with Linux 6.17.

use super::rxnfc::Rxnfc;
use super::unknown::{Question, says_unknown};
use super::{EthtoolIoctl, bytes_of};
use crate::netlink::{Error, IfSupported, Result};

const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_SRXFH: u32 = 0x2a;
const ETHTOOL_GRXRINGS: u32 = 0x2d;
const ETHTOOL_GRSSH: u32 = 0x46;
const ETHTOOL_SRSSH: u32 = 0x47;

/// `struct ethtool_rxfh` is cmd, context, table size, key size, function and input transform (a
/// byte each) with padding, a reserved word; then come the table and the key.
const HEADER_WORDS: usize = 6;
const TABLE_NO_CHANGE: u32 = u32::MAX;

/// Far more than any device has; these only bound an allocation.
const MAX_TABLE: u32 = 1 << 20;
const MAX_KEY: u32 = 1 << 12;

/// What computes the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashFunction {
    /// Toeplitz, with the key.
    Toeplitz,
    /// Exclusive or.
    Xor,
    /// CRC-32.
    Crc32,
}

impl HashFunction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Toeplitz, Self::Xor, Self::Crc32];

    /// The kernel's name for it (`ETH_SS_RSS_HASH_FUNCS`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Toeplitz => "toeplitz",
            Self::Xor => "xor",
            Self::Crc32 => "crc32",
        }
    }

    /// `ETH_RSS_HASH_*_BIT` as a mask.
    const fn bit(self) -> u8 {
        match self {
            Self::Toeplitz => 1 << 0,
            Self::Xor => 1 << 1,
            Self::Crc32 => 1 << 2,
        }
    }
}

/// How received packets are spread over queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// The queue for each remainder of the hash; empty if the device does not say.
    pub table: Vec<u32>,
    /// The key of the hash; empty if the device has none.
    pub key: Vec<u8>,
    /// What computes the hash, if the driver says.
    pub function: Option<HashFunction>,
    /// `RXH_XFRM_*`: what is done to the fields before; 0 nothing. Since Linux 6.8.
    pub input_transform: u8,
}

/// A change of the table of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// What the driver would have chosen; it follows the number of queues.
    Default,
    /// This table, of the device's size.
    Table(Vec<u32>),
}

/// What of [`Rss`] is to change; `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssChange {
    /// The table of queues.
    pub table: Option<TableChange>,
    /// The key, of the device's size.
    pub key: Option<Vec<u8>>,
    /// What computes the hash.
    pub function: Option<HashFunction>,
}

/// A type of flow whose fields in the hash can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashedFlow {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// SCTP over IPv4.
    Sctp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
    /// SCTP over IPv6.
    Sctp6,
}

impl HashedFlow {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Tcp4, Self::Udp4, Self::Sctp4, Self::Tcp6, Self::Udp6, Self::Sctp6];

    /// ethtool's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp4 => "tcp4",
            Self::Udp4 => "udp4",
            Self::Sctp4 => "sctp4",
            Self::Tcp6 => "tcp6",
            Self::Udp6 => "udp6",
            Self::Sctp6 => "sctp6",
        }
    }

    /// `*_FLOW`.
    const fn flow_type(self) -> u32 {
        match self {
            Self::Tcp4 => 1,
            Self::Udp4 => 2,
            Self::Sctp4 => 3,
            Self::Tcp6 => 5,
            Self::Udp6 => 6,
            Self::Sctp6 => 7,
        }
    }
}

/// Fields of a packet that go into the hash (`RXH_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashFields(u32);

impl HashFields {
    /// ethtool's letters and the bits that they stand for.
    const LETTERS: [(char, u32); 10] = [
        ('m', 1 << 1),
        ('v', 1 << 2),
        ('t', 1 << 3),
        ('s', 1 << 4),
        ('d', 1 << 5),
        ('f', 1 << 6),
        ('n', 1 << 7),
        ('e', 1 << 8),
        ('l', 1 << 9),
        ('r', 1 << 31),
    ];

    /// The fields as ethtool's letters; `sdfn` for addresses and ports.
    pub fn letters(self) -> String {
        let is_set = |(_, bit): &&(char, u32)| self.0 & bit != 0;
        Self::LETTERS.iter().filter(is_set).map(|(letter, _)| *letter).collect()
    }

    /// The fields that ethtool's letters name; `None` if one names none.
    pub fn from_letters(letters: &str) -> Option<Self> {
        let bit = |letter| Self::LETTERS.iter().find(|(known, _)| *known == letter);
        letters.chars().try_fold(Self(0), |fields, letter| Some(Self(fields.0 | bit(letter)?.1)))
    }
}

impl EthtoolIoctl {
    /// How `interface` spreads received packets; `None` if its driver does not say.
    pub fn rss(&self, interface: &str) -> Result<Option<Rss>> {
        let mut sizes = [ETHTOOL_GRSSH, 0, 0, 0, 0, 0];
        if self.call(interface, &mut sizes).if_supported()?.is_none() {
            return Ok(None);
        }
        let [_, _, table, key, ..] = sizes;
        if table > MAX_TABLE || key > MAX_KEY {
            return Err(Error::malformed("size of the table of queues or the key"));
        }
        let rest = table as usize + key.div_ceil(4) as usize;
        let mut request = vec![0; HEADER_WORDS + rest];
        request[..4].copy_from_slice(&[ETHTOOL_GRSSH, 0, table, key]);
        self.call(interface, &mut request)?;
        decode(&request).map(Some)
    }

    /// Changes how `interface` spreads received packets, and only what is named.
    pub fn set_rss(&self, interface: &str, change: &RssChange) -> Result<()> {
        let current = self.rss(interface)?.ok_or(Error::from_errno(libc::EOPNOTSUPP))?;
        self.call(interface, &mut encode(change, current.input_transform))
    }

    /// How many queues of `interface` the table can name.
    pub fn rss_queues(&self, interface: &str) -> Result<u64> {
        Ok(Rxnfc::new(ETHTOOL_GRXRINGS, 0).call(self, interface)?.data())
    }

    /// The fields of `flow` that `interface` hashes; `None` if its driver does not say.
    pub fn hash_fields(&self, interface: &str, flow: HashedFlow) -> Result<Option<HashFields>> {
        let request = Rxnfc::new(ETHTOOL_GRXFH, 0).with_flow_type(flow.flow_type());
        match request.call(self, interface) {
            // The bits are all below 32.
            Ok(reply) => Ok(Some(HashFields(reply.data() as u32))),
            Err(error) if says_unknown(Question::HashFields, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Chooses the fields of `flow` that `interface` hashes.
    pub fn set_hash_fields(
        &self,
        interface: &str,
        flow: HashedFlow,
        fields: HashFields,
    ) -> Result<()> {
        let request = Rxnfc::new(ETHTOOL_SRXFH, 0).with_flow_type(flow.flow_type());
        request.with_data(fields.0).call(self, interface)?;
        Ok(())
    }
}

pub(crate) fn decode(reply: &[u32]) -> Result<Rss> {
    let malformed = || Error::malformed("table of queues");
    let (header, rest) = reply.split_first_chunk::<HEADER_WORDS>().ok_or_else(malformed)?;
    let [_, _, table_len, key_len, function, _] = *header;
    let (table, rest) = rest.split_at_checked(table_len as usize).ok_or_else(malformed)?;
    let mut key = bytes_of(rest);
    if key.len() < key_len as usize {
        return Err(malformed());
    }
    key.truncate(key_len as usize);
    let [function, input_transform, ..] = function.to_ne_bytes();
    Ok(Rss {
        table: table.to_vec(),
        key,
        function: HashFunction::ALL.into_iter().find(|known| known.bit() == function),
        input_transform,
    })
}

/// The transform is not one of the things that can be left out.
fn encode(change: &RssChange, input_transform: u8) -> Vec<u32> {
    let (table_len, table) = match &change.table {
        None => (TABLE_NO_CHANGE, &[][..]),
        Some(TableChange::Default) => (0, &[][..]),
        Some(TableChange::Table(table)) => (word(table.len()), &table[..]),
    };
    let key = change.key.as_deref().unwrap_or_default();
    let function = change.function.map_or(0, HashFunction::bit);
    let function = u32::from_ne_bytes([function, input_transform, 0, 0]);
    let mut request = vec![ETHTOOL_SRSSH, 0, table_len, word(key.len()), function, 0];
    request.extend_from_slice(table);
    request.extend(key.chunks(4).map(|bytes| {
        let mut padded = [0; 4];
        padded[..bytes.len()].copy_from_slice(bytes);
        u32::from_ne_bytes(padded)
    }));
    request
}

/// A size that the kernel refuses if it is not the device's, which is far smaller than the limit.
fn word(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(TABLE_NO_CHANGE - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn table_key_and_function_are_read() {
        let key = u32::from_ne_bytes([1, 2, 3, 4]);
        let more = u32::from_ne_bytes([5, 6, 0, 0]);
        let function = u32::from_ne_bytes([1, 0, 0, 0]);
        let reply = [ETHTOOL_GRSSH, 0, 3, 6, function, 0, 0, 1, 2, key, more];
        let rss = Rss {
            table: vec![0, 1, 2],
            key: vec![1, 2, 3, 4, 5, 6],
            function: Some(HashFunction::Toeplitz),
            input_transform: 0,
        };
        assert_eq!(decode(&reply), Ok(rss));
        for len in 0..reply.len() {
            assert_eq!(decode(&reply[..len]).unwrap_err().errno, libc::EBADMSG);
        }
    }

    #[test]
    fn what_is_not_named_is_marked_as_staying() {
        let change = RssChange { function: Some(HashFunction::Xor), ..RssChange::default() };
        let function = u32::from_ne_bytes([2, 1, 0, 0]);
        assert_eq!(encode(&change, 1), [0x47, 0, u32::MAX, 0, function, 0]);
        let change = RssChange { table: Some(TableChange::Default), ..RssChange::default() };
        assert_eq!(encode(&change, 0), [0x47, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_table_and_a_key_follow_the_header() {
        let table = Some(TableChange::Table(vec![7, 8]));
        let change = RssChange { table, key: Some(vec![1, 2, 3, 4, 5]), function: None };
        let key = [u32::from_ne_bytes([1, 2, 3, 4]), u32::from_ne_bytes([5, 0, 0, 0])];
        assert_eq!(encode(&change, 0), [0x47, 0, 2, 5, 0, 0, 7, 8, key[0], key[1]]);
    }

    #[test]
    fn fields_have_ethtools_letters() {
        let fields = HashFields(0b1111_0000);
        assert_eq!(fields.letters(), "sdfn");
        assert_eq!(HashFields::from_letters("nsfd"), Some(fields));
        assert_eq!(HashFields::from_letters("sx"), None);
    }

    #[test]
    fn the_loopback_device_spreads_nothing() {
        let ioctl = EthtoolIoctl::open().unwrap();
        assert_eq!(ioctl.rss("lo"), Ok(None));
        assert_eq!(ioctl.hash_fields("lo", HashedFlow::Tcp4), Ok(None));
        let error = ioctl.set_rss("lo", &RssChange::default()).unwrap_err();
        assert!(error.is_unsupported());
    }

    proptest! {
        #[test]
        fn no_reply_makes_the_decoder_panic(reply: Vec<u32>) {
            let _ = decode(&reply);
        }
    }
}
