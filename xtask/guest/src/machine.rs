//! What an init program has to do: file systems, kernel modules, output, and power off.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsRawFd,
    path::Path,
};

use anyhow::{Context, Result};
use nix::{
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
    unistd::dup2_stdout,
};

/// Mount point, type, options.
const FILE_SYSTEMS: [(&str, &str, Option<&str>); 7] = [
    ("/dev", "devtmpfs", None),
    ("/proc", "proc", None),
    ("/sys", "sysfs", None),
    ("/sys/kernel/tracing", "tracefs", None),
    // As systemd does: what is attached can be seen from the first test on, whichever that is.
    ("/sys/fs/bpf", "bpf", Some("mode=0700")),
    ("/run", "tmpfs", None),
    ("/tmp", "tmpfs", None),
];

/// Where the modules lie, named in the order in which they are to be loaded.
const MODULES: &str = "/modules";

/// The port that goes to whoever started the guest; the kernel's console is another one.
const OUTPUT: &str = "/dev/ttyS1";

/// Makes a machine of a kernel with this program in it.
pub fn set_up() -> Result<()> {
    for (point, kind, options) in FILE_SYSTEMS {
        fs::create_dir_all(point)?;
        mount(Some(kind), point, Some(kind), MsFlags::empty(), options)
            .with_context(|| format!("mount {point}"))?;
    }
    let port = OpenOptions::new().write(true).open(OUTPUT).context(OUTPUT)?;
    dup2_stdout(&port)?;
    load_modules()
}

fn load_modules() -> Result<()> {
    let mut modules: Vec<_> =
        fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    modules.sort();
    modules.iter().try_for_each(|module| {
        load_module(module).with_context(|| format!("load {}", module.display()))
    })
}

fn load_module(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: finit_module(2) reads the file and the empty C string.
    let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends the guest, after what it printed has left the port.
pub fn power_off() -> ! {
    // SAFETY: tcdrain(3) takes no memory.
    unsafe { libc::tcdrain(libc::STDOUT_FILENO) };
    let _ = reboot(RebootMode::RB_POWER_OFF);
    // The kernel panics when its first process ends, and the machine stops on that.
    std::process::exit(1);
}
