//! One interface: its driver, and what XDP and the control plane meet there.

use std::{collections::BTreeMap, fs, io};

use nic_common::policy::CopyPolicy;

use super::{Check, Finding, Found, Refusal, Status, examine, machine};
use crate::{
    command_line::CommandLine,
    control::Journals,
    error::Result,
    netlink::{IfSupported, link::XdpMode, netdev::Netdev},
    nic::{
        self, Nic,
        cpus::CpuSet,
        interrupts::Interrupt,
        preflight, resolve,
        settings::{self, Survey},
        sysfs::{Sysfs, if_there},
    },
    offload::{self, Build, Effect, Hooks, ModeWanted, Options},
    transaction,
};

/// What is known about an interface.
#[derive(Debug)]
pub struct Interface {
    /// The interface.
    pub nic: Nic,
    /// Its settings, and what serves its queues.
    pub survey: Survey,
    /// How a bond, VLAN or team is resolved to the interfaces below it.
    pub below: Result<Vec<String>, Refusal>,
    /// What attaching would come to.
    pub attach: Result<Attach, Refusal>,
    /// What prevents native XDP.
    pub native: Vec<preflight::Finding>,
    /// Whether the driver counts for each queue, as all drivers that do.
    pub counts_queues: Result<bool, Refusal>,
    /// The type of its group of devices, if an IOMMU has it.
    pub iommu: Result<Option<String>, Refusal>,
    /// The CPUs that run.
    pub cpus: Result<Vec<u32>, Refusal>,
}

/// What attaching would come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Which programs there would be.
    pub hooks: Hooks,
    /// Why these.
    pub why: Option<String>,
    /// The settings that would be changed for it, and what to.
    pub settings: Vec<String>,
    /// What is attached already, unless it is that.
    pub instead_of: Option<String>,
    /// Whether something of nicctl is attached already.
    pub again: bool,
}

impl Interface {
    /// Reads them, in the current network namespace.
    ///
    /// # Errors
    ///
    /// The interface is gone.
    pub fn read(nic: Nic, journals: &Journals) -> Result<Self> {
        let survey = settings::survey(nic.link.clone())?;
        let resolved = resolve::resolve(&nic.link, &nic::links()?);
        let counters = Netdev::open().and_then(|mut netdev| netdev.queue_counters(nic.ifindex()));
        let iommu = iommu_type(&nic).map_err(Refusal::from);
        let below =
            resolved.map(|resolved| resolved.steps.iter().map(ToString::to_string).collect());
        Ok(Self {
            survey,
            below: below.map_err(Refusal::from),
            attach: attach(nic.clone(), journals).map_err(Refusal::from),
            native: preflight::xdp_findings(&nic, XdpMode::Native),
            counts_queues: counters
                .if_supported()
                .map(|counters| counters.is_some_and(|counters| !counters.is_empty()))
                .map_err(Refusal::from),
            iommu,
            cpus: CpuSet::online()
                .map(|cpus| cpus.unwrap_or_default().iter().collect())
                .map_err(Refusal::from),
            nic,
        })
    }

    /// What stands in nicctl's way there.
    pub fn examine(&self) -> Vec<Finding> {
        examine(CHECKS, self)
    }
}

/// The type of the group of the nearest device that is in one.
fn iommu_type(nic: &Nic) -> io::Result<Option<String>> {
    for device in Sysfs::of(&nic.link)?.devices()? {
        let kind = if_there(fs::read_to_string(device.join("iommu_group/type")))?;
        if let Some(kind) = kind {
            return Ok(Some(kind.trim_end().to_owned()));
        }
    }
    Ok(None)
}

fn attach(nic: Nic, journals: &Journals) -> Result<Attach> {
    let options = Options {
        mode: ModeWanted::Auto,
        policy: &|policy: CopyPolicy| policy,
        pull: None,
        log: None,
        clsact: false,
        for_rings: false,
    };
    let current = offload::attachment_of(&nic)?;
    let planned = transaction::plan(nic, None, &options, journals)?;
    let changes = planned.settings.changes();
    Ok(Attach {
        hooks: planned.programs.hooks,
        why: planned.programs.why,
        settings: changes.map(|change| format!("{} {}", change.key, change.to)).collect(),
        instead_of: current
            .filter(|_| planned.programs.effect == Effect::Upgraded)
            .map(|current| described(current.state(), current.build())),
        again: planned.programs.effect == Effect::Unchanged,
    })
}

/// `native mode, with the frags build`.
fn described(mode: &str, build: Option<Build>) -> String {
    let build = build.map(|build| format!(", with the {} build", build.name()));
    format!("{mode} mode{}", build.unwrap_or_default())
}

const CHECKS: &[Check<Interface>] = &[
    Check { name: "driver", look: driver },
    Check { name: "link", look: link },
    Check { name: "stacked", look: stacked },
    Check { name: "attach", look: attaching },
    Check { name: "native-xdp", look: native_xdp },
    Check { name: "frags", look: frags },
    Check { name: "zero-copy", look: zero_copy },
    Check { name: "qstats", look: qstats },
    Check { name: "iommu", look: iommu },
    Check { name: "interrupts", look: interrupts },
    Check { name: "big-tcp", look: big_tcp },
    Check { name: "udp-gso", look: udp_gso },
    Check { name: "settings", look: unread_settings },
];

fn driver(interface: &Interface) -> Vec<Found> {
    let Some(driver) = &interface.nic.driver else {
        return vec![Found::note("the driver does not report its name")];
    };
    let part = |label: &str, text: &str| match text {
        "" | "N/A" => String::new(),
        text => format!(", {label} {text}"),
    };
    vec![Found::ok(format!(
        "{} {}{}{}",
        driver.driver,
        driver.version,
        part("firmware", &driver.firmware_version),
        part("at", &driver.bus_info)
    ))]
}

fn link(interface: &Interface) -> Vec<Found> {
    let link = &interface.nic.link;
    vec![match (link.up, link.running) {
        (true, true) => Found::ok("up"),
        (true, false) => Found::warning("up, no carrier")
            .blocks("traffic")
            .fix("check the cable and the link partner"),
        (false, _) => Found::note("down")
            .blocks("traffic; some drivers refuse settings")
            .fix(CommandLine::networking(&["ip", "link", "set", "dev", &link.name, "up"])),
    }]
}

fn stacked(interface: &Interface) -> Vec<Found> {
    let note = |step: &String| Found::note(step).blocks("attaching to itself");
    match &interface.below {
        Ok(below) => below.iter().map(note).collect(),
        Err(unread) => unread.unread(),
    }
}

fn attaching(interface: &Interface) -> Vec<Found> {
    let attach = match &interface.attach {
        Ok(attach) => attach,
        Err(refusal) => return vec![refusal.found(Status::Problem).blocks("attach")],
    };
    let Attach { hooks, why, settings, instead_of, again } = attach;
    let would = described(hooks.mode().name(), hooks.build());
    let mut what = match instead_of {
        _ if *again => format!("is attached in {would}"),
        Some(current) => {
            format!("is attached in {current}; the next attach will change this: {would}")
        }
        None => format!("would be attached in {would}"),
    };
    if let Some(why) = why.as_ref().filter(|_| !again) {
        what = format!("{what}: {why}");
    }
    if !settings.is_empty() {
        what = format!("{what}; first it sets {}", settings.join(", "));
    }
    vec![Found::ok(what)]
}

fn native_xdp(interface: &Interface) -> Vec<Found> {
    if interface.native.is_empty() {
        return vec![Found::ok("nothing prevents it")];
    }
    let found = interface.native.iter().map(|finding| {
        let preflight::Finding { blocks, what, fix, remedy } = finding;
        match (blocks, remedy.is_empty()) {
            (true, true) => Found::warning(what).blocks("native XDP").fix(fix),
            (true, false) => Found::note(what).fix("attach does this, and detach reverts it"),
            (false, _) => Found::note(what).fix(fix),
        }
    });
    found.collect()
}

fn frags(interface: &Interface) -> Vec<Found> {
    if interface.nic.xdp_features.is_some_and(|features| !features.native()) {
        return Vec::new();
    }
    vec![match preflight::takes_frags(&interface.nic, XdpMode::Native) {
        true => Found::ok("supports multi-buffer programs (frags)"),
        false => Found::note("supports single-buffer programs only")
            .blocks("large MTUs and split headers with native XDP"),
    }]
}

fn zero_copy(interface: &Interface) -> Vec<Found> {
    let Some(features) = interface.nic.xdp_features else { return Vec::new() };
    vec![match features.zero_copy() {
        true => Found::ok("supports zero copy for AF_XDP"),
        false => Found::note("copy mode for AF_XDP").blocks("zero copy"),
    }]
}

fn qstats(interface: &Interface) -> Vec<Found> {
    let counts = match &interface.counts_queues {
        Ok(counts) => *counts,
        Err(unread) => return unread.unread(),
    };
    vec![match counts {
        true => Found::ok("the driver reports per-queue statistics"),
        false => Found::note("the driver has no standard per-queue statistics")
            .blocks("comparing nicctl's counters with the driver's"),
    }]
}

fn iommu(interface: &Interface) -> Vec<Found> {
    let kind = match &interface.iommu {
        Ok(kind) => kind.as_deref(),
        Err(unread) => return unread.unread(),
    };
    match kind {
        None => Vec::new(),
        Some(machine::STRICT) => vec![machine::strict_iommu("strict for this device".to_owned())],
        Some(machine::LAZY) => vec![Found::ok("lazy")],
        Some(machine::PASSTHROUGH) => vec![Found::ok("passthrough")],
        Some(other) => vec![Found::ok(other)],
    }
}

/// Several queues are of no use on one CPU.
fn interrupts(interface: &Interface) -> Vec<Found> {
    let interrupts = interface.survey.queues.iter().filter_map(|queue| queue.interrupt.as_ref());
    let interrupts: BTreeMap<u32, &Interrupt> = interrupts.map(|it| (it.number, it)).collect();
    let Some(first) = interrupts.values().next().map(|it| it.cpus()) else { return Vec::new() };
    let cpus = match &interface.cpus {
        Ok(cpus) => cpus,
        Err(unread) => return unread.unread(),
    };
    let is_one = !first.is_empty() && !first.contains(['-', ',']);
    if interrupts.len() < 2
        || cpus.len() < 2
        || !is_one
        || interrupts.values().any(|it| it.cpus() != first)
    {
        return vec![Found::ok("queues are spread over CPUs, or there is only one")];
    }
    let found = Found::warning(format!("CPU {first} handles all {} interrupts", interrupts.len()))
        .blocks("using more than one CPU");
    let movable = interrupts.values().filter(|it| it.writable).zip(cpus.iter().cycle());
    let spread: Vec<String> =
        movable.map(|(it, cpu)| format!("irq.{}=cpus:{cpu}", it.number)).collect();
    vec![match spread.is_empty() {
        true => {
            found.fix("the kernel manages them, or they are fixed: see the driver's documentation")
        }
        false => found.fix(CommandLine::nicctl("set").on(interface.nic.name()).on_all(spread)),
    }]
}

/// `GSO_LEGACY_MAX_SIZE`.
const LEGACY_MAX_SIZE: u32 = 65536;

fn big_tcp(interface: &Interface) -> Vec<Found> {
    let link = &interface.nic.link;
    let Some(max) = link.tso_max_size else { return Vec::new() };
    let can = format!("the device segments packets of up to {max} bytes");
    let is_on = [link.gso_max_size, link.gso_ipv4_max_size, link.gro_max_size]
        .map(|size| size.is_some_and(|size| size > LEGACY_MAX_SIZE));
    vec![match (max > LEGACY_MAX_SIZE, is_on) {
        (false, _) => Found::note(can).blocks("BIG TCP for transmit"),
        (true, [true, ..] | [_, true, _]) => Found::ok(format!("{can}, and TCP uses it")),
        (true, _) => Found::note(format!("off; {can}"))
            .blocks("TCP packets of more than 64 KiB")
            .fix(with_profile(interface, "big-tcp")),
    }]
}

/// Without checksums in the device, sendmsg with UDP_SEGMENT ended in EIO before Linux 6.11
/// (net/ipv4/udp.c udp_send_skb, 10154dbded6d).
fn udp_gso(interface: &Interface) -> Vec<Found> {
    let is_on = |name: &str| interface.nic.features.get(name).is_some_and(|f| f.active);
    let can_be = |name: &str| interface.nic.features.get(name).is_some_and(|f| !f.is_fixed());
    let checksums = ["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];
    vec![match (checksums.into_iter().any(is_on), is_on("tx-udp-segmentation")) {
        (false, _) => Found::warning("the device does not compute TX checksums")
            .blocks("TSO; and before Linux 6.11 UDP_SEGMENT of sockets (QUIC), which ends in EIO")
            .fix_if(
                checksums.into_iter().any(can_be),
                CommandLine::nicctl("set").on(interface.nic.name()).on("feature.tx=on"),
            ),
        (true, false) => Found::note("tx-udp-segmentation is off: the kernel segments datagrams")
            .fix_if(can_be("tx-udp-segmentation"), with_profile(interface, "udp-gso")),
        (true, true) => Found::ok("the device segments datagrams"),
    }]
}

/// The command that attaches with a profile.
fn with_profile(interface: &Interface, profile: &str) -> CommandLine {
    CommandLine::nicctl("attach").on(interface.nic.name()).with("--profile", profile)
}

fn unread_settings(interface: &Interface) -> Vec<Found> {
    let note = |note: &String| Found::note(note).blocks("showing and setting them");
    interface.survey.notes.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        netlink::{
            ethtool::features::Feature,
            ethtool_ioctl::DriverInfo,
            netdev::queue::{Direction, QueueId},
        },
        nic::topology::QueuePath,
    };

    fn on() -> Feature {
        Feature { active: true, wanted: true, changeable: true, never_changes: false }
    }

    fn healthy() -> Interface {
        let mut nic = Nic {
            driver: Some(DriverInfo { driver: "ice".to_owned(), ..DriverInfo::default() }),
            ..Nic::default()
        };
        (nic.link.name, nic.link.up, nic.link.running) = ("eth0".to_owned(), true, true);
        for name in ["tx-checksum-ip-generic", "tx-udp-segmentation"] {
            nic.features.insert(name.to_owned(), on());
        }
        Interface {
            nic,
            survey: Survey::default(),
            below: Ok(Vec::new()),
            attach: Ok(Attach {
                hooks: Hooks::Xdp { mode: XdpMode::Native, build: Build::SingleBuffer },
                why: None,
                settings: Vec::new(),
                instead_of: None,
                again: false,
            }),
            native: Vec::new(),
            counts_queues: Ok(true),
            iommu: Ok(None),
            cpus: Ok(vec![0, 1]),
        }
    }

    fn queue(number: u32, cpu: &str) -> QueuePath {
        QueuePath {
            queue: QueueId { direction: Direction::Rx, number },
            napi: None,
            thread: None,
            interrupt: Some(Interrupt {
                number: 40 + number,
                affinity: cpu.to_owned(),
                writable: true,
                ..Interrupt::default()
            }),
            nodes: Vec::new(),
            af_xdp: false,
        }
    }

    /// The one finding that is not ok.
    fn finding(change: impl FnOnce(&mut Interface)) -> (&'static str, Status) {
        let mut interface = healthy();
        change(&mut interface);
        let findings = interface.examine();
        let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
        let [Finding { check, status, .. }] = bad[..] else { panic!("{bad:?}") };
        (check, *status)
    }

    #[test]
    fn a_healthy_interface_has_nothing_to_tell() {
        let findings = healthy().examine();
        assert!(findings.iter().all(|finding| finding.status == Status::Ok), "{findings:?}");
    }

    #[test]
    fn every_fact_is_judged_by_its_row() {
        assert_eq!(finding(|i| i.nic.driver = None).0, "driver");
        assert_eq!(finding(|i| i.nic.link.running = false), ("link", Status::Warning));
        assert_eq!(finding(|i| i.nic.link.up = false), ("link", Status::Note));
        assert_eq!(finding(|i| i.below = Ok(vec!["a bond".into()])), ("stacked", Status::Note));
        let refused = finding(|i| i.attach = Err(Refusal::default()));
        assert_eq!(refused, ("attach", Status::Problem));
        assert_eq!(finding(|i| i.counts_queues = Ok(false)), ("qstats", Status::Note));
        assert_eq!(finding(|i| i.iommu = Ok(Some("DMA".into()))), ("iommu", Status::Note));
        assert_eq!(finding(|i| i.nic.link.tso_max_size = Some(65536)), ("big-tcp", Status::Note));
        let off = finding(|i| i.nic.link.tso_max_size = Some(524_280));
        assert_eq!(off, ("big-tcp", Status::Note));
        assert_eq!(finding(|i| i.nic.features.clear()), ("udp-gso", Status::Warning));
        let no_segmentation = finding(|i| {
            i.nic.features.remove("tx-udp-segmentation");
        });
        assert_eq!(no_segmentation, ("udp-gso", Status::Note));
        assert_eq!(finding(|i| i.survey.notes.push("rss: EBUSY".into())).0, "settings");
    }

    #[test]
    fn what_attach_does_by_itself_is_only_told() {
        let of = |blocks, remedy: bool| {
            finding(|interface| {
                let remedy = if remedy {
                    vec![("feature.rx-lro".parse().unwrap(), false.into())]
                } else {
                    Vec::new()
                };
                let (what, fix) = ("what".to_owned(), "fix".to_owned());
                interface.native.push(preflight::Finding { blocks, what, fix, remedy });
            })
        };
        assert_eq!(of(true, false), ("native-xdp", Status::Warning));
        assert_eq!(of(true, true), ("native-xdp", Status::Note));
        assert_eq!(of(false, false), ("native-xdp", Status::Note));
    }

    #[test]
    fn queues_that_share_one_cpu_are_told() {
        let found = |cpus: &[&str]| {
            let mut interface = healthy();
            let queues = cpus.iter().enumerate();
            interface.survey.queues = queues.map(|(n, cpu)| queue(n as u32, cpu)).collect();
            interrupts(&interface).pop()
        };
        let fix = found(&["3", "3", "3"]).and_then(|found| found.fix);
        let spread = "nicctl set eth0 irq.40=cpus:0 irq.41=cpus:1 irq.42=cpus:0";
        assert_eq!(fix.as_deref(), Some(spread));
        let with = |cpus: &[&str]| found(cpus).map(|found| found.status);
        assert_eq!(with(&["3", "3"]), Some(Status::Warning));
        assert_eq!(with(&["3", "4"]), Some(Status::Ok));
        assert_eq!(with(&["0-3", "0-3"]), Some(Status::Ok));
        assert_eq!(with(&["3"]), Some(Status::Ok));
        assert_eq!(with(&[]), None);
    }
}
