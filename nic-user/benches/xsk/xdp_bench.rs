//! xdp-bench of xdp-tools.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nic_user::bench::cpu::ThreadClock;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Job,
    stage::{MILLISECONDS, PROGRAM_CPU, Stage, pin},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// From its program on the interface to the socket that this finds.
const WARM_UP: Duration = Duration::from_millis(100);

pub struct XdpBench {
    program: PathBuf,
}

impl XdpBench {
    /// The one at `program`; an error if it cannot do these jobs.
    pub fn new(program: &Path) -> Result<Self> {
        let help = Command::new(program).arg("help").output();
        let help = help.map_err(|error| format!("no {}: {error}", program.display()))?;
        let text = [help.stdout, help.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let has = |job: Job| job.of_xdp_bench().is_none_or(|name| text.contains(name));
        if Job::ALL.into_iter().all(has) {
            return Ok(Self { program: program.to_owned() });
        }
        Err("no xdp-bench with xsk-drop: xdp-tools 1.6.3 has it, 1.5.4 has not".into())
    }

    /// Packets per second of its processor time; `None` if it has no such job.
    pub fn run(&self, stage: &Stage) -> Result<Option<f64>> {
        let Some(job) = stage.job.of_xdp_bench() else { return Ok(None) };
        stage.with_traffic(|| {
            let running = self.start(stage, job)?;
            running.wait_until_attached(stage)?;
            thread::sleep(WARM_UP);
            let before = running.progress(stage)?;
            thread::sleep(Duration::from_millis(MILLISECONDS.into()));
            let after = running.progress(stage)?;
            Ok(Some((after.packets - before.packets) as f64 / (after.seconds - before.seconds)))
        })
    }

    fn start(&self, stage: &Stage, job: &str) -> Result<Running> {
        let mut command = Command::new(&self.program);
        command
            .args([job, "--copy-mode", "copy", "--quiet", stage.host().interface()])
            // Nothing but its own program runs, and nothing is left in bpffs.
            .env("LIBXDP_SKIP_DISPATCHER", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let spawn = || {
            pin(PROGRAM_CPU);
            command.spawn()
        };
        Ok(Running(stage.host().run(spawn)??))
    }
}

/// Detaches its program when it is interrupted.
struct Running(Child);

/// How far it came.
struct Progress {
    packets: u64,
    seconds: f64,
}

impl Running {
    fn wait_until_attached(&self, stage: &Stage) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while stage.host().link()?.xdp.is_empty() {
            if Instant::now() > deadline {
                return Err("xdp-bench does not start".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The packets are those that found room in its RX ring: it prints only whole seconds, of time
    /// that others may have had the processor in.
    fn progress(&self, stage: &Stage) -> Result<Progress> {
        let stats = stage.host().stats()?;
        let seconds = ThreadClock::of_process(self.pid()).read()?.as_secs_f64();
        Ok(Progress { packets: stats.rx_packets - stats.rx_dropped, seconds })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(self.pid(), Signal::SIGINT);
        let _ = self.0.wait();
    }
}
