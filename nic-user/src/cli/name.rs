//! Names of interfaces and network namespaces as arguments.

use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::netlink;

/// The name of an interface: any bytes; those that are not UTF-8 are escaped.
pub(super) fn interface() -> impl TypedValueParser<Value = String> {
    bytes()
}

/// The name of a network namespace: the same.
pub(super) fn namespace() -> impl TypedValueParser<Value = String> {
    bytes()
}

fn bytes() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| match name.into_string() {
        Ok(name) => name,
        Err(name) => netlink::name::text(name.as_bytes()),
    })
}

/// A name of any bytes; one that is not UTF-8 is a usage error that shows it.
pub(super) fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|name| name.into_string().map_err(|_| "it is not UTF-8"))
}
