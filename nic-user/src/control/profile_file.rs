//! The text of one profile: TOML to wishes, every defect with its line.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    names,
    profile::Match,
    wanted::{self, Desired, Origin, Wanted},
};
use crate::{
    error::{Error, Result},
    nic::{
        cpus, name,
        setting::{Group, Key, Value},
    },
};

/// Keys of a profile besides the groups of settings.
pub(super) const DESCRIPTION: &str = "description";
pub(super) const EXTENDS: &str = "extends";
pub(super) const MATCH: &str = "match";
/// Keys of `[match]`.
pub(super) const MATCH_KEYS: [&str; 4] = ["driver", "name", "min-speed", "max-speed"];

/// One profile as it is written, before what it extends is put below it.
#[derive(Debug, Default)]
pub(super) struct ProfileFile {
    pub(super) description: Option<String>,
    /// The profile that it extends, and the line that says so.
    pub(super) extends: Option<(String, usize)>,
    pub(super) matching: Option<Match>,
    pub(super) settings: Desired,
}

type Table<'i> = DeTable<'i>;
type Name<'i> = Spanned<DeString<'i>>;
type Entry<'i> = Spanned<DeValue<'i>>;

/// Reads the text of the profile `name`.
pub(super) fn parse(name: &str, built_in: bool, text: &str) -> Result<ProfileFile> {
    let parser = Parser { name, built_in, text };
    let table = Table::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, &span));
        parser.error(line, error.message())
    })?;
    parser.profile(table.get_ref())
}

/// The line that a span begins in, from 1.
fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}

struct Parser<'a> {
    name: &'a str,
    built_in: bool,
    text: &'a str,
}

impl Parser<'_> {
    fn error(&self, line: usize, what: impl std::fmt::Display) -> Error {
        Error::usage(format!("profile {}, line {line}: {what}", self.name))
    }

    fn error_at<T>(&self, at: &Spanned<T>, what: impl std::fmt::Display) -> Error {
        self.error(line_of(self.text, &at.span()), what)
    }

    fn profile(&self, table: &Table<'_>) -> Result<ProfileFile> {
        let mut profile = ProfileFile::default();
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                DESCRIPTION => profile.description = Some(self.string(key, value)?),
                EXTENDS => {
                    let line = line_of(self.text, &key.span());
                    profile.extends = Some((self.string(key, value)?, line));
                }
                MATCH => profile.matching = Some(self.matching(self.table(key, value)?)?),
                _ => self.group(&mut profile.settings, key, value)?,
            }
        }
        Ok(profile)
    }

    fn group(&self, settings: &mut Desired, key: &Name<'_>, value: &Entry<'_>) -> Result<()> {
        let text = key.get_ref();
        let Some(group) = Group::ALL.into_iter().find(|group| group.name() == text) else {
            let names =
                Group::ALL.map(Group::name).into_iter().chain([DESCRIPTION, EXTENDS, MATCH]);
            return Err(self.unknown_key(key, "a profile", names));
        };
        // "keep" by the kernel's name makes an exception of what goes by one of ethtool's names
        // for several features, wherever it is written.
        let (aliases, plain): (Vec<_>, Vec<_>) = self
            .table(key, value)?
            .iter()
            .partition(|(name, _)| names::alias(group, name.get_ref()).is_some());
        for (name, value) in aliases.into_iter().chain(plain) {
            let key = self.setting(group, name)?;
            let wanted = self.wanted(&key, value)?;
            wanted::add(settings, key, wanted, self.origin(line_of(self.text, &name.span())))?;
        }
        Ok(())
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::Profile { name: self.name.to_owned(), line, built_in: self.built_in }
    }

    fn setting(&self, group: Group, name: &Name<'_>) -> Result<Key> {
        let key = Key::new(group, name.get_ref().as_ref());
        // The kernel may have newer features than are known here: the device is asked.
        let open = group == Group::Feature;
        if open || names::is_possible(&key) {
            return Ok(key);
        }
        let error = wanted::unknown(&key);
        let located = self.error_at(name, &error);
        Err(error.fix().map_or_else(|| self.error_at(name, &error), |fix| located.with_fix(fix)))
    }

    fn wanted(&self, key: &Key, value: &Entry<'_>) -> Result<Wanted> {
        let wanted = match value.get_ref() {
            DeValue::Boolean(on) if cpus::notation(key.group).is_some() => {
                Wanted::of(key, if *on { "on" } else { "off" })
            }
            DeValue::Integer(number) if cpus::notation(key.group).is_some() => {
                Wanted::of(key, number.as_str())
            }
            DeValue::Boolean(on) => Ok(Wanted::Value(Value::Switch(*on))),
            DeValue::Integer(_) => self.number(value).map(|n| Wanted::Value(Value::Number(n))),
            DeValue::String(text) => Wanted::of(key, text),
            _ => Err("takes a number, true, false, or a string".to_owned()),
        };
        wanted.map_err(|what| self.error_at(value, format_args!("{key} {what}")))
    }

    fn number(&self, value: &Entry<'_>) -> Result<u64, String> {
        let DeValue::Integer(integer) = value.get_ref() else {
            return Err("takes a number".to_owned());
        };
        u64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| format!("is {integer}; it must be 0 to {}", u64::MAX))
    }

    fn matching(&self, table: &Table<'_>) -> Result<Match> {
        let mut matching = Match::default();
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "driver" => matching.drivers = self.strings(key, value)?,
                "name" => matching.names = self.strings(key, value)?,
                "min-speed" => matching.min_speed = Some(self.speed(key, value)?),
                "max-speed" => matching.max_speed = Some(self.speed(key, value)?),
                _ => return Err(self.unknown_key(key, "[match]", MATCH_KEYS)),
            }
        }
        Ok(matching)
    }

    fn speed(&self, key: &Name<'_>, value: &Entry<'_>) -> Result<u32> {
        let speed = self.number(value).ok().and_then(|speed| u32::try_from(speed).ok());
        speed.ok_or_else(|| {
            self.error_at(value, format_args!("{} takes a speed in Mbit/s", key.get_ref()))
        })
    }

    fn strings(&self, key: &Name<'_>, value: &Entry<'_>) -> Result<Vec<String>> {
        match value.get_ref() {
            DeValue::Array(array) => {
                array.iter().map(|element| self.string(key, element)).collect()
            }
            _ => Ok(vec![self.string(key, value)?]),
        }
    }

    fn string(&self, key: &Name<'_>, value: &Entry<'_>) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            _ => Err(self.error_at(value, format_args!("{} takes a string", key.get_ref()))),
        }
    }

    fn table<'t, 'i>(&self, key: &Name<'_>, value: &'t Entry<'i>) -> Result<&'t Table<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.error_at(key, format_args!("{0} is a table: [{0}]", key.get_ref()))),
        }
    }

    fn unknown_key<'c>(
        &self,
        key: &Name<'_>,
        place: &str,
        known: impl IntoIterator<Item = &'c str> + Clone,
    ) -> Error {
        let text = key.get_ref();
        let error = self.error_at(key, format_args!("{place} has no {text:?}"));
        match name::nearest(text, known.clone()) {
            Some(nearest) => error.with_fix(format!("did you mean {nearest}?")),
            None => {
                let known: Vec<&str> = known.into_iter().collect();
                error.with_fix(format!("available: {}", known.join(", ")))
            }
        }
    }
}
