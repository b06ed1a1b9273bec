//! Frames in hex digits, as arguments or as lines.

use std::vec;

use super::{Captured, Frames, MAX_FRAME, input::Input};
use crate::error::{Error, Result};

/// Frames given one by one; white space in them, newlines too, means nothing.
pub struct HexWords {
    words: vec::IntoIter<String>,
    number: usize,
    frame: Vec<u8>,
}

impl HexWords {
    /// The frames in `words`.
    pub fn new(words: Vec<String>) -> Self {
        Self { words: words.into_iter(), number: 0, frame: Vec::new() }
    }
}

impl Frames for HexWords {
    fn next(&mut self) -> Result<Option<Captured<'_>>> {
        let Some(word) = self.words.next() else { return Ok(None) };
        self.number += 1;
        parse(word.as_bytes(), &mut self.frame)
            .map_err(|wrong| Error::usage(format!("hex frame {}: {wrong}", self.number)))?;
        Ok(Some(Captured::whole(&self.frame)))
    }

    fn is_drained(&self) -> bool {
        false
    }
}

/// Frames from an input, one a line; empty lines mean nothing.
pub struct HexLines {
    input: Input,
    number: u64,
    line: Vec<u8>,
    frame: Vec<u8>,
}

impl HexLines {
    /// The frames in the lines of `input`.
    pub fn new(input: Input) -> Self {
        Self { input, number: 0, line: Vec::new(), frame: Vec::new() }
    }

    /// Whether there was another line that is not empty.
    fn next_line(&mut self) -> Result<bool> {
        // Two digits and a separator a byte.
        const LIMIT: u64 = 3 * MAX_FRAME as u64;
        loop {
            if !self.input.line(&mut self.line, LIMIT)? {
                return Ok(false);
            }
            self.number += 1;
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }
}

impl Frames for HexLines {
    fn next(&mut self) -> Result<Option<Captured<'_>>> {
        if !self.next_line()? {
            return Ok(None);
        }
        parse(&self.line, &mut self.frame).map_err(|wrong| {
            Error::usage(format!("{}, line {}: {wrong}", self.input.name(), self.number))
        })?;
        Ok(Some(Captured::whole(&self.frame)))
    }

    fn is_drained(&self) -> bool {
        self.input.is_drained()
    }
}

/// Puts the bytes of `text` into `frame`. Between bytes there may be white space, colons and `0x`.
fn parse(text: &[u8], frame: &mut Vec<u8>) -> Result<(), String> {
    frame.clear();
    let mut high = None;
    for (i, byte) in text.iter().enumerate() {
        let at = i + 1;
        let digit = char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        high = match (high, digit) {
            (None, Some(digit)) => Some(digit),
            (Some(high), Some(low)) => {
                frame.push(high << 4 | low);
                None
            }
            (None, None) if byte.is_ascii_whitespace() || *byte == b':' => None,
            (Some(0), None) if matches!(byte, b'x' | b'X') => None,
            (Some(_), None) if byte.is_ascii_whitespace() || *byte == b':' => {
                return Err(format!("half a byte before character {at}"));
            }
            (_, None) => {
                return Err(format!(
                    "'{}' at character {at} is not a hex digit",
                    byte.escape_ascii()
                ));
            }
        };
    }
    if high.is_some() {
        return Err(format!("half a byte at the end, character {}", text.len()));
    }
    if frame.is_empty() {
        return Err("no hex digits".into());
    }
    if frame.len() > MAX_FRAME {
        return Err(format!("{} bytes is longer than any frame", frame.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<Vec<u8>, String> {
        let mut frame = Vec::new();
        parse(text.as_bytes(), &mut frame).map(|()| frame)
    }

    #[test]
    fn separators_stand_between_bytes() {
        for text in ["0200ff", "02:00:FF", " 02 00\nff ", "0x0200ff", "0x02 0x00 0Xff"] {
            assert_eq!(bytes(text), Ok(vec![2, 0, 0xff]), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_character() {
        for (text, error) in [
            ("", "no hex digits"),
            ("0x", "no hex digits"),
            ("020", "half a byte at the end, character 3"),
            ("02:0:00", "half a byte before character 5"),
            ("02zz", "'z' at character 3 is not a hex digit"),
            ("02 1x00", "'x' at character 5 is not a hex digit"),
            ("02é", "'\\xc3' at character 3 is not a hex digit"),
        ] {
            assert_eq!(bytes(text), Err(error.into()), "{text:?}");
        }
    }
}
