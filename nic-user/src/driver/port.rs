//! A port: rings of some queues of an interface.

use std::{
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
    time::Duration,
};

use nic_common::steer::Rules;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use smallvec::SmallVec;

use super::{
    buffers::Buffers,
    queue::{Queue, Statistics},
    receive::Building,
    socket::{CHECK_INTERVAL, Interface, Options},
};
use crate::{
    error::{Error, Result},
    offload::Rings,
};

/// How to open a port.
#[derive(Clone, Debug)]
pub struct Config {
    /// The queues whose rings to open.
    pub queues: Vec<u32>,
    /// How packets are built.
    pub building: Building,
    /// How the rings are.
    pub options: Options,
}

/// The rings of some queues of an interface. Closing it is dropping it: the queues' packets go on
/// to the kernel then, and every frame that was in a ring comes back.
#[derive(Debug)]
pub struct Port {
    queues: Vec<Queue>,
    // After the queues, whose sockets are closed then.
    rings: Option<Rings>,
    buffers: Rc<Buffers>,
}

impl Port {
    /// Opens the rings. Frames that `rules` take go to them, at each of the queues; all others are
    /// the kernel's, and all of them once the port is closed, however that comes about.
    ///
    /// It takes programs that are attached to the interface. If there are none they are attached,
    /// and detached when the last port of the interface is closed.
    pub fn steered(
        interface: &Interface<'_>,
        config: &Config,
        rules: &Rules,
        buffers: &Rc<Buffers>,
    ) -> Result<Self> {
        let open = || Rings::open(interface.name);
        let mut rings = match interface.netns {
            Some(netns) => netns.run(open)??,
            None => open()?,
        };
        let port = Self::open(interface, config, buffers, |queue, socket| {
            rings.register(queue, socket, rules)
        })?;
        Ok(Self { rings: Some(rings), ..port })
    }

    /// Opens the rings; `register` gets every socket, to put it where the XDP program of the
    /// interface finds it: into an XSKMAP, at the number of the queue.
    pub fn open(
        interface: &Interface<'_>,
        config: &Config,
        buffers: &Rc<Buffers>,
        mut register: impl FnMut(u32, BorrowedFd<'_>) -> Result<()>,
    ) -> Result<Self> {
        let queues = config.queues.iter().map(|&number| {
            let queue = Queue::open(interface, number, config.options, config.building, buffers)?;
            register(number, queue.as_fd())?;
            Ok(queue)
        });
        let queues = queues.collect::<Result<_>>()?;
        Ok(Self { queues, rings: None, buffers: Rc::clone(buffers) })
    }

    /// Its queues.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Its queues, to receive from and to send through.
    pub fn queues_mut(&mut self) -> &mut [Queue] {
        &mut self.queues
    }

    /// Whether the programs that steer to it are still attached, as far as it opened them.
    pub fn is_steered(&self) -> bool {
        self.rings.as_ref().is_none_or(Rings::are_attached)
    }

    /// Its memory.
    pub const fn buffers(&self) -> &Rc<Buffers> {
        &self.buffers
    }

    /// Waits until something has arrived at any queue, or for `timeout`; whether something has.
    /// Fails if the interface is gone.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        wait(&[self], timeout)
    }

    /// What happened at each queue.
    pub fn statistics(&self) -> Result<Vec<Statistics>> {
        self.queues.iter().map(Queue::statistics).collect()
    }
}

/// Waits until something has arrived at any of these ports, or for `timeout`; whether something
/// has. Fails if an interface is gone.
pub fn wait(ports: &[&Port], timeout: Duration) -> Result<bool> {
    let mut left = timeout;
    loop {
        let queues = || ports.iter().flat_map(|port| &port.queues);
        queues().try_for_each(Queue::check)?;
        let now = left.min(CHECK_INTERVAL);
        if poll_in(queues().map(AsFd::as_fd), now)? {
            return Ok(true);
        }
        left -= now;
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Whether there is anything to read from any of `fds` within `timeout`.
fn poll_in<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>, timeout: Duration) -> Result<bool> {
    let mut fds: SmallVec<[_; 8]> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(Error::io("wait for packets", &errno.into())),
    }
}
