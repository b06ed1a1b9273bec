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
