//! The emulator, and the network cards that it has.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;

use super::{kernel::Kernel, netdevsim, packages};
use crate::{
    process::{command, find},
    setup,
};

const PROGRAM: &str = "qemu-system-x86_64";

/// No guest takes longer, seconds.
const TIME_LIMIT: &str = "600";

/// A kind of network card that guests are tested with: two of them, joined by a cable.
pub struct Nic {
    /// The name of its driver.
    pub driver: &'static str,
    /// What QEMU calls it; `None`: it is made in the guest.
    device: Option<&'static str>,
    /// Modules that it needs.
    pub modules: &'static [&'static str],
    /// Builds the one that the kernel comes without.
    pub build: Option<fn(&Kernel) -> Result<PathBuf>>,
    /// Whether the tests always include it.
    pub always: bool,
}

/// One that QEMU does not emulate, with a driver that the kernel has.
const MADE_BY_GUEST: Nic =
    Nic { driver: "", device: None, modules: &[], build: None, always: true };

const fn emulated(device: &'static str, modules: &'static [&'static str]) -> Nic {
    let Some(driver) = modules.last() else { panic!("a card has a driver") };
    Nic { driver, device: Some(device), modules, ..MADE_BY_GUEST }
}

/// All of them; the one that takes longest first.
pub const NICS: [Nic; 7] = [
    // On a bus that the guest's first process serves (USB/IP).
    Nic { driver: "r8152", modules: &["vhci_hcd", "r8152"], ..MADE_BY_GUEST },
    Nic { driver: "veth", ..MADE_BY_GUEST },
    emulated("virtio-net-pci", &["virtio_pci", "virtio_net"]),
    emulated("e1000e", &["e1000e"]),
    emulated("vmxnet3", &["vmxnet3"]),
    Nic {
        driver: "netdevsim",
        modules: &["netdevsim"],
        build: Some(netdevsim::get),
        ..MADE_BY_GUEST
    },
    Nic { always: false, ..emulated("igb", &["igb"]) },
];

/// The names of the drivers, for the command line.
pub fn driver_names() -> PossibleValuesParser {
    NICS.iter().map(|nic| nic.driver).collect::<Vec<_>>().into()
}

/// An emulator.
pub struct Qemu {
    program: PathBuf,
    /// Where its libraries and firmware are, if it is not installed.
    unpacked: Option<PathBuf>,
}

/// What a guest left behind.
pub struct Output {
    /// What its first process printed.
    pub printed: String,
    /// What its kernel said, and how the emulator ended.
    pub console: String,
}

impl Output {
    /// Whether the first process came to its end.
    pub fn is_complete(&self) -> bool {
        self.printed.contains("test result: ")
    }
}

/// An emulator that has this card: the system's, else a newer one out of the cache.
pub fn with(nic: &Nic) -> Result<Qemu> {
    let installed = installed()?;
    if installed.has(nic)? {
        return Ok(installed);
    }
    let newer = newer()?;
    if newer.has(nic)? {
        return Ok(newer);
    }
    bail!("this QEMU does not have it, and neither has the newer one")
}

fn installed() -> Result<Qemu> {
    if find(PROGRAM).is_none() {
        setup::install_packages(&["qemu-system-x86"])?;
    }
    let program = find(PROGRAM).with_context(|| format!("no {PROGRAM}"))?;
    Ok(Qemu { program, unpacked: None })
}

fn newer() -> Result<Qemu> {
    const SUITE: &str = "bookworm-backports";
    let of_suite = ["qemu-system-x86", "qemu-system-common", "qemu-system-data"];
    let directory = packages::cached("qemu", |directory| {
        let mut names = of_suite.map(|name| format!("{name}/{SUITE}")).to_vec();
        names.push("seabios".to_owned());
        packages::unpack(&names, directory)
    })?;
    Ok(Qemu { program: directory.join("usr/bin").join(PROGRAM), unpacked: Some(directory) })
}

impl Qemu {
    /// Whether it has the card; it succeeds at helping with what it does not know, too.
    fn has(&self, nic: &Nic) -> Result<bool> {
        let Some(device) = nic.device else { return Ok(true) };
        let mut help = self.command();
        let help = help.args(["-device", &format!("{device},help")]).stderr(Stdio::null());
        let help = help.output().with_context(|| format!("cannot run {PROGRAM}"))?;
        Ok(String::from_utf8_lossy(&help.stdout).starts_with(&format!("{device} options")))
    }

    fn command(&self) -> Command {
        let mut qemu = command(&self.program);
        if let Some(directory) = &self.unpacked {
            let libraries = directory.join("usr/lib/x86_64-linux-gnu");
            qemu.env("QEMU_MODULE_DIR", libraries.join("qemu")).env("LD_LIBRARY_PATH", libraries);
            for firmware in ["usr/share/qemu", "usr/share/seabios"] {
                qemu.arg("-L").arg(directory.join(firmware));
            }
        }
        qemu
    }

    /// Runs a guest to its end.
    pub fn boot(&self, kernel: &Kernel, nic: &Nic, initramfs: &[u8], test: &str) -> Result<Output> {
        let directory = tempfile::tempdir()?;
        let file = |name: &str| directory.path().join(name);
        fs::write(file("initramfs"), initramfs)?;
        let qemu = self.command();
        let mut guest = command("setpriv");
        // A guest does not outlive this program, however that ends.
        guest
            .args(["--pdeathsig", "TERM", "timeout", TIME_LIMIT])
            .arg(&self.program)
            .args(qemu.get_args());
        guest.envs(qemu.get_envs().filter_map(|(name, value)| Some((name, value?))));
        guest
            .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "768"])
            .args(["-machine", "q35", "-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-serial"])
            .arg(format!("file:{}", file("console").display()))
            .arg("-serial")
            .arg(format!("file:{}", file("printed").display()))
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(file("initramfs"))
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=1 tsc=reliable \
                 NIC={} TESTS={test}",
                nic.driver
            ))
            .args(cards(nic));
        let status = guest.output().context("cannot run setpriv")?;
        let read = |name: &str| {
            let bytes = fs::read(file(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\r', "")
        };
        let said = String::from_utf8_lossy(&status.stderr);
        Ok(Output {
            printed: read("printed"),
            console: format!("{}{said}{}\n", read("console"), status.status),
        })
    }
}

/// Two cards on one hub.
fn cards(nic: &Nic) -> Vec<String> {
    let Some(device) = nic.device else { return Vec::new() };
    (0..2)
        .flat_map(|n| {
            [
                // Cards that speak PCI Express have a port each; to others it does no harm.
                "-device".to_owned(),
                format!("pcie-root-port,id=port{n},chassis={}", n + 1),
                "-netdev".to_owned(),
                format!("hubport,hubid=0,id=cable{n}"),
                "-device".to_owned(),
                format!("{device},netdev=cable{n},bus=port{n},mac=52:54:00:00:00:0{n},romfile="),
            ]
        })
        .collect()
}
