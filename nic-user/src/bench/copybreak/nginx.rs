//! nginx with one page, in a host of a lab.

use std::{
    convert::Infallible,
    env,
    fs::{self, File},
    io,
    net::{SocketAddr, TcpStream},
    os::unix::process::{CommandExt, parent_id},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{prctl::set_pdeathsig, signal::Signal},
    unistd::Pid,
};

use crate::{
    bench::cpu::{self, ThreadClock},
    error::{Error, Result},
    lab::Host,
    nic::namespace::NetNs,
};

/// Where the page is found.
pub const PATH: &str = "/page";
const PORT: u16 = 80;
/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
const CONFIGURATION: &str = "nginx.conf";
const LOG: &str = "error.log";
const PAGES: &str = "pages";

/// Where nginx lies in `PATH`, or where administrators' programs usually lie.
///
/// # Errors
///
/// Nowhere.
pub fn find() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(Into::into));
    let mut files = places.map(|directory| directory.join("nginx"));
    files.find(|file| file.is_file()).ok_or_else(|| {
        Error::failed("nginx is not installed").with_fix("install it (Debian: nginx-light)")
    })
}

/// A running nginx; gone when this is dropped, and when this process is.
pub struct Nginx {
    address: SocketAddr,
    clock: ThreadClock,
    /// It goes when this is dropped.
    wanted: Option<mpsc::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Nginx {
    /// Starts it at a host, on one processor, with a page of so many bytes, and waits until it
    /// serves.
    ///
    /// # Errors
    ///
    /// It does not, in its own words.
    pub fn start(program: &Path, host: &Host, cpu: usize, page: usize) -> Result<Self> {
        let address = SocketAddr::from((host.ipv4(), PORT));
        let place = Place {
            program: program.to_owned(),
            netns: NetNs::named(host.netns_name())?,
            address,
            cpu,
            page,
        };
        let (started, starting) = mpsc::channel();
        let (wanted, until) = mpsc::channel();
        // The kernel ends nginx when the thread ends that started it.
        let thread = thread::spawn(move || match place.start() {
            Ok(running) => {
                let _ = started.send(Ok(running.clock()));
                // Nobody sends anything: it ends when nginx is no longer wanted.
                let _ = until.recv();
            }
            Err(error) => drop(started.send(Err(error))),
        });
        let clock = starting.recv().unwrap_or_else(|_| Err(Error::failed("a thread failed")));
        let clock = clock.map_err(|error| error.while_doing("start nginx"))?;
        Ok(Self { address, clock, wanted: Some(wanted), thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its CPU time.
    pub const fn clock(&self) -> ThreadClock {
        self.clock
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended nginx, too.
            let _ = thread.join();
        }
    }
}

/// Where nginx is to run, and with what.
struct Place {
    program: PathBuf,
    netns: NetNs,
    address: SocketAddr,
    cpu: usize,
    page: usize,
}

impl Place {
    /// On a thread of its own, which ends where nginx is.
    fn start(&self) -> Result<Running> {
        let prepare = || -> io::Result<PathBuf> {
            cpu::pin(self.cpu)?;
            let directory = private_directory()?;
            self.write_files(&directory)?;
            Ok(directory)
        };
        let directory = prepare().map_err(|error| Error::io("make a directory", &error))?;
        self.netns.enter()?;
        let build = Build::of(&self.program)?;
        fs::write(directory.join(CONFIGURATION), self.configuration(&build))
            .map_err(|error| Error::io("write its configuration", &error))?;
        let fail = |error| Error::io(self.program.display(), &error);
        let log = directory.join(LOG);
        let mut running = Running(self.spawn(&build, &directory, &log).map_err(fail)?);
        running.wait_until_serving(self.address, &log)?;
        Ok(running)
    }

    fn write_files(&self, directory: &Path) -> io::Result<()> {
        let pages = directory.join(PAGES);
        fs::create_dir(&pages)?;
        fs::write(pages.join(PATH.trim_start_matches('/')), vec![b'x'; self.page])
    }

    /// As distributions ship it, but for what would write somewhere else, or to a log.
    fn configuration(&self, build: &Build) -> String {
        let temporary: String = build
            .temporary_directories()
            .map(|directory| format!("{directory}_temp_path {directory};\n"))
            .collect();
        let address = self.address;
        format!(
            "daemon off;
master_process off;
user root root;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
access_log off;
sendfile on;
tcp_nopush on;
tcp_nodelay on;
keepalive_timeout 1h;
keepalive_requests 2000000000;
{temporary}server {{ listen {address}; root {PAGES}; }}
}}
"
        )
    }

    fn spawn(&self, build: &Build, directory: &Path, log: &Path) -> io::Result<Child> {
        let log = File::create(log)?;
        let mut command = Command::new(&self.program);
        command.arg("-p").arg(directory).arg("-c").arg(directory.join(CONFIGURATION));
        if build.takes_error_log() {
            command.args(["-e", "stderr"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // What interrupts this process is its to judge.
        command.process_group(0);
        let parent = process::id();
        let end_with_parent = move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // It may have gone before that.
            if parent_id() == parent { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        };
        // SAFETY: what runs between fork and exec are two system calls; it allocates nothing.
        unsafe { command.pre_exec(end_with_parent) };
        command.spawn()
    }
}

/// An empty directory that only the calling thread and what it starts can see, and that is gone
/// with them, however they end.
fn private_directory() -> io::Result<PathBuf> {
    let directory = env::temp_dir();
    unshare(CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    mount(Some("tmpfs"), &directory, Some("tmpfs"), MsFlags::empty(), Some("mode=0700"))?;
    Ok(directory)
}

/// What nginx says of itself.
struct Build(String);

impl Build {
    fn of(program: &Path) -> Result<Self> {
        let output = Command::new(program).arg("-hV").stdin(Stdio::null()).output();
        let output = output.map_err(|error| Error::io(program.display(), &error))?;
        Ok(Self(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Whether it can be kept from opening the log that it was built for (since 1.19.5).
    fn takes_error_log(&self) -> bool {
        self.0.contains("-e filename")
    }

    /// What modules make directories for when it starts: the configuration may name only those that
    /// it has.
    fn temporary_directories(&self) -> impl Iterator<Item = &'static str> {
        let modules = ["proxy", "fastcgi", "uwsgi", "scgi"].into_iter();
        let has = |module: &&str| !self.0.contains(&format!("--without-http_{module}_module"));
        ["client_body"].into_iter().chain(modules.filter(has))
    }
}

/// The process; ended when this is dropped.
struct Running(Child);

impl Running {
    fn clock(&self) -> ThreadClock {
        ThreadClock::of_process(Pid::from_raw(self.0.id().cast_signed()))
    }

    fn wait_until_serving(&mut self, address: SocketAddr, log: &Path) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect_timeout(&address, PATIENCE).is_err() {
            let ended = self.0.try_wait().map_err(|error| Error::io("wait for it", &error))?;
            let why = match ended {
                Some(status) => format!("it ended with {status}"),
                None if Instant::now() > deadline => "it does not serve".to_owned(),
                None => {
                    thread::yield_now();
                    continue;
                }
            };
            let said = fs::read_to_string(log).unwrap_or_default();
            let said = said.trim().replace('\n', "; ");
            return Err(Error::failed(format!("{why}: {said}")));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_says_what_it_has() {
        let old = Build("configure arguments: --without-http_uwsgi_module".to_owned());
        let names: Vec<_> = old.temporary_directories().collect();
        assert_eq!(names, ["client_body", "proxy", "fastcgi", "scgi"]);
        assert!(!old.takes_error_log());
        let new = Build("  -e filename       : set error log file (default: stderr)".to_owned());
        assert!(new.takes_error_log() && new.temporary_directories().count() == 5);
    }
}
