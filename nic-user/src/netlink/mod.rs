//! Wire formats: the only place that knows what the kernel's configuration interfaces look like.
//!
//! A socket speaks to the network namespace in which it was opened, wherever the thread goes
//! afterwards.

mod attribute;
pub mod ethtool;
pub mod ethtool_ioctl;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod generic;
pub mod link;
pub mod link_edit;
pub mod name;
pub mod netdev;
pub mod qdisc;
mod request;
pub mod route;
pub mod socket;

use std::fmt;
use std::io;

use nix::errno::Errno;

use crate::error;

/// Kernel-internal "not supported" that some drivers let through; it has no name in userspace.
const ENOTSUPP: i32 = 524;

/// A refusal by the kernel, or a failure to talk to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The error number, positive, as in errno(3).
    pub errno: i32,
    /// The kernel's own explanation (`NLMSGERR_ATTR_MSG`), if it gave one.
    pub message: Option<String>,
    /// The part of the request that the kernel points at, by the name of the setting.
    pub attribute: Option<String>,
    /// Where that part is in the payload of the request, in bytes.
    offset: Option<usize>,
}

/// The result of one exchange with the kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without an explanation by the kernel.
    pub const fn from_errno(errno: i32) -> Self {
        Self { errno, message: None, attribute: None, offset: None }
    }

    /// An error with an explanation.
    pub fn new(errno: i32, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::from_errno(errno) }
    }

    /// Says which setting it is about.
    #[must_use]
    pub fn at(self, attribute: &str) -> Self {
        Self { attribute: Some(attribute.to_owned()), ..self }
    }

    /// Whether the driver, or the kernel, has no such thing.
    pub const fn is_unsupported(&self) -> bool {
        matches!(self.errno, libc::EOPNOTSUPP | ENOTSUPP)
    }

    /// The last error of a system call on this thread.
    pub(crate) fn last_os_error() -> Self {
        io::Error::last_os_error().into()
    }

    /// A reply that does not follow the protocol.
    pub(crate) fn malformed(what: &str) -> Self {
        Self::new(libc::EBADMSG, format!("malformed reply from the kernel: {what}"))
    }

    /// The error to show to a user who wanted `action`.
    pub fn while_doing(&self, action: impl fmt::Display) -> error::Error {
        let kind = match self.errno {
            libc::EPERM | libc::EACCES => error::Kind::NotPermitted,
            libc::ENODEV => error::Kind::NotFound,
            _ => error::Kind::Failed,
        };
        error::Error::new(kind, format!("{action}: {self}"))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::from_errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = describe_errno(self.errno);
        if let Some(attribute) = &self.attribute {
            write!(f, "{attribute}: ")?;
        }
        match &self.message {
            Some(message) => write!(f, "{message} ({errno})"),
            None => f.write_str(&errno),
        }
    }
}

impl std::error::Error for Error {}

/// `ERANGE: Numerical result out of range`.
pub fn describe_errno(errno: i32) -> String {
    if errno == ENOTSUPP {
        return "ENOTSUPP: Not supported by the driver".to_owned();
    }
    let text = io::Error::from_raw_os_error(errno).to_string();
    let text = text.strip_suffix(&format!(" (os error {errno})")).unwrap_or(&text);
    match Errno::from_raw(errno) {
        Errno::UnknownErrno => format!("errno {errno}: {text}"),
        name => format!("{name:?}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_kernels_text_and_the_errno() {
        let error = Error::new(libc::ERANGE, "Peer MTU is too large to set XDP");
        assert_eq!(
            error.to_string(),
            "Peer MTU is too large to set XDP (ERANGE: Numerical result out of range)"
        );
        assert_eq!(Error::from_errno(libc::EBUSY).to_string(), "EBUSY: Device or resource busy");
        assert_eq!(
            Error::new(libc::EINVAL, "unsupported parameter").at("rx-usecs").to_string(),
            "rx-usecs: unsupported parameter (EINVAL: Invalid argument)"
        );
        assert_eq!(
            Error::from_errno(ENOTSUPP).to_string(),
            "ENOTSUPP: Not supported by the driver"
        );
    }

    #[test]
    fn the_errno_decides_the_kind() {
        let kind = |errno| Error::from_errno(errno).while_doing("x").kind();
        assert_eq!(kind(libc::EPERM), error::Kind::NotPermitted);
        assert_eq!(kind(libc::ENODEV), error::Kind::NotFound);
        assert_eq!(kind(libc::ERANGE), error::Kind::Failed);
    }
}
