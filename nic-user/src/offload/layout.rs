//! Values of maps as structs: as they are, where their layout is ours, else field by field, by the
//! names that the kernel keeps.

use std::os::fd::AsFd;

use nic_common::{
    counters::Counters,
    layout::{Field, Layout},
};

use super::{
    btf::{Btf, Member},
    map::Info,
    sys,
};
use crate::error::{Error, Result};

/// Counters that lie in a map.
pub trait Counted: Counters + Layout + aya::Pod {}

impl<C: Counters + Layout + aya::Pod> Counted for C {}

/// How the values of a map are laid out.
#[derive(Debug)]
pub enum Format {
    /// As ours.
    Ours,
    /// With these members.
    Other(Vec<Member>),
}

impl Format {
    /// The layout of the values of a map.
    pub fn of<T: Layout>(info: &Info, is_ours: bool) -> Result<Self> {
        if is_ours {
            return Ok(Self::Ours);
        }
        let unreadable = || {
            Error::failed(
                "it was attached by another version of nicctl whose maps this one cannot read",
            )
            .with_fix("detach it and attach it again, or use that version")
        };
        if info.btf_id == 0 {
            return Err(unreadable());
        }
        let btf = sys::btf_by_id(info.btf_id).and_then(|btf| sys::btf_bytes(btf.as_fd()));
        let bytes = btf.map_err(|error| {
            Error::io("read the types of another version's maps", &error).with_fix_if_not_permitted(
                "run it as root or with CAP_SYS_ADMIN; or detach and attach again",
            )
        })?;
        let numbers = Btf::parse(&bytes).and_then(|btf| btf.numbers(info.btf_value_type_id));
        let members = numbers.ok_or_else(unreadable)?;
        let is_ours = info.value_size as usize == size_of::<T>() && are(&members, T::FIELDS);
        Ok(if is_ours { Self::Ours } else { Self::Other(members) })
    }

    /// A value of such a map; fields that it does not have are zero.
    pub fn value<T: Layout + aya::Pod>(&self, bytes: &[u8]) -> Option<T> {
        match self {
            Self::Ours => from_bytes(bytes),
            Self::Other(members) => from_bytes(&translate(members, bytes, T::FIELDS)),
        }
    }
}

/// Whether the members are these fields.
fn are(members: &[Member], fields: &[Field]) -> bool {
    let same = |(member, field): (&Member, &Field)| {
        let Field { name, offset, width, count } = *field;
        (&*member.name, member.offset, member.width, member.count) == (name, offset, width, count)
    };
    members.len() == fields.len() && members.iter().zip(fields).all(same)
}

/// The bytes of a struct with `fields`, from those of one with `members`.
fn translate(members: &[Member], bytes: &[u8], fields: &[Field]) -> Vec<u8> {
    let end = |field: &Field| field.offset + field.width * field.count;
    let mut translated = vec![0; fields.iter().map(end).max().unwrap_or_default()];
    for field in fields {
        let Some(member) = members.iter().find(|member| member.name == field.name) else {
            continue;
        };
        for at in 0..member.count {
            let Some(number) = number(bytes, member, at) else { break };
            count_in(&mut translated, field, at, number);
        }
    }
    translated
}

fn number(bytes: &[u8], member: &Member, at: usize) -> Option<u64> {
    let start = member.offset.checked_add(member.width.checked_mul(at)?)?;
    let bytes = bytes.get(start..start.checked_add(member.width)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// The last bin of a histogram has all from there on, so it gets what lies in bins that we do not
/// have. A longer text is cut off.
fn count_in(bytes: &mut [u8], field: &Field, at: usize, number: u64) {
    let is_text = field.width == 1;
    if field.count == 0 || (is_text && at >= field.count) {
        return;
    }
    let start = field.offset + field.width * at.min(field.count - 1);
    let Some(place) = bytes.get_mut(start..start + field.width) else { return };
    let there = place.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let sum = there.wrapping_add(number).to_le_bytes();
    place.iter_mut().zip(sum).for_each(|(to, from)| *to = from);
}

/// The value that these bytes are, if it is as long.
pub fn from_bytes<T: aya::Pod>(bytes: &[u8]) -> Option<T> {
    // SAFETY: every bit pattern of this length is a valid `T`, and it is read wherever it lies.
    (bytes.len() == size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value.
pub fn to_bytes<T: Layout + aya::Pod>(value: &T) -> &[u8] {
    // SAFETY: `Layout` says that it has no padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use nic_common::{
        counters::{IngressCounters, RxCounters},
        record::AttachRecord,
    };
    use proptest::prelude::*;

    use super::{super::btf::tests::of_struct, *};

    fn members(of: &[(&str, u32)]) -> Vec<Member> {
        Btf::parse(&of_struct(of)).unwrap().numbers(3).unwrap()
    }

    fn words(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn fields_are_found_by_name_in_any_order() {
        let other = Format::Other(members(&[("largest", 1), ("unheard_of", 3), ("packets", 1)]));
        let value: IngressCounters = other.value(&words([9, 1, 2, 3, 7])).unwrap();
        assert_eq!(value, IngressCounters { packets: 7, largest: 9, ..IngressCounters::ZERO });
        // A value that is too short lacks what is behind its end.
        let value: IngressCounters = other.value(&words([9])).unwrap();
        assert_eq!(value, IngressCounters { largest: 9, ..IngressCounters::ZERO });
    }

    #[test]
    fn bins_that_we_do_not_have_are_counted_in_the_last() {
        let other = Format::Other(members(&[("sizes", 34), ("headers", 2)]));
        let value: RxCounters = other.value(&words(1..=36)).unwrap();
        assert_eq!(value.sizes[..30], (1..=30).collect::<Vec<_>>());
        assert_eq!(value.sizes[30], 31 + 32 + 33 + 34);
        assert_eq!((value.headers[..2].to_vec(), value.headers[2]), (vec![35, 36], 0));
    }

    #[test]
    fn numbers_of_another_width_and_longer_texts_fit() {
        let member = |name: &str, offset, width, count| Member {
            name: name.to_owned(),
            offset,
            width,
            count,
        };
        let other = Format::Other(vec![
            member("ifindex", 0, 8, 1),
            member("netns", 8, 4, 1),
            member("name", 12, 1, 20),
        ]);
        let bytes = [words([7, 9]), vec![b'x'; 16]].concat();
        let record: AttachRecord = other.value(&bytes).unwrap();
        assert_eq!((record.ifindex, record.netns, record.name[4]), (7, 9, b'x'));
        assert_eq!(
            record,
            AttachRecord { ifindex: 7, netns: 9, name: record.name, ..AttachRecord::EMPTY }
        );
    }

    fn reversed(fields: &[Field]) -> Vec<Field> {
        let mut offset = 8;
        let moved = |field: &Field| {
            let here = offset;
            offset += field.width * field.count;
            Field { offset: here, ..*field }
        };
        fields.iter().rev().map(moved).collect()
    }

    fn as_members(fields: &[Field]) -> Vec<Member> {
        let member = |&Field { name, offset, width, count }: &Field| Member {
            name: name.to_owned(),
            offset,
            width,
            count,
        };
        fields.iter().map(member).collect()
    }

    proptest! {
        #[test]
        fn what_goes_to_another_layout_and_back_is_the_same(
            values in prop::collection::vec(any::<u64>(), size_of::<RxCounters>() / 8),
        ) {
            let ours = words(values);
            let there = reversed(RxCounters::FIELDS);
            let other = translate(&as_members(RxCounters::FIELDS), &ours, &there);
            prop_assert_ne!(&other, &ours);
            prop_assert_eq!(translate(&as_members(&there), &other, RxCounters::FIELDS), ours);
        }
    }
}
