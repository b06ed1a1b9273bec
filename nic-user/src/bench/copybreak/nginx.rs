//! nginx with one page, in a host of a lab.

use std::{
    cell::RefCell,
    convert::Infallible,
    env,
    fs::{self, File},
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::{CommandExt, parent_id},
    },
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal},
    unistd::Pid,
};

use crate::{
    bench::cpu::{self, ThreadClock},
    error::{Error, Result},
    lab::Host,
    nic::{detached, namespace::NetNs},
    report::cell::cell,
};

/// Where the page is found.
pub const PATH: &str = "/page";
const PORT: u16 = 80;
/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether it has.
const GLANCE: Duration = Duration::from_millis(1);
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
    process: Process,
    address: SocketAddr,
    /// The thread that started it ends with this.
    _wanted: mpsc::Sender<Infallible>,
}

impl Nginx {
    /// Starts it at a host, on one processor, with a page of so many bytes, and waits until it
    /// serves.
    ///
    /// # Errors
    ///
    /// It does not, in its own words.
    pub fn start(program: &Path, host: &Host, cpu: usize, page: usize) -> Result<Self> {
        let fail = |error: Error| error.while_doing("start nginx");
        let address = SocketAddr::from((host.ipv4(), PORT));
        let place = Place {
            program: program.to_owned(),
            netns: NetNs::named(host.netns_name())?,
            directory: Directory::new().map_err(fail)?,
            address,
            cpu,
            page,
        };
        let (started, starting) = mpsc::channel();
        let (wanted, until) = mpsc::channel();
        // The kernel ends nginx when the thread ends that started it.
        let thread = thread::Builder::new().spawn(move || {
            let _ = started.send(place.start());
            // Nobody sends anything: it ends when nginx is no longer wanted.
            let _ = until.recv();
        });
        thread.map_err(|error| fail(Error::io("begin a thread", &error)))?;
        let process = starting.recv().unwrap_or_else(|_| Err(Error::failed("a thread failed")));
        Ok(Self { process: process.map_err(fail)?, address, _wanted: wanted })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its CPU time.
    pub fn clock(&self) -> ThreadClock {
        self.process.clock()
    }

    /// `error`, or that nginx has ended if that is why.
    pub fn explain(&self, error: Error) -> Error {
        self.process.ended().map_or(error, |ended| ended.while_doing("nginx"))
    }
}

/// A directory that only this process and what it starts in it can see, and that is gone with them,
/// however they end.
struct Directory(OwnedFd);

impl Directory {
    fn new() -> Result<Self> {
        let mounted = detached::mount(c"tmpfs");
        mounted.map(Self).map_err(|error| Error::io("make a directory", &error))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// The first bytes of a file in it, as far as they are text.
    fn read(&self, name: &str) -> String {
        const ENOUGH: u64 = 16 << 10;
        let mut bytes = Vec::new();
        // What cannot be read says nothing.
        let _ = File::open(self.path().join(name))
            .and_then(|file| file.take(ENOUGH).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Where nginx is to run, and with what.
struct Place {
    program: PathBuf,
    netns: NetNs,
    directory: Directory,
    address: SocketAddr,
    cpu: usize,
    page: usize,
}

impl Place {
    /// On a thread of its own, which ends where nginx is.
    fn start(self) -> Result<Process> {
        self.netns.enter()?;
        cpu::pin(self.cpu).map_err(|error| Error::io("choose a processor", &error))?;
        let deadline = Instant::now() + PATIENCE;
        let build = self.build(deadline)?;
        self.write_files(&build).map_err(|error| Error::io("write its files", &error))?;
        let mut arguments = vec!["-p", "./", "-c", CONFIGURATION];
        if build.takes_error_log() {
            arguments.extend(["-e", "stderr"]);
        }
        let child = self.spawn(&arguments, LOG)?;
        let process = Process { child: Ended(child).into(), directory: self.directory };
        process.wait_until_serving(self.address, deadline)?;
        Ok(process)
    }

    /// Asks it what it has.
    fn build(&self, deadline: Instant) -> Result<Build> {
        const ANSWER: &str = "build";
        let mut child = Ended(self.spawn(&["-hV"], ANSWER)?);
        let ended = look_until(deadline, || child.0.try_wait().transpose());
        let ended = ended.ok_or_else(|| Error::failed("it does not say what it is (nginx -hV)"))?;
        ended.map_err(|error| Error::io("wait for it", &error))?;
        Ok(Build(self.directory.read(ANSWER)))
    }

    fn write_files(&self, build: &Build) -> io::Result<()> {
        let directory = self.directory.path();
        let pages = directory.join(PAGES);
        fs::create_dir(&pages)?;
        fs::write(pages.join(PATH.trim_start_matches('/')), vec![b'x'; self.page])?;
        fs::write(directory.join(CONFIGURATION), self.configuration(build))
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

    /// Starts it in the directory; what it says goes to a file there.
    fn spawn(&self, arguments: &[&str], log: &str) -> Result<Child> {
        let fail = |error| Error::io(self.program.display(), &error);
        let log = File::create(self.directory.path().join(log)).map_err(fail)?;
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.directory.path());
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
        command.spawn().map_err(fail)
    }
}

/// Looks again and again until there is something, or it has taken too long.
fn look_until<T>(deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let found = look();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        thread::sleep(GLANCE);
    }
}

/// What nginx says of itself.
struct Build(String);

impl Build {
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

/// A child that does not outlive this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// nginx, and what it says.
struct Process {
    child: RefCell<Ended>,
    directory: Directory,
}

impl Process {
    fn clock(&self) -> ThreadClock {
        ThreadClock::of_process(Pid::from_raw(self.child.borrow().0.id().cast_signed()))
    }

    fn wait_until_serving(&self, address: SocketAddr, deadline: Instant) -> Result<()> {
        let serves =
            look_until(deadline, || match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(_) => Some(Ok(())),
                Err(_) => self.ended().map(Err),
            });
        serves.unwrap_or_else(|| Err(self.error("it does not serve")))
    }

    /// How it has ended, if it has.
    fn ended(&self) -> Option<Error> {
        let status = self.child.borrow_mut().0.try_wait().ok()??;
        Some(self.error(&format!("it ended with {status}")))
    }

    fn error(&self, what: &str) -> Error {
        const SAID: usize = 300;
        let said = self.directory.read(LOG);
        let said: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        if said.is_empty() {
            return Error::failed(what);
        }
        Error::failed(format!("{what}: {}", cell(&said.join("; "), SAID)))
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
