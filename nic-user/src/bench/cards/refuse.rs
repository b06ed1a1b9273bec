//! Which interfaces are not to be lent: those that somebody uses, and those that would not come
//! back as they were.

use std::{collections::BTreeSet, fs, net::IpAddr};

use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    netlink::{
        link::LinkInfo,
        qdisc,
        route::{MadeRoutes, Routes},
    },
    nic::{Nic, sysfs},
    offload::Slot,
};

/// The index of `lo`, in every network namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;
/// Queueing disciplines that an interface has without anybody's doing.
const DEFAULT_QDISCS: [&str; 3] = ["noqueue", "mq", "pfifo_fast"];

/// Refuses what is in use. Both are of the present network namespace, as all `links` are.
///
/// # Errors
///
/// The reason.
pub fn refuse(nics: &[Nic; 2], links: &[LinkInfo]) -> Result<()> {
    let [tx, rx] = nics;
    if tx.ifindex() == rx.ifindex() {
        return Err(Error::usage("--tx and --rx must be two interfaces connected by a cable"));
    }
    for nic in nics {
        let name = nic.name();
        if let Some((reason, fix)) = stacked(&nic.link, links).or(in_use(nic)?) {
            return Err(Error::failed(format!("{name} cannot be used for a benchmark: {reason}"))
                .with_fix(fix));
        }
    }
    Ok(())
}

/// Why not, and what to do about it.
type Reason = (String, String);

fn stacked(link: &LinkInfo, links: &[LinkInfo]) -> Option<Reason> {
    match link.kind.as_deref() {
        None if link.ifindex != LOOPBACK => {}
        Some("veth") => {}
        _ => {
            let reason = "it is neither a NIC nor one end of a veth pair".to_owned();
            return Some((reason, "choose two interfaces connected by a cable".to_owned()));
        }
    }
    let name = |ifindex| {
        let link = links.iter().find(|link| link.ifindex == ifindex);
        link.map_or("another interface", |link| link.name.as_str())
    };
    if let Some(master) = link.master {
        let reason = format!("it is a port of {}", name(master));
        let words = ["ip", "link", "set", "dev", &link.name, "nomaster"];
        return Some((reason, CommandLine::networking(&words).to_string()));
    }
    let is_above = |above: &&LinkInfo| {
        above.lower.is_some_and(|lower| lower.ifindex == link.ifindex && lower.netnsid.is_none())
    };
    let above = links.iter().find(is_above)?;
    let fix = "use an idle interface".to_owned();
    Some((format!("{} is on top of it", above.name), fix))
}

fn in_use(nic: &Nic) -> Result<Option<Reason>> {
    let ifindex = nic.ifindex();
    let fail = |error: crate::netlink::Error| error.while_doing("check whether it is in use");
    let mut routes = Routes::open().map_err(fail)?;
    match routes.made_routes(ifindex).map_err(fail)? {
        MadeRoutes { has_default: true, .. } => {
            let reason = "the default route uses it".to_owned();
            return Ok(Some((reason, "use an interface the machine does not need".to_owned())));
        }
        MadeRoutes { routes: 0, .. } => {}
        MadeRoutes { routes, .. } => {
            let reason = format!("{routes} routes use it and would be lost");
            let list = CommandLine::networking(&["ip", "route", "show", "dev", nic.name()]);
            return Ok(Some((reason, format!("{}, also with ip -6, lists them", list.quoted()))));
        }
    }
    let connected = connected()?;
    let addresses = routes.addresses_of(ifindex).map_err(fail)?;
    let address = addresses.iter().filter_map(|it| it.ip()).find(|ip| connected.contains(ip));
    if let Some(address) = address {
        let reason = format!("there are TCP connections at its address {address}");
        let list = CommandLine::networking(&["ss", "-tn"]).quoted();
        let fix = format!("{list} lists them; use an idle interface");
        return Ok(Some((reason, fix)));
    }
    if Slot::of(&nic.link)?.exists()? || !nic.xdp().is_empty() {
        let reason = "there are BPF programs on it".to_owned();
        let detach = CommandLine::nicctl("detach").on(nic.name()).quoted();
        return Ok(Some((reason, format!("if they are nicctl's, detach them first: {detach}"))));
    }
    let default = fs::read_to_string("/proc/sys/net/core/default_qdisc").unwrap_or_default();
    let is_made =
        |kind: &String| !DEFAULT_QDISCS.contains(&kind.as_str()) && kind.as_str() != default.trim();
    Ok(qdisc::kinds(ifindex).map_err(fail)?.into_iter().find(is_made).map(|kind| {
        let reason = format!("its queueing discipline {kind} would be lost");
        let delete = |what| {
            CommandLine::networking(&["tc", "qdisc", "del", "dev", nic.name(), what]).quoted()
        };
        let fix = format!("{} removes it, {} filters", delete("root"), delete("clsact"));
        (reason, fix)
    }))
}

/// The addresses at which this host has TCP connections.
fn connected() -> Result<BTreeSet<IpAddr>> {
    let mut connected = BTreeSet::new();
    for family in ["tcp", "tcp6"] {
        let path = format!("/proc/thread-self/net/{family}");
        // There may be no IPv6.
        let text = sysfs::if_there(fs::read_to_string(&path));
        let text = text.map_err(|error| Error::io(format!("read {path}"), &error))?;
        connected.extend(text.unwrap_or_default().lines().skip(1).filter_map(connection));
    }
    Ok(connected)
}

/// The address of a line of `/proc/net/tcp` if it is about a connection.
fn connection(line: &str) -> Option<IpAddr> {
    const TIME_WAIT: &str = "06";
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace().skip(1);
    let (local, _remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    if [TIME_WAIT, LISTEN].contains(&state) {
        return None;
    }
    let (address, _port) = local.split_once(':')?;
    // Words of 32 bits, each as the machine has it.
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let octets = words.collect::<Option<Vec<_>>>()?.concat();
    match <[u8; 4]>::try_from(octets.as_slice()) {
        Ok(octets) => Some(octets.into()),
        Err(_) => {
            <[u8; 16]>::try_from(octets).ok().map(|octets| IpAddr::from(octets).to_canonical())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_count() {
        let line =
            |address: &str, state: &str| format!("  0: {address}:0016 010200C0:D2F0 {state} 0");
        let v4 = u32::from_ne_bytes([192, 0, 2, 7]);
        let address = format!("{v4:08X}");
        assert_eq!(connection(&line(&address, "01")), Some(IpAddr::from([192, 0, 2, 7])));
        assert_eq!(connection(&line(&address, "0A")), None);
        let prefix = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
        let mapped = format!("{:08X}{:08X}{prefix:08X}{v4:08X}", 0, 0);
        assert_eq!(connection(&line(&mapped, "08")), Some(IpAddr::from([192, 0, 2, 7])));
        for line in ["", "0: x", "0: xyz:1 2 01", "0: 1:1 2 01"] {
            assert!(connection(line).is_none_or(|address| address.is_ipv4()), "{line}");
        }
    }

    #[test]
    fn only_cables_are_lent() {
        let link = |ifindex, kind: Option<&str>| LinkInfo {
            ifindex,
            kind: kind.map(str::to_owned),
            ..LinkInfo::default()
        };
        assert!(
            stacked(&link(2, None), &[]).is_none()
                && stacked(&link(2, Some("veth")), &[]).is_none()
        );
        for other in [link(1, None), link(2, Some("bond"))] {
            assert!(stacked(&other, &[]).is_some());
        }
        let port = LinkInfo { master: Some(3), ..link(2, None) };
        assert!(stacked(&port, &[]).is_some_and(|(reason, _)| reason.contains("port of")));
    }
}
