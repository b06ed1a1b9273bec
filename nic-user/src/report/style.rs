//! Colour, on terminals alone.

use std::{
    env,
    fmt::{self, Display},
    hash::{BuildHasher, RandomState},
    io::{self, IsTerminal},
    sync::OnceLock,
};

use super::text::Escaped;

/// What nicctl itself makes a terminal do.
///
/// In text it stands as a mark that no other text can have in it, for only this process knows it;
/// [`Terminal`](super::terminal::Terminal) puts the escape sequence in its place, and lets no other
/// through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Bold text follows.
    Bold,
    /// Red text follows.
    Red,
    /// Plain text follows.
    Reset,
    /// The cursor goes home, and the screen is cleared.
    Clear,
}

impl Control {
    const ALL: [Self; 4] = [Self::Bold, Self::Red, Self::Reset, Self::Clear];

    /// What terminals understand (ECMA-48).
    pub(super) const fn sequence(self) -> &'static str {
        match self {
            Self::Bold => "\x1b[1m",
            Self::Red => "\x1b[31m",
            Self::Reset => "\x1b[0m",
            Self::Clear => "\x1b[H\x1b[2J",
        }
    }

    /// The one that `text` begins with, and what follows it.
    pub(super) fn strip(text: &str) -> Option<(Self, &str)> {
        let rest = text.strip_prefix(mark())?;
        let found = |control: Self| Some((control, rest.strip_prefix(control.letter())?));
        Self::ALL.into_iter().find_map(found)
    }

    const fn letter(self) -> char {
        match self {
            Self::Bold => 'b',
            Self::Red => 'r',
            Self::Reset => 'p',
            Self::Clear => 'c',
        }
    }
}

impl Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", mark(), self.letter())
    }
}

/// What marks begin with: an escape character, and a number that was chosen when the process
/// began.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("\x1b{:016x}", RandomState::new().hash_one(0)))
}

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
        self.with(Control::Bold, text)
    }

    /// What is wrong.
    pub fn red<T: Display>(self, text: T) -> Styled<T> {
        self.with(Control::Red, text)
    }

    fn with<T: Display>(self, control: Control, text: T) -> Styled<T> {
        Styled { control: (self == Self::Ansi).then_some(control), text: Escaped(text) }
    }
}

/// Text in a [`Style`].
#[derive(Clone, Copy, Debug)]
pub struct Styled<T> {
    control: Option<Control>,
    text: Escaped<T>,
}

impl<T: Display> Display for Styled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.control {
            Some(control) => write!(f, "{control}{}{}", self.text, Control::Reset),
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
        assert_eq!(Style::Plain.bold("x\x1b\n").to_string(), "x\\u001b\\n");
    }

    #[test]
    fn controls_are_found_where_they_stand() {
        let text = Style::Ansi.red("x").to_string();
        let (control, rest) = Control::strip(&text).unwrap();
        assert_eq!(control, Control::Red);
        assert_eq!(Control::strip(&rest[1..]), Some((Control::Reset, "")));
        assert_eq!(Control::strip("\x1b[31mx"), None);
    }
}
