//! Runs a program system call by system call, and lets one of them fail, or the program die there.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::{
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// What is done to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// It fails with this error number, and does nothing.
    Fail(i32),
    /// The program is killed (`SIGKILL`) when the call has done its work.
    Kill,
}

/// From where on calls count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// All of them.
    Start,
    /// Those behind the first `fsync`: for `nicctl set`, when the journal is on disk.
    Journal,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// How many calls there were that count.
    pub calls: usize,
}

/// Runs `command` silently. Calls that count are those that speak to the kernel about interfaces:
/// messages of netlink, ioctls, and writes to files other than standard ones; and those that write
/// and rename the journal. `at` is the number of one of them, and what is done to it.
#[expect(clippy::zombie_processes, reason = "waitpid(2) reaps it")]
pub fn run(command: &mut Command, from: From, at: Option<(usize, Interference)>) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: ptrace(2) is a system call that needs nothing but the child itself.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(io::Error::from)) };
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    // It stops when it begins to run the program.
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))));
    ptrace::setoptions(pid, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL).unwrap();
    Run { pid, counts: from == From::Start, calls: 0, at }.until_it_ends()
}

struct Run {
    pid: Pid,
    /// Whether calls count already.
    counts: bool,
    calls: usize,
    at: Option<(usize, Interference)>,
}

impl Run {
    fn until_it_ends(mut self) -> Ended {
        loop {
            if let Some(code) = self.next_stop() {
                return Ended { code, calls: self.calls };
            }
            let interference = self.entered();
            if matches!(interference, Some(Interference::Fail(_))) {
                self.change(|registers| registers.orig_rax = u64::MAX);
            }
            if let Some(code) = self.next_stop() {
                return Ended { code, calls: self.calls };
            }
            match interference {
                Some(Interference::Kill) => return self.killed(),
                Some(Interference::Fail(errno)) => {
                    self.change(|registers| registers.rax = -i64::from(errno) as u64);
                }
                None => {}
            }
        }
    }

    /// Goes on to where a call begins or ends; or the program does, with this exit code.
    fn next_stop(&self) -> Option<Option<i32>> {
        let mut signal = None;
        loop {
            ptrace::syscall(self.pid, signal).unwrap();
            match waitpid(self.pid, None).unwrap() {
                WaitStatus::PtraceSyscall(_) => return None,
                WaitStatus::Exited(_, code) => return Some(Some(code)),
                WaitStatus::Signaled(..) => return Some(None),
                WaitStatus::Stopped(_, other) => signal = Some(other),
                _ => signal = None,
            }
        }
    }

    /// Looks at a call that begins; what is to be done to it.
    fn entered(&mut self) -> Option<Interference> {
        let registers = ptrace::getregs(self.pid).unwrap();
        let call = registers.orig_rax as i64;
        if !self.counts {
            self.counts = call == libc::SYS_fsync;
            return None;
        }
        let counts = match call {
            libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_ioctl
            | libc::SYS_rename
            | libc::SYS_renameat2
            | libc::SYS_fsync => true,
            libc::SYS_write => registers.rdi > libc::STDERR_FILENO as u64,
            _ => false,
        };
        if !counts {
            return None;
        }
        self.calls += 1;
        let (number, interference) = self.at?;
        (number + 1 == self.calls).then_some(interference)
    }

    fn change(&self, change: impl FnOnce(&mut libc::user_regs_struct)) {
        let mut registers = ptrace::getregs(self.pid).unwrap();
        change(&mut registers);
        ptrace::setregs(self.pid, registers).unwrap();
    }

    fn killed(self) -> Ended {
        kill(self.pid, Signal::SIGKILL).unwrap();
        while !matches!(waitpid(self.pid, None).unwrap(), WaitStatus::Signaled(..)) {}
        Ended { code: None, calls: self.calls }
    }
}
