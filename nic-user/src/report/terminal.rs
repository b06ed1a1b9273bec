//! Where output leaves the process: nothing in it controls a terminal but nicctl's own styles.

use std::{
    fmt::Display,
    io::{self, Write},
    mem,
};

use super::{
    style::Control,
    text::{Escaped, controls},
};

/// How many bytes are held back, for fewer system calls.
const HELD: usize = 64 << 10;

/// Writes whole lines, with whatever else than [`Control`]s would control a terminal escaped.
///
/// A failure is told when this is flushed, not while there is something to write: what a command
/// does is not cut short for lack of somebody to tell.
#[derive(Debug)]
pub struct Terminal<W> {
    out: W,
    held: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> Terminal<W> {
    /// In front of `out`.
    pub const fn new(out: W) -> Self {
        Self { out, held: Vec::new(), failed: None }
    }

    fn pass(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&harmless(bytes)).err();
        }
    }
}

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= HELD
            && let Some(end) = self.held.iter().rposition(|&byte| byte == b'\n')
        {
            let rest = self.held.split_off(end + 1);
            let lines = mem::replace(&mut self.held, rest);
            self.pass(&lines);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let held = mem::take(&mut self.held);
        self.pass(&held);
        self.failed.take().map_or_else(|| self.out.flush(), Err)
    }
}

fn harmless(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        pass_text(chunk.valid(), &mut out);
        out.extend(chunk.invalid().escape_ascii());
    }
    out
}

fn pass_text(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find(|character| character != '\n' && controls(character)) {
        let (before, from) = rest.split_at(at);
        out.extend(before.bytes());
        rest = match Control::strip(from) {
            Some((control, after)) => {
                out.extend(control.sequence().bytes());
                after
            }
            None => {
                let mut characters = from.chars();
                out.extend(characters.next().into_iter().flat_map(escaped));
                characters.as_str()
            }
        };
    }
    out.extend(rest.bytes());
}

fn escaped(character: char) -> Vec<u8> {
    Escaped(character).to_string().into_bytes()
}

/// Says something on standard error, as far as that goes.
pub fn say(message: impl Display) {
    let mut lines = Terminal::new(io::stderr());
    // There is nowhere left to report that standard error is gone.
    let _ = writeln!(lines, "nicctl: {message}").and_then(|()| lines.flush());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::style::Style, *};

    fn written(parts: &[&[u8]]) -> String {
        let mut terminal = Terminal::new(Vec::new());
        parts.iter().for_each(|part| terminal.write_all(part).unwrap());
        terminal.flush().unwrap();
        String::from_utf8(terminal.out).unwrap()
    }

    #[test]
    fn styles_pass_and_what_looks_like_them_does_not() {
        let bold = Style::Ansi.bold("x").to_string();
        assert_eq!(
            written(&[bold.as_bytes(), b"\x1b[1mx\x1b[0m\n"]),
            "\x1b[1mx\x1b[0m\\u001b[1mx\\u001b[0m\n"
        );
        assert_eq!(written(&[b"\xff\xc3", "ß\r\n".as_bytes()]), "\\xff\\xc3ß\\r\n");
    }

    #[test]
    fn lines_are_written_as_they_come_and_held_until_they_end() {
        let line = [b"x".repeat(HELD), b"\n".to_vec(), "ß".as_bytes().to_vec()].concat();
        let mut terminal = Terminal::new(Vec::new());
        for byte in &line {
            terminal.write_all(&[*byte]).unwrap();
        }
        assert_eq!(terminal.out.len(), HELD + 1);
        terminal.flush().unwrap();
        assert_eq!(terminal.out, line);
    }

    #[test]
    fn a_failure_is_told_when_flushed() {
        let mut terminal = Terminal::new(&mut [][..]);
        terminal.write_all(&b"x\n".repeat(HELD)).unwrap();
        assert_eq!(terminal.flush().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    proptest! {
        #[test]
        fn only_lines_control_what_data_writes(parts: Vec<Vec<u8>>, style: bool) {
            let style = if style { Style::Ansi } else { Style::Plain };
            let text = parts.concat();
            let styled = style.bold(String::from_utf8_lossy(&text)).to_string();
            let mut parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            parts.push(styled.as_bytes());
            let shown = written(&parts);
            let plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "");
            prop_assert!(!plain.contains(|c| c != '\n' && controls(c)), "{shown:?}");
            prop_assert_eq!(shown.matches('\x1b').count(), if style == Style::Ansi { 2 } else { 0 });
        }
    }
}
