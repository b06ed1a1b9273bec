//! JSON documents: each has a `version`, each has a schema.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::Error;

/// The `version` field of a document: always the number `N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version<const N: u32>;

impl<const N: u32> Serialize for Version<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(N)
    }
}

impl<'de, const N: u32> Deserialize<'de> for Version<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            number if number == N => Ok(Self),
            other => Err(de::Error::custom(format!("version {other}, but only {N} is supported"))),
        }
    }
}

impl<const N: u32> JsonSchema for Version<N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Version{N}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": N, "description": "Version of this document's format." })
    }
}

/// The document of one interface that was named alone; or one of several.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ForEach<D> {
    /// Of one.
    One(D),
    /// Of several, or of `--all`.
    Several(Several<D>),
}

/// The documents of several interfaces.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Several<D> {
    version: Version<1>,
    /// One an interface.
    interfaces: Vec<D>,
    /// Interfaces of which there is none, and why.
    failures: Vec<Failure>,
}

/// Why there is no document of an interface.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Failure {
    /// Name of the interface.
    interface: String,
    /// What went wrong.
    message: String,
    /// The way out, if that is known.
    fix: Option<String>,
}

impl<D> ForEach<D> {
    /// Of interfaces, one of which may have been named alone, and of those that failed.
    pub fn new(documents: Vec<D>, is_alone: bool, failures: Vec<Failure>) -> Self {
        let mut documents = documents;
        match (is_alone, documents.pop()) {
            (true, Some(document)) => Self::One(document),
            (_, last) => {
                documents.extend(last);
                Self::Several(Several { version: Version, interfaces: documents, failures })
            }
        }
    }
}

impl Failure {
    /// Of an interface.
    pub fn of(interface: &str, error: &Error) -> Self {
        let (message, fix) = (error.to_string(), error.fix().map(str::to_owned));
        Self { interface: interface.to_owned(), message, fix }
    }
}

/// Writes `document` as one line.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_line(mut out: impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut out, document)?;
    out.write_all(b"\n")
}

/// Writes `document` over several lines, indented.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_pretty(mut out: impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_a_plain_number_and_its_schema_a_constant() {
        assert_eq!(serde_json::to_string(&Version::<3>).unwrap(), "3");
        assert_eq!(serde_json::from_str::<Version<3>>("3").unwrap(), Version);
        let error = serde_json::from_str::<Version<3>>("4").unwrap_err().to_string();
        assert!(error.starts_with("version 4, but only 3 is supported"), "{error}");
        let schema = schemars::schema_for!(Version<3>);
        assert_eq!(schema.get("const"), Some(&3.into()));
    }
}
