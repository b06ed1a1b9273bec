//! Names of interfaces, which are bytes to the kernel, as text that gives the bytes back.

/// Digits of a byte that is escaped as `\xff`.
const DIGITS: usize = 2;
const ESCAPE: &str = "\\x";

/// A name as text: what is not UTF-8 in it is escaped, as `\xff`, and so is a backslash that would
/// look like the beginning of that.
pub fn text(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((before, after)) = rest.split_once('\\') {
            let looks_escaped = byte(rest.get(before.len()..).unwrap_or_default()).is_some();
            text.push_str(before);
            text.push_str(if looks_escaped { "\\x5c" } else { "\\" });
            rest = after;
        }
        text.push_str(rest);
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("{ESCAPE}{byte:02x}")));
    }
    text
}

/// The name that `text` stands for.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, length) = match byte(rest) {
            Some(byte) => (vec![byte], ESCAPE.len() + DIGITS),
            None => (first.to_string().into_bytes(), first.len_utf8()),
        };
        name.extend(taken);
        rest = rest.get(length..).unwrap_or_default();
    }
    name
}

/// The byte whose escape `text` begins with.
fn byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix(ESCAPE)?.get(..DIGITS)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_text_is_escaped() {
        for (name, expected) in [
            (&b"eth0"[..], "eth0"),
            ("wlan-\u{e4}".as_bytes(), "wlan-\u{e4}"),
            (b"eth\xff", "eth\\xff"),
            (b"a\\b", "a\\b"),
            (b"eth\\xff", "eth\\x5cxff"),
            (b"\\x5\xc3", "\\x5\\xc3"),
        ] {
            assert_eq!(text(name), expected);
            assert_eq!(bytes(expected), name);
        }
    }

    proptest! {
        #[test]
        fn a_name_survives(name: Vec<u8>, tricky in r"[\\\\x0-9a-f\x80]{0,12}") {
            prop_assert_eq!(bytes(&text(&name)), name);
            prop_assert_eq!(bytes(&text(tricky.as_bytes())), tricky.as_bytes());
        }
    }
}
