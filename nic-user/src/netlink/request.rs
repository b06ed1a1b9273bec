//! Encoding of requests: attributes appended to a fixed header (linux/netlink.h).

use netlink_bindings::utils::{align, finalize_nested_header, push_header, push_nested_header};

use super::Error;

/// A request's payload under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A request that begins with the fixed header `header`.
    pub(crate) fn with_header(header: &[u8]) -> Self {
        Self(header.to_vec())
    }

    /// Appends an attribute of raw bytes. `value` is at most a name or an address long.
    pub(crate) fn bytes(mut self, attribute: u16, value: &[u8]) -> Self {
        push_header(&mut self.0, attribute, u16::try_from(value.len()).unwrap_or(u16::MAX - 4));
        self.0.extend_from_slice(value);
        align(&mut self.0);
        self
    }

    /// Appends a 32-bit attribute.
    pub(crate) fn u32(self, attribute: u16, value: u32) -> Self {
        self.bytes(attribute, &value.to_ne_bytes())
    }

    /// Appends an attribute for which the kernel takes 32 or 64 bits (`NLA_UINT`).
    pub(crate) fn uint(self, attribute: u16, value: u64) -> Self {
        match u32::try_from(value) {
            Ok(value) => self.u32(attribute, value),
            Err(_) => self.bytes(attribute, &value.to_ne_bytes()),
        }
    }

    /// Appends a NUL-terminated string.
    pub(crate) fn string(self, attribute: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(attribute, &bytes)
    }

    /// Appends a nest that holds what `fill` puts into it.
    pub(crate) fn nest(mut self, attribute: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let header = push_nested_header(&mut self.0, attribute);
        let mut filled = fill(self);
        finalize_nested_header(&mut filled.0, header);
        filled
    }

    /// Appends bytes that are not an attribute: a fixed header inside a nest.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The finished payload.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Where in a request each change begins, to tell which one the kernel points at.
#[derive(Default)]
pub(crate) struct Places<'a>(Vec<(usize, &'a str)>);

impl<'a> Places<'a> {
    /// The change called `name` is what comes next in `request`.
    pub(crate) fn mark(&mut self, request: &Request, name: &'a str) {
        self.0.push((request.0.len(), name));
    }

    /// The error, with the name of the change that it is about.
    pub(crate) fn name_in(&self, error: Error) -> Error {
        let Some(offset) = error.offset else { return error };
        match self.0.iter().rev().find(|(start, _)| *start <= offset) {
            Some((_, name)) => error.at(name),
            None => error,
        }
    }
}

/// `struct ifinfomsg` for the link `ifindex` (0: named by an attribute), with the flags that
/// change.
pub(crate) fn ifinfomsg(ifindex: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}
