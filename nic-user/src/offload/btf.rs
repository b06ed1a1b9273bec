//! Where structs have their members, as the kernel keeps it: those of itself, and those that lie in
//! maps (Documentation/bpf/btf.rst).

use std::fs;

use crate::error::{Error, Result};

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;

const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_VOLATILE: u32 = 9;
const KIND_CONST: u32 = 10;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_TYPE_TAG: u32 = 18;
const KIND_ENUM64: u32 = 19;

/// Bytes in front of what is particular to a kind: `struct btf_type`.
const HEAD: usize = 12;
/// Bytes of a `struct btf_member`.
const MEMBER: usize = 12;
/// So many names may one type have: more than anybody uses.
const MAX_ALIASES: usize = 32;

/// Types by number, from 1 on.
#[derive(Debug)]
pub struct Btf {
    types: Vec<u8>,
    /// Where each type begins.
    starts: Vec<usize>,
    strings: Vec<u8>,
}

/// A number, or an array of numbers, in a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Bytes in front of it.
    pub offset: usize,
    /// Bytes of one number: 1, 2, 4 or 8.
    pub width: usize,
    /// How many numbers it has.
    pub count: usize,
}

struct Type<'b> {
    kind: u32,
    head: &'b [u8],
    body: &'b [u8],
}

/// Where the kernel has what tells an interface from others, in bytes (include/linux/netdevice.h,
/// include/net/net_namespace.h).
#[derive(Clone, Debug, Default)]
pub struct DeviceLayout {
    /// The index in a `struct net_device`.
    pub ifindex: u32,
    /// The network namespace, a `struct net *`, in a `struct net_device`.
    pub net: u32,
    /// The cookie in a `struct net`.
    pub cookie: u32,
}

impl Btf {
    /// The types of the running kernel.
    pub fn kernel() -> Result<Self> {
        let bytes = fs::read(PATH).map_err(|error| Error::io(format!("read {PATH}"), &error))?;
        Self::parse(&bytes).ok_or_else(|| Error::failed(format!("{PATH} cannot be understood")))
    }

    /// Types as the kernel gives them; `None` if they cannot be understood.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(word(bytes, at + 4)? as usize)?)
        };
        let types = section(8)?.to_vec();
        Some(Self { starts: starts(&types)?, types, strings: section(16)?.to_vec() })
    }

    /// Bytes from the start of a struct to one of its members. Members of anonymous members are
    /// not found.
    pub fn offset(&self, structure: &str, member: &str) -> Result<i32> {
        let structs = self.starts.iter().filter_map(|&start| type_at(&self.types, start));
        let named = structs.filter(|found| {
            found.kind == KIND_STRUCT && self.name(found.head) == Some(structure.as_bytes())
        });
        let mut offsets = named.filter_map(|found| self.member(found.body, member));
        offsets.next().and_then(|offset| i32::try_from(offset).ok()).ok_or_else(|| {
            Error::failed(format!("this kernel has no {member} in struct {structure}"))
        })
    }

    /// Where the kernel has what tells an interface from others.
    pub fn device_layout(&self) -> Result<DeviceLayout> {
        let at = |structure, member| self.offset(structure, member).map(i32::cast_unsigned);
        Ok(DeviceLayout {
            ifindex: at("net_device", "ifindex")?,
            net: at("net_device", "nd_net")?,
            cookie: at("net", "net_cookie")?,
        })
    }

    fn member(&self, members: &[u8], member: &str) -> Option<u32> {
        let mut members = members.chunks_exact(MEMBER);
        let found = members.find(|one| self.name(one) == Some(member.as_bytes()))?;
        Some((word(found, 8)? & BIT_OFFSET) / 8)
    }

    /// The members of a struct that are numbers or arrays of numbers; `None` if there is no struct
    /// of this number.
    pub fn numbers(&self, id: u32) -> Option<Vec<Member>> {
        let structure = self.resolve(id).filter(|found| found.kind == KIND_STRUCT)?;
        let bit_fields = word(structure.head, 4)? >> 31 != 0;
        let members = structure.body.chunks_exact(MEMBER);
        Some(members.filter_map(|member| self.number(member, bit_fields)).collect())
    }

    fn number(&self, member: &[u8], bit_fields: bool) -> Option<Member> {
        let place = word(member, 8)?;
        let bits = if bit_fields { place & BIT_OFFSET } else { place };
        if (bit_fields && place > BIT_OFFSET) || !bits.is_multiple_of(8) {
            return None;
        }
        let (width, count) = self.shape(word(member, 4)?)?;
        let name = String::from_utf8(self.name(member)?.to_vec()).ok()?;
        Some(Member { name, offset: (bits / 8) as usize, width, count })
    }

    /// Bytes of a number, and how many there are.
    fn shape(&self, id: u32) -> Option<(usize, usize)> {
        let found = self.resolve(id)?;
        let (number, count) = match found.kind {
            KIND_ARRAY => (self.resolve(word(found.body, 0)?)?, word(found.body, 8)?),
            _ => (found, 1),
        };
        let width = word(number.head, 8)?;
        let is_number = number.kind == KIND_INT && matches!(width, 1 | 2 | 4 | 8);
        is_number.then_some((width as usize, count as usize))
    }

    /// A type behind all its other names.
    fn resolve(&self, mut id: u32) -> Option<Type<'_>> {
        for _ in 0..MAX_ALIASES {
            let start = self.starts.get(id.checked_sub(1)? as usize)?;
            let found = type_at(&self.types, *start)?;
            match found.kind {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => {
                    id = word(found.head, 8)?;
                }
                _ => return Some(found),
            }
        }
        None
    }

    /// The name that a type or a member begins with the place of.
    fn name(&self, named: &[u8]) -> Option<&[u8]> {
        self.strings.get(word(named, 0)? as usize..)?.split(|byte| *byte == 0).next()
    }
}

/// In a struct with bit fields: above it is the size of one.
const BIT_OFFSET: u32 = 0x00ff_ffff;

fn starts(types: &[u8]) -> Option<Vec<usize>> {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < types.len() {
        starts.push(at);
        at += HEAD + type_at(types, at)?.body.len();
    }
    Some(starts)
}

fn type_at(types: &[u8], start: usize) -> Option<Type<'_>> {
    let (head, rest) = types.get(start..)?.split_at_checked(HEAD)?;
    let info = word(head, 4)?;
    let kind = info >> 24 & 0x1f;
    let body = rest.get(..body_len(kind, (info & 0xffff) as usize)?)?;
    Some(Type { kind, head, body })
}

/// Bytes that follow a type of this kind.
const fn body_len(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        KIND_INT | KIND_VAR | KIND_DECL_TAG => 4,
        KIND_ARRAY => 12,
        KIND_STRUCT | KIND_UNION => MEMBER * count,
        KIND_DATASEC | KIND_ENUM64 => 12 * count,
        KIND_ENUM | KIND_FUNC_PROTO => 8 * count,
        1..KIND_ENUM64 => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// BTF of one struct, number 3, whose members are `u64` or arrays of it.
    pub fn of_struct(members: &[(&str, u32)]) -> Vec<u8> {
        let mut strings = vec![0];
        let mut words = Vec::new();
        // 1 is u64; 2 is what arrays are numbered by.
        words.extend([0, KIND_INT << 24, 8, 64, 0, KIND_INT << 24, 4, 32]);
        words.extend([0, KIND_STRUCT << 24 | members.len() as u32, 0]);
        let mut at = 0;
        for (number, (name, count)) in members.iter().enumerate() {
            words.extend([strings.len() as u32, 4 + number as u32, at]);
            strings.extend(name.bytes().chain([0]));
            at += 64 * count;
        }
        for (_, count) in members {
            words.extend([0, KIND_ARRAY << 24, 0, 1, 2, *count]);
        }
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (len, strings_len) = (types.len() as u32, strings.len() as u32);
        let header = [0x0001_eb9f, 24, 0, len, len, strings_len];
        let header = header.iter().flat_map(|word: &u32| word.to_ne_bytes());
        header.chain(types).chain(strings).collect()
    }

    #[test]
    fn members_of_the_running_kernels_structs() {
        let Ok(btf) = Btf::kernel() else { return };
        let [head, data] = ["head", "data"].map(|member| btf.offset("sk_buff", member).unwrap());
        assert_eq!(data - head, 8);
        assert_eq!(btf.offset("list_head", "prev").unwrap(), 8);
        let error = btf.offset("list_head", "nothing").unwrap_err();
        assert_eq!(error.to_string(), "this kernel has no nothing in struct list_head");
    }

    #[test]
    fn what_is_no_btf_is_refused() {
        for bytes in [&b""[..], b"\x9f", &[0; 64], &[0x9f, 0xeb, 1, 0, 255, 255, 255, 255]] {
            assert!(Btf::parse(bytes).is_none());
        }
    }

    #[test]
    fn numbers_of_a_struct() {
        let btf = Btf::parse(&of_struct(&[("packets", 1), ("sizes", 31)])).unwrap();
        let member =
            |name: &str, offset, count| Member { name: name.to_owned(), offset, width: 8, count };
        let expected = [member("packets", 0, 1), member("sizes", 8, 31)];
        assert_eq!(btf.numbers(3).unwrap(), expected);
        assert!([0, 1, 4, 99, u32::MAX].into_iter().all(|id| btf.numbers(id).is_none()));
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_it_is_understood_or_refused(
            changes in prop::collection::vec((0_usize..200, any::<u8>()), 0..20),
            len in 0_usize..220,
            id in any::<u32>(),
        ) {
            let mut bytes = of_struct(&[("packets", 1), ("sizes", 31), ("bytes", 1)]);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            bytes.truncate(len);
            if let Some(btf) = Btf::parse(&bytes) {
                let _ = btf.offset("a", "b");
                let _ = (btf.numbers(3), btf.numbers(id % 8), btf.numbers(id));
            }
        }
    }
}
