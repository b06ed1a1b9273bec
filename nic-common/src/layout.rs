//! Where the fields of the structs lie that are kept in maps: so that another release, which lays
//! them out differently, finds them by name.

/// One field of a struct: a number, or an array of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, by which other releases know it, too.
    pub name: &'static str,
    /// Bytes in front of it.
    pub offset: usize,
    /// Bytes of one number.
    pub width: usize,
    /// How many numbers it has.
    pub count: usize,
}

/// A struct that is kept in maps.
///
/// # Safety
///
/// It has no padding: all its bytes belong to fields.
pub unsafe trait Layout: Copy {
    /// All its fields.
    const FIELDS: &'static [Field];
}

/// What a field can be.
pub(crate) trait Numbers {
    const WIDTH: usize;
    const COUNT: usize;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Numbers for $number {
            const WIDTH: usize = size_of::<$number>();
            const COUNT: usize = 1;
        })*
    };
}

numbers!(u8, u16, u32, u64);

impl<T: Numbers, const N: usize> Numbers for [T; N] {
    const WIDTH: usize = T::WIDTH;
    const COUNT: usize = T::COUNT * N;
}

/// Describes a field; `_get` only says of which type it is.
pub(crate) const fn field<S, F: Numbers>(
    name: &'static str,
    offset: usize,
    _get: fn(&S) -> &F,
) -> Field {
    Field { name, offset, width: F::WIDTH, count: F::COUNT }
}

/// Whether fields fill `size` bytes: none is forgotten, and there is no padding.
pub(crate) const fn fill(fields: &[Field], size: usize) -> bool {
    let (mut at, mut sum) = (0, 0);
    while at < fields.len() {
        sum += fields[at].width * fields[at].count;
        at += 1;
    }
    sum == size
}

/// Implements [`Layout`] with the fields that are named, which must be all.
macro_rules! layout {
    ($type:ty: $($field:ident),* $(,)?) => {
        // SAFETY: the assertion below.
        unsafe impl $crate::layout::Layout for $type {
            const FIELDS: &'static [$crate::layout::Field] = &[$($crate::layout::field(
                stringify!($field),
                core::mem::offset_of!($type, $field),
                |it: &$type| &it.$field,
            )),*];
        }
        const _: () = assert!(
            $crate::layout::fill(<$type as $crate::layout::Layout>::FIELDS, size_of::<$type>()),
            "a field is missing, or there is padding"
        );
    };
}
pub(crate) use layout;

/// A number that differs where the layouts do (FNV-1a of all names, places and sizes).
pub const fn number_of(layouts: &[&[Field]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < layouts.len() {
        let fields = layouts[at];
        let mut field = 0;
        while field < fields.len() {
            let Field { name, offset, width, count } = fields[field];
            hash = mix(hash, name.as_bytes());
            hash = mix(hash, &[0, offset as u8, (offset >> 8) as u8, width as u8]);
            hash = mix(hash, &[count as u8, (count >> 8) as u8]);
            field += 1;
        }
        hash = mix(hash, &[0xff]);
        at += 1;
    }
    hash
}

const fn mix(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: Field = Field { name: "packets", offset: 0, width: 8, count: 1 };

    #[test]
    fn whatever_differs_gives_another_number() {
        let others = [
            Field { name: "bytes", ..FIELD },
            Field { offset: 8, ..FIELD },
            Field { width: 4, ..FIELD },
            Field { count: 2, ..FIELD },
        ];
        let number = number_of(&[&[FIELD]]);
        assert!(others.iter().all(|other| number_of(&[&[*other]]) != number));
        assert_ne!(number_of(&[&[FIELD], &[]]), number);
        assert_eq!(number_of(&[&[FIELD]]), number);
    }
}
