//! Copybreaks: what the kernel says of tunable ones, and what is known of the others.

use std::{fs, io};

use super::{Named, number, unknown};
use crate::netlink;
use crate::netlink::ethtool_ioctl::EthtoolIoctl;
use crate::netlink::ethtool_ioctl::tunable::Tunable;
use crate::nic::copybreak::{Copybreak, facts};
use crate::nic::setting::{Access, Setting, Value};
use crate::nic::sysfs::if_there;

const fn name(tunable: Tunable) -> &'static str {
    match tunable {
        Tunable::RxCopybreak => "rx",
        Tunable::TxCopybreak => "tx",
        Tunable::TxBufSize => "tx-buf-size",
    }
}

pub(super) fn read(
    ioctl: &EthtoolIoctl,
    interface: &str,
    driver: Option<&str>,
) -> netlink::Result<Named> {
    let rx = driver.and_then(facts).map(|facts| facts.rx);
    let mut named = Named::new();
    for tunable in Tunable::ALL {
        let setting = match (tunable, ioctl.tunable(interface, tunable)?) {
            (Tunable::RxCopybreak, Some(bytes)) => Some(tunable_rx(bytes, rx)),
            (Tunable::RxCopybreak, None) => rx.map(fixed_rx).transpose()?.flatten(),
            (_, bytes) => bytes.map(Setting::new),
        };
        named.extend(setting.map(|setting| (name(tunable).to_owned(), setting)));
    }
    Ok(named)
}

fn tunable_rx(bytes: u32, facts: Option<Copybreak>) -> Setting {
    match facts {
        Some(Copybreak::Tunable { default, min, max }) => {
            Setting { min, max, default: Some(default.into()), ..Setting::new(bytes) }
        }
        _ => Setting::new(bytes),
    }
}

/// The receive copybreak of a driver that has none to tune, or had none in this kernel yet.
fn fixed_rx(facts: Copybreak) -> io::Result<Option<Setting>> {
    let (value, by) = match facts {
        Copybreak::Tunable { default, .. } | Copybreak::Fixed(default) => (default, "driver"),
        Copybreak::ModuleParameter { module, parameter, default } => {
            (parameter_value(module, parameter)?.unwrap_or(default), "module parameter")
        }
        Copybreak::None => return Ok(None),
    };
    Ok(Some(Setting { access: Access::Fixed { by: by.to_owned() }, ..Setting::new(value) }))
}

fn parameter_value(module: &str, parameter: &str) -> io::Result<Option<u64>> {
    let file = format!("/sys/module/{module}/parameters/{parameter}");
    let text = if_there(fs::read_to_string(file))?;
    Ok(text.and_then(|text| text.trim_end().parse().ok()))
}

pub(super) fn write(
    interface: &str,
    changes: &[(String, Value)],
) -> netlink::Result<Option<String>> {
    let ioctl = EthtoolIoctl::open()?;
    for (key, value) in changes {
        let tunable = Tunable::ALL.into_iter().find(|tunable| name(*tunable) == key);
        let tunable = tunable.ok_or_else(|| unknown(key))?;
        ioctl.set_tunable(interface, tunable, number(key, value)?)?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunable_one_has_the_drivers_limits() {
        let r8152 = Copybreak::Tunable { default: 256, min: Some(60), max: None };
        let setting = tunable_rx(128, Some(r8152));
        assert_eq!((setting.min, setting.max), (Some(60), None));
        assert_eq!(setting.default, Some(Value::from(256_u32)));
        // An out-of-tree driver may let be tuned what the kernel's own fixes.
        assert_eq!(tunable_rx(128, Some(Copybreak::Fixed(256))), Setting::new(128_u32));
    }

    #[test]
    fn others_say_who_fixed_them() {
        let by = |facts| match fixed_rx(facts).unwrap().map(|setting| setting.access) {
            Some(Access::Fixed { by }) => Some(by),
            Some(other) => panic!("{other:?}"),
            None => None,
        };
        assert_eq!(by(Copybreak::Fixed(256)).as_deref(), Some("driver"));
        assert_eq!(by(Copybreak::None), None);
        let parameter =
            Copybreak::ModuleParameter { module: "nic_none", parameter: "copybreak", default: 128 };
        assert_eq!(by(parameter).as_deref(), Some("module parameter"));
        let fixed = fixed_rx(parameter).unwrap().unwrap();
        assert_eq!(fixed.value, Value::from(128_u32));
    }

    #[test]
    fn loopback_has_none() {
        let ioctl = EthtoolIoctl::open().unwrap();
        assert_eq!(read(&ioctl, "lo", None), Ok(Named::new()));
        assert!(write("lo", &[("rx".to_owned(), 128_u32.into())]).is_err());
        let error = write("lo", &[("rx-usecs".to_owned(), 128_u32.into())]).unwrap_err();
        assert_eq!(error.attribute.as_deref(), Some("rx-usecs"));
    }
}
