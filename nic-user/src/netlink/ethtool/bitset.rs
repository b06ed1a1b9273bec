//! Sets of named bits (`ETHTOOL_A_BITSET_*`). Requests do not ask for compact ones, which have no
//! names.

use std::collections::BTreeMap;

use crate::netlink::attribute::Attribute;
use crate::netlink::request::{Places, Request};
use crate::netlink::{Error, Result};

const NOMASK: u16 = 1;
const BITS: u16 = 3;

const BITS_BIT: u16 = 1;

const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// The bits that a set speaks of, by name. In a set that no longer exists than a list of the bits
/// that are set, all of them are.
pub(super) fn decode(set: Attribute<'_>) -> Result<BTreeMap<String, bool>> {
    let mut is_list = false;
    let mut bits = None;
    for attribute in set.nested() {
        let attribute = attribute?;
        match attribute.kind {
            NOMASK => is_list = true,
            BITS => bits = Some(decode_bits(attribute)?),
            _ => {}
        }
    }
    let mut bits = bits.ok_or_else(|| Error::malformed("bits without names"))?;
    if is_list {
        bits.values_mut().for_each(|value| *value = true);
    }
    Ok(bits)
}

fn decode_bits(bits: Attribute<'_>) -> Result<BTreeMap<String, bool>> {
    let mut decoded = BTreeMap::new();
    for bit in bits.nested() {
        let bit = bit?;
        if bit.kind != BITS_BIT {
            continue;
        }
        if let (Some(name), value) = decode_bit(bit)? {
            decoded.insert(name, value);
        }
    }
    Ok(decoded)
}

/// A bit that has no name cannot be spoken of.
fn decode_bit(bit: Attribute<'_>) -> Result<(Option<String>, bool)> {
    let mut name = None;
    let mut value = false;
    for attribute in bit.nested() {
        let attribute = attribute?;
        match attribute.kind {
            BIT_NAME => name = Some(attribute.text()).filter(|name| !name.is_empty()),
            BIT_VALUE => value = true,
            _ => {}
        }
    }
    Ok((name, value))
}

/// Appends a set that changes the bits in `changes` and no others; notes in `places` where each
/// of them is.
pub(super) fn encode<'a, N: AsRef<str>>(
    request: Request,
    attribute: u16,
    changes: &'a [(N, bool)],
    places: &mut Places<'a>,
) -> Request {
    request.nest(attribute, |set| {
        set.nest(BITS, |bits| {
            changes.iter().fold(bits, |bits, (name, value)| {
                let name = name.as_ref();
                places.mark(&bits, name);
                bits.nest(BITS_BIT, |bit| {
                    let bit = bit.string(BIT_NAME, name);
                    if *value { bit.bytes(BIT_VALUE, &[]) } else { bit }
                })
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SET: u16 = 7;

    fn bit(bits: Request, name: &str, value: bool) -> Request {
        bits.nest(BITS_BIT, |bit| {
            // ETHTOOL_A_BITSET_BIT_INDEX
            let bit = bit.u32(1, 3).string(BIT_NAME, name);
            if value { bit.bytes(BIT_VALUE, &[]) } else { bit }
        })
    }

    fn decode_request(request: &Request) -> Result<BTreeMap<String, bool>> {
        decode(Attribute { kind: SET, value: request.as_bytes() })
    }

    #[test]
    fn bits_of_a_list_are_set_and_those_of_a_masked_set_say_it() {
        let masked = Request::default()
            .nest(BITS, |bits| bit(bit(bits, "rx-gro", true), "rx-lro", false).u32(99, 1));
        let expected = [("rx-gro".to_owned(), true), ("rx-lro".to_owned(), false)];
        assert_eq!(decode_request(&masked), Ok(BTreeMap::from(expected)));

        let list =
            Request::default().bytes(NOMASK, &[]).nest(BITS, |bits| bit(bits, "rx-gro", false));
        assert_eq!(decode_request(&list), Ok(BTreeMap::from([("rx-gro".to_owned(), true)])));
        let empty = Request::default().bytes(NOMASK, &[]).nest(BITS, |bits| bits);
        assert_eq!(decode_request(&empty), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_set_without_names_is_malformed_not_empty() {
        let compact = Request::default().u32(2, 64).bytes(4, &[0xff; 8]);
        assert_eq!(decode_request(&compact).unwrap_err().errno, libc::EBADMSG);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let changes = [("tx-udp-segmentation", true), ("rx-gro", false)];
        let mut places = Places::default();
        let request = encode(Request::default(), SET, &changes, &mut places);
        let set = crate::netlink::attribute::Attributes::new(request.as_bytes()).next();
        let decoded = decode(set.unwrap().unwrap()).unwrap();
        assert_eq!(decoded, changes.map(|(name, value)| (name.to_owned(), value)).into());

        let at = |offset| {
            let error = Error { offset: Some(offset), ..Error::from_errno(libc::EINVAL) };
            places.name_in(error).attribute
        };
        assert_eq!(at(0), None);
        // The nests' headers, and then that of the first bit.
        assert_eq!(at(8).as_deref(), Some("tx-udp-segmentation"));
        assert_eq!(at(request.as_bytes().len() - 1).as_deref(), Some("rx-gro"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(value: Vec<u8>) {
            let _ = decode(Attribute { kind: SET, value: &value });
        }

        #[test]
        fn no_bits_make_the_decoder_panic(bits: Vec<(u16, Vec<u8>)>, cut: usize) {
            let set = Request::default().nest(BITS, |nest| {
                bits.iter().fold(nest, |nest, (kind, value)| {
                    nest.nest(BITS_BIT, |bit| bit.bytes(kind % 5, value))
                })
            });
            let _ = decode_request(&set);
            let value = set.as_bytes().get(..cut % set.as_bytes().len()).unwrap_or_default();
            let _ = decode(Attribute { kind: SET, value });
        }
    }
}
