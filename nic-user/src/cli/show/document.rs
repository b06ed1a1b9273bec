//! What `nicctl show --json` prints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Shown;
use crate::{
    netlink::{
        ethtool_ioctl::{
            DriverInfo,
            rules::{Rule, RuleAction, RuleMatch},
        },
        netdev::{page_pool, queue},
    },
    nic::{
        copybreak::{self, State},
        setting::{self, Access, Group, Key, Value},
        topology::QueuePath,
    },
    report::json::Version,
};

/// What `nicctl show --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "nicctl show")]
pub(in crate::cli) struct Document {
    version: Version<1>,
    /// Name of the interface.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// The network namespace, if one was given.
    netns: Option<String>,
    /// Kind of virtual interface, as `ip -d link` names it; null for hardware.
    kind: Option<String>,
    /// Ethernet address.
    mac: Option<String>,
    /// Whether it is up.
    up: bool,
    /// Whether packets can pass.
    running: bool,
    /// What the driver says of itself.
    driver: Option<Driver>,
    /// NUMA node of the device.
    node: Option<u32>,
    /// Process ID of irqbalance, if it runs: it moves interrupts to other CPUs.
    irqbalance: Option<u32>,
    /// What the driver does with small received packets.
    copybreak: Copybreak,
    /// Settings by group and name. Settings the interface lacks are absent.
    settings: BTreeMap<String, BTreeMap<String, Setting>>,
    /// Queues in use.
    queues: Vec<Queue>,
    /// Page pools.
    page_pools: Vec<PagePool>,
    /// Rules that send flows to queues.
    flow_rules: Vec<FlowRule>,
    /// What could not be read, and why.
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Driver {
    /// Name.
    name: String,
    /// Version; mostly the kernel's.
    version: String,
    /// Version of the device's firmware.
    firmware_version: String,
    /// Where the device sits: a PCI address, for example.
    bus: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Copybreak {
    /// `tunable`; `fixed` by the driver or its module's parameter; `none`; or `unknown`: not
    /// tunable, and nothing is known of the driver.
    state: &'static str,
    /// Packets up to this size in bytes are copied.
    bytes: Option<u64>,
    /// What exactly is copied.
    note: Option<&'static str>,
    /// Where in the kernel this is decided.
    source: Option<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Setting {
    /// Its value: a number, a switch, or text.
    value: Value,
    /// The requested value, where the device does not grant it because of a dependency.
    requested: Option<Value>,
    /// The device's minimum, if known.
    min: Option<u64>,
    /// The device's maximum, if known.
    max: Option<u64>,
    /// The value unless set, if known.
    default: Option<Value>,
    /// `read-write`, `read-only` or `fixed`.
    access: &'static str,
    /// What fixes it: `driver`, `kernel`, `module parameter`, ...
    fixed_by: Option<String>,
    /// A remark.
    note: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Queue {
    /// `rx` or `tx`.
    direction: &'static str,
    /// Its number among those of its direction.
    number: u32,
    /// Id of its NAPI instance.
    napi: Option<u32>,
    /// Process id of the NAPI's kernel thread.
    thread: Option<u32>,
    /// Number of its interrupt.
    irq: Option<u32>,
    /// The driver's name for the interrupt.
    irq_name: Option<String>,
    /// CPUs that may serve the interrupt.
    affinity: Option<String>,
    /// CPUs that do.
    cpus: Option<String>,
    /// NUMA nodes of those CPUs.
    nodes: Vec<u32>,
    /// Whether an AF_XDP socket has it.
    af_xdp: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PagePool {
    /// Its id.
    id: u64,
    /// Id of the NAPI instance that it belongs to.
    napi: Option<u64>,
    /// Pages in use: in rings or in sockets.
    inflight: u64,
    /// The memory of those pages, in bytes.
    inflight_bytes: u64,
    /// Whether the driver has released it, and it only waits for its pages.
    detached: bool,
    /// What it counted, by the kernel's names; empty if the kernel is built without.
    counters: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FlowRule {
    /// Its position in the table.
    location: u32,
    /// Type of flow, as ethtool names it.
    flow: Option<String>,
    /// What packets are compared with, by ethtool's names.
    matches: BTreeMap<String, Match>,
    /// `queue`, `drop` or `wake`.
    action: &'static str,
    /// The queue that packets go to, unless an RSS context chooses it.
    queue: Option<u32>,
    /// The virtual function that the queue is of; null for the device itself.
    vf: Option<u8>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Match {
    /// The value.
    value: String,
    /// The bits of it that count.
    mask: String,
}

impl From<&Rule> for FlowRule {
    fn from(rule: &Rule) -> Self {
        let (action, queue, vf) = match rule.action {
            RuleAction::Queue { queue, vf } => ("queue", Some(queue), Some(vf)),
            RuleAction::Drop => ("drop", None, None),
            RuleAction::Wake => ("wake", None, None),
        };
        let matches = rule.matches.iter().map(|(name, wanted)| {
            let RuleMatch { value, mask } = wanted.clone();
            ((*name).to_owned(), Match { value, mask })
        });
        Self {
            location: rule.location,
            flow: rule.flow.map(str::to_owned),
            matches: matches.collect(),
            action,
            queue: queue.filter(|_| !rule.own_rss_context),
            vf: vf.filter(|&vf| vf != 0),
        }
    }
}

impl From<&Shown> for Document {
    fn from(shown: &Shown) -> Self {
        let Shown { survey, netns, irqbalance, .. } = shown;
        let link = &survey.link;
        let mut settings: BTreeMap<String, BTreeMap<String, Setting>> = BTreeMap::new();
        for (key, setting) in shown.settings() {
            let group = settings.entry(key.group.name().to_owned()).or_default();
            group.insert(key.name.clone(), setting.into());
        }
        Self {
            version: Version,
            name: link.name.clone(),
            ifindex: link.ifindex,
            netns: netns.clone(),
            kind: link.kind.clone(),
            mac: link.mac.map(mac),
            up: link.up,
            running: link.running,
            driver: survey.driver.as_ref().map(Driver::from),
            node: survey.node,
            irqbalance: *irqbalance,
            copybreak: Copybreak::of(shown),
            settings,
            queues: survey.queues.iter().map(Queue::from).collect(),
            page_pools: survey.page_pools.iter().map(PagePool::from).collect(),
            flow_rules: survey.rules.iter().map(FlowRule::from).collect(),
            notes: survey.notes.clone(),
        }
    }
}

/// An Ethernet address as text.
pub(super) fn mac([a, b, c, d, e, f]: [u8; 6]) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

impl From<&DriverInfo> for Driver {
    fn from(info: &DriverInfo) -> Self {
        Self {
            name: info.driver.clone(),
            version: info.version.clone(),
            firmware_version: info.firmware_version.clone(),
            bus: info.bus_info.clone(),
        }
    }
}

impl Copybreak {
    fn of(shown: &Shown) -> Self {
        let driver = shown.driver();
        let facts = copybreak::facts(driver);
        let rx = shown.survey.settings.get(&Key::new(Group::Copybreak, "rx"));
        let state = match copybreak::state(driver, rx) {
            State::Tunable => "tunable",
            State::Fixed => "fixed",
            State::None => "none",
            State::Unknown => "unknown",
        };
        let bytes = match rx.map(|rx| &rx.value) {
            Some(Value::Number(bytes)) => Some(*bytes),
            _ => None,
        };
        Self {
            state,
            bytes,
            note: facts.map(|facts| facts.note).filter(|note| !note.is_empty()),
            source: facts.map(|facts| facts.source),
        }
    }
}

impl From<&setting::Setting> for Setting {
    fn from(setting: &setting::Setting) -> Self {
        let (access, fixed_by) = match &setting.access {
            Access::ReadWrite => ("read-write", None),
            Access::ReadOnly => ("read-only", None),
            Access::Fixed { by } => ("fixed", Some(by.clone())),
        };
        Self {
            value: setting.value.clone(),
            requested: setting.requested.clone(),
            min: setting.min,
            max: setting.max,
            default: setting.default.clone(),
            access,
            fixed_by,
            note: setting.note.clone(),
        }
    }
}

const fn direction(direction: queue::Direction) -> &'static str {
    match direction {
        queue::Direction::Rx => "rx",
        queue::Direction::Tx => "tx",
    }
}

impl From<&QueuePath> for Queue {
    fn from(path: &QueuePath) -> Self {
        let interrupt = path.interrupt.as_ref();
        Self {
            direction: direction(path.queue.direction),
            number: path.queue.number,
            napi: path.napi,
            thread: path.thread,
            irq: interrupt.map(|interrupt| interrupt.number),
            irq_name: interrupt.map(|interrupt| interrupt.name.clone()),
            affinity: interrupt.map(|interrupt| interrupt.affinity.clone()),
            cpus: interrupt.map(|interrupt| interrupt.cpus().to_owned()),
            nodes: path.nodes.clone(),
            af_xdp: path.af_xdp,
        }
    }
}

impl From<&page_pool::PagePool> for PagePool {
    fn from(pool: &page_pool::PagePool) -> Self {
        let named = |(name, count): (&&str, &u64)| ((*name).to_owned(), *count);
        Self {
            id: pool.id,
            napi: pool.napi_id,
            inflight: pool.inflight,
            inflight_bytes: pool.inflight_bytes,
            detached: pool.detach_time.is_some(),
            counters: pool.counters.iter().map(named).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_document_has_what_the_card_has() {
        let json = serde_json::to_value(Document::from(&fixture::large())).unwrap();
        let settings = &json["settings"];
        assert_eq!(settings["link"]["mtu"]["max"], 9216);
        assert_eq!(settings["feature"]["highdma"]["fixed_by"], "kernel");
        assert_eq!(settings["feature"]["rx-lro"]["access"], "read-write");
        assert_eq!(json["copybreak"]["state"], "tunable");
        assert_eq!(json["copybreak"]["bytes"], 512);
        assert_eq!(json["queues"].as_array().unwrap().len(), 128);
        assert_eq!(json["flow_rules"][0]["queue"], 5);
        assert_eq!(json["page_pools"][1]["detached"], true);
    }
}
