//! Names of interfaces and network namespaces as arguments.

use clap::builder::{OsStringValueParser, TypedValueParser};

/// A name of any bytes from the command line; one that is not UTF-8 is a usage error that shows it.
pub(super) fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|name| name.into_string().map_err(|_| "it is not UTF-8"))
}
