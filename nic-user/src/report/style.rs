//! Colour, on terminals alone.

use std::{
    env,
    fmt::{self, Display},
    io::{self, IsTerminal},
};

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Plain text.
    Plain,
    /// With ANSI escape sequences.
    Ansi,
}

impl Style {
    /// The style for standard output: coloured on a terminal, unless `NO_COLOR` (no-color.org) is
    /// set to anything or `TERM` is `dumb`.
    pub fn for_stdout() -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env::var_os("TERM").is_some_and(|value| value == "dumb");
        if io::stdout().is_terminal() && !unwanted { Self::Ansi } else { Self::Plain }
    }

    /// Headings.
    pub fn bold<T: Display>(self, text: T) -> Styled<T> {
        self.with("1", text)
    }

    /// What is wrong.
    pub fn red<T: Display>(self, text: T) -> Styled<T> {
        self.with("31", text)
    }

    fn with<T: Display>(self, code: &'static str, text: T) -> Styled<T> {
        Styled { code: (self == Self::Ansi).then_some(code), text }
    }
}

/// Text in a [`Style`].
#[derive(Clone, Copy, Debug)]
pub struct Styled<T> {
    code: Option<&'static str>,
    text: T,
}

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "\x1b[{code}m{}\x1b[0m", self.text),
            None => self.text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escapes() {
        assert_eq!(Style::Plain.bold("x").to_string(), "x");
        assert_eq!(Style::Ansi.red("x").to_string(), "\x1b[31mx\x1b[0m");
    }
}
