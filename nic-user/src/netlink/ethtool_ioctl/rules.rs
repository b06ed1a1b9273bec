//! Rules that send flows to queues (`ethtool -n`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::EthtoolIoctl;
use super::rxnfc::Rxnfc;
use crate::netlink::{Error, IfSupported, Result};

const ETHTOOL_GRXCLSRLCNT: u32 = 0x2e;
const ETHTOOL_GRXCLSRULE: u32 = 0x2f;
const ETHTOOL_GRXCLSRLALL: u32 = 0x30;

const FLOW_EXT: u32 = 1 << 31;
const FLOW_MAC_EXT: u32 = 1 << 30;
const FLOW_RSS: u32 = 1 << 29;

const RX_CLS_FLOW_DISC: u64 = u64::MAX;
const RX_CLS_FLOW_WAKE: u64 = u64::MAX - 1;

/// Far more than any device has; this only bounds an allocation.
const MAX_RULES: u32 = 1 << 16;

/// Where the extensions begin in what a rule compares with.
const EXT: usize = 52;

/// What happens to a packet that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// It goes to a queue; of a virtual function, if that is not 0.
    Queue {
        /// The queue.
        queue: u32,
        /// The virtual function, from 1; 0: the device itself.
        vf: u8,
    },
    /// It is dropped.
    Drop,
    /// It wakes the machine.
    Wake,
}

/// A value that packets are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMatch {
    /// The value.
    pub value: String,
    /// The bits of it that count.
    pub mask: String,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it is in the table.
    pub location: u32,
    /// ethtool's name for the type of flow; `None` for one that has none here.
    pub flow: Option<&'static str>,
    /// What packets are compared with, by ethtool's names.
    pub matches: BTreeMap<&'static str, RuleMatch>,
    /// What happens to a packet that matches.
    pub action: RuleAction,
    /// Whether a table of queues of its own chooses the queue.
    pub own_rss_context: bool,
}

impl EthtoolIoctl {
    /// The rules of `interface`, by location; none if its driver has no such thing.
    pub fn rules(&self, interface: &str) -> Result<Vec<Rule>> {
        let reply = Rxnfc::new(ETHTOOL_GRXCLSRLCNT, 0).call(self, interface).if_supported()?;
        let count = reply.map_or(0, |reply| reply.rule_count());
        if count == 0 {
            return Ok(Vec::new());
        }
        if count > MAX_RULES {
            return Err(Error::malformed("number of rules"));
        }
        let all = Rxnfc::new(ETHTOOL_GRXCLSRLALL, count as usize).call(self, interface)?;
        let mut rules: Vec<_> = all
            .locations()
            .iter()
            .map(|&location| {
                let request = Rxnfc::new(ETHTOOL_GRXCLSRULE, 0).with_location(location);
                Ok(decode(location, &request.call(self, interface)?))
            })
            .collect::<Result<_>>()?;
        rules.sort_by_key(|rule| rule.location);
        Ok(rules)
    }
}

fn decode(location: u32, reply: &Rxnfc) -> Rule {
    let flow_type = reply.rule_flow_type();
    let (flow, fields) = match fields_of(flow_type & !(FLOW_EXT | FLOW_MAC_EXT | FLOW_RSS)) {
        Some((name, fields)) => (Some(name), fields),
        None => (None, &[][..]),
    };
    let extensions: &[Field] = if flow_type & FLOW_EXT != 0 { &EXTENSIONS } else { &[] };
    let mac: &[Field] = if flow_type & FLOW_MAC_EXT != 0 { &[MAC_EXTENSION] } else { &[] };
    let (value, mask) = (reply.rule_value(), reply.rule_mask());
    let matches = fields.iter().chain(extensions).chain(mac);
    Rule {
        location,
        flow,
        matches: matches
            .filter_map(|field| Some((field.name, field.decode(&value, &mask)?)))
            .collect(),
        action: decode_action(reply.rule_cookie()),
        own_rss_context: flow_type & FLOW_RSS != 0,
    }
}

/// `ETHTOOL_RX_FLOW_SPEC_RING*`: the queue below, the virtual function in the fifth byte.
fn decode_action(cookie: u64) -> RuleAction {
    match cookie {
        RX_CLS_FLOW_DISC => RuleAction::Drop,
        RX_CLS_FLOW_WAKE => RuleAction::Wake,
        _ => RuleAction::Queue { queue: cookie as u32, vf: (cookie >> 32) as u8 },
    }
}

/// A field of `union ethtool_flow_union` or `struct ethtool_flow_ext`.
struct Field {
    name: &'static str,
    offset: usize,
    format: Format,
}

#[derive(Clone, Copy)]
enum Format {
    Ipv4,
    Ipv6,
    Mac,
    U8,
    U16,
    Hex16,
    Hex32,
    Hex64,
}

impl Format {
    const fn len(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::Hex16 => 2,
            Self::Ipv4 | Self::Hex32 => 4,
            Self::Mac => 6,
            Self::Hex64 => 8,
            Self::Ipv6 => 16,
        }
    }

    fn text(self, bytes: &[u8]) -> Option<String> {
        Some(match self {
            Self::Ipv4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).to_string(),
            Self::Ipv6 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_string(),
            Self::U8 => bytes.first()?.to_string(),
            Self::U16 => u16::from_be_bytes(*bytes.first_chunk()?).to_string(),
            Self::Mac => {
                let octets: Vec<_> = bytes.iter().map(|octet| format!("{octet:02x}")).collect();
                octets.join(":")
            }
            Self::Hex16 | Self::Hex32 | Self::Hex64 => {
                bytes.iter().fold("0x".to_owned(), |mut text, byte| {
                    // Writing to a String does not fail.
                    let _ = write!(text, "{byte:02x}");
                    text
                })
            }
        })
    }
}

impl Field {
    const fn new(name: &'static str, offset: usize, format: Format) -> Self {
        Self { name, offset, format }
    }

    /// `None` if no bit of it counts.
    fn decode(&self, value: &[u8], mask: &[u8]) -> Option<RuleMatch> {
        let range = self.offset..self.offset + self.format.len();
        let mask = mask.get(range.clone())?;
        if mask.iter().all(|&byte| byte == 0) {
            return None;
        }
        Some(RuleMatch {
            value: self.format.text(value.get(range)?)?,
            mask: self.format.text(mask)?,
        })
    }
}

/// `struct ethtool_flow_ext`, from `vlan_etype` on.
const EXTENSIONS: [Field; 3] = [
    Field::new("vlan-etype", EXT + 8, Format::Hex16),
    Field::new("vlan", EXT + 10, Format::Hex16),
    Field::new("user-def", EXT + 12, Format::Hex64),
];
const MAC_EXTENSION: Field = Field::new("dst-mac", EXT + 2, Format::Mac);

/// `struct ethtool_tcpip4_spec`.
static PORTS4: [Field; 5] = [
    Field::new("src-ip", 0, Format::Ipv4),
    Field::new("dst-ip", 4, Format::Ipv4),
    Field::new("src-port", 8, Format::U16),
    Field::new("dst-port", 10, Format::U16),
    Field::new("tos", 12, Format::U8),
];
/// `struct ethtool_ah_espip4_spec`.
static SPI4: [Field; 4] = [
    Field::new("src-ip", 0, Format::Ipv4),
    Field::new("dst-ip", 4, Format::Ipv4),
    Field::new("spi", 8, Format::Hex32),
    Field::new("tos", 12, Format::U8),
];
/// `struct ethtool_usrip4_spec`.
static USER4: [Field; 5] = [
    Field::new("src-ip", 0, Format::Ipv4),
    Field::new("dst-ip", 4, Format::Ipv4),
    Field::new("l4data", 8, Format::Hex32),
    Field::new("tos", 12, Format::U8),
    Field::new("l4proto", 14, Format::U8),
];
/// `struct ethtool_tcpip6_spec`.
static PORTS6: [Field; 5] = [
    Field::new("src-ip", 0, Format::Ipv6),
    Field::new("dst-ip", 16, Format::Ipv6),
    Field::new("src-port", 32, Format::U16),
    Field::new("dst-port", 34, Format::U16),
    Field::new("tclass", 36, Format::U8),
];
/// `struct ethtool_ah_espip6_spec`.
static SPI6: [Field; 4] = [
    Field::new("src-ip", 0, Format::Ipv6),
    Field::new("dst-ip", 16, Format::Ipv6),
    Field::new("spi", 32, Format::Hex32),
    Field::new("tclass", 36, Format::U8),
];
/// `struct ethtool_usrip6_spec`.
static USER6: [Field; 5] = [
    Field::new("src-ip", 0, Format::Ipv6),
    Field::new("dst-ip", 16, Format::Ipv6),
    Field::new("l4data", 32, Format::Hex32),
    Field::new("tclass", 36, Format::U8),
    Field::new("l4proto", 37, Format::U8),
];
/// `struct ethhdr`.
static ETHER: [Field; 3] = [
    Field::new("dst", 0, Format::Mac),
    Field::new("src", 6, Format::Mac),
    Field::new("proto", 12, Format::Hex16),
];

/// ethtool's name for a type of flow (`*_FLOW`), and its fields.
fn fields_of(flow_type: u32) -> Option<(&'static str, &'static [Field])> {
    Some(match flow_type {
        0x01 => ("tcp4", &PORTS4),
        0x02 => ("udp4", &PORTS4),
        0x03 => ("sctp4", &PORTS4),
        0x05 => ("tcp6", &PORTS6),
        0x06 => ("udp6", &PORTS6),
        0x07 => ("sctp6", &PORTS6),
        0x09 => ("ah4", &SPI4),
        0x0a => ("esp4", &SPI4),
        0x0b => ("ah6", &SPI6),
        0x0c => ("esp6", &SPI6),
        0x0d => ("ip4", &USER4),
        0x0e => ("ip6", &USER6),
        0x12 => ("ether", &ETHER),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rule_shows_what_counts_and_where_it_sends() {
        let mut value = vec![0; 72];
        let mut mask = vec![0; 72];
        value[4..8].copy_from_slice(&[192, 0, 2, 1]);
        mask[4..8].copy_from_slice(&[255, 255, 255, 0]);
        value[10..12].copy_from_slice(&443_u16.to_be_bytes());
        mask[10..12].copy_from_slice(&[0xff; 2]);
        value[62..64].copy_from_slice(&7_u16.to_be_bytes());
        mask[62..64].copy_from_slice(&0x0fff_u16.to_be_bytes());
        let rule = decode(5, &Rxnfc::reply(0x01 | FLOW_EXT, 3 | 2 << 32, &value, &mask));
        assert_eq!((rule.location, rule.flow, rule.own_rss_context), (5, Some("tcp4"), false));
        assert_eq!(rule.action, RuleAction::Queue { queue: 3, vf: 2 });
        let matches: Vec<_> = rule
            .matches
            .iter()
            .map(|(name, field)| (*name, field.value.as_str(), field.mask.as_str()))
            .collect();
        assert_eq!(
            matches,
            [
                ("dst-ip", "192.0.2.1", "255.255.255.0"),
                ("dst-port", "443", "65535"),
                ("vlan", "0x0007", "0x0fff"),
            ]
        );
    }

    #[test]
    fn a_flow_without_a_name_is_still_a_rule() {
        let rule = decode(1, &Rxnfc::reply(0x77, RX_CLS_FLOW_DISC, &[0xff; 72], &[0xff; 72]));
        assert_eq!((rule.flow, rule.action), (None, RuleAction::Drop));
        assert!(rule.matches.is_empty());
    }

    #[test]
    fn the_loopback_device_has_no_rules() {
        assert_eq!(EthtoolIoctl::open().unwrap().rules("lo"), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_rule_makes_the_decoder_panic(
            flow_type in 0_u32..0x30, flags in 0_u32..8, cookie: u64, value: Vec<u8>, mask: Vec<u8>,
        ) {
            let _ = decode(0, &Rxnfc::reply(flow_type | flags << 29, cookie, &value, &mask));
        }
    }
}
