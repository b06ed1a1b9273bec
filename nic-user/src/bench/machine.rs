//! The machine that a benchmark runs on, and whether it is fit for it.

use std::{fs, path::Path, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    cpu::{self, CpuTimes},
    stop::Stop,
};
use crate::error::Result;

/// Share of all processors that may be busy before a benchmark begins.
const BUSY: f64 = 0.05;
/// Share of all processors that the hypervisor may give to others.
const STOLEN: f64 = 0.02;
/// How long to look whether the machine is busy.
const LOOK: Duration = Duration::from_millis(300);

/// A machine and its kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Release and version of the kernel.
    pub kernel: String,
    /// Architecture.
    pub architecture: String,
    /// Model of the processors.
    pub cpu: String,
    /// How many processors nicctl may use.
    pub cpus: u32,
    /// Memory, in bytes.
    pub memory: u64,
    /// Whether it is a virtual machine.
    pub virtual_machine: bool,
    /// Whether devices go through an IOMMU.
    pub iommu: bool,
    /// The governor of the clock, if there is one.
    pub governor: Option<String>,
}

impl Machine {
    /// This machine.
    pub fn current() -> Result<Self> {
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        Ok(Self {
            kernel: format!("{} {}", read(OSRELEASE).trim(), read(VERSION).trim()),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu: field("model name").unwrap_or("unknown").to_owned(),
            cpus: u32::try_from(cpu::allowed()?.len()).unwrap_or(u32::MAX),
            memory: memory(&read("/proc/meminfo")).unwrap_or_default(),
            virtual_machine: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            iommu: has_entries("/sys/class/iommu"),
            governor: fs::read_to_string(GOVERNOR).ok().map(|text| text.trim().to_owned()),
        })
    }

    /// What makes figures from here differ from those of a discussion, whatever was measured.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.cpus < 4 {
            caveats.push(format!(
                "{} CPUs: sender and receiver share caches and memory, and the kernel has no CPU \
                 to itself",
                self.cpus
            ));
        }
        if self.virtual_machine {
            caveats.push("a virtual machine: its speed depends on the load of its host".to_owned());
        }
        if !self.iommu {
            caveats.push("no IOMMU: mapping a page for a device costs nothing".to_owned());
        }
        caveats
    }
}

const OSRELEASE: &str = "/proc/sys/kernel/osrelease";
const VERSION: &str = "/proc/sys/kernel/version";
const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn has_entries(directory: &str) -> bool {
    fs::read_dir(Path::new(directory)).is_ok_and(|mut entries| entries.next().is_some())
}

/// Looks for a moment at what else runs here; the warning, if it is too much.
pub fn busy(stop: &Stop) -> Result<Option<String>> {
    let before = CpuTimes::read()?.all();
    stop.wait(LOOK)?;
    let busy = (CpuTimes::read()?.all() - before).busy / capacity(LOOK.as_secs_f64());
    Ok((busy > BUSY).then(|| {
        format!(
            "the machine is busy: other programs used {:.0}% of it before the first round",
            busy * 100.0
        )
    }))
}

/// The warning, if the hypervisor took too much in the `seconds` since `before`.
pub fn stolen(before: &CpuTimes, seconds: f64) -> Result<Option<String>> {
    let stolen = (CpuTimes::read()?.all() - before.all()).stolen / capacity(seconds);
    Ok((stolen > STOLEN).then(|| {
        format!("the hypervisor took {:.0}% of the CPU time during the run", stolen * 100.0)
    }))
}

/// CPU seconds that all processors have in that time.
fn capacity(seconds: f64) -> f64 {
    let cpus = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpus = cpus.lines().filter(|line| line.starts_with("cpu")).count();
    seconds * cpus.saturating_sub(1).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:    2048 kB\n"), None.or(Some(2 << 20)));
        assert_eq!(memory("MemTotal: much\n"), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_processors() {
        let machine = Machine::current().unwrap();
        assert!(machine.kernel.contains('.') && machine.cpus > 0 && machine.memory > 0);
    }
}
