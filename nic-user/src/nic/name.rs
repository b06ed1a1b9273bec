//! Interface names, checked before anything is asked of the kernel.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A name that an interface can have (`dev_valid_name` in the kernel's net/core/dev.c).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// Longest name in bytes: `IFNAMSIZ` less the terminating NUL.
    pub const MAX_LEN: usize = libc::IFNAMSIZ - 1;

    /// Checks `name`; the error says what is wrong with it.
    pub fn new(name: impl AsRef<OsStr>) -> Result<Self> {
        let name = name.as_ref();
        let text = name.to_str().ok_or_else(|| refuse(name, "is not UTF-8"))?;
        match defect(text) {
            Some(defect) => Err(refuse(name, &defect)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn refuse(name: &OsStr, defect: &str) -> Error {
    Error::usage(format!("interface name {name:?} {defect}"))
}

fn defect(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".to_owned());
    }
    if name.len() > InterfaceName::MAX_LEN {
        let max = InterfaceName::MAX_LEN;
        return Some(format!("is {} bytes long; at most {max} are possible", name.len()));
    }
    if matches!(name, "." | "..") {
        return Some("is a directory's name".to_owned());
    }
    name.chars().find_map(|character| match character {
        '/' => Some("contains a slash".to_owned()),
        ':' => Some("contains a colon".to_owned()),
        '\0' => Some("contains a NUL".to_owned()),
        space if space.is_ascii_whitespace() || space == '\x0b' => {
            Some("contains white space".to_owned())
        }
        _ => None,
    })
}

impl FromStr for InterfaceName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl AsRef<str> for InterfaceName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The candidate that `name` most likely meant, if one is near enough to suggest.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near_enough = name.chars().count() / 3 + 1;
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= near_enough)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// How many characters must be inserted, removed or replaced to get from one to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, character) in from.chars().enumerate() {
        let mut next = vec![index + 1];
        for ((pair, &other), &left_above) in row.windows(2).zip(&to).zip(&row) {
            let above = pair.last().copied().unwrap_or_default();
            let left = next.last().copied().unwrap_or_default();
            let replaced = left_above + usize::from(character != other);
            next.push(replaced.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::error::Kind;

    fn refusal(name: impl AsRef<OsStr>) -> String {
        let error = InterfaceName::new(name).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        error.to_string()
    }

    #[test]
    fn what_the_kernel_accepts_is_accepted() {
        for name in ["lo", "eth0", "enp3s0f1np1", "exactly15bytes_", "bond0.100", "wlan-ä"] {
            assert_eq!(InterfaceName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_refusal_names_the_reason() {
        assert_eq!(refusal(""), "interface name \"\" is empty");
        assert_eq!(
            refusal("sixteen_bytes_xx"),
            "interface name \"sixteen_bytes_xx\" is 16 bytes long; at most 15 are possible"
        );
        assert_eq!(refusal("a/b"), "interface name \"a/b\" contains a slash");
        assert_eq!(refusal("eth0 "), "interface name \"eth0 \" contains white space");
        assert_eq!(refusal("eth0:1"), "interface name \"eth0:1\" contains a colon");
        assert_eq!(refusal("a\0b"), "interface name \"a\\0b\" contains a NUL");
        assert_eq!(refusal(".."), "interface name \"..\" is a directory's name");
        assert_eq!(
            refusal(OsStr::from_bytes(b"eth\xff")),
            "interface name \"eth\\xFF\" is not UTF-8"
        );
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        let names = ["lo", "eth0", "eth1", "enp3s0"];
        assert_eq!(nearest("eth00", names), Some("eth0"));
        assert_eq!(nearest("ehtt1", names), Some("eth1"));
        assert_eq!(nearest("emp3s0", names), Some("enp3s0"));
        assert_eq!(nearest("wlan0", names), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn distances_count_edits() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("eth0", "eth0"), 0);
    }
}
