//! Decoding of replies: attributes one after the other (linux/netlink.h). Unlike the iterators of
//! `netlink-bindings`, these tell a message that was cut from one that is over.

use super::{Error, Result};

const HEADER_LEN: usize = 4;

/// The type of an attribute is what the flags `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER` leave.
const TYPE_MASK: u16 = 0x3fff;

/// Iterates over attributes; ends after the first malformed one.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a>(&'a [u8]);

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    /// Its type.
    pub(crate) kind: u16,
    /// Its payload.
    pub(crate) value: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes that `bytes` consists of.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        Some(split(bytes).map(|(attribute, rest)| {
            self.0 = rest;
            attribute
        }))
    }
}

fn split(bytes: &[u8]) -> Result<(Attribute<'_>, &[u8])> {
    let ([l0, l1, k0, k1], _) = bytes
        .split_first_chunk::<HEADER_LEN>()
        .ok_or_else(|| Error::malformed("attribute shorter than its header"))?;
    let len = usize::from(u16::from_ne_bytes([*l0, *l1]));
    let value = bytes.get(HEADER_LEN..len).ok_or_else(|| Error::malformed("attribute length"))?;
    let attribute = Attribute { kind: u16::from_ne_bytes([*k0, *k1]) & TYPE_MASK, value };
    Ok((attribute, bytes.get(len.next_multiple_of(HEADER_LEN)..).unwrap_or_default()))
}

impl<'a> Attribute<'a> {
    /// Its value as `u8`.
    pub(crate) fn u8(&self) -> Result<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    /// Its value as `u16`.
    pub(crate) fn u16(&self) -> Result<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    /// Its value as `u32`.
    pub(crate) fn u32(&self) -> Result<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// Its value as an integer of 32 or 64 bits, whichever the kernel found it to need.
    pub(crate) fn uint(&self) -> Result<u64> {
        match self.value.len() {
            4 => self.u32().map(u64::from),
            _ => self.array().map(u64::from_ne_bytes),
        }
    }

    /// Its value as integers of 32 bits.
    pub(crate) fn u32s(&self) -> Result<Vec<u32>> {
        let (numbers, rest) = self.value.as_chunks();
        match rest {
            [] => Ok(numbers.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect()),
            _ => Err(self.malformed()),
        }
    }

    /// Its value as text, which a NUL may end.
    pub(crate) fn text(&self) -> String {
        let text = self.value.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// The attributes inside it.
    pub(crate) const fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }

    fn array<const N: usize>(&self) -> Result<[u8; N]> {
        self.value.try_into().map_err(|_| self.malformed())
    }

    fn malformed(&self) -> Error {
        Error::malformed(&format!("attribute {} has {} bytes", self.kind, self.value.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::request::Request;
    use super::*;

    #[test]
    fn attributes_come_out_as_they_went_in() {
        let message = Request::default()
            .bytes(1, &[7])
            .u32(2, 70_000)
            .string(3, "nic0")
            .nest(4, |nest| nest.bytes(5, &1_u64.to_ne_bytes()).bytes(6, &[]));
        let attributes: Vec<_> =
            Attributes::new(message.as_bytes()).collect::<Result<_>>().unwrap();
        let [number, wide, text, nest] = attributes[..] else { panic!("{attributes:?}") };
        assert_eq!((number.kind, number.u8()), (1, Ok(7)));
        assert_eq!((wide.kind, wide.u32(), wide.uint()), (2, Ok(70_000), Ok(70_000)));
        assert_eq!((text.kind, text.text()), (3, "nic0".to_owned()));
        let inside: Vec<_> = nest.nested().collect::<Result<_>>().unwrap();
        assert_eq!((nest.kind, inside[0].uint(), inside[1].value), (4, Ok(1), &[][..]));
    }

    #[test]
    fn a_number_of_another_size_is_malformed() {
        let three = Attribute { kind: 1, value: &[1, 2, 3] };
        for errno in [
            three.u8().unwrap_err().errno,
            three.u16().unwrap_err().errno,
            three.u32().unwrap_err().errno,
            three.uint().unwrap_err().errno,
            three.u32s().unwrap_err().errno,
        ] {
            assert_eq!(errno, libc::EBADMSG);
        }
    }

    #[test]
    fn a_cut_attribute_is_an_error_and_the_last() {
        let whole = Request::default().u32(2, 1);
        let whole = whole.as_bytes();
        for len in 1..whole.len() {
            let mut attributes = Attributes::new(&whole[..len]);
            assert_eq!(attributes.next().unwrap().unwrap_err().errno, libc::EBADMSG);
            assert_eq!(attributes.next(), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            for attribute in Attributes::new(&bytes).flatten() {
                let _ = (attribute.u8(), attribute.u32(), attribute.uint(), attribute.u32s());
                let _ = (attribute.text(), attribute.nested().count());
            }
        }
    }
}
