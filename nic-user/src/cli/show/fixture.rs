//! A NIC with as many and as unusual settings as any.

use super::Shown;
use crate::{
    netlink::{
        ethtool_ioctl::{
            DriverInfo,
            rules::{Rule, RuleAction},
        },
        link::LinkInfo,
        netdev::{
            page_pool::PagePool,
            queue::{Direction, QueueId},
        },
    },
    nic::{
        interrupts::Interrupt,
        setting::{Access, Group, Key, Setting, Settings, Value},
        settings::Survey,
        topology::QueuePath,
    },
};

pub(super) fn large() -> Shown {
    let survey = Survey {
        link: LinkInfo {
            ifindex: u32::MAX,
            name: "enp129s0f1np1v9".to_owned(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            up: true,
            ..LinkInfo::default()
        },
        driver: Some(DriverInfo {
            driver: "ena".to_owned(),
            version: "6.12.9-a-very-long-version-of-a-distribution".to_owned(),
            firmware_version: "0x80001234, 22.31.1014 (MT_0000000359)".to_owned(),
            bus_info: "0000:81:00.1".to_owned(),
        }),
        settings: settings(),
        queues: (0..64)
            .flat_map(|number| [Direction::Rx, Direction::Tx].map(|d| path(d, number)))
            .collect(),
        page_pools: vec![
            PagePool { id: 1, inflight: 512, inflight_bytes: 2 << 20, ..PagePool::default() },
            PagePool { id: 2, detach_time: Some(7), ..PagePool::default() },
        ],
        rules: vec![Rule {
            location: 3,
            flow: Some("tcp4"),
            matches: Default::default(),
            action: RuleAction::Queue { queue: 5, vf: 0 },
            own_rss_context: false,
        }],
        node: Some(1),
        notes: vec!["pause: EBUSY: Device or resource busy".to_owned()],
    };
    Shown { survey, netns: Some("blue".to_owned()), irqbalance: Some(812), groups: Vec::new() }
}

fn settings() -> Settings {
    let fixed = |by: &str| Access::Fixed { by: by.to_owned() };
    let key = (0..40).map(|byte: u8| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    let table = format!("table {}", (0..128).map(|n| n.to_string()).collect::<Vec<_>>().join(" "));
    let copybreak = Setting {
        max: Some(1500),
        default: Some(Value::from(256_u32)),
        note: Some("packets of one descriptor".to_owned()),
        ..Setting::new(512_u32)
    };
    let mtu = Setting { min: Some(68), max: Some(9216), ..Setting::new(9000_u32) };
    let requested = Setting { requested: Some(true.into()), ..Setting::new(false) };
    let timeout = |ns: u64| Setting { default: Some(0_u64.into()), ..Setting::new(ns) };
    let settings = [
        (Group::Copybreak, "rx", copybreak),
        (Group::Coalesce, "rx-usecs", Setting::new(u64::from(u32::MAX))),
        (Group::Feature, "rx-gro", Setting::new(true)),
        (Group::Feature, "rx-lro", requested),
        (Group::Feature, "highdma", Setting { access: fixed("kernel"), ..Setting::new(true) }),
        (Group::Feature, "rx-fcs", Setting { access: fixed("driver"), ..Setting::new(false) }),
        (Group::Link, "mtu", mtu),
        (Group::Napi, "gro-flush-timeout", timeout(0)),
        (Group::Napi, "8193/gro-flush-timeout", timeout(0)),
        (Group::Napi, "8194/gro-flush-timeout", timeout(u64::MAX)),
        (Group::PrivateFlag, "a flag \x1b[31m of an odd driver", Setting::new(true)),
        (Group::Rss, "key", Setting::new(key)),
        (
            Group::Rss,
            "indirection",
            Setting { default: Some("equal 64".into()), ..Setting::new(table) },
        ),
        (Group::Rps, "rx-1", Setting::new("00000000,0000ffff,55555555")),
        (Group::Irq, "101", Setting { access: fixed("kernel"), ..Setting::new("0-127") }),
    ];
    settings.into_iter().map(|(group, name, setting)| (Key::new(group, name), setting)).collect()
}

fn path(direction: Direction, number: u32) -> QueuePath {
    QueuePath {
        queue: QueueId { direction, number },
        napi: Some(8192 + number),
        thread: None,
        interrupt: Some(Interrupt {
            number: 100 + number,
            name: format!("enp129s0f1np1v9-Tx-Rx-{number}"),
            affinity: "0-127".to_owned(),
            effective: number.to_string(),
            writable: true,
        }),
        nodes: vec![number % 2],
        af_xdp: false,
    }
}
