//! Interface names, checked before anything is asked of the kernel.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::netlink;

/// A name that an interface can have (`dev_valid_name` in the kernel's net/core/dev.c), or an
/// alternative name of one (`ip link property add`).
///
/// As text, what is not UTF-8 in it is escaped, as `eth\xff`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// Longest name in bytes: `ALTIFNAMSIZ` less the terminating NUL.
    pub const MAX_LEN: usize = 127;

    /// Checks `name`; the error says what is wrong with it.
    pub fn new(name: impl AsRef<OsStr>) -> Result<Self> {
        let name = name.as_ref();
        let bytes = match name.to_str() {
            Some(text) => netlink::name::bytes(text),
            None => name.as_bytes().to_vec(),
        };
        match defect(&bytes) {
            Some(defect) => Err(refuse(name, &defect)),
            None => Ok(Self(netlink::name::text(&bytes))),
        }
    }

    /// The name, escaped where it is not UTF-8.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn refuse(name: &OsStr, defect: &str) -> Error {
    Error::usage(format!("interface name {name:?} {defect}"))
}

fn defect(name: &[u8]) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".to_owned());
    }
    if name.len() > InterfaceName::MAX_LEN {
        let max = InterfaceName::MAX_LEN;
        return Some(format!("is {} bytes long; the maximum is {max}", name.len()));
    }
    if matches!(name, b"." | b"..") {
        return Some("is the name of a directory".to_owned());
    }
    name.iter().find_map(|byte| match byte {
        b'/' => Some("contains a slash".to_owned()),
        b':' => Some("contains a colon".to_owned()),
        b'\0' => Some("contains a NUL".to_owned()),
        space if space.is_ascii_whitespace() || *space == b'\x0b' => {
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
        assert!(InterfaceName::new("x".repeat(127)).is_ok());
        let bytes = InterfaceName::new(OsStr::from_bytes(b"eth\xff")).unwrap();
        assert_eq!(bytes.as_str(), "eth\\xff");
        assert_eq!(bytes, InterfaceName::new("eth\\xff").unwrap());
    }

    #[test]
    fn a_refusal_names_the_reason() {
        assert_eq!(refusal(""), "interface name \"\" is empty");
        assert_eq!(
            refusal("x".repeat(128)),
            format!("interface name \"{}\" is 128 bytes long; the maximum is 127", "x".repeat(128))
        );
        assert_eq!(refusal("a/b"), "interface name \"a/b\" contains a slash");
        assert_eq!(refusal("eth0 "), "interface name \"eth0 \" contains white space");
        assert_eq!(refusal("eth0:1"), "interface name \"eth0:1\" contains a colon");
        assert_eq!(refusal("a\0b"), "interface name \"a\\0b\" contains a NUL");
        assert_eq!(refusal(".."), "interface name \"..\" is the name of a directory");
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
