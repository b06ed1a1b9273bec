//! The maps that programs share with us.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use super::sys::{self, Command};
use crate::error::{Error, Result};

/// `enum bpf_map_type` (linux/bpf.h)
#[derive(Clone, Copy)]
enum Kind {
    Array = 2,
    Programs = 3,
    Sockets = 17,
}

/// `N` counters in an array map of one value.
#[derive(Debug)]
pub struct Counters<const N: usize>(OwnedFd);

impl<const N: usize> Counters<N> {
    /// All zero.
    pub fn new() -> Result<Self> {
        create(Kind::Array, size_of::<[u64; N]>() as u32, 1).map(Self)
    }

    /// What was counted so far.
    pub fn read(&self) -> Result<[u64; N]> {
        let (key, mut value) = (0_u32, [0; N]);
        let mut attr = Element::of(&self.0, &raw const key, &raw mut value as u64);
        sys::bpf(Command::MapLookup, &mut attr).map_err(|error| failed("read", &error))?;
        Ok(value)
    }

    /// Keeps them at a path in bpffs.
    pub fn pin(&self, path: &Path) -> Result<()> {
        #[repr(C)]
        struct Attr {
            pathname: u64,
            bpf_fd: u32,
            file_flags: u32,
        }
        let pin = || {
            let path = CString::new(path.as_os_str().as_bytes())?;
            let bpf_fd = self.0.as_raw_fd() as u32;
            let mut attr = Attr { pathname: path.as_ptr() as u64, bpf_fd, file_flags: 0 };
            sys::bpf(Command::Pin, &mut attr)
        };
        pin().map(drop).map_err(|error| failed("pin", &error))
    }
}

impl<const N: usize> AsFd for Counters<N> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An array of what has a descriptor: AF_XDP sockets or programs.
#[derive(Debug)]
pub struct Descriptors(OwnedFd);

impl Descriptors {
    /// AF_XDP sockets by receive queue (XSKMAP). The map forgets a socket that is closed.
    pub fn of_sockets(len: u32) -> Result<Self> {
        create(Kind::Sockets, 4, len).map(Self)
    }

    /// Programs to go on with (`bpf_tail_call`). The kernel empties the map when it is dropped.
    pub fn of_programs(len: u32) -> Result<Self> {
        create(Kind::Programs, 4, len).map(Self)
    }

    /// Puts one in.
    pub fn insert(&self, at: u32, descriptor: BorrowedFd<'_>) -> Result<()> {
        let value = descriptor.as_raw_fd();
        let mut attr = Element::of(&self.0, &raw const at, &raw const value as u64);
        let inserted = sys::bpf(Command::MapUpdate, &mut attr);
        inserted.map(drop).map_err(|error| failed("insert into", &error))
    }
}

impl AsFd for Descriptors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn create(kind: Kind, value_size: u32, max_entries: u32) -> Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    let mut attr = Attr { map_type: kind as u32, key_size: 4, value_size, max_entries };
    sys::open(Command::MapCreate, &mut attr).map_err(|error| failed("make", &error))
}

fn failed(action: &str, error: &io::Error) -> Error {
    Error::io(format_args!("{action} a BPF map"), error)
}

/// The part of `union bpf_attr` for one element of a map.
#[repr(C)]
struct Element {
    map_fd: u32,
    _hole: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Element {
    fn of(map: &OwnedFd, key: *const u32, value: u64) -> Self {
        Self { map_fd: map.as_raw_fd() as u32, _hole: 0, key: key as u64, value, flags: 0 }
    }
}
