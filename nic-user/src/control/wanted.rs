//! What a user wants of settings, and where that was said.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::names;
use crate::{
    error::{Error, Result},
    nic::{
        cpus::{self, Choice},
        setting::{Key, Value},
    },
};

/// What a setting is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What it is now, whatever a profile says that this one extends.
    Keep,
    /// The least that the device takes.
    Min,
    /// The most that the device takes.
    Max,
    /// So many percent of the most that the device takes; 0 to 100.
    Percent(u8),
    /// This.
    Value(Value),
}

/// Reads `max`, `min`, `keep`, `50%`, `on`, `off`, a number, or any other text.
impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "" => return Err("is empty".to_owned()),
            "keep" => Self::Keep,
            "min" => Self::Min,
            "max" => Self::Max,
            "on" => Self::Value(Value::Switch(true)),
            "off" => Self::Value(Value::Switch(false)),
            _ => match text.strip_suffix('%') {
                Some(number) => Self::Percent(percent(number)?),
                None => Self::Value(number_or_text(text)?),
            },
        })
    }
}

impl Wanted {
    /// Reads what a setting is to be. Sets of CPUs stay as they are written: digits are not always
    /// a number there.
    pub fn of(key: &Key, text: &str) -> Result<Self, String> {
        let Some(notation) = cpus::notation(key.group).filter(|_| text != "keep") else {
            return text.parse();
        };
        match Choice::parse(text, notation) {
            Some(_) if !text.is_empty() => Ok(Self::Value(Value::Text(text.to_owned()))),
            _ => Err(format!(
                "is {text:?}; it must be a list of CPUs (0-3,8), a mask (mask:ff), all or off"
            )),
        }
    }
}

fn percent(number: &str) -> Result<u8, String> {
    match number.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err(format!("is {number}%; it must be 0% to 100%")),
    }
}

fn number_or_text(text: &str) -> Result<Value, String> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if !unsigned.bytes().all(|byte| byte.is_ascii_digit()) || unsigned.is_empty() {
        return Ok(Value::Text(text.to_owned()));
    }
    text.parse().map(Value::Number).map_err(|_| format!("is {text}; it must be 0 to {}", u64::MAX))
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Value(value) => value.fmt(f),
        }
    }
}

impl JsonSchema for Wanted {
    fn schema_name() -> Cow<'static, str> {
        "Wanted".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, a switch, \"max\", \"min\", a percentage of the device's \
                            maximum (\"50%\"), \"keep\" to leave it as it is, or other text.",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "boolean" },
                { "type": "string", "minLength": 1 },
            ],
        })
    }
}

/// Who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An argument.
    CommandLine,
    /// An argument for all interfaces, whatever they have.
    CommandLineForAll,
    /// A line of a profile.
    Profile {
        /// Its name, or the path of its file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// Whether it came with nicctl. It is for any device, so it wants what can be had.
        built_in: bool,
    },
    /// An XDP program, which does not run otherwise.
    Xdp,
}

impl Origin {
    /// Whether what is not supported is skipped with a note, instead of refused.
    pub const fn is_best_effort(&self) -> bool {
        matches!(self, Self::Profile { built_in: true, .. } | Self::CommandLineForAll)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine | Self::CommandLineForAll => f.write_str("command line"),
            Self::Profile { name, line, .. } => write!(f, "{name}:{line}"),
            Self::Xdp => f.write_str("needed by XDP"),
        }
    }
}

/// One setting that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it is to be.
    pub wanted: Wanted,
    /// Who says so.
    pub origin: Origin,
    /// ethtool's name for one or several features, if that was used: those of them that can be
    /// changed are.
    pub alias: Option<&'static str>,
}

impl Request {
    /// What the setting was called where it was asked for.
    pub fn name(&self, key: &Key) -> String {
        match self.alias {
            Some(alias) => format!("{}.{alias}", key.group),
            None => key.to_string(),
        }
    }
}

/// Everything that is wanted of an interface.
pub type Desired = BTreeMap<Key, Request>;

/// Adds a request. One of ethtool's names for features stands for the kernel's. `keep` makes an
/// exception of one of them; otherwise, whoever asks twice must ask for the same.
///
/// # Errors
///
/// The same setting, under whatever names, to be two things.
pub fn add(desired: &mut Desired, key: Key, wanted: Wanted, origin: Origin) -> Result<()> {
    let named = names::alias(key.group, &key.name);
    let alias = named.map(|(alias, _)| alias);
    let keys = match named {
        Some((_, features)) => features.iter().map(|name| Key::new(key.group, *name)).collect(),
        None => vec![key],
    };
    for key in keys {
        let request = Request { wanted: wanted.clone(), origin: origin.clone(), alias };
        if let Some(earlier) = desired.get(&key) {
            refuse_both(&key, earlier, &request)?;
        }
        desired.insert(key, request);
    }
    Ok(())
}

fn refuse_both(key: &Key, earlier: &Request, later: &Request) -> Result<()> {
    if earlier.wanted == later.wanted || [&earlier.wanted, &later.wanted].contains(&&Wanted::Keep) {
        return Ok(());
    }
    let said = |request: &Request| {
        format!("{} {} ({})", request.name(key), request.wanted, request.origin)
    };
    let what = format!("{} contradicts {}", said(later), said(earlier));
    let is_one = earlier.name(key) == later.name(key);
    let both = if is_one { String::new() } else { format!(": both are {key}") };
    Err(Error::usage(format!("{what}{both}")).with_fix("omit one of them"))
}

/// Reads arguments of the form `GROUP.NAME=VALUE`.
///
/// # Errors
///
/// One that is not of that form, or the same setting twice.
pub fn from_arguments(arguments: &[String], origin: &Origin) -> Result<Desired> {
    let mut desired = Desired::new();
    for argument in arguments {
        let (key, wanted) = assignment(argument)?;
        add(&mut desired, key, wanted, origin.clone())?;
    }
    Ok(desired)
}

fn assignment(argument: &str) -> Result<(Key, Wanted)> {
    let Some((key, value)) = argument.split_once('=') else {
        return Err(Error::usage(format!("{argument:?} has no value"))
            .with_fix(format!("write {argument}=VALUE")));
    };
    let key: Key = key.trim().parse()?;
    if !names::is_possible(&key) && names::alias(key.group, &key.name).is_none() {
        // A newer kernel may have features that are not known here; the device knows.
        if key.group != crate::nic::setting::Group::Feature {
            return Err(unknown(&key));
        }
    }
    let wanted = Wanted::of(&key, value.trim());
    let wanted = wanted.map_err(|what| Error::usage(format!("{key} {what}")))?;
    Ok((key, wanted))
}

/// The error for a setting that no device has.
pub fn unknown(key: &Key) -> Error {
    let error = Error::usage(format!("{} has no setting {:?}", key.group, key.name));
    match names::suggestion(key.group, &key.name, []) {
        Some(nearest) => error.with_fix(format!("did you mean {}.{nearest}?", key.group)),
        None => error.with_fix(format!("available: {}", names::known(key.group).join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Kind, nic::setting::Group};

    fn arguments(arguments: &[&str]) -> Result<Desired> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
        from_arguments(&arguments, &Origin::CommandLine)
    }

    #[test]
    fn values_are_read_as_they_are_shown() {
        for text in ["keep", "min", "max", "0%", "100%", "256", "on", "off", "toeplitz", "ff,0f"] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        assert_eq!("-".parse::<Wanted>().unwrap(), Wanted::Value("-".into()));
    }

    #[test]
    fn impossible_values_say_what_is_possible() {
        let refusal = |text: &str| text.parse::<Wanted>().unwrap_err();
        assert_eq!(refusal("101%"), "is 101%; it must be 0% to 100%");
        assert_eq!(refusal("x%"), "is x%; it must be 0% to 100%");
        assert_eq!(refusal("-1"), "is -1; it must be 0 to 18446744073709551615");
        assert!(refusal("18446744073709551616").contains("18446744073709551615"));
        assert_eq!(refusal(""), "is empty");
    }

    #[test]
    fn arguments_become_wishes() {
        let desired =
            arguments(&["ring.rx=max", "coalesce.rx-usecs = 20", "feature.gro=on"]).unwrap();
        let of = |group, name| &desired[&Key::new(group, name)].wanted;
        assert_eq!(*of(Group::Ring, "rx"), Wanted::Max);
        assert_eq!(*of(Group::Coalesce, "rx-usecs"), Wanted::Value(20_u64.into()));
        assert_eq!(*of(Group::Feature, "rx-gro"), Wanted::Value(true.into()));
        assert_eq!(desired.len(), 3);
    }

    #[test]
    fn an_alias_of_several_features_is_remembered() {
        let desired = arguments(&["feature.tso=off"]).unwrap();
        assert_eq!(desired.len(), 4);
        assert!(desired.values().all(|request| request.alias == Some("tso")));
    }

    #[test]
    fn bad_arguments_are_usage_errors_with_the_way_out() {
        let error = |argument: &str| {
            let error = arguments(&[argument]).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            (error.to_string(), error.fix().unwrap_or_default().to_owned())
        };
        assert_eq!(error("ring.rx").1, "write ring.rx=VALUE");
        assert_eq!(error("ring.rxx=1").1, "did you mean ring.rx?");
        assert_eq!(error("rnig.rx=1").1, "did you mean ring?");
        assert_eq!(error("ring.rx=").0, "ring.rx is empty");
        assert_eq!(error("pause.quiet=on").1, "available: autoneg, rx, tx");
        let twice = arguments(&["ring.rx=1", "ring.rx=2"]).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "ring.rx 2 (command line) contradicts ring.rx 1 (command line)"
        );
    }
}
