//! Where the running kernel keeps the members of its structs (Documentation/bpf/btf.rst).

use std::fs;

use crate::error::{Error, Result};

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;

const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_ENUM64: u32 = 19;

/// The types of the running kernel.
pub struct Btf {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Btf {
    /// Reads them.
    pub fn kernel() -> Result<Self> {
        let bytes = fs::read(PATH).map_err(|error| Error::io(format!("read {PATH}"), &error))?;
        Self::parse(&bytes).ok_or_else(|| Error::failed(format!("{PATH} cannot be understood")))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(word(bytes, at + 4)? as usize)?)
        };
        Some(Self { types: section(8)?.to_vec(), strings: section(16)?.to_vec() })
    }

    /// Bytes from the start of a struct to one of its members. Members of anonymous members are
    /// not found.
    pub fn offset(&self, structure: &str, member: &str) -> Result<i32> {
        let offset = self.structs().filter(|(name, _)| *name == structure.as_bytes());
        let mut offsets = offset.filter_map(|(_, members)| self.member(members, member));
        offsets.next().and_then(|offset| i32::try_from(offset).ok()).ok_or_else(|| {
            Error::failed(format!("this kernel has no {member} in struct {structure}"))
        })
    }

    fn member(&self, members: &[u8], member: &str) -> Option<u32> {
        /// Above it is the size of a bit field.
        const BIT_OFFSET: u32 = 0x00ff_ffff;
        let mut members = members.chunks_exact(12);
        let found = members.find(|one| self.name(one) == Some(member.as_bytes()))?;
        Some((word(found, 8)? & BIT_OFFSET) / 8)
    }

    /// Every struct: name and members.
    fn structs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.types.as_slice();
        let types = std::iter::from_fn(move || {
            let info = word(rest, 4)?;
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let (head, tail) = rest.split_at_checked(12)?;
            let (body, next) = tail.split_at_checked(body_len(kind, count))?;
            rest = next;
            Some((kind, head, body))
        });
        types
            .filter(|(kind, ..)| *kind == KIND_STRUCT)
            .filter_map(|(_, head, body)| Some((self.name(head)?, body)))
    }

    /// The name that a type or a member begins with the place of.
    fn name(&self, named: &[u8]) -> Option<&[u8]> {
        self.strings.get(word(named, 0)? as usize..)?.split(|byte| *byte == 0).next()
    }
}

/// Bytes that follow a type of this kind.
const fn body_len(kind: u32, count: usize) -> usize {
    match kind {
        KIND_INT | KIND_VAR | KIND_DECL_TAG => 4,
        KIND_ARRAY => 12,
        KIND_STRUCT | KIND_UNION | KIND_DATASEC | KIND_ENUM64 => 12 * count,
        KIND_ENUM | KIND_FUNC_PROTO => 8 * count,
        _ => 0,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
