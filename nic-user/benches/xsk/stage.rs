//! The lab that the programs run in: what they receive, and who takes what they send.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use nic_user::{
    error::Result,
    lab::{
        Host, Lab, Shape,
        bpf::{Hook, Link, Program, TC_ACT_SHOT},
        frames::Ends,
        generator::Generator,
        interruption::Interruption,
        traffic::IpVersion::V4,
    },
};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

use super::Job;

/// Where the generator and the kernel's receiving run.
pub const KERNEL_CPU: usize = 0;
/// Where the program runs.
pub const PROGRAM_CPU: usize = 1;

/// How long one measurement takes.
pub const MILLISECONDS: u32 = 700;

pub struct Stage {
    pub job: Job,
    /// What is received or sent.
    pub frame: Vec<u8>,
    generator: Generator,
    /// Drops what the program sends.
    _drop: Link,
    lab: Lab,
}

impl Stage {
    pub fn new(job: Job, len: usize) -> Result<Self> {
        let lab = Lab::new(Shape { queues: 1, mtu: 1500 })?;
        let ends = Ends::between(lab.a(), lab.b());
        let mut frame = ends.ethernet(ends.ipv4(ends.udp(V4, &vec![0xa5; len - 42])));
        frame.truncate(len);
        // Before XDP, veth would copy every packet, on the program's processor.
        let drop = Program::returning(Hook::TcIngress, TC_ACT_SHOT)?;
        let drop = drop.attach(lab.a(), lab.a().ifindex())?;
        let generator = Generator::new(lab.a(), frame.clone())?;
        Ok(Self { job, frame, generator, _drop: drop, lab })
    }

    /// Where the program runs.
    pub const fn host(&self) -> &Host {
        self.lab.b()
    }

    /// Runs `program` while frames arrive without a pause, if its job is to receive: in a pause it
    /// would be the waiting that is measured.
    pub fn with_traffic<T>(&self, program: impl FnOnce() -> T) -> T {
        if self.job == Job::TxOnly {
            return program();
        }
        let (is_over, interruption) = (AtomicBool::new(false), Interruption::default());
        thread::scope(|scope| {
            let generate = || self.generate(&interruption, || is_over.load(Relaxed));
            let generator = scope.spawn(generate);
            let result = program();
            is_over.store(true, Relaxed);
            interruption.until(|| generator.is_finished());
            result
        })
    }

    fn generate(&self, interruption: &Interruption, is_over: impl Fn() -> bool + Send) {
        pin(KERNEL_CPU);
        let send = || {
            interruption.aim_here();
            self.generator.send_until(is_over).expect("live frames");
        };
        self.lab.a().run(send).expect("a thread in the lab");
    }
}

/// Keeps this thread, and those that it starts, on one processor; on a machine with less, on what
/// there is.
pub fn pin(cpu: usize) {
    let mut cpus = CpuSet::new();
    let _ = cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
}
