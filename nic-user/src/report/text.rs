//! Text from elsewhere, made harmless for terminals.

use std::{
    borrow::Cow,
    fmt::{self, Display, Write},
};

/// Whether a terminal would act on a character instead of showing it: the control characters of
/// ASCII and of Unicode, the separators of lines, and what changes the direction of writing.
pub fn controls(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with such characters as JSON escapes them. So what is in JSON already stays what it is.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(controls) { Escaped(text).to_string().into() } else { text.into() }
}

/// What it is made of, [`escaped`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'a>(&'f mut fmt::Formatter<'a>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(controls) {
            let mut characters = part.chars();
            match characters.next_back().filter(|&last| controls(last)) {
                Some(last) => {
                    self.0.write_str(characters.as_str())?;
                    escape(last, self.0)?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// All of them are in the basic plane, where JSON has four digits.
fn escape(character: char, out: &mut impl Write) -> fmt::Result {
    match character {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        other => write!(out, "\\u{:04x}", u32::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn controls_are_escaped_as_in_json() {
        assert_eq!(escaped("größer"), "größer");
        assert_eq!(escaped("a\x1b[2J\n\t\x7f"), "a\\u001b[2J\\n\\t\\u007f");
        assert_eq!(escaped("\u{9b}31m\u{202e}txt\u{2069}"), "\\u009b31m\\u202etxt\\u2069");
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_controls(text: String) {
            let shown = escaped(&text);
            prop_assert!(!shown.contains(controls));
            if !text.contains(['\\', '"']) {
                let back: String = serde_json::from_str(&format!("\"{shown}\"")).unwrap();
                prop_assert_eq!(back, text);
            }
        }
    }
}
