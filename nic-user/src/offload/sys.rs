//! The bpf(2) calls that aya does not offer. None of them lets the kernel write into memory that it
//! was not told the size of; those that do are where the size is checked, in [`super::map`].

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// `enum bpf_cmd` (linux/bpf.h)
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    MapLookup = 1,
    MapUpdate = 2,
    Pin = 6,
    Open = 7,
    ProgramById = 13,
    Info = 15,
    BtfLoad = 18,
    BtfById = 19,
    MapLookupBatch = 24,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkDetach = 34,
}

/// What a descriptor of bpf(2) can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A map.
    Map,
    /// A program.
    Program,
    /// A link.
    Link,
}

impl Object {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Map => "a map",
            Self::Program => "a program",
            Self::Link => "a link",
        }
    }

    /// What a descriptor is. The kernel gives information on each kind in a struct of its own, and
    /// does not say which: only the name of the file tells (`anon_inode_getfd` in
    /// kernel/bpf/syscall.c).
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let name = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        match name.to_str() {
            Some("anon_inode:bpf-map") => Ok(Self::Map),
            Some("anon_inode:bpf-prog") => Ok(Self::Program),
            Some("anon_inode:bpf-link" | "anon_inode:bpf_link") => Ok(Self::Link),
            _ => Err(io::Error::other(format!("{} is not a BPF object", name.display()))),
        }
    }
}

/// Where a link is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// `enum bpf_link_type`
    pub link_type: u32,
    /// Id of the program that it runs now.
    pub prog_id: u32,
    /// Interface that it is attached to; 0 once the interface is gone or the link was detached.
    pub ifindex: u32,
    /// `enum bpf_attach_type`, of a TCX link.
    pub attach_type: u32,
}

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramState {
    /// Its name.
    pub name: String,
    /// Ids of the maps that it uses.
    pub maps: Vec<u32>,
}

/// bpf(2) with the part of `union bpf_attr` that `command` uses; the kernel takes the rest as zero.
///
/// # Safety
///
/// Every pointer in `attr` points to memory that outlives the call and is as large as the command
/// makes of it.
pub(super) unsafe fn bpf<T>(command: Command, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is an initialised `repr(C)` struct of this size; the rest the caller promises.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_int, &raw mut *attr, size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same with a command that opens something.
///
/// # Safety
///
/// As [`bpf`], and the command gives a descriptor.
unsafe fn open<T>(command: Command, attr: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the kernel has just made the descriptor for us.
    unsafe { bpf(command, attr).map(|fd| OwnedFd::from_raw_fd(fd as i32)) }
}

/// The part of `union bpf_attr` for pins.
#[repr(C)]
struct PinAttr {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

/// Opens what is pinned at `path`.
pub fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = PinAttr { pathname: path.as_ptr() as u64, bpf_fd: 0, file_flags: 0 };
    // SAFETY: the path ends in a zero and outlives the call.
    unsafe { open(Command::Open, &mut attr) }
}

/// Pins an object at `path`, where nothing is yet.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (pathname, bpf_fd) = (path.as_ptr() as u64, object.as_raw_fd() as u32);
    // SAFETY: the path ends in a zero and outlives the call.
    unsafe { bpf(Command::Pin, &mut PinAttr { pathname, bpf_fd, file_flags: 0 }) }.map(drop)
}

/// Where TCX programs are attached (`enum bpf_attach_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Tcx {
    /// What arrives.
    Ingress = 46,
    /// What leaves.
    Egress = 47,
}

/// Attaches a TC program to an interface of the present network namespace, before all others that
/// are there (Linux 6.6).
pub fn create_tcx_link(program: BorrowedFd<'_>, ifindex: u32, hook: Tcx) -> io::Result<OwnedFd> {
    const BPF_F_BEFORE: u32 = 1 << 3;
    #[repr(C)]
    struct Attr {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
        relative_fd: u32,
        _hole: u32,
        expected_revision: u64,
    }
    let mut attr = Attr {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: ifindex,
        attach_type: hook as u32,
        flags: BPF_F_BEFORE,
        relative_fd: 0,
        _hole: 0,
        expected_revision: 0,
    };
    // SAFETY: it has no pointers, and the command gives a descriptor.
    unsafe { open(Command::LinkCreate, &mut attr) }
}

/// Information on an object, in the struct of its kind.
///
/// # Safety
///
/// What `T` points to is as large as `T` says.
pub(super) unsafe fn info<T>(object: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    }
    let mut attr = Attr {
        bpf_fd: object.as_raw_fd() as u32,
        info_len: size_of::<T>() as u32,
        info: &raw mut *info as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes; the rest the caller promises.
    unsafe { bpf(Command::Info, &mut attr) }.map(drop)
}

/// Detaches a link at once, whoever else holds it (Linux 5.9).
pub fn detach_link(link: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        link_fd: u32,
    }
    // SAFETY: it has no pointers.
    unsafe { bpf(Command::LinkDetach, &mut Attr { link_fd: link.as_raw_fd() as u32 }) }.map(drop)
}

/// Puts another program into a link: every frame meets the old one or the new one.
pub fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        link_fd: u32,
        new_prog_fd: u32,
        flags: u32,
        old_prog_fd: u32,
    }
    let (link_fd, new_prog_fd) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attr = Attr { link_fd, new_prog_fd, flags: 0, old_prog_fd: 0 };
    // SAFETY: it has no pointers.
    unsafe { bpf(Command::LinkUpdate, &mut attr) }.map(drop)
}

/// What a link of XDP or TCX is attached to.
pub fn link_state(link: BorrowedFd<'_>) -> io::Result<LinkState> {
    /// `struct bpf_link_info` up to what the members `xdp` and `tcx` of its union hold.
    #[repr(C, align(8))]
    #[derive(Default)]
    struct Info {
        link_type: u32,
        id: u32,
        prog_id: u32,
        _hole: u32,
        ifindex: u32,
        attach_type: u32,
        _rest: [u32; 10],
    }
    let mut info = Info::default();
    // SAFETY: what was zero of it is no pointer.
    unsafe { self::info(link, &mut info) }?;
    let Info { link_type, prog_id, ifindex, attach_type, .. } = info;
    Ok(LinkState { link_type, prog_id, ifindex, attach_type })
}

/// The part of `union bpf_attr` for opening by id.
#[repr(C)]
struct IdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

fn by_id(command: Command, id: u32) -> io::Result<OwnedFd> {
    // SAFETY: it has no pointers, and every such command gives a descriptor.
    unsafe { open(command, &mut IdAttr { id, next_id: 0, open_flags: 0 }) }
}

/// The program of this id. Takes `CAP_SYS_ADMIN`.
pub fn program_state(id: u32) -> io::Result<ProgramState> {
    /// `MAX_USED_MAPS` (include/linux/bpf_verifier.h)
    const MAX_MAPS: usize = 64;
    /// `struct bpf_prog_info` up to the name.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        _type_to_created_by: [u32; 13],
        nr_map_ids: u32,
        map_ids: u64,
        name: [u8; 16],
    }
    let program = by_id(Command::ProgramById, id)?;
    let mut maps = vec![0; MAX_MAPS];
    let map_ids = maps.as_mut_ptr() as u64;
    let mut info = Info { nr_map_ids: MAX_MAPS as u32, map_ids, ..Info::default() };
    // SAFETY: there is room for as many ids as it says, and the other pointers are null with a
    // length of 0.
    unsafe { self::info(std::os::fd::AsFd::as_fd(&program), &mut info) }?;
    maps.truncate(info.nr_map_ids as usize);
    let name = info.name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(ProgramState { name: String::from_utf8_lossy(name).into_owned(), maps })
}

/// The types of this id. Takes `CAP_SYS_ADMIN`.
pub fn btf_by_id(id: u32) -> io::Result<OwnedFd> {
    by_id(Command::BtfById, id)
}

/// Hands types to the kernel.
pub fn load_btf(btf: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        btf: u64,
        btf_log_buf: u64,
        btf_size: u32,
        btf_log_size: u32,
        btf_log_level: u32,
    }
    let (btf_size, btf) = (btf.len() as u32, btf.as_ptr() as u64);
    let mut attr = Attr { btf, btf_log_buf: 0, btf_size, btf_log_size: 0, btf_log_level: 0 };
    // SAFETY: there are as many bytes as it says, and the kernel only reads them.
    unsafe { open(Command::BtfLoad, &mut attr) }
}

/// The bytes of types.
pub fn btf_bytes(btf: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    /// The kernel takes no more (`BTF_MAX_SIZE` in kernel/bpf/btf.c).
    const MAX_SIZE: u32 = 16 << 20;
    /// `struct bpf_btf_info` up to the size.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        btf: u64,
        btf_size: u32,
        id: u32,
    }
    let mut info = Info::default();
    // SAFETY: the pointer is null, and its length 0.
    unsafe { self::info(btf, &mut info) }?;
    let mut bytes = vec![0; info.btf_size.min(MAX_SIZE) as usize];
    let mut info =
        Info { btf: bytes.as_mut_ptr() as u64, btf_size: bytes.len() as u32, ..Info::default() };
    // SAFETY: there is room for as many bytes as it says.
    unsafe { self::info(btf, &mut info) }?;
    Ok(bytes)
}
