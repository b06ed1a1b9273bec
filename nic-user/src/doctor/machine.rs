//! The machine: its kernel, and what this process may do with it.

use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{FromRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use super::{Check, Finding, Found, Refusal, Status, examine};
use crate::{
    command_line::CommandLine,
    netlink::{IfSupported, netdev::Netdev},
    nic::{
        drivers::KernelVersion,
        interrupts,
        sysfs::{self, if_there},
    },
    offload,
};

/// What is known about the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// Whether the kernel tells the types of its own.
    pub btf: Result<bool, Refusal>,
    /// `net.core.bpf_jit_enable`; `None` outside of the first network namespace, which alone has it.
    pub jit: Option<u32>,
    /// `net.core.bpf_jit_harden`.
    pub jit_harden: Option<u32>,
    /// The bpffs that is used, if there is one; why that cannot be told.
    pub bpffs: Option<Result<Option<PathBuf>, Refusal>>,
    /// What this process lacks to load programs.
    pub privileges: Option<Refusal>,
    /// The mode of lockdown, if the kernel has it.
    pub lockdown: Result<Option<String>, Refusal>,
    /// The programs that were loaded for a trial, and why the kernel refused one.
    pub programs: Vec<(&'static str, Result<(), String>)>,
    /// Whether the kernel has TCX; `None` if this process may not ask.
    pub tcx: Option<bool>,
    /// Why there are no AF_XDP sockets.
    pub af_xdp: Option<Result<(), String>>,
    /// Whether the kernel has the netdev family.
    pub netdev: Result<bool, Refusal>,
    /// How many groups of devices the IOMMU has of each type (`/sys/kernel/iommu_groups/*/type`).
    pub iommu: Result<BTreeMap<String, usize>, Refusal>,
    /// The process id of irqbalance, if it runs.
    pub irqbalance: Result<Option<u32>, Refusal>,
}

impl Machine {
    /// Reads them.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).map(|text| text.trim_end().to_owned());
        let number = |path: &str| text(path).ok()?.parse().ok();
        let privileges = offload::check_privileges("load programs").err().map(Refusal::from);
        let programs = if privileges.is_none() { offload::trial() } else { Vec::new() };
        Self {
            release: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
            btf: Path::new("/sys/kernel/btf/vmlinux").try_exists().map_err(Refusal::from),
            jit: number("/proc/sys/net/core/bpf_jit_enable"),
            jit_harden: number("/proc/sys/net/core/bpf_jit_harden"),
            bpffs: Some(offload::existing_root().map_err(Refusal::from)),
            tcx: if privileges.is_none() { offload::has_tcx() } else { None },
            privileges,
            lockdown: if_there(text("/sys/kernel/security/lockdown"))
                .map(|modes| modes.and_then(|modes| chosen(&modes)))
                .map_err(Refusal::from),
            programs,
            af_xdp: Some(af_xdp()),
            netdev: Netdev::open()
                .if_supported()
                .map(|netdev| netdev.is_some())
                .map_err(Refusal::from),
            iommu: iommu_types(Path::new("/sys/kernel/iommu_groups")).map_err(Refusal::from),
            irqbalance: interrupts::irqbalance().map_err(Refusal::from),
        }
    }

    /// What stands in nicctl's way.
    pub fn examine(&self) -> Vec<Finding> {
        examine(CHECKS, self)
    }
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('[')?;
    rest.split_once(']').map(|(mode, _)| mode.to_owned())
}

/// Opens an AF_XDP socket, and closes it.
fn af_xdp() -> Result<(), String> {
    // SAFETY: socket(2) reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

fn iommu_types(groups: &Path) -> io::Result<BTreeMap<String, usize>> {
    let mut types = BTreeMap::new();
    for group in sysfs::names(groups)? {
        if let Some(kind) = if_there(fs::read_to_string(groups.join(group).join("type")))? {
            *types.entry(kind.trim_end().to_owned()).or_default() += 1;
        }
    }
    Ok(types)
}

/// What came into the kernel when, of what nicctl uses and does without.
const SINCE: &[(KernelVersion, &str)] = &[
    (KernelVersion(6, 3), "XDP features reported by drivers; BIG TCP for IPv4"),
    (KernelVersion(6, 6), "TCX"),
    (KernelVersion(6, 8), "listing queues, NAPIs and page pools"),
    (KernelVersion(6, 9), "standard per-queue statistics"),
    (KernelVersion(6, 13), "per-NAPI settings, irq-suspend-timeout"),
    (KernelVersion(6, 14), "hds-thresh"),
];

/// The oldest kernel that nicctl is tested with.
const OLDEST: KernelVersion = KernelVersion(6, 1);

const CHECKS: &[Check<Machine>] = &[
    Check { name: "kernel", look: kernel },
    Check { name: "privileges", look: privileges },
    Check { name: "programs", look: programs },
    Check { name: "btf", look: btf },
    Check { name: "jit", look: jit },
    Check { name: "lockdown", look: lockdown },
    Check { name: "bpffs", look: bpffs },
    Check { name: "tcx", look: tcx },
    Check { name: "af-xdp", look: af_xdp_sockets },
    Check { name: "netdev", look: netdev },
    Check { name: "iommu", look: iommu },
    Check { name: "irqbalance", look: irqbalance },
];

fn kernel(machine: &Machine) -> Vec<Found> {
    let release = &machine.release;
    let Ok(version) = release.parse::<KernelVersion>() else {
        return vec![Found::note(format!("{release:?} is not a known release"))];
    };
    let newer = SINCE.iter().filter(|(since, _)| version < *since);
    let lacks: Vec<String> = newer.map(|(since, what)| format!("{what} ({since})")).collect();
    vec![match (version < OLDEST, lacks.is_empty()) {
        (true, _) => Found::warning(format!("Linux {release}"))
            .blocks(format!("nicctl is tested with {OLDEST} and later"))
            .fix("a newer kernel"),
        (false, true) => Found::ok(format!("Linux {release}")),
        (false, false) => Found::note(format!("Linux {release}"))
            .blocks(lacks.join("; "))
            .fix("a newer kernel, if you need that"),
    }]
}

fn privileges(machine: &Machine) -> Vec<Found> {
    vec![match &machine.privileges {
        None => Found::ok("programs can be loaded and attached"),
        Some(refusal) => refusal.found(Status::Problem).blocks("attach"),
    }]
}

/// All that the kernel needs for them is shown by loading them.
fn programs(machine: &Machine) -> Vec<Found> {
    let failed = machine.programs.iter().filter_map(|(name, loaded)| {
        let error = loaded.as_ref().err()?;
        Some(match *name {
            // Only for what does not fit into one buffer.
            "nic_rx_frags" => Found::warning(format!("{name}: {error}"))
                .blocks("large MTUs and split headers with XDP")
                .fix("Linux 5.18 or later"),
            name if name.starts_with("nic_forward") => {
                Found::warning(format!("{name}: {error}")).blocks("forward --in-kernel")
            }
            _ => Found::problem(format!("{name}: {error}")).blocks("attach").fix(format!(
                "check the kernel's messages about BPF: {}",
                CommandLine::other(&["bpftool", "feature", "probe"]).quoted()
            )),
        })
    });
    let failed: Vec<Found> = failed.collect();
    match (machine.programs.len(), failed.is_empty()) {
        (0, _) => vec![Found::note("not tried: not privileged")],
        (loaded, true) => {
            vec![Found::ok(format!("the kernel accepts all {loaded}, including frags"))]
        }
        (_, false) => failed,
    }
}

fn btf(machine: &Machine) -> Vec<Found> {
    let is_there = match &machine.btf {
        Ok(is_there) => *is_there,
        Err(unread) => return unread.unread(),
    };
    vec![match is_there {
        true => Found::ok("the kernel provides its types"),
        false => Found::note("/sys/kernel/btf/vmlinux does not exist")
            .blocks("not nicctl; tools that trace the kernel")
            .fix("a kernel with CONFIG_DEBUG_INFO_BTF"),
    }]
}

fn jit(machine: &Machine) -> Vec<Found> {
    let enabled = match machine.jit {
        Some(0) => Found::warning("programs are interpreted, not compiled")
            .blocks("speed: every frame costs several times more")
            .fix(CommandLine::other(&["sysctl", "net.core.bpf_jit_enable=1"])),
        Some(_) => Found::ok("programs are compiled (JIT)"),
        None => Found::note("net.core.bpf_jit_enable is not visible from here")
            .fix("run it in the initial network namespace"),
    };
    let hardened = (machine.jit_harden == Some(2)).then(|| {
        Found::note("constants are blinded even in root's programs").blocks("speed, a little").fix(
            format!(
                "{}, unless something needs it",
                CommandLine::other(&["sysctl", "net.core.bpf_jit_harden=1"]).quoted()
            ),
        )
    });
    std::iter::once(enabled).chain(hardened).collect()
}

fn lockdown(machine: &Machine) -> Vec<Found> {
    let mode = match &machine.lockdown {
        Ok(mode) => mode.as_deref(),
        Err(unread) => return unread.unread(),
    };
    vec![match mode {
        None | Some("none") => Found::ok("not locked down"),
        Some("confidentiality") => Found::note("lockdown=confidentiality")
            .blocks("programs that read kernel memory; nicctl's do not")
            .fix("boot with lockdown=integrity, if other tools need it"),
        Some(mode) => Found::ok(format!("lockdown={mode}, which allows BPF programs")),
    }]
}

fn bpffs(machine: &Machine) -> Vec<Found> {
    match &machine.bpffs {
        Some(Ok(Some(root))) => vec![Found::ok(format!("mounted: {}", root.display()))],
        Some(Ok(None)) => {
            vec![Found::note("not mounted: attach mounts it").fix(offload::mount_bpffs_command())]
        }
        Some(Err(refusal)) => vec![refusal.found(Status::Warning).blocks("what is attached")],
        None => Vec::new(),
    }
}

fn tcx(machine: &Machine) -> Vec<Found> {
    match machine.tcx {
        Some(true) => vec![Found::ok("TC programs are links")],
        Some(false) => vec![
            Found::note("the kernel has no TCX: TC programs are attached as clsact filters")
                .blocks("surviving `tc qdisc del` by other tools")
                .fix("Linux 6.6 or later"),
        ],
        None => Vec::new(),
    }
}

fn af_xdp_sockets(machine: &Machine) -> Vec<Found> {
    match &machine.af_xdp {
        Some(Ok(())) => vec![Found::ok("AF_XDP sockets can be opened")],
        Some(Err(error)) => vec![
            Found::warning(format!("no socket: {error}"))
                .blocks("anything that receives through AF_XDP")
                .fix("root or CAP_NET_RAW, and a kernel with CONFIG_XDP_SOCKETS"),
        ],
        None => Vec::new(),
    }
}

fn netdev(machine: &Machine) -> Vec<Found> {
    let is_there = match &machine.netdev {
        Ok(is_there) => *is_there,
        Err(unread) => return unread.unread(),
    };
    vec![match is_there {
        true => Found::ok("drivers report their XDP features"),
        false => Found::note("the kernel has no netdev family")
            .blocks("knowing what drivers support: a built-in table is used instead")
            .fix("Linux 6.3 or later"),
    }]
}

/// What the types of `include/linux/iommu.h` are called in sysfs (drivers/iommu/iommu.c
/// iommu_group_show_type).
pub(super) const STRICT: &str = "DMA";
pub(super) const LAZY: &str = "DMA-FQ";
pub(super) const PASSTHROUGH: &str = "identity";

fn iommu(machine: &Machine) -> Vec<Found> {
    let types = match &machine.iommu {
        Ok(types) => types,
        Err(unread) => return unread.unread(),
    };
    let amount = |kind: &str| types.get(kind).copied().unwrap_or_default();
    let all: usize = types.values().sum();
    vec![match (all, amount(STRICT)) {
        (0, _) => Found::ok("not in use: devices access memory directly"),
        (_, 0) if amount(PASSTHROUGH) == all => Found::ok("passthrough"),
        (_, 0) => Found::ok(format!("lazy for {} of {all} groups of devices", amount(LAZY))),
        (_, strict) => strict_iommu(format!("strict for {strict} of {all} groups of devices")),
    }]
}

pub(super) fn strict_iommu(what: String) -> Found {
    Found::note(what)
        .blocks("speed, where a driver maps each packet: an IOTLB flush per packet")
        .fix("boot with iommu.strict=0, or iommu.passthrough=1 if all devices are trusted")
}

fn irqbalance(machine: &Machine) -> Vec<Found> {
    vec![match &machine.irqbalance {
        Err(unread) => return unread.unread(),
        Ok(None) => Found::ok("does not run"),
        Ok(Some(pid)) => Found::note(format!("runs (process {pid})"))
            .blocks("keeping interrupts where `irq.N` puts them")
            .fix("stop it, or ban the interrupts: irqbalance --banirq=N"),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Machine {
        Machine {
            release: "6.18.1".to_owned(),
            btf: Ok(true),
            jit: Some(1),
            jit_harden: Some(0),
            bpffs: Some(Ok(Some("/sys/fs/bpf".into()))),
            privileges: None,
            lockdown: Ok(None),
            programs: vec![("nic_rx", Ok(())), ("nic_rx_frags", Ok(()))],
            tcx: Some(true),
            af_xdp: Some(Ok(())),
            netdev: Ok(true),
            iommu: Ok(BTreeMap::new()),
            irqbalance: Ok(None),
        }
    }

    /// The one finding that is not ok.
    fn finding(change: impl FnOnce(&mut Machine)) -> (&'static str, Status, String) {
        let mut machine = healthy();
        change(&mut machine);
        let findings = machine.examine();
        let mut bad = findings.into_iter().filter(|finding| finding.status != Status::Ok);
        let Finding { check, status, found, fix, .. } = bad.next().unwrap();
        assert_eq!(bad.next(), None);
        assert!(fix.is_some(), "{check}");
        (check, status, found)
    }

    #[test]
    fn a_healthy_machine_has_nothing_to_tell() {
        let findings = healthy().examine();
        assert!(findings.iter().all(|finding| finding.status == Status::Ok), "{findings:?}");
        assert_eq!(findings.len(), CHECKS.len());
    }

    #[test]
    fn every_fact_is_judged_by_its_row() {
        let refusal = || Refusal { what: "no".into(), fix: Some("yes".into()) };
        let of = |change: fn(&mut Machine)| {
            let (check, status, _) = finding(change);
            (check, status)
        };
        assert_eq!(of(|m| m.release = "6.1.0-18-amd64".into()), ("kernel", Status::Note));
        assert_eq!(of(|m| m.release = "5.15.0".into()), ("kernel", Status::Warning));
        assert_eq!(
            finding(|m| m.privileges = Some(refusal())),
            ("privileges", Status::Problem, "no".into())
        );
        assert_eq!(of(|m| m.programs[0].1 = Err("E2BIG".into())), ("programs", Status::Problem));
        assert_eq!(of(|m| m.programs[1].1 = Err("EINVAL".into())), ("programs", Status::Warning));
        assert_eq!(of(|m| m.btf = Ok(false)), ("btf", Status::Note));
        assert_eq!(of(|m| m.jit = Some(0)), ("jit", Status::Warning));
        assert_eq!(of(|m| m.jit = None), ("jit", Status::Note));
        assert_eq!(of(|m| m.jit_harden = Some(2)), ("jit", Status::Note));
        assert_eq!(
            of(|m| m.lockdown = Ok(Some("confidentiality".into()))),
            ("lockdown", Status::Note)
        );
        assert_eq!(of(|m| m.bpffs = Some(Ok(None))), ("bpffs", Status::Note));
        assert_eq!(finding(|m| m.bpffs = Some(Err(refusal()))).1, Status::Warning);
        assert_eq!(of(|m| m.tcx = Some(false)), ("tcx", Status::Note));
        assert_eq!(of(|m| m.af_xdp = Some(Err("EPERM".into()))), ("af-xdp", Status::Warning));
        assert_eq!(of(|m| m.netdev = Ok(false)), ("netdev", Status::Note));
        assert_eq!(of(|m| m.irqbalance = Ok(Some(7))), ("irqbalance", Status::Note));
    }

    #[test]
    fn what_cannot_be_read_is_neither_there_nor_absent() {
        let unread = || Refusal { what: "EIO".into(), fix: None };
        for change in [
            |m: &mut Machine, why| m.btf = Err(why),
            |m: &mut Machine, why| m.lockdown = Err(why),
            |m: &mut Machine, why| m.netdev = Err(why),
            |m: &mut Machine, why| m.iommu = Err(why),
            |m: &mut Machine, why| m.irqbalance = Err(why),
        ] {
            let mut machine = healthy();
            change(&mut machine, unread());
            let findings = machine.examine().into_iter();
            let told: Vec<_> = findings.filter(|it| it.status != Status::Ok).collect();
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].found, "unknown: EIO");
        }
    }

    #[test]
    fn a_kernel_is_told_by_what_it_lacks() {
        let kernel = |release: &str| {
            let machine = Machine { release: release.into(), ..healthy() };
            machine.examine().remove(0).blocks.unwrap_or_default()
        };
        assert_eq!(kernel("6.14.0"), "");
        assert_eq!(kernel("6.13.7"), "hds-thresh (6.14)");
        assert!(kernel("6.1.0").starts_with("XDP features reported by drivers"));
    }

    #[test]
    fn the_iommu_is_strict_lazy_or_passthrough() {
        let iommu = |types: &[(&str, usize)]| {
            let types = types.iter().map(|&(kind, amount)| (kind.to_owned(), amount)).collect();
            let found = super::iommu(&Machine { iommu: Ok(types), ..healthy() }).remove(0);
            (found.status, found.what)
        };
        assert_eq!(iommu(&[]).0, Status::Ok);
        assert_eq!(iommu(&[("identity", 4)]), (Status::Ok, "passthrough".into()));
        assert_eq!(
            iommu(&[("DMA-FQ", 3), ("identity", 1)]),
            (Status::Ok, "lazy for 3 of 4 groups of devices".into())
        );
        assert_eq!(
            iommu(&[("DMA", 1), ("DMA-FQ", 3)]),
            (Status::Note, "strict for 1 of 4 groups of devices".into())
        );
    }

    #[test]
    fn types_of_groups_are_counted() {
        let root = tempfile::tempdir().unwrap();
        for (group, kind) in [("0", "DMA\n"), ("1", "DMA\n"), ("2", "identity\n")] {
            fs::create_dir(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join("type"), kind).unwrap();
        }
        let types = iommu_types(root.path()).unwrap();
        assert_eq!(types, [("DMA".to_owned(), 2), ("identity".to_owned(), 1)].into());
        assert!(iommu_types(&root.path().join("none")).unwrap().is_empty());
        // A type that cannot be read is not one that is not there.
        fs::create_dir_all(root.path().join("3/type")).unwrap();
        assert!(iommu_types(root.path()).is_err());
    }

    #[test]
    fn the_mode_of_lockdown_is_in_brackets() {
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(chosen("none"), None);
    }
}
