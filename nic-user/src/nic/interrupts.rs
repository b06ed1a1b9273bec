//! The interrupts of a device, and the CPUs and NUMA nodes that serve them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::sysfs::{self, if_there};
use crate::netlink::netdev::queue::{Direction, QueueId};

const PROC_IRQ: &str = "/proc/irq";

/// One interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number, as in /proc/interrupts.
    pub number: u32,
    /// What the driver calls it; empty while the device is down.
    pub name: String,
    /// CPUs that may serve it, as a list (`smp_affinity_list`).
    pub affinity: String,
    /// CPUs that do (`effective_affinity_list`); empty if the architecture does not tell.
    pub effective: String,
    /// Whether the kernel lets anyone change it.
    pub writable: bool,
}

impl Interrupt {
    /// `None` if there is no interrupt of this number.
    fn read(number: u32) -> io::Result<Option<Self>> {
        let directory = directory(number);
        let text = |file| if_there(fs::read_to_string(directory.join(file)));
        let Some(affinity) = text("smp_affinity_list")? else { return Ok(None) };
        Ok(Some(Self {
            number,
            name: action(&directory)?,
            affinity: affinity.trim_end().to_owned(),
            effective: text("effective_affinity_list")?.unwrap_or_default().trim_end().to_owned(),
            writable: sysfs::is_writable(&affinity_file(number))?,
        }))
    }

    /// CPUs that serve it, as far as the kernel tells.
    pub fn cpus(&self) -> &str {
        if self.effective.is_empty() { &self.affinity } else { &self.effective }
    }

    /// Whether the driver's name for it says that it serves this queue of `interface`.
    pub fn serves(&self, interface: &str, queue: QueueId) -> bool {
        let name = self.name.replace(interface, "").to_lowercase();
        let words: &[&str] = match queue.direction {
            Direction::Rx => &["rx", "input", "comp"],
            Direction::Tx => &["tx", "output", "comp"],
        };
        trailing_number(&name) == Some(queue.number) && words.iter().any(|word| name.contains(word))
    }
}

/// The number at the end of an interrupt's name, before a PCI address: 3 of `mlx5_comp3@pci:...`.
fn trailing_number(name: &str) -> Option<u32> {
    let name = name.split('@').next()?;
    let digits = name.rsplit(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The interrupts of a device, besides those that the kernel told of its NAPIs.
///
/// `devices` are those that the interface sits on, nearest first.
pub fn read(
    devices: &[PathBuf],
    of_napis: impl IntoIterator<Item = u32>,
) -> io::Result<Vec<Interrupt>> {
    let mut numbers: BTreeSet<u32> = of_napis.into_iter().collect();
    for device in devices {
        numbers.extend(numbers_of(device)?);
        // Other devices pass on what happens to their own parts only.
        if !is_part(device)? {
            break;
        }
    }
    numbers.into_iter().filter_map(|number| Interrupt::read(number).transpose()).collect()
}

/// The NUMA node of a device; `None` if it has none.
pub fn node(devices: &[PathBuf]) -> io::Result<Option<u32>> {
    for device in devices {
        let node = if_there(fs::read_to_string(device.join("numa_node")))?;
        // -1 where it has none.
        if let Some(node) = node.and_then(|node| node.trim_end().parse().ok()) {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

/// Where the CPUs of an interrupt are written to.
pub fn affinity_file(number: u32) -> PathBuf {
    directory(number).join("smp_affinity_list")
}

/// The process id of irqbalance, which moves interrupts to other CPUs, if it runs here.
///
/// It is known by its socket: `irqbalance1234.sock`.
pub fn irqbalance() -> io::Result<Option<u32>> {
    let pid = |name: &str| name.strip_prefix("irqbalance")?.strip_suffix(".sock")?.parse().ok();
    for pid in sysfs::names(Path::new("/run/irqbalance"))?.iter().filter_map(|name| pid(name)) {
        // A socket outlives its process.
        let comm = if_there(fs::read_to_string(format!("/proc/{pid}/comm")))?;
        if comm.is_some_and(|comm| comm.trim_end() == "irqbalance") {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// The CPUs of each NUMA node; empty without NUMA.
pub fn nodes() -> io::Result<Vec<(u32, BTreeSet<u32>)>> {
    let directory = Path::new("/sys/devices/system/node");
    let number = |name: &str| name.strip_prefix("node")?.parse().ok();
    let mut nodes = Vec::new();
    for name in sysfs::names(directory)? {
        if let Some(number) = number(&name) {
            let list = fs::read_to_string(directory.join(&name).join("cpulist"))?;
            nodes.push((number, cpus(list.trim_end())));
        }
    }
    Ok(nodes)
}

/// The CPUs in a list such as `0-3,8`.
pub fn cpus(list: &str) -> BTreeSet<u32> {
    /// More CPUs than any machine has; this only bounds an allocation.
    const MAX_CPUS: u32 = 1 << 16;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        Some(first..=last.min(MAX_CPUS))
    };
    list.split(',').filter_map(range).flatten().collect()
}

fn directory(number: u32) -> PathBuf {
    Path::new(PROC_IRQ).join(number.to_string())
}

/// What the driver calls an interrupt: the name of the only directory in its own.
fn action(directory: &Path) -> io::Result<String> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            return Ok(entry.file_name().into_string().unwrap_or_default());
        }
    }
    Ok(String::new())
}

fn numbers_of(device: &Path) -> io::Result<Vec<u32>> {
    let msi: Vec<u32> = sysfs::names(&device.join("msi_irqs"))?
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    if !msi.is_empty() {
        return Ok(msi);
    }
    let legacy = if_there(fs::read_to_string(device.join("irq")))?.unwrap_or_default();
    Ok(legacy.trim_end().parse().ok().filter(|&number| number != 0).into_iter().collect())
}

/// Whether a device is one function of the device above it, which has the interrupts.
fn is_part(device: &Path) -> io::Result<bool> {
    let subsystem = if_there(fs::read_link(device.join("subsystem")))?;
    let name = subsystem.as_deref().and_then(Path::file_name);
    Ok(name.is_some_and(|name| name == "virtio" || name == "auxiliary"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn named(name: &str) -> Interrupt {
        Interrupt { name: name.to_owned(), ..Interrupt::default() }
    }

    #[test]
    fn drivers_name_their_interrupts_after_queues() {
        let serves = |name: &str, number| {
            [Direction::Rx, Direction::Tx]
                .map(|direction| named(name).serves("eth0", QueueId { direction, number }))
        };
        assert_eq!(serves("eth0-TxRx-3", 3), [true, true]);
        assert_eq!(serves("i40e-eth0-TxRx-3", 0), [false, false]);
        assert_eq!(serves("virtio2-input.0", 0), [true, false]);
        assert_eq!(serves("virtio2-output.1", 1), [false, true]);
        assert_eq!(serves("mlx5_comp7@pci:0000:03:00.0", 7), [true, true]);
        assert_eq!(serves("eth0-Tx-Rx-12", 12), [true, true]);
        assert_eq!(serves("eth0", 0), [false, false]);
        assert_eq!(serves("virtio2-config", 0), [false, false]);
        // The interface's own name says nothing.
        let first = QueueId { direction: Direction::Rx, number: 1 };
        assert!(!named("rx0-event-1").serves("rx0", first));
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0-2,8"), BTreeSet::from([0, 1, 2, 8]));
        assert_eq!(cpus(""), BTreeSet::new());
        assert_eq!(cpus("x,3-1,-"), BTreeSet::new());
        assert!(cpus("0-4294967295").len() < 100_000);
    }

    #[test]
    fn a_virtio_devices_interrupts_are_those_of_the_function_below() {
        let root = tempfile::tempdir().unwrap();
        let function = root.path().join("0000:00:03.0");
        let virtio = function.join("virtio2");
        fs::create_dir_all(function.join("msi_irqs/38")).unwrap();
        fs::create_dir_all(&virtio).unwrap();
        symlink("/sys/bus/virtio", virtio.join("subsystem")).unwrap();
        symlink("/sys/bus/pci", function.join("subsystem")).unwrap();
        fs::write(function.join("numa_node"), "1\n").unwrap();
        assert!(is_part(&virtio).unwrap() && !is_part(&function).unwrap());
        assert_eq!(numbers_of(&virtio).unwrap(), Vec::<u32>::new());
        assert_eq!(numbers_of(&function).unwrap(), [38]);
        assert_eq!(node(&[virtio, function.clone()]).unwrap(), Some(1));
        fs::write(function.join("numa_node"), "-1\n").unwrap();
        assert_eq!(node(&[function]).unwrap(), None);
    }

    #[test]
    fn a_device_without_message_interrupts_has_its_line() {
        let device = tempfile::tempdir().unwrap();
        fs::write(device.path().join("irq"), "11\n").unwrap();
        assert_eq!(numbers_of(device.path()).unwrap(), [11]);
        fs::write(device.path().join("irq"), "0\n").unwrap();
        assert_eq!(numbers_of(device.path()).unwrap(), Vec::<u32>::new());
    }

    #[test]
    fn every_cpu_is_on_one_node() {
        let nodes = nodes().unwrap();
        let all: BTreeSet<u32> = nodes.iter().flat_map(|(_, cpus)| cpus.clone()).collect();
        assert_eq!(all.len(), nodes.iter().map(|(_, cpus)| cpus.len()).sum::<usize>());
    }
}
