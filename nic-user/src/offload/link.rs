//! Links that are what their pins say: of their kind, on their interface, with our program. What is
//! not is somebody else's, and neither replaced nor detached.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use super::{
    bpffs, pinned,
    slot::{self, Slot},
    sys::{self, LinkState, Object},
};
use crate::command_line::CommandLine;
use crate::error::{Error, Result};

/// What a link has to be, by the name of its pin.
#[derive(Debug)]
struct Expected {
    pin: &'static str,
    /// `enum bpf_link_type` (linux/bpf.h)
    link_type: u32,
    /// `enum bpf_attach_type`; 0 where the kernel does not say.
    attach_type: u32,
    /// What the names of its programs begin with.
    program: &'static str,
    /// The counters that its program counts in.
    counters: &'static str,
}

const XDP: u32 = 6;
const TCX: u32 = 11;

static EXPECTED: [Expected; 3] = [
    Expected {
        pin: slot::XDP_LINK,
        link_type: XDP,
        attach_type: 0,
        program: "nic_rx",
        counters: slot::RX,
    },
    Expected {
        pin: slot::INGRESS_LINK,
        link_type: TCX,
        attach_type: 46,
        program: "nic_ingress",
        counters: slot::INGRESS,
    },
    Expected {
        pin: slot::EGRESS_LINK,
        link_type: TCX,
        attach_type: 47,
        program: "nic_egress",
        counters: slot::TX,
    },
];

/// A link of ours. Made only by looking.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    path: PathBuf,
    state: LinkState,
}

impl Link {
    /// The link of this name in a slot; `None` if there is none.
    ///
    /// # Errors
    ///
    /// What is pinned there is not nicctl's link on the slot's interface.
    pub fn open(slot: &Slot, name: &str) -> Result<Option<Self>> {
        Self::open_if(slot, name, |program, expected| check_program(slot, program, expected))
    }

    /// The same, once its program was looked at, also where the maps that this one counts in have
    /// been made anew since. Only under the lock.
    pub fn open_again(slot: &Slot, name: &str) -> Result<Option<Self>> {
        Self::open_if(slot, name, |_, _| Ok(()))
    }

    fn open_if(
        slot: &Slot,
        name: &str,
        check: impl FnOnce(u32, &Expected) -> Result<()>,
    ) -> Result<Option<Self>> {
        let path = slot.pin(name);
        let fd = match sys::open_pin(&path) {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(bpffs::error(format!("open {}", path.display()), &error));
            }
        };
        match look(fd.as_fd(), name, slot.ifindex, check) {
            Ok(state) => Ok(Some(Self { fd, path, state })),
            Err(error) => Err(foreign(&path, &error)),
        }
    }

    /// Where it is attached.
    pub const fn state(&self) -> LinkState {
        self.state
    }

    /// Whether it is attached: its interface is there, and nobody has detached it.
    pub const fn is_attached(&self) -> bool {
        self.state.ifindex != 0
    }

    /// Puts another program into it.
    pub fn replace(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        sys::update_link(self.fd.as_fd(), program)
    }

    /// Detaches it at once and removes its pin.
    pub fn detach(self) -> Result<()> {
        let gone =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOLINK));
        let detached = match sys::detach_link(self.fd.as_fd()) {
            Err(error) if !gone(&error) => Err(error),
            _ => fs::remove_file(&self.path),
        };
        match detached {
            Err(error) if !gone(&error) => {
                Err(bpffs::error(format!("detach {}", self.path.display()), &error))
            }
            _ => Ok(()),
        }
    }
}

/// Looks at all links of a slot before one of them is touched.
pub fn check_all(slot: &Slot) -> Result<()> {
    slot::LINKS.iter().try_for_each(|name| Link::open(slot, name).map(drop))
}

fn foreign(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{} is not nicctl's: {error}", path.display())).with_fix(
        format!(
            "it is left alone: move it away and try again: {}",
            CommandLine::other(&["mv"]).on(path.display()).on(beside(path)).quoted()
        ),
    )
}

/// The root of the bpffs that a pin lies in: it is two directories down.
fn beside(path: &Path) -> String {
    let root = path.ancestors().nth(3).unwrap_or(path);
    format!("{}/", root.display())
}

fn look(
    link: BorrowedFd<'_>,
    name: &str,
    ifindex: Option<u32>,
    check: impl FnOnce(u32, &Expected) -> Result<()>,
) -> Result<LinkState> {
    match Object::of(link).map_err(|error| Error::io("look at it", &error))? {
        Object::Link => {}
        other => return Err(Error::failed(format!("it is {}, not a link", other.name()))),
    }
    let state = sys::link_state(link).map_err(|error| Error::io("look at it", &error))?;
    let Some(expected) = EXPECTED.iter().find(|expected| expected.pin == name) else {
        return Err(Error::failed("no link has this name"));
    };
    let kind = (state.link_type, state.attach_type);
    let attach_type = if state.link_type == TCX { expected.attach_type } else { state.attach_type };
    if kind != (expected.link_type, attach_type) {
        return Err(Error::failed(format!("it is a link of type {} and hook {}", kind.0, kind.1)));
    }
    // Whose interface is gone is attached to nothing.
    if state.ifindex != 0 {
        if ifindex.is_some_and(|ifindex| state.ifindex != ifindex) {
            return Err(Error::failed(format!("it is attached to interface {}", state.ifindex)));
        }
        check(state.prog_id, expected)?;
    }
    Ok(state)
}

/// Our program counts in maps of this slot: that tells it from everybody else's, also from that of
/// nicctl on an interface with the same index in another network namespace.
fn check_program(slot: &Slot, id: u32, expected: &Expected) -> Result<()> {
    let program = match sys::program_state(id) {
        Ok(program) => program,
        // Only who has CAP_SYS_ADMIN may look at programs; ENOENT: it was just replaced.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOENT)) => {
            return Ok(());
        }
        Err(error) => return Err(Error::io(format!("look at program {id}"), &error)),
    };
    if !program.name.starts_with(expected.program) {
        let name = &program.name;
        return Err(Error::failed(format!("its program {id} is `{name}`")));
    }
    // What counts is looked at first: the others are there where that was removed.
    for pin in [expected.counters, slot::POLICY, slot::LOG, slot::SOCKETS, slot::STEER] {
        for pin in [pin, &pinned::before(pin)] {
            if pinned::map_id(slot, pin)?.is_some_and(|map| program.maps.contains(&map)) {
                return Ok(());
            }
        }
    }
    // Where its counters were removed or replaced, there is nothing to tell it by but its name.
    let counters = pinned::open_map_if_there(slot, expected.counters);
    if counters.ok().flatten().is_some_and(|map| map.has_types()) {
        let name = &program.name;
        return Err(Error::failed(format!(
            "its program {id}, `{name}`, counts for another interface"
        )));
    }
    Ok(())
}
