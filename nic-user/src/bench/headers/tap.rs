//! A network card made of a tap device: whoever holds it hands over frames as a driver does, and
//! says how many of their bytes go into the linear part.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, IoSlice, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::Pid,
};

use crate::{
    bench::cpu::{self, ThreadClock},
    error::{Error, Result},
    lab::Host,
    nic::sysfs::{self, Sysfs},
};

/// `struct virtio_net_hdr` (linux/virtio_net.h), in front of every frame.
pub const VNET_HEADER_LEN: usize = 10;
const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;

/// The Ethernet address behind the card.
pub const REMOTE_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 2];

/// The header of a frame to be received: so many bytes go into the linear part, and nobody looks
/// at the checksum of the TCP header `tcp_at` bytes into it.
pub fn vnet_header(linear: u16, tcp_at: u16) -> [u8; VNET_HEADER_LEN] {
    const CHECKSUM_AT: u16 = 16;
    let mut header = [0; VNET_HEADER_LEN];
    header[0] = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    header[2..4].copy_from_slice(&linear.to_ne_bytes());
    header[6..8].copy_from_slice(&tcp_at.to_ne_bytes());
    header[8..10].copy_from_slice(&CHECKSUM_AT.to_ne_bytes());
    header
}

/// The card, with a kernel thread that polls it; gone when dropped.
pub struct Tap {
    file: File,
    /// Its index.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    poller: Pid,
}

impl Tap {
    /// The card's addresses.
    pub const LOCAL: (Ipv4Addr, Ipv6Addr) =
        (Ipv4Addr::new(203, 0, 113, 1), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
    /// The addresses behind it.
    pub const REMOTE: (Ipv4Addr, Ipv6Addr) =
        (Ipv4Addr::new(203, 0, 113, 2), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2));

    /// Makes one in a host, polled on one processor.
    pub fn new(host: &Host, mtu: u32, cpu: usize) -> Result<Self> {
        let fail = |error: io::Error| Error::io("make a tap device", &error);
        let name = unique_name();
        let file = host.run(|| create(&name))?.map_err(fail)?;
        let link = host.links(|links| {
            let link = links.by_name(&name)?;
            links.set_mtu(link.ifindex, mtu)?;
            links.set_no_link_local(link.ifindex)?;
            links.set_up(link.ifindex, true)?;
            for (local, remote, prefix_len) in [
                (IpAddr::V4(Self::LOCAL.0), IpAddr::V4(Self::REMOTE.0), 24),
                (IpAddr::V6(Self::LOCAL.1), IpAddr::V6(Self::REMOTE.1), 64),
            ] {
                links.add_address(link.ifindex, local, prefix_len)?;
                links.add_neighbour(link.ifindex, remote, REMOTE_MAC)?;
            }
            Ok(link)
        })?;
        let threaded = || Sysfs::of(&link).and_then(|sysfs| sysfs.write("threaded", "1"));
        host.run(threaded)?.map_err(fail)?;
        let poller = poller(&name)?;
        // So that frames gather while their sender runs, as they do while a card waits with its
        // interrupt.
        cpu::pin_thread(poller, cpu).and_then(|()| cpu::make_batch(poller)).map_err(fail)?;
        Ok(Self { file, ifindex: link.ifindex, mac: link.mac.unwrap_or_default(), poller })
    }

    /// CPU time of the kernel thread that polls.
    pub fn poller_clock(&self) -> ThreadClock {
        ThreadClock::of_process(self.poller)
    }

    /// Hands over a frame: headers, [`VNET_HEADER_LEN`] included, and payload.
    pub fn send(&self, headers: &[u8], payload: &[u8]) -> io::Result<()> {
        let slices = [IoSlice::new(headers), IoSlice::new(payload)];
        // A frame goes as a whole or not at all.
        let _ = (&self.file).write_vectored(&slices)?;
        Ok(())
    }

    /// Takes a frame that the kernel sent, behind [`VNET_HEADER_LEN`] bytes; nothing if there is
    /// none.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match (&self.file).read(buffer) {
            Ok(len) => Ok(buffer.get(VNET_HEADER_LEN..len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until the kernel has sent something; false if it has not in that time.
    pub fn wait(&self, time: Duration) -> io::Result<bool> {
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        Ok(poll(&mut [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)], timeout)? > 0)
    }
}

fn create(name: &str) -> io::Result<File> {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: `ifreq` is plain data for which all zeroes are valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_NAPI | libc::IFF_VNET_HDR;
    ifreq.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: `ifreq` is what TUNSETIFF reads and writes, and outlives the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut ifreq) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// A name that no other tap device of this machine has: the kernel thread that polls is called by
/// it.
fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("nic-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The kernel thread that polls this interface (`napi_kthread_create`, net/core/dev.c). The driver
/// gives its NAPI no number, so that netlink does not tell.
fn poller(name: &str) -> Result<Pid> {
    let called = format!("napi/{name}-");
    let processes = sysfs::names(Path::new("/proc"));
    let processes = processes.map_err(|error| Error::io("list the processes", &error))?;
    let pid = processes.into_iter().find_map(|entry| {
        let pid = entry.parse().ok()?;
        let comm = fs::read_to_string(format!("/proc/{entry}/comm")).ok()?;
        comm.starts_with(&called).then_some(pid)
    });
    pid.map(Pid::from_raw).ok_or_else(|| {
        Error::failed(format!("find who polls {name}: no kernel thread is called {called}"))
    })
}
