//! Runs a program system call by system call, on all of its threads, and lets one of them fail, or
//! the program die there.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        memfd::{MFdFlags, memfd_create},
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// How long a program may take; nicctl waits up to ten seconds for another one.
const PATIENCE: Duration = Duration::from_secs(40);

/// A breakpoint on x86_64, and on nothing else that nicctl runs on.
const BREAKPOINT: i64 = 0xcc;

/// What is done to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// It fails with this error number, and does nothing.
    Fail(i32),
    /// So it does, and so does every later one of its kind.
    FailFromNowOn(i32),
    /// The program is killed (`SIGKILL`) when the call has done its work.
    Kill,
}

/// How a program ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Its exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// The numbers (`SYS_*`) of the calls that count, in the order in which they began; none after
    /// the only one that failed.
    pub calls: Vec<i64>,
    /// Its standard output and error.
    pub stdout: String,
    pub stderr: String,
    /// Whether it took so long that it had to be killed.
    pub hung: bool,
}

/// Runs `command`. `at` is the number of one of the calls that
/// count, and what is done to it.
///
/// Those count that the program itself makes, from its entry point on: the dynamic loader's before
/// it do not. Nor do those that cannot fail, and whose failure no program could bear: the end of a
/// thread, the return from a signal, and `futex`, by which threads wake each other.
pub fn run(command: &mut Command, at: Option<(usize, Interference)>) -> Ended {
    let [mut stdout, mut stderr] = [c"stdout", c"stderr"]
        .map(|name| File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC).unwrap()));
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    // SAFETY: ptrace(2) is a system call that needs nothing but the child itself.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(io::Error::from)) };
    let pid = Pid::from_raw(command.spawn().unwrap().id() as i32);
    let watchdog = Watchdog::over(pid);
    // It stops when it begins to run the program.
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))));
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(pid, options).unwrap();
    go_to_entry(pid);
    let mut ended =
        Run { pid, at, inside: BTreeMap::new(), calls: Vec::new(), is_over: false }.until_it_ends();
    ended.hung = watchdog.has_bitten();
    for (file, text) in [(&mut stdout, &mut ended.stdout), (&mut stderr, &mut ended.stderr)] {
        file.rewind().unwrap();
        file.read_to_string(text).unwrap();
    }
    ended
}

/// Lets the dynamic loader do its work: stops at the program's own first instruction.
fn go_to_entry(pid: Pid) {
    let entry = entry(pid) as ptrace::AddressType;
    let instructions = ptrace::read(pid, entry).unwrap();
    ptrace::write(pid, entry, instructions & !0xff | BREAKPOINT).unwrap();
    ptrace::cont(pid, None).unwrap();
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(_, Signal::SIGTRAP))));
    ptrace::write(pid, entry, instructions).unwrap();
    change(pid, |registers| registers.rip -= 1);
}

/// Where the program begins, as the kernel told it (`AT_ENTRY`).
fn entry(pid: Pid) -> u64 {
    let vector = fs::read(format!("/proc/{pid}/auxv")).unwrap();
    let words: Vec<u64> =
        vector.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    let is_entry = |pair: &&[u64]| pair[0] == libc::AT_ENTRY;
    words.chunks_exact(2).find(is_entry).unwrap()[1]
}

/// Whether a failure of this call means something; see [`run`].
const fn counts(call: i64) -> bool {
    !matches!(
        call,
        libc::SYS_exit | libc::SYS_exit_group | libc::SYS_rt_sigreturn | libc::SYS_futex
    )
}

struct Run {
    pid: Pid,
    at: Option<(usize, Interference)>,
    /// The threads that are inside of a call, and what is done to it.
    inside: BTreeMap<i32, Option<Interference>>,
    calls: Vec<i64>,
    /// Nothing is to be done any more: calls stop no longer, which takes half the time.
    is_over: bool,
}

impl Run {
    fn until_it_ends(mut self) -> Ended {
        self.go_on(self.pid, None);
        loop {
            // Only children of this thread: other tests have theirs.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            match waitpid(Pid::from_raw(-1), Some(flags)).unwrap() {
                WaitStatus::PtraceSyscall(thread) => {
                    if self.at_call(thread) == Some(Interference::Kill) {
                        // It ends as others do, without having gone on.
                        let _ = kill(self.pid, Signal::SIGKILL);
                    } else {
                        self.go_on(thread, None);
                    }
                }
                WaitStatus::Exited(pid, code) if pid == self.pid => return self.ended(Some(code)),
                WaitStatus::Signaled(pid, ..) if pid == self.pid => return self.ended(None),
                // A new thread begins with a stop.
                WaitStatus::Stopped(thread, Signal::SIGSTOP) => self.go_on(thread, None),
                WaitStatus::Stopped(thread, signal) => self.go_on(thread, Some(signal)),
                WaitStatus::PtraceEvent(thread, ..) => self.go_on(thread, None),
                _ => {}
            }
        }
    }

    /// Goes on until the next call begins or ends. A thread that is being killed cannot be told to.
    fn go_on(&self, thread: Pid, signal: Option<Signal>) {
        let gone_on = if self.is_over {
            ptrace::cont(thread, signal)
        } else {
            ptrace::syscall(thread, signal)
        };
        match gone_on {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn ended(self, code: Option<i32>) -> Ended {
        Ended { code, calls: self.calls, ..Ended::default() }
    }

    /// A thread begins or ends a call; what was done to the one that ends.
    fn at_call(&mut self, thread: Pid) -> Option<Interference> {
        let Some(interference) = self.inside.remove(&thread.as_raw()) else {
            let interference = self.entered(thread);
            self.inside.insert(thread.as_raw(), interference);
            return None;
        };
        if let Some(Interference::Fail(errno) | Interference::FailFromNowOn(errno)) = interference {
            change(thread, |registers| registers.rax = -i64::from(errno) as u64);
        }
        self.is_over |= matches!(interference, Some(Interference::Fail(_)));
        interference
    }

    /// Looks at a call that begins; what is to be done to it.
    fn entered(&mut self, thread: Pid) -> Option<Interference> {
        let call = ptrace::getregs(thread).ok()?.orig_rax as i64;
        if !counts(call) {
            return None;
        }
        self.calls.push(call);
        let (number, interference) = self.at?;
        let is_meant = match interference {
            Interference::FailFromNowOn(_) => self.calls.get(number) == Some(&call),
            _ => number + 1 == self.calls.len(),
        };
        if is_meant && interference != Interference::Kill {
            change(thread, |registers| registers.orig_rax = u64::MAX);
        }
        is_meant.then_some(interference)
    }
}

fn change(thread: Pid, change: impl FnOnce(&mut libc::user_regs_struct)) {
    let Ok(mut registers) = ptrace::getregs(thread) else { return };
    change(&mut registers);
    let _ = ptrace::setregs(thread, registers);
}

/// Kills a program that takes too long.
struct Watchdog {
    done: mpsc::Sender<()>,
    watching: thread::JoinHandle<bool>,
}

impl Watchdog {
    fn over(pid: Pid) -> Self {
        let (done, is_done) = mpsc::channel();
        let watching = thread::spawn(move || {
            let late = is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            late && kill(pid, Signal::SIGKILL).is_ok()
        });
        Self { done, watching }
    }

    fn has_bitten(self) -> bool {
        drop(self.done);
        self.watching.join().unwrap()
    }
}
