//! Features of an interface that variants turn on and off.

use crate::{
    error::{Error, Result},
    lab::Host,
    netlink::ethtool::Ethtool,
};

/// Turns features of a host's interface on or off, by the kernel's names for them.
///
/// # Errors
///
/// The interface does not obey.
pub fn set(host: &Host, ifindex: u32, wanted: &[(&str, bool)]) -> Result<()> {
    let set = || Ethtool::open().and_then(|mut ethtool| ethtool.set_features(ifindex, wanted));
    let done = host.run(set)?.map_err(|error| error.while_doing("change features"))?;
    match done.refused.into_iter().next() {
        Some((name, on)) => {
            let on = if on { "on" } else { "off" };
            Err(Error::failed(format!("{} does not turn {name} {on}", host.interface())))
        }
        None => Ok(()),
    }
}

/// Whether the interface of a host has a feature, on or not, and obeys.
///
/// # Errors
///
/// Its features cannot be read.
pub fn can_be_set(host: &Host, name: &str) -> Result<bool> {
    let read = || Ethtool::open().and_then(|mut ethtool| ethtool.features(host.ifindex()));
    let features = host.run(read)?.map_err(|error| error.while_doing("read features"))?;
    Ok(features.get(name).is_some_and(|feature| !feature.is_fixed()))
}
