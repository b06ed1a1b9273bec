//! Groups that the ethtool family of netlink has as numbers: rings, channels, coalescing, pause
//! frames; and private flags.

use super::{Named, number, switch, unknown, up_to, wrong_type};
use crate::netlink;
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool::parameter::{Kind, Parameter, Reading};
use crate::netlink::ethtool::rings::Ring;
use crate::nic::drivers;
use crate::nic::setting::{Access, Setting, Value};

/// What the values of [`Kind::AutoSwitch`] are called.
const AUTO_SWITCH: [&str; 3] = ["auto", "off", "on"];

pub(super) fn read<P: Parameter>(ethtool: &mut Ethtool, ifindex: u32) -> netlink::Result<Named> {
    let readings = ethtool.get::<P>(ifindex)?;
    let named = |(parameter, reading): (P, Reading)| {
        let value = decode(parameter.kind(), reading.value);
        (parameter.name().to_owned(), up_to(reading.max.map(u64::from), value))
    };
    Ok(readings.into_iter().map(named).collect())
}

/// The rings; what the driver is known not to have is fixed.
pub(super) fn read_rings(
    ethtool: &mut Ethtool,
    ifindex: u32,
    driver: Option<&str>,
) -> netlink::Result<Named> {
    let mut rings = read::<Ring>(ethtool, ifindex)?;
    for (name, setting) in &mut rings {
        if driver.is_some_and(|driver| drivers::lacks_push(driver, name)) {
            setting.access = Access::Fixed { by: "driver".to_owned() };
        }
    }
    Ok(rings)
}

pub(super) fn write<P: Parameter>(
    ifindex: u32,
    changes: &[(String, Value)],
) -> netlink::Result<Option<String>> {
    let encode = |(name, value): &(String, Value)| {
        let parameter = P::from_name(name).ok_or_else(|| unknown(name))?;
        Ok((parameter, encode(parameter.kind(), name, value)?))
    };
    let changes = changes.iter().map(encode).collect::<netlink::Result<Vec<_>>>()?;
    Ethtool::open()?.set(ifindex, &changes)
}

fn decode(kind: Kind, value: u32) -> Value {
    match kind {
        Kind::Number => value.into(),
        Kind::Switch => (value != 0).into(),
        Kind::AutoSwitch => match AUTO_SWITCH.get(value as usize) {
            Some(&name) => name.into(),
            None => value.into(),
        },
    }
}

fn encode(kind: Kind, name: &str, value: &Value) -> netlink::Result<u32> {
    match kind {
        Kind::Number => number(name, value),
        Kind::Switch => switch(name, value).map(u32::from),
        Kind::AutoSwitch => {
            let text = value.to_string();
            let position = AUTO_SWITCH.iter().position(|&known| known == text);
            position
                .and_then(|position| u32::try_from(position).ok())
                .ok_or_else(|| wrong_type(name, value, "auto, off or on"))
        }
    }
}

pub(super) fn read_private_flags(ethtool: &mut Ethtool, ifindex: u32) -> netlink::Result<Named> {
    let flags = ethtool.private_flags(ifindex)?;
    Ok(flags.into_iter().map(|(name, on)| (name, Setting::new(on))).collect())
}

pub(super) fn write_private_flags(
    ifindex: u32,
    changes: &[(String, Value)],
) -> netlink::Result<Option<String>> {
    let change = |(name, value): &(String, Value)| Ok((name.clone(), switch(name, value)?));
    let changes = changes.iter().map(change).collect::<netlink::Result<Vec<_>>>()?;
    Ethtool::open()?.set_private_flags(ifindex, &changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_out_as_they_came_in() {
        let round = |kind, value| encode(kind, "x", &decode(kind, value)).unwrap();
        assert_eq!(round(Kind::Number, 70_000), 70_000);
        assert_eq!([0, 1].map(|value| round(Kind::Switch, value)), [0, 1]);
        assert_eq!([0, 1, 2].map(|value| round(Kind::AutoSwitch, value)), [0, 1, 2]);
        assert_eq!(decode(Kind::AutoSwitch, 2), Value::from("on"));
        // What a user writes may be a switch, and an unknown number is no reason to hide it.
        assert_eq!(encode(Kind::AutoSwitch, "x", &Value::from(true)), Ok(2));
        assert_eq!(decode(Kind::AutoSwitch, 3), Value::from(3_u32));
    }
}
