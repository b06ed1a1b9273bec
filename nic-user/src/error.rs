//! One kind of error for everything a user can meet: what was being done, what went wrong in the
//! kernel's own words, and the way out. Its [`Kind`] is the exit code.

use std::fmt;

/// Why a command ended without doing what it was asked; the number is its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// It was tried, and failed.
    Failed = 1,
    /// The command line or a value in it makes no sense.
    Usage = 2,
    /// No such interface, or nothing is attached to it.
    NotFound = 3,
    /// The process lacks a privilege.
    NotPermitted = 4,
    /// A profile is not for this interface.
    NotMatched = 7,
}

/// An error to show to a user.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    fix: Option<String>,
}

/// The result of anything that can fail in front of a user.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`; `message` names the action, the interface and the cause.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fix: None }
    }

    /// Tried, and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// The command line or a value in it makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// No such interface, or nothing attached.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// The process lacks a privilege.
    pub fn not_permitted(message: impl Into<String>) -> Self {
        Self::new(Kind::NotPermitted, message)
    }

    /// An I/O error while doing `action`; a lack of privilege is told from other failures.
    pub fn io(action: impl fmt::Display, error: &std::io::Error) -> Self {
        let kind = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Kind::NotPermitted,
            _ => Kind::Failed,
        };
        Self::new(kind, format!("{action}: {error}"))
    }

    /// Adds the way out.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Adds the way out if it is a permission that is missing.
    #[must_use]
    pub fn with_fix_if_not_permitted(self, fix: &str) -> Self {
        if self.kind == Kind::NotPermitted { self.with_fix(fix) } else { self }
    }

    /// Puts what was being done in front of the message.
    #[must_use]
    pub fn while_doing(mut self, action: impl fmt::Display) -> Self {
        self.message = format!("{action}: {}", self.message);
        self
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What to do about it, if that is known.
    pub fn fix(&self) -> Option<&str> {
        self.fix.as_deref()
    }

    /// What failed, and the way out behind it.
    pub fn in_one_line(&self) -> String {
        match &self.fix {
            Some(fix) => format!("{}; {fix}", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
