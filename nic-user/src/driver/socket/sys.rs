//! AF_XDP's system calls (net/xdp/xsk.c).

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr::{self, NonNull},
};

use crate::driver::{
    ring::Parts,
    sync::{AtomicU32, UnsafeCell},
    umem::Memory,
};

/// Most frames that one system call sends (Linux 6.17; 32 before).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// One of a socket's rings.
#[derive(Clone, Copy)]
pub enum RingKind {
    Rx,
    Tx,
    Fill,
    Completion,
}

impl RingKind {
    /// The option that makes it.
    const fn option(self) -> libc::c_int {
        match self {
            Self::Rx => libc::XDP_RX_RING,
            Self::Tx => libc::XDP_TX_RING,
            Self::Fill => libc::XDP_UMEM_FILL_RING,
            Self::Completion => libc::XDP_UMEM_COMPLETION_RING,
        }
    }

    /// Where in the socket it is mapped from.
    const fn page_offset(self) -> libc::off_t {
        match self {
            Self::Rx => libc::XDP_PGOFF_RX_RING,
            Self::Tx => libc::XDP_PGOFF_TX_RING,
            Self::Fill => libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            Self::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
        }
    }

    const fn offsets(self, all: &libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset {
        match self {
            Self::Rx => &all.rx,
            Self::Tx => &all.tx,
            Self::Fill => &all.fr,
            Self::Completion => &all.cr,
        }
    }
}

/// A ring in our address space.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; what points into it goes before it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A ring's parts, valid as long as its mapping.
pub struct MappedRing<T> {
    pub parts: Parts<T>,
    pub flags: NonNull<AtomicU32>,
    pub mapping: Mapping,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket in the network namespace of the calling thread.
pub fn socket() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) reads no memory of ours.
    let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `fd` was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let value = ptr::from_ref(value).cast();
    // SAFETY: the kernel reads one `T`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size_of::<T>() as u32)
    };
    check(result).map(drop)
}

/// An option's value; what the kernel does not write stays zero.
///
/// # Safety
///
/// Any bytes, and all zeroes, are a valid `T`.
unsafe fn get_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the caller says that zeroes are a valid `T`.
    let mut value: T = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most one `T`, which outlives the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len)
    };
    check(result).map(|_| value)
}

/// Gives the first `len` bytes of `memory` to the kernel, in chunks.
pub fn register_memory(
    socket: BorrowedFd<'_>,
    memory: &Memory,
    len: usize,
    chunk_size: u32,
    headroom: u32,
    tx_metadata_len: u32,
) -> io::Result<()> {
    let flags = if tx_metadata_len > 0 { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 };
    let registration = libc::xdp_umem_reg {
        addr: memory.address() as u64,
        len: len.min(memory.len()) as u64,
        chunk_size,
        headroom,
        flags,
        tx_metadata_len,
    };
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// Makes a ring of `size` slots, a power of two.
pub fn make_ring(socket: BorrowedFd<'_>, kind: RingKind, size: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, kind.option(), &size)
}

/// Maps a ring of `size` slots that was made before.
pub fn map_ring<T>(socket: BorrowedFd<'_>, kind: RingKind, size: u32) -> io::Result<MappedRing<T>> {
    // SAFETY: it is plain numbers.
    let all: libc::xdp_mmap_offsets =
        unsafe { get_option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)? };
    let offsets = kind.offsets(&all);
    let len = offsets.desc as usize + size as usize * size_of::<T>();
    let mapping = map(socket, len, kind.page_offset())?;
    let at = |offset: u64| {
        // SAFETY: the kernel's offsets lie inside the ring.
        unsafe { mapping.start.add(offset as usize) }
    };
    let parts = Parts {
        producer: at(offsets.producer).cast(),
        consumer: at(offsets.consumer).cast(),
        slots: at(offsets.desc).cast::<UnsafeCell<T>>(),
        size,
    };
    Ok(MappedRing { parts, flags: at(offsets.flags).cast(), mapping })
}

fn map(socket: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<Mapping> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), len, access, flags, socket.as_raw_fd(), offset) };
    match NonNull::new(start.cast::<u8>()) {
        Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { start, len }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Binds to a queue; `shared` is a bound socket whose memory is to be used.
pub fn bind(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    queue: u32,
    flags: u16,
    shared: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared.map_or(0, |shared| shared.as_raw_fd() as u32),
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` outlives the call, and its true size is given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// Whether the kernel and the NIC share the memory without copies.
pub fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: it is plain numbers.
    let options: libc::xdp_options =
        unsafe { get_option(socket, libc::SOL_XDP, libc::XDP_OPTIONS)? };
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// What the kernel counted.
pub fn statistics(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    // SAFETY: it is plain numbers.
    unsafe { get_option(socket, libc::SOL_XDP, libc::XDP_STATISTICS) }
}

/// The error that the socket is in, which is then forgotten.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it is a number.
    match unsafe { get_option::<i32>(socket, libc::SOL_SOCKET, libc::SO_ERROR)? } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Lets the user's system calls do the NIC's work, for `microseconds` and `budget` packets at most.
pub fn set_busy_poll(socket: BorrowedFd<'_>, microseconds: u32, budget: u32) -> io::Result<()> {
    let set = |option, value: u32| set_option(socket, libc::SOL_SOCKET, option, &value);
    set(libc::SO_PREFER_BUSY_POLL, 1)?;
    set(libc::SO_BUSY_POLL, microseconds)?;
    set(libc::SO_BUSY_POLL_BUDGET, budget)
}

/// Lets one call send up to `frames`.
pub fn set_send_budget(socket: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames)
}

/// Has the kernel look at the TX ring.
#[inline]
pub fn wake_tx(socket: BorrowedFd<'_>) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: there is no buffer and no address.
    let sent = unsafe { libc::sendto(fd, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel look at the fill ring.
#[inline]
pub fn wake_rx(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: there is no buffer and no address.
    let received =
        unsafe { libc::recvfrom(fd, ptr::null_mut(), 0, flags, ptr::null_mut(), ptr::null_mut()) };
    if received < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
