//! JSON documents: each has a `version`, each has a schema.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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
            other => Err(de::Error::custom(format!("version {other} where {N} is understood"))),
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
        assert!(error.starts_with("version 4 where 3 is understood"), "{error}");
        let schema = schemars::schema_for!(Version<3>);
        assert_eq!(schema.get("const"), Some(&3.into()));
    }
}
