//! Sets of CPUs, in each of the ways in which they are written.

use std::{fmt, fs};

use super::{setting::Group, sysfs::if_there};
use crate::error::{Error, Result};

/// A set of CPUs. However it was written, it is the same set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// First and last CPU of each range, in order, with a gap between any two.
    ranges: Vec<(u32, u32)>,
}

/// How a set of CPUs is written that could be either, such as `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Hexadecimal digits, a bit for each CPU, as `rps_cpus` and `xps_cpus` in sysfs have it.
    Mask,
    /// Numbers and ranges, as `smp_affinity_list` in procfs has it.
    List,
}

/// The CPUs that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Every one that there is.
    All,
    /// These.
    Of(CpuSet),
}

/// Prefix of what is a list, whatever it looks like.
const LIST: &str = "cpus:";
/// Prefixes of what is a mask, whatever it looks like.
const MASK: [&str; 2] = ["mask:", "0x"];
/// Hexadecimal digits in a group of a mask; the first group may have fewer.
const GROUP: usize = 8;

/// How the sets of CPUs of a group are written, where it is one that has them.
pub const fn notation(group: Group) -> Option<Notation> {
    match group {
        Group::Rps | Group::Xps => Some(Notation::Mask),
        Group::Irq => Some(Notation::List),
        _ => None,
    }
}

impl Choice {
    /// Reads `all`, `off`, a list such as `0-3,8`, or a mask such as `ff` or `1,00000000`.
    ///
    /// What has a `-`, or commas between groups that are not of eight hexadecimal digits, is a list.
    /// What has letters, or commas between such groups, is a mask. What could be both is what
    /// `notation` says, unless it begins with `cpus:` or `mask:`.
    pub fn parse(text: &str, notation: Notation) -> Option<Self> {
        match text {
            "all" => return Some(Self::All),
            "off" | "none" | "-" => return Some(Self::Of(CpuSet::default())),
            _ => {}
        }
        let set = if let Some(list) = text.strip_prefix(LIST) {
            CpuSet::from_list(list)
        } else if let Some(mask) = MASK.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            CpuSet::from_mask(mask)
        } else if is_mask(text, notation) {
            CpuSet::from_mask(text)
        } else {
            CpuSet::from_list(text)
        };
        set.map(Self::Of)
    }
}

/// Whether `text` is a mask rather than a list.
fn is_mask(text: &str, notation: Notation) -> bool {
    let is_group = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.split_once(',') {
        None if !is_group(text) => false,
        None => notation == Notation::Mask || !text.bytes().all(|byte| byte.is_ascii_digit()),
        Some((first, others)) => {
            is_group(first)
                && first.len() <= GROUP
                && others.split(',').all(|group| group.len() == GROUP && is_group(group))
        }
    }
}

impl CpuSet {
    /// Reads a list as the kernel writes it: `0-3,8`, or with strides, `0-7:1/2`. An empty one is
    /// the empty set.
    pub fn from_list(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return Some(Self::default());
        }
        let regions = text.split(',').map(|part| region(part.trim()));
        let regions = regions.collect::<Option<Vec<_>>>()?;
        Some(Self::of_ranges(regions.into_iter().flatten().collect()))
    }

    /// Reads a mask as the kernel writes it: hexadecimal, in groups of 32 CPUs, the last ones
    /// first. A group after the first may leave out zeros at its front.
    pub fn from_mask(text: &str) -> Option<Self> {
        let mut digits = String::new();
        for (index, group) in text.trim().split(',').enumerate() {
            let is_hex = group.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hex || group.is_empty() || index > 0 && group.len() > GROUP {
                return None;
            }
            digits.push_str(&format!("{group:0>GROUP$}"));
        }
        let bits = |(position, digit): (u32, char)| {
            let bits = digit.to_digit(16).unwrap_or_default();
            (0..4).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| position * 4 + bit)
        };
        Some((0..).zip(digits.chars().rev()).flat_map(bits).collect())
    }

    /// The CPUs that run (`/sys/devices/system/cpu/online`); `None` where the kernel does not tell.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn online() -> Result<Option<Self>> {
        const ONLINE: &str = "/sys/devices/system/cpu/online";
        let list = if_there(fs::read_to_string(ONLINE))
            .map_err(|error| Error::io(format!("read {ONLINE}"), &error))?;
        Ok(list.and_then(|list| Self::from_list(&list)))
    }

    /// Whether it has no CPU.
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether every CPU of it is in `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        let is_in = |&(first, last): &(u32, u32)| {
            other.ranges.iter().any(|&(from, to)| from <= first && last <= to)
        };
        self.ranges.iter().all(is_in)
    }

    /// As a mask like `like`, which the kernel wrote: as many digits, if they are enough.
    pub fn mask_like(&self, like: &str) -> String {
        let width = like.chars().filter(char::is_ascii_hexdigit).count();
        let needed = self.ranges.last().map_or(1, |&(_, last)| last as usize / 4 + 1);
        let digit = |position: u32| {
            let has = |bit: &u32| self.has(position * 4 + bit);
            let bits = (0..4).filter(has).map(|bit| 1 << bit).sum();
            char::from_digit(bits, 16).unwrap_or('0')
        };
        let mut mask = String::new();
        for position in (0..width.max(needed) as u32).rev() {
            mask.push(digit(position));
            if position > 0 && position.is_multiple_of(GROUP as u32) {
                mask.push(',');
            }
        }
        mask
    }

    /// Its CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + Clone {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    fn has(&self, cpu: u32) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&cpu))
    }

    fn of_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match apart.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => apart.push((first, last)),
            }
        }
        Self { ranges: apart }
    }
}

/// The ranges of `8`, `0-3`, or of `0-7:1/2`: the first one of every two.
fn region(text: &str) -> Option<Vec<(u32, u32)>> {
    /// A machine has fewer CPUs: more ranges are not worth memory.
    const MAX_RANGES: usize = 1 << 16;
    let number = |text: &str| -> Option<u32> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    let (range, stride) = match text.split_once(':') {
        Some((range, stride)) => (range, Some(stride.split_once('/')?)),
        None => (text, None),
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return None;
    }
    let Some((used, group)) = stride else { return Some(vec![(first, last)]) };
    let (used, group) = (number(used)?, number(group)?);
    if used == 0 || used > group {
        return None;
    }
    let starts = (first..=last).step_by(group as usize).take(MAX_RANGES + 1);
    let ranges: Vec<_> =
        starts.map(|start| (start, start.saturating_add(used - 1).min(last))).collect();
    (ranges.len() <= MAX_RANGES).then_some(ranges)
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self::of_ranges(cpus.into_iter().map(|cpu| (cpu, cpu)).collect())
    }
}

/// As a list: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> CpuSet {
        CpuSet::from_list(text).unwrap()
    }

    #[test]
    fn every_way_to_write_a_set_gives_the_same_set() {
        for (text, notation, expected) in [
            ("0-3,8", Notation::Mask, "0-3,8"),
            ("8,0-1,2,3", Notation::List, "0-3,8"),
            ("0-7:1/2", Notation::List, "0,2,4,6"),
            ("cpus:8", Notation::Mask, "8"),
            ("10", Notation::Mask, "4"),
            ("10", Notation::List, "10"),
            ("mask:10", Notation::List, "4"),
            ("0x10", Notation::List, "4"),
            ("ff", Notation::List, "0-7"),
            ("FF", Notation::Mask, "0-7"),
            ("1,0", Notation::Mask, "0-1"),
            ("1,00000000", Notation::List, "32"),
            ("0000000f,ffffffff", Notation::Mask, "0-35"),
            ("ffffffffffffffffffff", Notation::Mask, "0-79"),
            ("off", Notation::Mask, ""),
            ("-", Notation::List, ""),
            ("00000000", Notation::Mask, ""),
        ] {
            let choice = Choice::parse(text, notation);
            assert_eq!(choice, Some(Choice::Of(list(expected))), "{text} {notation:?}");
        }
        assert_eq!(Choice::parse("all", Notation::Mask), Some(Choice::All));
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in ["nonsense", "3-1", "0-", "1,,2", "+1", "0-7:0/2", "0-7:3/2", "cpus:ff", "0x"] {
            assert_eq!(Choice::parse(text, Notation::Mask), None, "{text}");
        }
        assert_eq!(Choice::parse("", Notation::List), Some(Choice::Of(CpuSet::default())));
        assert_eq!(Choice::parse("0-4294967295:1/2", Notation::List), None);
        assert_eq!(Choice::parse("4294967296", Notation::List), None);
    }

    #[test]
    fn masks_look_like_the_kernels() {
        assert_eq!(list("0-1").mask_like("0"), "3");
        assert_eq!(list("").mask_like("00000000,00000000"), "00000000,00000000");
        assert_eq!(list("32-35").mask_like("ff,00000000"), "0f,00000000");
        assert_eq!(list("33").mask_like("3"), "2,00000000");
    }

    #[test]
    fn sets_are_compared() {
        assert!(list("1,3").is_within(&list("0-3")));
        assert!(!list("0-4").is_within(&list("0-3")));
        assert!(list("").is_within(&list("")) && list("").is_empty());
        assert!(CpuSet::online().unwrap().is_none_or(|online| online.has(0) || !online.is_empty()));
    }

    proptest! {
        #[test]
        fn a_set_survives_both_notations(cpus in prop::collection::btree_set(0_u32..300, 0..40)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert!((0..300).all(|cpu| set.has(cpu) == cpus.contains(&cpu)));
            prop_assert_eq!(&CpuSet::from_list(&set.to_string()).unwrap(), &set);
            let mask = set.mask_like("0");
            prop_assert_eq!(&CpuSet::from_mask(&mask).unwrap(), &set);
            prop_assert_eq!(Choice::parse(&mask, Notation::Mask), Some(Choice::Of(set)));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}", digits in "[0-9a-fx,:/-]{0,40}") {
            for notation in [Notation::Mask, Notation::List] {
                let _ = Choice::parse(&text, notation);
                let _ = Choice::parse(&digits, notation);
            }
        }
    }
}
