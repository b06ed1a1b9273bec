//! Profiles: named sets of settings, from files or built in, that can extend each other.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value as Json};

use super::{
    device::Identity,
    names,
    profile_file::{self, DESCRIPTION, EXTENDS, MATCH, ProfileFile},
    wanted::{Desired, Wanted},
};
use crate::{
    error::{Error, Kind, Result},
    files,
    nic::{name, setting::Group},
};

/// Profiles are written by hand: what is larger is something else.
const MAX_BYTES: u64 = 256 << 10;

/// Longest chain of profiles that extend each other.
const MAX_DEPTH: usize = 16;

/// The profiles that come with nicctl, with the reason for each of their values.
const BUILT_IN: &[(&str, &str)] = &[
    ("big-tcp", include_str!("profiles/big-tcp.toml")),
    ("forwarding", include_str!("profiles/forwarding.toml")),
    ("header-split", include_str!("profiles/header-split.toml")),
    ("latency", include_str!("profiles/latency.toml")),
    ("throughput", include_str!("profiles/throughput.toml")),
    ("udp-gso", include_str!("profiles/udp-gso.toml")),
];

/// A profile, with everything that it extends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name, or the path of its file.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The interfaces that it is for.
    pub matching: Match,
    /// What it wants.
    pub settings: Desired,
}

/// The interfaces that a profile is for: all, unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Names of drivers, as `ethtool -i` shows them; empty: any.
    pub drivers: Vec<String>,
    /// Patterns of interface names, with `*` and `?`; empty: any.
    pub names: Vec<String>,
    /// Least speed of the link in Mbit/s.
    pub min_speed: Option<u32>,
    /// Greatest speed of the link in Mbit/s.
    pub max_speed: Option<u32>,
}

impl Profile {
    /// Loads a built-in profile by its name, or one from a file by its path.
    ///
    /// # Errors
    ///
    /// There is no such profile, it cannot be read, or something in it is invalid.
    pub fn load(name_or_path: &str) -> Result<Self> {
        Loader::default().load(&Source::find(name_or_path, None)?)
    }

    /// The names of the profiles that come with nicctl, each with its text.
    pub const fn built_in() -> &'static [(&'static str, &'static str)] {
        BUILT_IN
    }

    /// Checks that it is for this interface. `speed` is that of its link in Mbit/s, if it has one.
    ///
    /// # Errors
    ///
    /// It is for others: for which ones is said.
    pub fn check_match(&self, interface: &Identity, speed: Option<u32>) -> Result<()> {
        let Some(mismatch) = self.matching.mismatch(interface, speed) else {
            return Ok(());
        };
        let message =
            format!("profile {} does not match {}: {mismatch}", self.name, interface.name);
        Err(Error::new(Kind::NotMatched, message)
            .with_fix("choose another profile, or change its [match]"))
    }
}

impl Match {
    fn mismatch(&self, interface: &Identity, speed: Option<u32>) -> Option<String> {
        let driver = interface.driver.as_deref().unwrap_or("unknown");
        if !self.drivers.is_empty() && !self.drivers.iter().any(|name| name == driver) {
            return Some(format!("its driver is {driver}, not {}", self.drivers.join(" or ")));
        }
        if !self.names.is_empty() && !self.names.iter().any(|name| glob(name, &interface.name)) {
            return Some(format!("its name does not match {}", self.names.join(" or ")));
        }
        let is = speed.map_or_else(|| "unknown".to_owned(), |speed| format!("{speed} Mbit/s"));
        match (self.min_speed, self.max_speed) {
            (Some(min), _) if speed.is_none_or(|speed| speed < min) => {
                Some(format!("its speed is {is}, not at least {min} Mbit/s"))
            }
            (_, Some(max)) if speed.is_none_or(|speed| speed > max) => {
                Some(format!("its speed is {is}, not at most {max} Mbit/s"))
            }
            _ => None,
        }
    }
}

/// Whether `text` is like `pattern`, where `*` is any number of characters and `?` is one.
fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on after one more character is given to the last star.
    let mut retry = None;
    loop {
        let mut after = pattern.clone();
        let here = text.clone();
        match (after.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = here.clone();
                pattern = after;
                retry = Some((pattern.clone(), here));
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => pattern = after,
            _ => {
                let Some((after_star, mut from)) = retry else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), from.clone());
                retry = Some((after_star, from));
            }
        }
    }
}

/// Where a profile is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    BuiltIn(&'static str, &'static str),
    File(PathBuf),
}

impl Source {
    /// A built-in name, or a path; relative paths begin in `folder`.
    fn find(name: &str, folder: Option<&Path>) -> Result<Self> {
        if let Some(&(name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            return Ok(Self::BuiltIn(name, text));
        }
        let path = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        if path.exists() || name.contains(['/', '.']) {
            return Ok(Self::File(path));
        }
        let names = BUILT_IN.iter().map(|(name, _)| *name);
        let error = Error::usage(format!("there is no profile {name:?}"));
        Err(match name::nearest(name, names.clone()) {
            Some(nearest) => error.with_fix(format!("did you mean {nearest}?")),
            None => {
                let names: Vec<&str> = names.collect();
                error.with_fix(format!("give the path of a file or one of {}", names.join(", ")))
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Self::BuiltIn(name, _) => (*name).to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// The folder that paths in it begin in.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::BuiltIn(..) => None,
            Self::File(path) => path.parent(),
        }
    }

    fn text(&self) -> Result<Cow<'static, str>> {
        match self {
            Self::BuiltIn(_, text) => Ok(Cow::Borrowed(text)),
            Self::File(path) => read(path).map(Cow::Owned),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let bytes = files::read(path, "profile", MAX_BYTES)?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..good).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::usage(format!("profile {shown}, line {line}: it is not UTF-8"))
    })
}

/// Follows `extends`.
#[derive(Default)]
struct Loader {
    /// What extends what is being loaded, outermost first.
    chain: Vec<Source>,
}

impl Loader {
    fn load(&mut self, source: &Source) -> Result<Profile> {
        let name = source.name();
        let built_in = matches!(source, Source::BuiltIn(..));
        let file = profile_file::parse(&name, built_in, &source.text()?)?;
        self.chain.push(canonical(source));
        let base = match &file.extends {
            Some((base, line)) => self.base(source, base).map_err(|error| {
                let located = Error::usage(format!("profile {name}, line {line}: {error}"));
                match error.fix() {
                    Some(fix) => located.with_fix(fix),
                    None => located,
                }
            })?,
            None => Profile::default(),
        };
        self.chain.pop();
        Ok(over(base, file, name))
    }

    fn base(&mut self, source: &Source, base: &str) -> Result<Profile> {
        let base = Source::find(base, source.folder())?;
        if self.chain.contains(&canonical(&base)) {
            return Err(Error::usage(format!("it extends itself, through {}", base.name())));
        }
        if self.chain.len() >= MAX_DEPTH {
            return Err(Error::usage(format!("more than {MAX_DEPTH} profiles extend each other")));
        }
        self.load(&base)
    }
}

fn canonical(source: &Source) -> Source {
    match source {
        Source::File(path) => Source::File(path.canonicalize().unwrap_or_else(|_| path.clone())),
        built_in => built_in.clone(),
    }
}

fn over(base: Profile, file: ProfileFile, name: String) -> Profile {
    let mut settings = base.settings;
    settings.extend(file.settings);
    Profile {
        name,
        description: file.description,
        matching: file.matching.unwrap_or(base.matching),
        settings,
    }
}

/// The schema of a profile's TOML, made from the names that are accepted.
impl JsonSchema for Profile {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let wanted = Json::from(generator.subschema_for::<Wanted>());
        let strings = json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
            ],
        });
        let speed = json_schema!({
            "type": "integer", "minimum": 0, "maximum": u32::MAX,
            "description": "Speed of the link in Mbit/s.",
        });
        let mut properties = Map::new();
        let mut property =
            |name: &str, schema: Schema| properties.insert(name.into(), schema.into());
        property(
            DESCRIPTION,
            json_schema!({ "type": "string", "description": "What the profile is for." }),
        );
        property(
            EXTENDS,
            json_schema!({
                "type": "string",
                "description": "A built-in profile, or the path of a profile, relative to this \
                                file's folder. Settings here override the ones there.",
            }),
        );
        property(
            MATCH,
            json_schema!({
                "type": "object",
                "description": "The interfaces the profile is for; all if absent.",
                "properties": {
                    "driver": strings, "name": strings, "min-speed": speed, "max-speed": speed,
                },
                "additionalProperties": false,
            }),
        );
        for group in Group::ALL {
            property(group.name(), group_schema(group, &wanted));
        }
        json_schema!({
            "type": "object", "properties": properties, "additionalProperties": false,
        })
    }
}

fn group_schema(group: Group, wanted: &Json) -> Schema {
    let names = names::known(group);
    let properties: Map<String, Json> =
        names.iter().map(|name| ((*name).to_owned(), wanted.clone())).collect();
    let others = match names.is_empty() || group == Group::Feature {
        true => wanted.clone(),
        false => Json::Bool(false),
    };
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": others })
}

#[cfg(test)]
mod tests;
