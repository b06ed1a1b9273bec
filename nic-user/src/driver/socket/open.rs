//! Opening a socket: its memory, its rings, its queue.

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;

use super::{
    Loans, Mapped, Rings, Socket,
    sys::{self, RingKind},
};
use crate::{
    command_line::CommandLine,
    driver::{
        buffers::Buffers,
        ring::{Consumer, Producer},
    },
    error::{Error, Result},
    nic::namespace::NetNs,
};

/// Where to open a socket.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its index.
    pub ifindex: u32,
    /// Its network namespace, if that is not the thread's own.
    pub netns: Option<&'a NetNs>,
}

/// Which way to the memory is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Zero copy if the driver has it.
    #[default]
    Auto,
    /// The NIC itself reads and writes frames; an error if its driver cannot.
    ZeroCopy,
    /// The kernel copies.
    Copy,
}

/// How the kernel reaches the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The NIC itself reads and writes frames.
    ZeroCopy,
    /// The kernel copies, for this reason.
    Copy(String),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroCopy => f.write_str("zero copy"),
            Self::Copy(why) => write!(f, "copy ({why})"),
        }
    }
}

/// Busy polling: the user's system calls run the NIC's NAPI (Linux 5.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long one call polls at most, in microseconds.
    pub microseconds: u32,
    /// How many packets one call takes at most.
    pub budget: u32,
}

/// How to open the rings of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Slots of the RX ring, a power of two.
    pub rx_size: u32,
    /// Slots of the TX ring and of the completion ring, a power of two.
    pub tx_size: u32,
    /// Frames that wait in the fill ring. The fewer, the more of them stay in the processor's
    /// cache; the more, the longer the user may be away.
    pub fill: u32,
    /// Which way to the memory is wanted.
    pub mode: Mode,
    /// Whether packets may be longer than a frame (Linux 6.6).
    pub multi_buffer: bool,
    /// Busy polling, if wanted.
    pub busy_poll: Option<BusyPoll>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rx_size: 2048,
            tx_size: 2048,
            fill: 2048,
            mode: Mode::Auto,
            multi_buffer: false,
            busy_poll: None,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let sizes = [("RX", self.rx_size), ("TX", self.tx_size)];
        match sizes.into_iter().find(|(_, size)| !size.is_power_of_two()) {
            Some((ring, size)) => Err(Error::usage(format!(
                "the {ring} ring cannot have {size} slots: the size must be a power of two"
            ))),
            None if self.fill == 0 => Err(Error::usage("no frame would be left for the fill ring")),
            None => Ok(()),
        }
    }

    /// Slots of the fill ring.
    fn fill_size(&self) -> u32 {
        self.fill.checked_next_power_of_two().unwrap_or(1 << 31)
    }
}

/// What is being opened, for messages.
struct Opening<'a> {
    interface: &'a Interface<'a>,
    queue: u32,
}

/// Opens a socket and binds it.
pub(super) fn open(
    interface: &Interface<'_>,
    queue: u32,
    options: &Options,
    buffers: &Rc<Buffers>,
) -> Result<Socket> {
    options.check()?;
    let opening = Opening { interface, queue };
    let socket = opening.socket()?;
    let fd = socket.as_fd();
    let shared = buffers.socket();
    if shared.is_none() {
        opening.register(fd, buffers)?;
    }
    let rings = opening.rings(fd, options).map_err(|error| opening.failed(&error))?;
    let access = opening.bind(fd, options, shared.as_deref().map(AsFd::as_fd))?;
    // Older kernels do not know it, and send 32 frames a call.
    let _ = sys::set_send_budget(fd, options.tx_size);
    let fd = Rc::new(socket);
    buffers.add_socket(&fd);
    let loans = Loans::new(buffers)?;
    let fill_target = options.fill.min(buffers.frames().total());
    Ok(Socket { watch: None, rings, fd, loans, access, queue, filled: 0, fill_target })
}

impl Opening<'_> {
    fn socket(&self) -> Result<OwnedFd> {
        let socket = match self.interface.netns {
            Some(netns) => netns.run(sys::socket)?,
            None => sys::socket(),
        };
        socket.map_err(|error| match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => self
                .failed(&error)
                .with_fix("this kernel has no AF_XDP: it needs CONFIG_XDP_SOCKETS (Linux 4.18)"),
            Some(libc::EPERM) => self.failed(&error).with_fix("run it as root or with CAP_NET_RAW"),
            _ => self.failed(&error),
        })
    }

    fn register(&self, socket: BorrowedFd<'_>, buffers: &Buffers) -> Result<()> {
        let layout = buffers.layout();
        let metadata = layout.tx_headroom();
        let (len, memory) = (layout.len(), buffers.frames().memory());
        sys::register_memory(socket, memory, len, layout.frame_size, layout.headroom, metadata)
            .map_err(|error| {
                let failed = self.failed(&error);
                match error.raw_os_error() {
                    Some(libc::ENOBUFS) => failed.with_fix(format!(
                        "{} KiB of memory must be locked, more than the limit: raise it (ulimit \
                         -l, LimitMEMLOCK=), or use fewer frames",
                        len >> 10
                    )),
                    Some(libc::EINVAL) if layout.tx_metadata => {
                        failed.with_fix("TX metadata needs Linux 6.11")
                    }
                    _ => failed,
                }
            })
    }

    fn rings(&self, socket: BorrowedFd<'_>, options: &Options) -> io::Result<Rings> {
        let (rx, tx, fill) = (options.rx_size, options.tx_size, options.fill_size());
        let kinds = [RingKind::Fill, RingKind::Completion, RingKind::Rx, RingKind::Tx];
        for (kind, size) in kinds.into_iter().zip([fill, tx, rx, tx]) {
            sys::make_ring(socket, kind, size)?;
        }
        let rx = sys::map_ring(socket, RingKind::Rx, rx)?;
        let completion = sys::map_ring(socket, RingKind::Completion, tx)?;
        let tx = sys::map_ring(socket, RingKind::Tx, tx)?;
        let fill = sys::map_ring(socket, RingKind::Fill, fill)?;
        // SAFETY: the parts are those of rings that were just made for us, on our side of each, and
        // `Mapped` keeps them valid.
        unsafe {
            Ok(Rings {
                rx: Mapped::new(rx, |parts| Consumer::new(parts)),
                tx: Mapped::new(tx, |parts| Producer::new(parts)),
                fill: Mapped::new(fill, |parts| Producer::new(parts)),
                completion: Mapped::new(completion, |parts| Consumer::new(parts)),
            })
        }
    }

    fn bind(
        &self,
        socket: BorrowedFd<'_>,
        options: &Options,
        shared: Option<BorrowedFd<'_>>,
    ) -> Result<Access> {
        if let Some(busy) = options.busy_poll {
            sys::set_busy_poll(socket, busy.microseconds, busy.budget)
                .map_err(|error| self.failed(&error).while_doing("set up busy polling"))?;
        }
        match shared {
            Some(first) => self.bind_as(socket, first),
            None => self.bind_alone(socket, options),
        }
    }

    /// Binds the first socket of a memory.
    fn bind_alone(&self, socket: BorrowedFd<'_>, options: &Options) -> Result<Access> {
        let several_frames = if options.multi_buffer { libc::XDP_USE_SG } else { 0 };
        let bind = |mode| {
            let flags = mode | libc::XDP_USE_NEED_WAKEUP | several_frames;
            self.bind_to_queue(socket, flags, None)
        };
        let why = match options.mode {
            Mode::Copy => "asked for".to_owned(),
            Mode::Auto | Mode::ZeroCopy => match bind(libc::XDP_ZEROCOPY) {
                Ok(()) => return Ok(Access::ZeroCopy),
                // Who has the queue has it in either mode.
                Err(error) if options.mode == Mode::ZeroCopy || is_in_use(&error) => {
                    return Err(self.not_bound(&error));
                }
                Err(error) => no_zero_copy(&error),
            },
        };
        bind(libc::XDP_COPY).map_err(|error| self.not_bound(&error))?;
        Ok(Access::Copy(why))
    }

    /// Binds a further socket of a memory. All are as the first one was.
    fn bind_as(&self, socket: BorrowedFd<'_>, first: BorrowedFd<'_>) -> Result<Access> {
        self.bind_to_queue(socket, libc::XDP_SHARED_UMEM, Some(first))
            .map_err(|error| self.not_bound(&error))?;
        let zero_copy = sys::is_zero_copy(socket).map_err(|error| self.failed(&error))?;
        let copy = || Access::Copy("as the first socket of this memory".to_owned());
        Ok(if zero_copy { Access::ZeroCopy } else { copy() })
    }

    /// Tries again while the queue is in use: the kernel gives it free some time after the socket
    /// that had it was closed, in a work that waits for the RTNL (`xp_put_pool`,
    /// net/xdp/xsk_buff_pool.c).
    fn bind_to_queue(
        &self,
        socket: BorrowedFd<'_>,
        flags: u16,
        first: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(5);
        const PAUSE: Duration = Duration::from_millis(1);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match sys::bind(socket, self.interface.ifindex, self.queue, flags, first) {
                Err(error) if is_in_use(&error) && Instant::now() < deadline => {
                    thread::sleep(PAUSE)
                }
                bound => return bound,
            }
        }
    }

    fn not_bound(&self, error: &io::Error) -> Error {
        let (failed, name) = (self.failed(error), self.interface.name);
        match error.raw_os_error() {
            Some(libc::EBUSY) => {
                failed.with_fix("another program uses the rings of this queue: see `ss --xdp -ap`")
            }
            Some(libc::ENETDOWN) => {
                failed.with_fix(CommandLine::networking(&["ip", "link", "set", "dev", name, "up"]))
            }
            Some(libc::EOPNOTSUPP) => failed.with_fix("leave the choice of mode to the kernel"),
            Some(libc::EINVAL) => failed.with_fix(format!(
                "does {name} have that many queues? multi-buffer packets need Linux 6.6"
            )),
            _ => failed,
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        let Self { interface, queue } = self;
        let action = format!("open queue {queue} of {}", interface.name);
        match error.raw_os_error() {
            Some(libc::ENODEV) => {
                Error::not_found(format!("{action}: {error}")).with_fix("the interface is gone")
            }
            _ => Error::io(action, error),
        }
    }
}

fn is_in_use(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// Why there is no zero copy, in words.
fn no_zero_copy(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EOPNOTSUPP | Errno::EINVAL) => "its driver has no zero copy".to_owned(),
        _ => format!("no zero copy: {error}"),
    }
}
