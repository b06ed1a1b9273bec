//! MTU and sizes of offloaded packets, as rtnetlink has them.

use super::{Named, number, unknown, up_to};
use crate::netlink;
use crate::netlink::link::{LinkInfo, Links};
use crate::netlink::link_edit::{LinkChange, MaxSize};
use crate::nic::setting::{Setting, Value};

/// What every size is by default, unless the device can do less (`GSO_LEGACY_MAX_SIZE` and
/// `GRO_LEGACY_MAX_SIZE` in linux/netdevice.h), in bytes.
const DEFAULT_SIZE: u32 = 65_536;
/// `MAX_TCP_HEADER` and one byte, in bytes: the least of `IFLA_GSO_MAX_SIZE` and
/// `IFLA_GSO_IPV4_MAX_SIZE` (`ifla_policy` in net/core/rtnetlink.c), with the headers of Wi-Fi meshes
/// and tunnels as distributions build them. A kernel without them takes a little less.
const MIN_GSO_SIZE: u64 = 321;
/// `GRO_MAX_SIZE`, in bytes.
const MAX_GRO_SIZE: u32 = 8 * 65_535;
/// `GSO_MAX_SEGS`.
const MAX_SEGMENTS: u32 = 65_535;

pub(super) fn read(link: &LinkInfo) -> Named {
    let mtu = Setting {
        min: link.min_mtu.map(u64::from),
        max: link.max_mtu.map(u64::from),
        ..Setting::new(link.mtu)
    };
    let gso = |size: Option<u32>| {
        let setting = limited(size?, DEFAULT_SIZE, link.tso_max_size);
        Some(Setting { min: Some(MIN_GSO_SIZE), ..setting })
    };
    let gro = |size: Option<u32>| size.map(|size| limited(size, DEFAULT_SIZE, Some(MAX_GRO_SIZE)));
    let segments = |segments| limited(segments, MAX_SEGMENTS, link.tso_max_segs);
    [
        ("mtu", Some(mtu)),
        ("gso-max-size", gso(link.gso_max_size)),
        ("gso-max-segs", link.gso_max_segs.map(segments)),
        ("gro-max-size", gro(link.gro_max_size)),
        ("gso-ipv4-max-size", gso(link.gso_ipv4_max_size)),
        ("gro-ipv4-max-size", gro(link.gro_ipv4_max_size)),
    ]
    .into_iter()
    .filter_map(|(name, setting)| Some((name.to_owned(), setting?)))
    .collect()
}

/// A setting whose default is lowered to what the device can do.
fn limited(value: u32, default: u32, max: Option<u32>) -> Setting {
    let default = max.map_or(default, |max| default.min(max));
    Setting { default: Some(default.into()), ..up_to(max.map(u64::from), value) }
}

pub(super) fn write(ifindex: u32, changes: &[(String, Value)]) -> netlink::Result<Option<String>> {
    let changes = changes.iter().map(change).collect::<netlink::Result<Vec<_>>>()?;
    Links::open()?.change(ifindex, &changes)
}

fn change((name, value): &(String, Value)) -> netlink::Result<LinkChange> {
    let value = number(name, value)?;
    Ok(match name.as_str() {
        "mtu" => LinkChange::Mtu(value),
        "gso-max-size" => LinkChange::MaxSize(MaxSize::Gso, value),
        "gso-max-segs" => LinkChange::GsoMaxSegs(value),
        "gro-max-size" => LinkChange::MaxSize(MaxSize::Gro, value),
        "gso-ipv4-max-size" => LinkChange::MaxSize(MaxSize::GsoIpv4, value),
        "gro-ipv4-max-size" => LinkChange::MaxSize(MaxSize::GroIpv4, value),
        _ => return Err(unknown(name)),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sizes_come_with_the_devices_limits() {
        let link = LinkInfo {
            mtu: 1500,
            min_mtu: Some(68),
            max_mtu: Some(9000),
            gso_max_size: Some(40_000),
            gro_max_size: Some(65_536),
            gso_max_segs: Some(64),
            tso_max_size: Some(40_000),
            tso_max_segs: Some(64),
            ..LinkInfo::default()
        };
        let settings: BTreeMap<_, _> = read(&link).into_iter().collect();
        let mtu = Setting { min: Some(68), max: Some(9000), ..Setting::new(1500_u32) };
        assert_eq!(settings["mtu"], mtu);
        let sizes = ["gso-max-size", "gro-max-size", "gso-max-segs"]
            .map(|name| (settings[name].max, settings[name].default.clone()));
        assert_eq!(
            sizes,
            [
                (Some(40_000), Some(Value::from(40_000_u32))),
                (Some(524_280), Some(Value::from(65_536_u32))),
                (Some(64), Some(Value::from(64_u32))),
            ]
        );
        // Kernels before 6.3 do not have it.
        assert!(!settings.contains_key("gso-ipv4-max-size"));
    }

    #[test]
    fn every_setting_that_is_read_can_be_written() {
        let all = LinkInfo {
            gso_max_size: Some(1),
            gro_max_size: Some(1),
            gso_ipv4_max_size: Some(1),
            gro_ipv4_max_size: Some(1),
            gso_max_segs: Some(1),
            ..LinkInfo::default()
        };
        for (name, setting) in read(&all) {
            change(&(name, setting.value)).unwrap();
        }
        assert!(change(&("qlen".to_owned(), Value::from(1_u32))).is_err());
    }
}
