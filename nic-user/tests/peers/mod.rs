//! What `nicctl show --json` says of an interface, field by field against what ethtool, ip, sysfs
//! and procfs say of it.

use std::{collections::BTreeMap, fs, process::Command};

use nic_user::{
    lab::Host,
    nic::{InterfaceName, Nic, sysfs::Sysfs},
};
use serde_json::Value as Json;

/// Compares everything that any of them shows; returns how many values that was, and who has
/// something to say was not there to ask.
pub fn compare(host: &Host, interface: &str, document: &Json) -> Compared {
    let mut peers = Peers { host, interface, document, compared: Compared::default() };
    peers.ip();
    peers.driver();
    peers.features();
    peers.groups();
    peers.coalesce();
    peers.pause();
    peers.private_flags();
    peers.copybreak();
    peers.rss();
    peers.sysfs();
    peers.interrupts();
    peers.compared
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Compared {
    /// Values that are the same.
    pub values: usize,
    /// Programs that are not installed.
    pub missing: Vec<&'static str>,
}

struct Peers<'a> {
    host: &'a Host,
    interface: &'a str,
    document: &'a Json,
    compared: Compared,
}

/// ethtool's own names for single features.
const RENAMED: [(&str, &str); 8] = [
    ("rx-checksumming", "rx-checksum"),
    ("generic-segmentation-offload", "tx-generic-segmentation"),
    ("generic-receive-offload", "rx-gro"),
    ("large-receive-offload", "rx-lro"),
    ("rx-vlan-offload", "rx-vlan-hw-parse"),
    ("tx-vlan-offload", "tx-vlan-hw-insert"),
    ("ntuple-filters", "rx-ntuple-filter"),
    ("receive-hashing", "rx-hashing"),
];

const LINK: [(&str, &str, &str); 9] = [
    ("mtu", "value", "mtu"),
    ("mtu", "min", "min_mtu"),
    ("gso-max-size", "value", "gso_max_size"),
    ("gso-max-size", "max", "tso_max_size"),
    ("gso-max-segs", "value", "gso_max_segs"),
    ("gso-max-segs", "max", "tso_max_segs"),
    ("gro-max-size", "value", "gro_max_size"),
    ("gso-ipv4-max-size", "value", "gso_ipv4_max_size"),
    ("gro-ipv4-max-size", "value", "gro_ipv4_max_size"),
];

const CHANNELS: [(&str, &str); 4] =
    [("RX", "rx"), ("TX", "tx"), ("Other", "other"), ("Combined", "combined")];

const RINGS: [(&str, &str); 8] = [
    ("RX", "rx"),
    ("RX Mini", "rx-mini"),
    ("RX Jumbo", "rx-jumbo"),
    ("TX", "tx"),
    ("RX Buf Len", "rx-buf-len"),
    ("CQE Size", "cqe-size"),
    ("TX Push", "tx-push"),
    ("TCP data split", "tcp-data-split"),
];

/// Settings that came to ethtool after version 6.1; where it shows them, they are compared.
const NEWER: [&str; 9] = [
    "rx-push",
    "tx-push-buf-len",
    "hds-thresh",
    "tx-aggr-max-bytes",
    "tx-aggr-max-frames",
    "tx-aggr-time-usecs",
    "rx-cqe-frames",
    "rx-cqe-nsecs",
    "tcp-data-split",
];

/// What flows are hashed by, in the order of the letters.
const HASHED: [(&str, char); 7] = [
    ("L2DA", 'm'),
    ("VLAN tag", 'v'),
    ("L3 proto", 't'),
    ("IP SA", 's'),
    ("IP DA", 'd'),
    ("L4 bytes 0 & 1", 'f'),
    ("L4 bytes 2 & 3", 'n'),
];

impl Peers<'_> {
    /// What another program says in the host; `None` where it refuses, or is not installed.
    fn says(&mut self, program: &'static str, arguments: &[&str]) -> Option<String> {
        let run = || Command::new(program).args(arguments).output();
        let Ok(output) = self.host.run(run).unwrap() else {
            if !self.compared.missing.contains(&program) {
                self.compared.missing.push(program);
            }
            return None;
        };
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn ethtool(&mut self, option: &str) -> Option<String> {
        self.says("ethtool", &[option, self.interface])
    }

    fn group(&self, group: &str) -> Option<&serde_json::Map<String, Json>> {
        self.document["settings"].get(group).and_then(Json::as_object)
    }

    #[track_caller]
    fn same(&mut self, what: &str, ours: &Json, theirs: &Json) {
        assert_eq!(ours, theirs, "{what} of {}", self.interface);
        self.compared.values += 1;
    }

    fn ip(&mut self) {
        let arguments = ["-j", "-d", "link", "show", self.interface];
        let Some(text) = self.says("ip", &arguments) else { return };
        let theirs = &parse(&text)[0];
        let document = self.document;
        let settings = &document["settings"]["link"];
        for (name, field, their_name) in LINK {
            // Older versions of ip do not show all of it.
            if let Some(their_value) = theirs.get(their_name) {
                self.same(their_name, &settings[name][field], their_value);
            }
        }
        // To ip, no limit is 0.
        let max_mtu = settings["mtu"]["max"].as_u64().unwrap_or_default();
        self.same("max_mtu", &max_mtu.into(), &theirs["max_mtu"]);
        for (ours, their_name) in [("ifindex", "ifindex"), ("name", "ifname"), ("mac", "address")] {
            self.same(their_name, &document[ours], &theirs[their_name]);
        }
        self.same("kind", &document["kind"], &theirs["linkinfo"]["info_kind"]);
        let flags = theirs["flags"].as_array().unwrap();
        self.same("UP", &document["up"], &flags.contains(&"UP".into()).into());
    }

    fn driver(&mut self) {
        let Some(text) = self.ethtool("-i") else { return };
        let driver = &self.document["driver"];
        for (theirs, ours) in [
            ("driver", "name"),
            ("version", "version"),
            ("firmware-version", "firmware_version"),
            ("bus-info", "bus"),
        ] {
            let ours = driver[ours].as_str().unwrap().trim_end();
            self.same(theirs, &ours.into(), &values(&text)[theirs][0].into());
        }
    }

    fn features(&mut self) {
        let Some(text) = self.says("ethtool", &["--json", "-k", self.interface]) else { return };
        let Some(ours) = self.group("feature").cloned() else { panic!("no features") };
        let before = self.compared.values;
        for (name, feature) in parse(&text)[0].as_object().unwrap() {
            // Names for several features at once have nothing of their own.
            let (true, Some(fixed)) = (feature["active"].is_boolean(), feature["fixed"].as_bool())
            else {
                continue;
            };
            let renamed = RENAMED.iter().find(|(theirs, _)| theirs == name);
            let ours = &ours[renamed.map_or(name.as_str(), |(_, ours)| ours)];
            self.same(name, &ours["value"], &feature["active"]);
            assert_eq!(ours["access"] == "fixed", fixed, "{name}");
        }
        assert_eq!(self.compared.values - before, ours.len());
    }

    fn groups(&mut self) {
        self.table("channels", "-l", &CHANNELS);
        self.table("ring", "-g", &RINGS);
    }

    /// Two parts, the limits and the values, or the values alone.
    fn table(&mut self, group: &str, option: &str, names: &[(&str, &str)]) {
        let Some(text) = self.ethtool(option) else { return };
        let theirs = values(&text);
        let ours = self.group(group).cloned().unwrap_or_default();
        for name in ours.keys().filter(|name| !NEWER.contains(&name.as_str())) {
            assert!(names.iter().any(|(_, ours)| ours == name), "{group}.{name}: {text}");
        }
        for (their_name, name) in names {
            let Some((value, limit)) = theirs.get(*their_name).and_then(|all| all.split_last())
            else {
                continue;
            };
            let setting = ours.get(*name).cloned().unwrap_or_default();
            let theirs = match &setting["value"] {
                Json::String(_) => Json::from(*value),
                _ => typed(value),
            };
            self.same(&format!("{group}.{name}"), &setting["value"], &theirs);
            if let [limit] = limit
                && setting["value"].is_number()
            {
                self.same(&format!("limit of {group}.{name}"), &setting["max"], &typed(limit));
            }
        }
    }

    fn coalesce(&mut self) {
        let Some(text) = self.ethtool("-c") else { return };
        let mut theirs: BTreeMap<String, Json> = values(&text)
            .into_iter()
            .filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_lowercase()))
            // It says rx-frame-low, but takes rx-frames-low.
            .map(|(name, all)| (name.replace("-frame-", "-frames-"), typed(all[0])))
            .collect();
        for (line, name) in [("Adaptive ", "adaptive"), ("CQE mode ", "cqe-mode")] {
            let line = text.lines().find_map(|text| text.strip_prefix(line));
            let words: Vec<_> = line.into_iter().flat_map(str::split_whitespace).collect();
            if let ["RX:", rx, "TX:", tx] = words[..] {
                theirs.insert(format!("{name}-rx"), typed(rx));
                theirs.insert(format!("{name}-tx"), typed(tx));
            }
        }
        let ours = self.group("coalesce").cloned().unwrap_or_default();
        for name in ours.keys().filter(|name| !NEWER.contains(&name.as_str())) {
            assert!(theirs.contains_key(name), "coalesce.{name}: {text}");
        }
        for (name, value) in theirs {
            let setting = ours.get(&name).cloned().unwrap_or_default();
            self.same(&format!("coalesce.{name}"), &setting["value"], &value);
        }
    }

    fn pause(&mut self) {
        let Some(text) = self.ethtool("-a") else { return };
        for (their_name, name) in [("Autonegotiate", "autoneg"), ("RX", "rx"), ("TX", "tx")] {
            let ours = self.document["settings"]["pause"][name]["value"].clone();
            self.same(&format!("pause.{name}"), &ours, &typed(values(&text)[their_name][0]));
        }
    }

    fn private_flags(&mut self) {
        let Some(text) = self.ethtool("--show-priv-flags") else { return };
        let theirs = values(text.split_once('\n').map_or("", |(_, flags)| flags));
        let ours = self.group("private-flag").cloned().unwrap_or_default();
        assert_eq!(ours.len(), theirs.len(), "{text}");
        for (name, value) in theirs {
            self.same(name, &ours[name]["value"], &typed(value[0]));
        }
    }

    fn copybreak(&mut self) {
        for name in ["rx", "tx", "tx-buf-size"] {
            let tunable = match name {
                "tx-buf-size" => name.to_owned(),
                _ => format!("{name}-copybreak"),
            };
            let text = self.says("ethtool", &["--get-tunable", self.interface, &tunable]);
            let setting = self.document["settings"]["copybreak"][name].clone();
            match text {
                Some(text) => {
                    self.same(&tunable, &setting["value"], &typed(values(&text)[&*tunable][0]));
                }
                None if self.compared.missing.is_empty() => {
                    assert_ne!(setting["access"], "read-write", "{tunable}");
                }
                None => {}
            }
        }
    }

    fn rss(&mut self) {
        let ours = self.group("rss").cloned().unwrap_or_default();
        for (name, setting) in &ours {
            let Some(flow) = name.strip_prefix("hash-") else { continue };
            let arguments = ["-n", self.interface, "rx-flow-hash", flow];
            let Some(text) = self.says("ethtool", &arguments) else { continue };
            let has = |field: &str| text.lines().any(|line| line.starts_with(field));
            let letters: String =
                HASHED.iter().filter(|(field, _)| has(field)).map(|(_, letter)| *letter).collect();
            let theirs = if letters.is_empty() { "none" } else { &letters };
            self.same(name, &setting["value"], &theirs.into());
        }
        let Some(text) = self.ethtool("-x") else { return };
        let after = |heading: &str| text.lines().skip_while(move |line| *line != heading).nth(1);
        if let Some(key) = after("RSS hash key:").filter(|line| line.contains(':')) {
            self.same("rss.key", &ours["key"]["value"], &key.trim().into());
        }
        for (function, value) in values(&text) {
            if value == ["on"] {
                self.same("rss.function", &ours["function"]["value"], &function.into());
            }
        }
        let rows = text.lines().filter_map(|line| line.trim().split_once(": "));
        let rows = rows.filter(|(first, _)| first.parse::<u32>().is_ok());
        let table: Vec<u64> = rows
            .flat_map(|(_, row)| row.split_whitespace())
            .map(|entry| entry.parse().unwrap())
            .collect();
        if let Some(setting) = ours.get("indirection") {
            let expected = indirection(setting["value"].as_str().unwrap(), table.len());
            self.same("rss.indirection", &expected.into(), &table.into());
        }
    }

    fn sysfs(&mut self) {
        let name = InterfaceName::new(self.interface).unwrap();
        let files = self.host.run(|| {
            let sysfs = Sysfs::of(&Nic::by_name(&name).unwrap().link).unwrap();
            let mut files = BTreeMap::new();
            let mut read = |file: String| {
                // A device with one queue refuses to have its masks read.
                if let Ok(text) = sysfs.read(&file) {
                    files.insert(file, text);
                }
            };
            for file in ["mtu", "gro_flush_timeout", "napi_defer_hard_irqs", "threaded"] {
                read(file.to_owned());
            }
            read("device/numa_node".to_owned());
            for queue in sysfs.list("queues").unwrap() {
                let file = if queue.starts_with("rx") { "rps_cpus" } else { "xps_cpus" };
                read(format!("queues/{queue}/{file}"));
            }
            files
        });
        let files = files.unwrap();
        let value =
            |group: &str, name: &str| self.document["settings"][group][name]["value"].clone();
        let mut expected = Vec::new();
        for (file, text) in &files {
            let words: Vec<_> = file.split('/').collect();
            let (ours, theirs) = match words[..] {
                ["mtu"] => (value("link", "mtu"), typed(text)),
                ["gro_flush_timeout"] => (value("napi", "gro-flush-timeout"), typed(text)),
                ["napi_defer_hard_irqs"] => (value("napi", "defer-hard-irqs"), typed(text)),
                ["threaded"] => (value("napi", "threaded"), (text != "0").into()),
                ["device", _] => (self.document["node"].clone(), text.parse::<u32>().ok().into()),
                ["queues", queue, "rps_cpus"] => (value("rps", queue), text.as_str().into()),
                ["queues", queue, _] => (value("xps", queue), text.as_str().into()),
                _ => unreachable!("{file}"),
            };
            expected.push((file, ours, theirs));
        }
        for (file, ours, theirs) in expected {
            self.same(file, &ours, &theirs);
        }
        let masks = files.keys().filter(|file| file.ends_with("_cpus")).count();
        let ours = ["rps", "xps"].map(|group| self.group(group).map_or(0, serde_json::Map::len));
        assert_eq!(ours[0] + ours[1], masks, "{files:?}");
    }

    fn interrupts(&mut self) {
        for (number, interrupt) in self.group("irq").cloned().unwrap_or_default() {
            let file = format!("/proc/irq/{number}/smp_affinity_list");
            let theirs = fs::read_to_string(&file).unwrap();
            self.same(&file, &interrupt["value"], &theirs.trim_end().into());
        }
    }
}

/// The table that `equal N` or `weight W0 W1 ...` stands for.
fn indirection(text: &str, len: usize) -> Vec<u64> {
    let (kind, numbers) = text.split_once(' ').unwrap();
    let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
    match kind {
        "equal" => (0..len as u64).map(|entry| entry % numbers[0]).collect(),
        "weight" => {
            let share = len / numbers.iter().sum::<u64>() as usize;
            let shares = (0..).zip(&numbers).map(|(queue, &weight)| (queue, weight as usize));
            shares.flat_map(|(queue, weight)| vec![queue; weight * share]).collect()
        }
        _ => numbers,
    }
}

fn parse(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What stands behind `name:`, every time.
fn values(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        values.entry(name.trim()).or_default().push(value.trim());
    }
    values
}

/// A value as ethtool and sysfs write it; what is not there is null.
fn typed(text: &str) -> Json {
    match text {
        "on" => true.into(),
        "off" => false.into(),
        "n/a" => Json::Null,
        text => text.parse::<u64>().map_or_else(|_| text.into(), Json::from),
    }
}
