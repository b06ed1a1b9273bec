//! The C program.

use std::{
    error::Error,
    io::Write,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nic_user::lab::sockets::ToSockets;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::stage::{MILLISECONDS, PROGRAM_CPU, Stage};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Exit status of the program if the kernel has not yet given the queue free.
const QUEUE_IN_USE: i32 = 3;

pub struct Peer {
    program: PathBuf,
}

impl Peer {
    pub fn build() -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/xsk.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xsk");
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-Wall", "-o"]).arg(&program).arg(source).args(["-lxdp", "-lbpf"]);
        if compile.status()?.success() {
            return Ok(Self { program });
        }
        Err("the C program does not compile; `cargo xtask setup --bench` installs libxdp".into())
    }

    /// Packets per second.
    pub fn run(&self, stage: &Stage) -> Result<f64> {
        let sockets = ToSockets::attach(stage.host())?;
        let output = stage.with_traffic(|| self.output(stage, &sockets))?;
        let text = String::from_utf8(output)?;
        let (packets, seconds) =
            text.trim().split_once(' ').ok_or("no figures of the C program")?;
        Ok(packets.parse::<f64>()? / seconds.parse::<f64>()?)
    }

    fn output(&self, stage: &Stage, sockets: &ToSockets) -> Result<Vec<u8>> {
        // The program inherits the map.
        fcntl(sockets, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mut command = Command::new(&self.program);
        command.arg(stage.job.name());
        let numbers = [
            stage.host().ifindex().to_string(),
            sockets.as_fd().as_raw_fd().to_string(),
            PROGRAM_CPU.to_string(),
            stage.frame.len().to_string(),
            MILLISECONDS.to_string(),
        ];
        command.args(numbers).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = stage.host().run(|| command.spawn())??;
        // Not every job reads it.
        let _ = child.stdin.take().ok_or("no standard input")?.write_all(&stage.frame);
        let output = child.wait_with_output()?;
        match output.status.code() {
            Some(0) => Ok(output.stdout),
            Some(QUEUE_IN_USE) => self.output(stage, sockets),
            _ => Err("the C program failed".into()),
        }
    }
}
