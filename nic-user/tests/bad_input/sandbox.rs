//! A lab whose programs see a bpffs of their own, and are free to spoil it.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
};

use aya::programs::{ProgramInfo, SchedClassifier, TcAttachType};
use nic_user::{
    lab::{Host, Lab, Shape},
    netlink::link::XdpAttachment,
};

use crate::assert_done;

/// nicctl keeps its pins in the bpffs of the first process. So this is a mount namespace with a
/// PID namespace, whose first process waits until the sandbox is dropped. What nicctl remembers of
/// this machine's interfaces is hidden, too.
pub struct Sandbox {
    lab: Lab,
    first: Child,
    _alive: ChildStdin,
}

/// What bad input leaves alone: everything in bpffs, and the programs on the interface.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    pub pins: Vec<PathBuf>,
    pub xdp: Vec<XdpAttachment>,
    pub tcx: [Vec<u32>; 2],
}

/// The binary is bound to where every user may run it.
const SCRIPT: &str = "
    while umount /sys/fs/bpf; do :; done 2>/dev/null
    mkdir -p /var/lib/nicctl && mount -t tmpfs -o mode=0700 tmpfs /var/lib/nicctl &&
    mount -t tmpfs tmpfs /mnt && touch /mnt/nicctl && mount --bind \"$0\" /mnt/nicctl &&
    echo ready && exec cat";

/// sysfs of the network namespace, as `ip netns exec` mounts it, and a bpffs.
const MOUNTS: &str = "mount -t sysfs sysfs /sys && mount -t bpf -o mode=0700 bpf /sys/fs/bpf";

impl Sandbox {
    pub fn new() -> Self {
        let lab = Lab::new(Shape { queues: 2, mtu: 1500 }).unwrap();
        let mut first = Command::new("unshare")
            .args(["--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_nicctl")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        first.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let alive = first.stdin.take().unwrap();
        let sandbox = Self { lab, first, _alive: alive };
        sandbox.shell(MOUNTS);
        sandbox
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// A program inside, in the first host of the lab.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let pid = self.first.id();
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{pid}/ns/mnt"))
            .arg(format!("--pid=/proc/{pid}/ns/pid_for_children"))
            .arg(format!("--net=/run/netns/{}", self.lab.a().netns_name()))
            .arg(program)
            .args(args);
        command
    }

    pub fn nicctl(&self, args: &[&str]) -> Output {
        self.command("/mnt/nicctl", args).output().unwrap()
    }

    /// nicctl with the privileges that these arguments of setpriv(1) leave.
    pub fn nicctl_with(&self, privileges: &[&str], args: &[&str]) -> Output {
        let args = [privileges, &["/mnt/nicctl"], args].concat();
        self.command("setpriv", &args).output().unwrap()
    }

    /// Runs a script that goes well.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        assert_done(&self.command("sh", &["-ec", script]).output().unwrap())
    }

    #[track_caller]
    pub fn attach(&self) {
        assert_done(&self.nicctl(&["attach", "nic-a", "--mode", "native"]));
    }

    /// The bpffs inside, seen from outside.
    pub fn bpffs(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/sys/fs/bpf", self.first.id()))
    }

    /// Where nicctl's journals are inside, seen from outside.
    pub fn journals(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/var/lib/nicctl", self.first.id()))
    }

    /// The directory of the only attachment.
    pub fn slot(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.bpffs().join("nicctl")).unwrap();
        let slot = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        slot
    }

    /// Everything in bpffs.
    pub fn pins(&self) -> Vec<PathBuf> {
        let mut pins = Vec::new();
        collect(&self.bpffs(), &mut pins);
        pins
    }

    pub fn state(&self) -> State {
        let (xdp, tcx) = programs(self.lab.a());
        State { pins: self.pins(), xdp, tcx }
    }

    /// Runs nicctl, which refuses, and changes nothing.
    #[track_caller]
    pub fn assert_refuses(&self, args: &[&str], code: i32, message: &str) {
        let before = self.state();
        crate::assert_refused(&self.nicctl(args), code, message);
        assert_eq!(self.state(), before);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Nothing to be done if it is gone already.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// The XDP and TCX programs on a host's interface.
pub fn programs(host: &Host) -> (Vec<XdpAttachment>, [Vec<u32>; 2]) {
    let link = host.link().unwrap();
    let ids = |hook| {
        let (_, programs) = SchedClassifier::query_tcx(&link.name, hook).unwrap();
        programs.iter().map(ProgramInfo::id).collect()
    };
    let tcx = host.run(|| [TcAttachType::Ingress, TcAttachType::Egress].map(ids)).unwrap();
    (link.xdp, tcx)
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        paths.push(entry.path());
        collect(&entry.path(), paths);
    }
    paths.sort();
}

/// A process inside that holds nicctl's lock until this is dropped.
pub struct Locked {
    child: Child,
}

impl Locked {
    pub fn new(sandbox: &Sandbox) -> Self {
        let mut child = sandbox
            .command("flock", &["/sys/fs/bpf", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It answers once it has the lock.
        child.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self { child }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
