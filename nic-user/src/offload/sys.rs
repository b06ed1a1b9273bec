//! The bpf(2) calls that aya does not offer.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use nic_common::counters::Counters;

const BPF_OBJ_GET: libc::c_int = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_LINK_DETACH: libc::c_int = 34;

/// Values of one batch: keeps memory small on machines with many queues and CPUs.
const BATCH: usize = 16;

/// Where a link is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Id of the link.
    pub id: u32,
    /// Id of the program that it runs now.
    pub prog_id: u32,
    /// Interface that it is attached to; 0 once the interface is gone or the link was detached.
    pub ifindex: u32,
}

/// bpf(2) with the part of `union bpf_attr` that `cmd` uses; the kernel takes the rest as zero.
fn bpf<T>(cmd: libc::c_int, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is an initialised `repr(C)` struct of this size, and every pointer in it
    // points to memory that outlives the call and is as large as the command says.
    let result = unsafe { libc::syscall(libc::SYS_bpf, cmd, &raw mut *attr, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens what is pinned at `path`.
pub fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        pathname: u64,
        bpf_fd: u32,
        file_flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = Attr { pathname: path.as_ptr() as u64, bpf_fd: 0, file_flags: 0 };
    let fd = bpf(BPF_OBJ_GET, &mut attr)?;
    // SAFETY: the kernel has just made this descriptor for us; it fits the type it came from.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Detaches a link at once, whoever else holds it (Linux 5.9).
pub fn detach_link(link: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        link_fd: u32,
    }
    bpf(BPF_LINK_DETACH, &mut Attr { link_fd: link.as_raw_fd() as u32 }).map(|_| ())
}

/// What a link of XDP or TCX is attached to.
pub fn link_state(link: BorrowedFd<'_>) -> io::Result<LinkState> {
    /// `struct bpf_link_info` up to what the members `xdp` and `tcx` of its union begin with.
    #[repr(C, align(8))]
    #[derive(Default)]
    struct Info {
        link_type: u32,
        id: u32,
        prog_id: u32,
        _hole: u32,
        ifindex: u32,
        _rest: [u32; 11],
    }
    #[repr(C)]
    struct Attr {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    }
    let mut info = Info::default();
    let mut attr = Attr {
        bpf_fd: link.as_raw_fd() as u32,
        info_len: size_of::<Info>() as u32,
        info: &raw mut info as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(LinkState { id: info.id, prog_id: info.prog_id, ifindex: info.ifindex })
}

/// The first `entries` values of a per-CPU array, each summed over `cpus`, in few calls.
pub fn read_per_cpu<C: Counters + aya::Pod>(
    map: BorrowedFd<'_>,
    entries: usize,
    cpus: usize,
) -> io::Result<Vec<C>> {
    #[repr(C)]
    struct Attr {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: u32,
        map_fd: u32,
        elem_flags: u64,
        flags: u64,
    }
    const { assert!(size_of::<C>().is_multiple_of(8), "the kernel rounds values up to 8 bytes") };
    let mut sums = Vec::with_capacity(entries);
    let mut keys = [0_u32; BATCH];
    let mut values = vec![C::ZERO; BATCH.min(entries) * cpus];
    let mut position = 0_u32;
    while sums.len() < entries {
        let wanted = BATCH.min(entries - sums.len());
        let mut attr = Attr {
            in_batch: if sums.is_empty() { 0 } else { &raw const position as u64 },
            out_batch: &raw mut position as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: wanted as u32,
            map_fd: map.as_raw_fd() as u32,
            elem_flags: 0,
            flags: 0,
        };
        match bpf(BPF_MAP_LOOKUP_BATCH, &mut attr) {
            Ok(_) => {}
            // The last batch, whole or not.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) && attr.count > 0 => {}
            Err(error) => return Err(error),
        }
        let got = (attr.count as usize).min(wanted);
        if got == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        sums.extend(values.chunks_exact(cpus).take(got).map(|per_cpu| {
            let mut sum = C::ZERO;
            per_cpu.iter().for_each(|value| sum.add(value));
            sum
        }));
    }
    Ok(sums)
}
