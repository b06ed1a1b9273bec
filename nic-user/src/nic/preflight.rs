//! What prevents XDP on an interface, found before the kernel refuses.
//!
//! The kernel has the last word: what is not known here may still fail, and then its own message
//! is shown.

use std::fs;
use std::sync::OnceLock;

use super::drivers::{DriverFacts, KernelVersion, MtuLimit, QueueRule, facts};
use super::setting::{Group, Key, Value};
use super::{Nic, surroundings};
use crate::command_line::CommandLine;
use crate::netlink::ethtool::channels::Channels;
use crate::netlink::link::XdpMode;

/// Something to know before attaching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the kernel will refuse because of it.
    pub blocks: bool,
    /// What it is, with the numbers.
    pub what: String,
    /// What to do about it.
    pub fix: String,
    /// The settings that do it, where nobody else has to decide about them.
    pub remedy: Vec<(Key, Value)>,
}

/// What the limits of drivers depend on besides the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The running kernel.
    pub kernel: KernelVersion,
    /// CPUs that there can be (`nr_cpu_ids`).
    pub cpus: u32,
    /// Bytes in a memory page.
    pub page_size: u32,
}

impl Machine {
    /// This one. What cannot be read is taken to be in no one's way.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Machine> = OnceLock::new();
        *CURRENT.get_or_init(Self::read)
    }

    fn read() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        // SAFETY: sysconf(3) reads and writes no memory of ours.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        // SAFETY: as above.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        Self {
            kernel: release.parse().unwrap_or(KernelVersion(u16::MAX, 0)),
            cpus: u32::try_from(cpus).unwrap_or(1),
            page_size: u32::try_from(page_size).unwrap_or(4096),
        }
    }
}

/// Offloads that merge packets before XDP sees them.
pub const MERGING: &[&str] = &["rx-lro", "rx-gro-hw"];

/// Limit for drivers without a row: what most of those with one have at least.
const USUAL_MTU_LIMIT: MtuLimit = MtuLimit::PageLess(602);

/// What prevents attaching to `nic` in mode `wanted`, blocking findings first.
pub fn xdp_findings(nic: &Nic, wanted: XdpMode) -> Vec<Finding> {
    findings_on(nic, wanted, Machine::current())
}

/// Whether a program that reads single buffers is too small for what `nic` hands it: because of
/// its MTU, or of split headers (net/core/dev.c dev_xdp_install).
pub fn needs_frags(nic: &Nic) -> bool {
    nic.splits_headers || exceeded_limit(nic).is_some()
}

/// Whether `nic` runs XDP natively, as far as that is known.
pub fn may_run_natively(nic: &Nic) -> bool {
    runs_natively(nic, Machine::current())
}

/// Whether programs that read several buffers run on `nic` in this mode, as far as that is known.
pub fn takes_frags(nic: &Nic, mode: XdpMode) -> bool {
    match mode {
        XdpMode::Native => takes_native_frags(nic, Machine::current()),
        XdpMode::Generic => true,
        XdpMode::Offload => false,
    }
}

/// The most that settings of `nic` may be with a program in this mode that reads several buffers,
/// or does not.
pub fn limits(nic: &Nic, mode: XdpMode, frags: bool) -> Vec<(Key, u64)> {
    let Some(facts) = known(nic).filter(|_| mode == XdpMode::Native) else { return Vec::new() };
    // The limit of a veth is for what its peer sends.
    let mtu = facts.single_buffer_mtu.bytes(Machine::current().page_size);
    let mtu = mtu.filter(|_| !frags && nic.peer().is_none());
    let mtu = mtu.map(|limit| (Key::new(Group::Link, "mtu"), u64::from(limit)));
    let channels = |name: &str, limit: u32| (Key::new(Group::Channels, name), u64::from(limit));
    let max = nic.channels.map(|channels| channels.max);
    let queues = match (facts.queues, max) {
        (QueueRule::HalfOfCombined, Some(max)) => vec![channels("combined", max.combined / 2)],
        (QueueRule::HalfOfEach, Some(max)) => {
            let half = (max.tx / 2).min(max.rx);
            vec![channels("rx", half), channels("tx", half)]
        }
        _ => Vec::new(),
    };
    mtu.into_iter().chain(queues).collect()
}

/// An MTU that is too large for a program that reads single buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The MTU.
    pub mtu: u32,
    /// The largest that is not.
    pub limit: u32,
}

/// Whether the MTU of what arrives at `nic` is too large for a program that reads single buffers.
/// That of a veth is its peer's (drivers/net/veth.c veth_xdp_set).
pub fn exceeded_limit(nic: &Nic) -> Option<Exceeded> {
    exceeded_limit_on(nic, Machine::current())
}

fn exceeded_limit_on(nic: &Nic, machine: Machine) -> Option<Exceeded> {
    let limit = known(nic).map_or(USUAL_MTU_LIMIT, |facts| facts.single_buffer_mtu);
    // Where the peer cannot be looked at, the kernel has the last word.
    let peer = surroundings::peer_of(nic).ok().flatten();
    let mtu = peer.map_or(nic.mtu(), |peer| peer.mtu());
    limit.bytes(machine.page_size).filter(|&limit| mtu > limit).map(|limit| Exceeded { mtu, limit })
}

fn known(nic: &Nic) -> Option<&'static DriverFacts> {
    facts(nic.driver_name()?)
}

fn findings_on(nic: &Nic, wanted: XdpMode, machine: Machine) -> Vec<Finding> {
    let mut findings = match wanted {
        XdpMode::Generic => MERGING.iter().filter_map(|name| kernel_turns_off(nic, name)).collect(),
        XdpMode::Offload => offload_finding(nic).into_iter().collect(),
        XdpMode::Native => native_findings(nic, machine),
    };
    findings.sort_by_key(|finding| !finding.blocks);
    findings
}

fn offload_finding(nic: &Nic) -> Option<Finding> {
    let offloads = nic
        .xdp_features
        .map_or_else(|| nic.driver_name() == Some("nfp"), |features| features.offload());
    (!offloads).then(|| Finding {
        blocks: true,
        what: format!("{} has no XDP offload", described(nic)),
        fix: format!("{}, or {}", in_mode(nic, "native"), generic(nic)),
        remedy: Vec::new(),
    })
}

fn native_findings(nic: &Nic, machine: Machine) -> Vec<Finding> {
    if !runs_natively(nic, machine) {
        return vec![not_native(nic)];
    }
    let mut findings: Vec<Finding> =
        mtu_finding(nic, machine).into_iter().chain(split_finding(nic, machine)).collect();
    let facts = known(nic);
    // Of a driver without a row it is only likely.
    let must_be_off = facts.map_or(MERGING, |facts| facts.must_be_off);
    let on = must_be_off.iter().filter_map(|name| offload_is_on(nic, name));
    findings.extend(on.map(|finding| Finding { blocks: facts.is_some(), ..finding }));
    if let Some(facts) = facts {
        findings.extend(queue_finding(nic, facts.queues, machine));
        findings.extend(facts.better_on.iter().filter_map(|name| offload_is_off(nic, name)));
        findings.extend(facts.warning.map(|warning| Finding {
            blocks: false,
            what: format!("{}: {warning}", described(nic)),
            fix: format!("{}, if that matters", generic(nic)),
            remedy: Vec::new(),
        }));
    }
    findings
}

fn not_native(nic: &Nic) -> Finding {
    let what = format!("{} has no native XDP", described(nic));
    let can_have_more = nic.channels.is_some_and(|it| it.current.rx < it.max.rx);
    let (what, fix) = match nic.peer() {
        // drivers/net/veth.c veth_set_xdp_features
        Some(_) => (
            format!("{what} with fewer receive queues than its peer has transmit queues"),
            match can_have_more {
                true => format!(
                    "add queues: {}; or {}",
                    set(nic, &["channels.rx=max"]).quoted(),
                    generic(nic)
                ),
                false => generic(nic),
            },
        ),
        None => (what, generic(nic)),
    };
    Finding { blocks: true, what, fix, remedy: Vec::new() }
}

/// The command that attaches in another mode, in a sentence.
fn in_mode(nic: &Nic, mode: &str) -> String {
    CommandLine::nicctl("attach").on(nic.name()).with("--mode", mode).quoted()
}

fn generic(nic: &Nic) -> String {
    in_mode(nic, "generic")
}

fn set(nic: &Nic, settings: &[&str]) -> CommandLine {
    CommandLine::nicctl("set").on(nic.name()).on_all(settings)
}

/// The kernel knows since 6.3; before, and if it cannot be asked, the table does.
fn runs_natively(nic: &Nic, machine: Machine) -> bool {
    match (nic.xdp_features, known(nic)) {
        (Some(features), _) => features.native(),
        (None, Some(facts)) => facts.native_since.is_some_and(|since| machine.kernel >= since),
        (None, None) => true,
    }
}

fn takes_native_frags(nic: &Nic, machine: Machine) -> bool {
    match (nic.xdp_features, known(nic)) {
        (Some(features), _) => features.frags(),
        (None, Some(facts)) => facts.frags_since.is_some_and(|since| machine.kernel >= since),
        (None, None) => true,
    }
}

fn mtu_finding(nic: &Nic, machine: Machine) -> Option<Finding> {
    let Exceeded { mtu, limit } = exceeded_limit_on(nic, machine)?;
    if takes_native_frags(nic, machine) {
        return None;
    }
    let driver = described(nic);
    let less = set(nic, &[&format!("link.mtu={limit}")]).quoted();
    Some(Finding {
        // For a driver without a row the limit is a guess.
        blocks: known(nic).is_some(),
        what: format!("MTU {mtu} exceeds the maximum of {driver} for XDP, {limit}"),
        fix: match nic.peer() {
            Some(_) => generic(nic),
            None => format!("{less}, or {}", generic(nic)),
        },
        remedy: Vec::new(),
    })
}

fn split_finding(nic: &Nic, machine: Machine) -> Option<Finding> {
    (nic.splits_headers && !takes_native_frags(nic, machine)).then(|| Finding {
        blocks: true,
        what: format!("{} does not support XDP with split headers", described(nic)),
        fix: format!("{}, or {}", set(nic, &["ring.tcp-data-split=off"]).quoted(), generic(nic)),
        remedy: Vec::new(),
    })
}

/// What the kernel turns off when a generic program is attached, and does not turn on again
/// (net/core/dev.c generic_xdp_install).
fn kernel_turns_off(nic: &Nic, feature: &str) -> Option<Finding> {
    let state = nic.features.get(feature).filter(|feature| feature.active)?;
    (!state.is_fixed()).then(|| Finding {
        blocks: false,
        what: format!("the kernel turns {feature} off for generic XDP"),
        fix: "detach turns it on again".to_owned(),
        remedy: vec![off(feature)],
    })
}

fn off(feature: &str) -> (Key, Value) {
    (Key::new(Group::Feature, feature), Value::Switch(false))
}

fn offload_is_on(nic: &Nic, feature: &str) -> Option<Finding> {
    let state = nic.features.get(feature).filter(|feature| feature.active)?;
    let driver = described(nic);
    // virtio_net turns it off by itself unless the host forbids that.
    if nic.driver_name() == Some("virtio_net") && !state.is_fixed() {
        return None;
    }
    let fix = if state.is_fixed() {
        format!(
            "{feature} is [fixed]: turn it off on the host (QEMU: guest_tso4=off, guest_tso6=off, \
             guest_ufo=off), or {}",
            generic(nic)
        )
    } else {
        set(nic, &[&format!("feature.{feature}=off")]).to_string()
    };
    let what = format!("{driver} cannot run XDP with {feature} on");
    let remedy = if state.is_fixed() { Vec::new() } else { vec![off(feature)] };
    Some(Finding { blocks: true, what, fix, remedy })
}

fn offload_is_off(nic: &Nic, feature: &str) -> Option<Finding> {
    nic.features.get(feature).filter(|feature| !feature.active)?;
    Some(Finding {
        blocks: false,
        what: format!(
            "{} has {feature} off: the stack gets every segment separately",
            described(nic)
        ),
        fix: set(nic, &[&format!("feature.{feature}=on")]).to_string(),
        remedy: Vec::new(),
    })
}

fn queue_finding(nic: &Nic, rule: QueueRule, machine: Machine) -> Option<Finding> {
    let Channels { current, max } = nic.channels?;
    let driver = described(nic);
    match rule {
        QueueRule::HalfOfCombined if current.combined > max.combined / 2 => {
            let what = format!(
                "{driver} needs half of its {} channels for XDP; {} are in use",
                max.combined, current.combined
            );
            Some(channels_finding(nic, what, &[("combined", max.combined / 2)]))
        }
        QueueRule::HalfOfEach if current.rx != current.tx || current.tx > max.tx / 2 => {
            let half = (max.tx / 2).min(max.rx);
            let what = format!(
                "{driver} needs equal receive and transmit queues for XDP, and half of {} free; \
                 {} and {} are in use",
                max.tx, current.rx, current.tx
            );
            Some(channels_finding(nic, what, &[("rx", half), ("tx", half)]))
        }
        QueueRule::CombinedOnly if current.combined == 0 => {
            let what = format!("{driver} needs combined channels for XDP");
            let combined = max.combined.min(machine.cpus);
            Some(channels_finding(nic, what, &[("rx", 0), ("tx", 0), ("combined", combined)]))
        }
        QueueRule::OneMorePerCpu
            if current.combined.saturating_add(machine.cpus) > max.combined =>
        {
            let wanted = current.combined.saturating_add(machine.cpus);
            let blocks = machine.kernel < KernelVersion(5, 13);
            let effect = if blocks { "refuses XDP" } else { "takes a lock to send from XDP" };
            let what = format!(
                "{driver} {effect}: it needs {wanted} queue pairs ({} in use and one per CPU), \
                 and has {}",
                current.combined, max.combined
            );
            let fix = format!("give the machine {wanted} queue pairs on the host");
            Some(Finding { blocks, what, fix, remedy: Vec::new() })
        }
        QueueRule::CpusAtMost { cpus, since } => {
            let most = if machine.kernel >= since { cpus } else { cpus / 2 };
            (machine.cpus > most).then(|| Finding {
                blocks: true,
                what: format!(
                    "{driver} runs XDP on at most {most} CPUs; this machine can have {}",
                    machine.cpus
                ),
                fix: format!("boot with nr_cpus={most}, or {}", generic(nic)),
                remedy: Vec::new(),
            })
        }
        _ => None,
    }
}

/// That XDP takes other counts of channels than there are now. A device without enough of them is
/// left as it is.
fn channels_finding(nic: &Nic, what: String, wanted: &[(&str, u32)]) -> Finding {
    if wanted.last().is_none_or(|(_, count)| *count == 0) {
        return Finding { blocks: true, what, fix: generic(nic), remedy: Vec::new() };
    }
    let counts = wanted.iter().map(|(name, count)| format!("channels.{name}={count}"));
    let setting = |&(name, count): &(&str, u32)| (Key::new(Group::Channels, name), count.into());
    Finding {
        blocks: true,
        what,
        fix: set(nic, &[]).on_all(counts).to_string(),
        remedy: wanted.iter().map(setting).collect(),
    }
}

/// `eth0 (ixgbe)`.
fn described(nic: &Nic) -> String {
    match nic.driver_name() {
        Some(driver) => format!("{} ({driver})", nic.name()),
        None => nic.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::ethtool::channels::{ChannelCounts, Channels};
    use crate::netlink::ethtool::features::Feature;
    use crate::netlink::ethtool_ioctl::DriverInfo;
    use crate::netlink::link::LinkInfo;

    const MACHINE: Machine = Machine { kernel: KernelVersion(6, 1), cpus: 8, page_size: 4096 };

    fn nic(driver: &str, mtu: u32) -> Nic {
        Nic {
            link: LinkInfo { ifindex: 2, name: "eth0".to_owned(), mtu, ..LinkInfo::default() },
            driver: Some(DriverInfo { driver: driver.to_owned(), ..DriverInfo::default() }),
            ..Nic::default()
        }
    }

    fn feature(active: bool, fixed: bool) -> Feature {
        Feature { active, wanted: active, changeable: !fixed, never_changes: false }
    }

    fn with_feature(mut nic: Nic, name: &str, fixed: bool) -> Nic {
        nic.features.insert(name.to_owned(), feature(true, fixed));
        nic
    }

    fn combined(nic: Nic, current: u32, max: u32) -> Nic {
        let counts = |combined| ChannelCounts { combined, ..ChannelCounts::default() };
        Nic { channels: Some(Channels { current: counts(current), max: counts(max) }), ..nic }
    }

    fn native(nic: &Nic, machine: Machine) -> Vec<(bool, String, String)> {
        findings_on(nic, XdpMode::Native, machine)
            .into_iter()
            .map(|finding| (finding.blocks, finding.what, finding.fix))
            .collect()
    }

    #[test]
    fn veth_is_told_that_it_starts_without_gro() {
        let mut veth = nic("veth", 1500);
        veth.features.insert("rx-gro".to_owned(), feature(false, false));
        let findings = findings_on(&veth, XdpMode::Native, MACHINE);
        let gro = findings.iter().find(|finding| finding.what.contains("rx-gro")).unwrap();
        assert!(!gro.blocks);
        assert_eq!(gro.fix, "nicctl set eth0 feature.rx-gro=on");
    }

    #[test]
    fn a_fitting_interface_has_no_findings() {
        assert_eq!(native(&nic("igb", 1500), MACHINE), []);
        assert_eq!(native(&nic("some_new_driver", 1500), MACHINE), []);
        assert_eq!(findings_on(&nic("e1000e", 9000), XdpMode::Generic, MACHINE), []);
    }

    #[test]
    fn an_mtu_over_the_limit_names_both() {
        let [(blocks, what, fix)] = &native(&nic("ixgbevf", 9000), MACHINE)[..] else { panic!() };
        assert!(blocks);
        assert_eq!(what, "MTU 9000 exceeds the maximum of eth0 (ixgbevf) for XDP, 3050");
        assert_eq!(fix, "`nicctl set eth0 link.mtu=3050`, or `nicctl attach eth0 --mode generic`");
        assert_eq!(native(&nic("ixgbevf", 3050), MACHINE), []);
    }

    #[test]
    fn frags_lift_the_limit_where_the_kernel_has_them() {
        let ice = nic("ice", 9000);
        assert_eq!(exceeded_limit_on(&ice, MACHINE), Some(Exceeded { mtu: 9000, limit: 3046 }));
        assert_eq!(native(&ice, MACHINE).len(), 1);
        let newer = Machine { kernel: KernelVersion(6, 3), ..MACHINE };
        assert_eq!(exceeded_limit_on(&ice, newer), Some(Exceeded { mtu: 9000, limit: 3046 }));
        assert_eq!(native(&ice, newer), []);
    }

    #[test]
    fn a_driver_without_native_xdp_leaves_generic() {
        let [(true, what, fix)] = &native(&nic("e1000e", 1500), MACHINE)[..] else { panic!() };
        assert_eq!(what, "eth0 (e1000e) has no native XDP");
        assert_eq!(fix, "`nicctl attach eth0 --mode generic`");
        // It has it since 6.6, and this is 6.1.
        assert!(native(&nic("vmxnet3", 1500), MACHINE)[0].0);
    }

    #[test]
    fn a_fixed_offload_is_the_hosts() {
        let nic = combined(with_feature(nic("virtio_net", 1500), "rx-gro-hw", true), 1, 16);
        let [(true, what, fix)] = &native(&nic, MACHINE)[..] else { panic!() };
        assert_eq!(what, "eth0 (virtio_net) cannot run XDP with rx-gro-hw on");
        assert!(fix.contains("[fixed]") && fix.contains("--mode generic"), "{fix}");
    }

    #[test]
    fn an_offload_that_can_be_turned_off_comes_with_the_command() {
        let nic = with_feature(nic("mlx5_core", 1500), "rx-lro", false);
        let [(true, _, fix)] = &native(&nic, MACHINE)[..] else { panic!() };
        assert_eq!(fix, "nicctl set eth0 feature.rx-lro=off");
        let virtio =
            combined(with_feature(self::nic("virtio_net", 1500), "rx-gro-hw", false), 1, 16);
        assert_eq!(native(&virtio, MACHINE), []);
    }

    #[test]
    fn ena_wants_half_of_its_channels() {
        let [(true, what, fix)] = &native(&combined(nic("ena", 1500), 8, 8), MACHINE)[..] else {
            panic!()
        };
        assert_eq!(what, "eth0 (ena) needs half of its 8 channels for XDP; 8 are in use");
        assert_eq!(fix, "nicctl set eth0 channels.combined=4");
        assert_eq!(native(&combined(nic("ena", 1500), 4, 8), MACHINE), []);
    }

    #[test]
    fn virtio_without_queues_to_spare_was_refused_and_is_slow() {
        let nic = combined(nic("virtio_net", 1500), 4, 4);
        let [(false, what, _)] = &native(&nic, MACHINE)[..] else { panic!() };
        assert!(
            what.contains("needs 12 queue pairs (4 in use and one per CPU), and has 4"),
            "{what}"
        );
        let older = Machine { kernel: KernelVersion(5, 10), ..MACHINE };
        let [(true, what, _)] = &native(&nic, older)[..] else { panic!() };
        assert!(what.contains("refuses XDP"), "{what}");
    }

    #[test]
    fn ixgbe_counts_cpus() {
        let nic = combined(nic("ixgbe", 1500), 8, 63);
        let with_cpus = |cpus| native(&nic, Machine { cpus, ..MACHINE });
        let blocks = |cpus| with_cpus(cpus).iter().any(|(blocks, ..)| *blocks);
        assert!(!blocks(128));
        assert!(blocks(129));
        assert!(with_cpus(384)[0].1.contains("at most 128 CPUs; this machine can have 384"));
    }

    #[test]
    fn bnxt_wants_combined_channels() {
        let [(true, _, fix)] = &native(&combined(nic("bnxt_en", 1500), 0, 16), MACHINE)[..] else {
            panic!()
        };
        assert_eq!(fix, "nicctl set eth0 channels.rx=0 channels.tx=0 channels.combined=8");
    }

    #[test]
    fn hardly_any_device_runs_programs_itself() {
        let findings = findings_on(&nic("igb", 1500), XdpMode::Offload, MACHINE);
        assert!(findings[0].blocks && findings[0].what.contains("has no XDP offload"));
        assert_eq!(findings_on(&nic("nfp", 1500), XdpMode::Offload, MACHINE), []);
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::current();
        assert!(machine.cpus >= 1 && machine.page_size >= 4096);
        assert!(machine.kernel < KernelVersion(u16::MAX, 0));
    }
}
