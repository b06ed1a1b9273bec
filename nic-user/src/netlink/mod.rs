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
    /// Whether it is what was asked that answered, not the way there that failed.
    answered: bool,
}

/// The result of one exchange with the kernel.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without an explanation by the kernel.
    pub const fn from_errno(errno: i32) -> Self {
        Self { errno, message: None, attribute: None, offset: None, answered: true }
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

    /// The question did not reach what it was for, or the answer did not come back: whatever the
    /// error number says, it says nothing about an interface.
    pub fn unanswered(error: &io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Self { answered: false, ..Self::new(errno, "the request could not be sent") }
    }

    /// Whether the driver, or the kernel, has no such thing. Every other refusal says only that it
    /// could not be read or done now.
    ///
    /// It is what the kernel answers where a driver lacks the operation (`EOPNOTSUPP` throughout
    /// net/ethtool and net/core/netdev-genl.c), and where a family lacks the command
    /// (net/netlink/genetlink.c genl_family_rcv_msg).
    pub const fn is_unsupported(&self) -> bool {
        self.answered && matches!(self.errno, libc::EOPNOTSUPP | ENOTSUPP)
    }

    /// Of an answer about a link by [`link::Links`]: whether there is no such link.
    ///
    /// Others answer `ENODEV` as well while a driver resets its device (`netif_device_present`).
    pub const fn is_gone(&self) -> bool {
        self.answered && self.errno == libc::ENODEV
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
            _ => error::Kind::Failed,
        };
        error::Error::new(kind, format!("{action}: {self}"))
    }
}

/// What became of a question that not everyone can answer: a value, that there is no such thing
/// (`None`), or that it could not be read (`Err`).
pub trait IfSupported<T> {
    /// Tells apart what is absent from what could not be read.
    ///
    /// # Errors
    ///
    /// It could not be read.
    fn if_supported(self) -> Result<Option<T>>;
}

impl<T> IfSupported<T> for Result<T> {
    fn if_supported(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
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
        assert_eq!(kind(libc::ERANGE), error::Kind::Failed);
        // Only who looked for the interface knows that it is gone.
        assert_eq!(kind(libc::ENODEV), error::Kind::Failed);
    }

    #[test]
    fn only_an_answer_says_that_something_is_absent() {
        let answer = |errno| Err::<(), _>(Error::from_errno(errno)).if_supported();
        assert_eq!(answer(libc::EOPNOTSUPP), Ok(None));
        assert_eq!(answer(ENOTSUPP), Ok(None));
        for errno in [libc::ENOBUFS, libc::EINVAL, libc::EPERM, libc::EIO, libc::ENODEV] {
            assert_eq!(answer(errno).unwrap_err().errno, errno);
        }
        let unanswered = |errno| Error::unanswered(&io::Error::from_raw_os_error(errno));
        assert!(!unanswered(libc::EOPNOTSUPP).is_unsupported());
        assert!(!unanswered(libc::ENODEV).is_gone() && Error::from_errno(libc::ENODEV).is_gone());
    }
}
