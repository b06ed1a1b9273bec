//! From the interface that a user names to those that packets really arrive on.
//!
//! A bond or team hands XDP programs to its ports or refuses them, and a VLAN cannot run them
//! natively; the programs belong on what is below.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::{Error, Result};
use crate::netlink::link::LinkInfo;

/// The interfaces to work on in place of the one that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Indices of the interfaces, each once, in the order in which they were found.
    pub targets: Vec<u32>,
    /// What was replaced by what, outermost first; empty if the interface was taken as named.
    pub steps: Vec<Step>,
}

/// One interface replaced by those below it.
///
/// As text: `bond0 is a bond: using its ports eth1, eth2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The interface that was replaced.
    pub name: String,
    /// What it is.
    pub upper: Upper,
    /// What it was replaced by.
    pub below: Vec<String>,
}

/// A kind of interface that only passes on what arrives on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upper {
    /// Several ports as one, by the bonding driver.
    Bond,
    /// Several ports as one, by the team driver.
    Team,
    /// One VLAN of another interface.
    Vlan,
}

impl Upper {
    fn of(link: &LinkInfo) -> Option<Self> {
        match link.kind.as_deref()? {
            "bond" => Some(Self::Bond),
            "team" => Some(Self::Team),
            "vlan" => Some(Self::Vlan),
            _ => None,
        }
    }

    fn article_and_name(self) -> &'static str {
        match self {
            Self::Bond => "a bond",
            Self::Team => "a team",
            Self::Vlan => "a VLAN",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.upper, self.below.len()) {
            (Upper::Vlan, _) => "the interface below it,",
            (_, 1) => "its port",
            _ => "its ports",
        };
        let (name, upper) = (&self.name, self.upper.article_and_name());
        write!(f, "{name} is {upper}: using {what} {}", self.below.join(", "))
    }
}

/// Finds the interfaces below `named` among `links`, all links of its namespace.
pub fn resolve(named: &LinkInfo, links: &[LinkInfo]) -> Result<Resolved> {
    let mut resolved = Resolved { targets: Vec::new(), steps: Vec::new() };
    descend(named, links, &mut BTreeSet::new(), &mut resolved)?;
    if resolved.targets.is_empty() {
        return Err(Error::failed(format!("{} is stacked on itself", named.name))
            .with_fix("the interfaces changed while they were read; try again"));
    }
    Ok(resolved)
}

/// Adds what is below `link`, or `link` itself; each link is visited once, so that a list with
/// a loop in it (links may change while they are read) ends as well.
fn descend(
    link: &LinkInfo,
    links: &[LinkInfo],
    visited: &mut BTreeSet<u32>,
    resolved: &mut Resolved,
) -> Result<()> {
    if !visited.insert(link.ifindex) {
        return Ok(());
    }
    let Some(upper) = Upper::of(link) else {
        resolved.targets.push(link.ifindex);
        return Ok(());
    };
    let below = match upper {
        Upper::Bond | Upper::Team => ports(link, links)?,
        Upper::Vlan => vec![parent(link, links)?],
    };
    resolved.steps.push(Step {
        name: link.name.clone(),
        upper,
        below: below.iter().map(|link| link.name.clone()).collect(),
    });
    below.into_iter().try_for_each(|link| descend(link, links, visited, resolved))
}

fn ports<'a>(link: &LinkInfo, links: &'a [LinkInfo]) -> Result<Vec<&'a LinkInfo>> {
    let ports: Vec<_> = links.iter().filter(|port| port.master == Some(link.ifindex)).collect();
    if ports.is_empty() {
        let (name, kind) = (&link.name, link.kind.as_deref().unwrap_or_default());
        return Err(Error::failed(format!("{name} is a {kind} without ports"))
            .with_fix("name the interface that frames arrive on, or give it a port"));
    }
    Ok(ports)
}

fn parent<'a>(link: &LinkInfo, links: &'a [LinkInfo]) -> Result<&'a LinkInfo> {
    let name = &link.name;
    let lower = link
        .lower
        .ok_or_else(|| Error::failed(format!("{name} is a VLAN of an unknown interface")))?;
    if lower.netnsid.is_some() {
        return Err(Error::failed(format!(
            "{name} is a VLAN of an interface in another network namespace"
        ))
        .with_fix("name that interface, and its namespace with --netns"));
    }
    links.iter().find(|parent| parent.ifindex == lower.ifindex).ok_or_else(|| {
        let ifindex = lower.ifindex;
        Error::not_found(format!("{name} is a VLAN of interface {ifindex}, which is gone"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::netlink::link::DeviceRef;

    fn link(ifindex: u32, name: &str, kind: &str) -> LinkInfo {
        let kind = (!kind.is_empty()).then(|| kind.to_owned());
        LinkInfo { ifindex, name: name.to_owned(), kind, ..LinkInfo::default() }
    }

    fn port(ifindex: u32, name: &str, master: u32) -> LinkInfo {
        LinkInfo { master: Some(master), ..link(ifindex, name, "") }
    }

    fn vlan(ifindex: u32, name: &str, parent: u32) -> LinkInfo {
        let lower = Some(DeviceRef { ifindex: parent, netnsid: None });
        LinkInfo { lower, ..link(ifindex, name, "vlan") }
    }

    fn resolve_first(links: &[LinkInfo]) -> (Vec<u32>, Vec<String>) {
        let resolved = resolve(&links[0], links).unwrap();
        (resolved.targets, resolved.steps.iter().map(Step::to_string).collect())
    }

    #[test]
    fn an_interface_with_nothing_below_is_taken_as_named() {
        for kind in ["", "veth", "macvlan", "bridge", "vxlan"] {
            let links = [link(2, "eth0", kind), port(3, "eth1", 2)];
            assert_eq!(resolve_first(&links), (vec![2], vec![]));
        }
    }

    #[test]
    fn a_bond_is_its_ports() {
        let links =
            [link(9, "bond0", "bond"), port(2, "eth1", 9), link(4, "eth3", ""), port(3, "eth2", 9)];
        let sentence = "bond0 is a bond: using its ports eth1, eth2";
        assert_eq!(resolve_first(&links), (vec![2, 3], vec![sentence.to_owned()]));
    }

    #[test]
    fn a_team_of_one_is_its_port() {
        let links = [link(9, "team0", "team"), port(2, "eth1", 9)];
        let sentence = "team0 is a team: using its port eth1";
        assert_eq!(resolve_first(&links), (vec![2], vec![sentence.to_owned()]));
    }

    #[test]
    fn a_vlan_of_a_vlan_of_a_bond_is_the_bonds_ports() {
        let links = [
            vlan(12, "bond0.5.6", 11),
            vlan(11, "bond0.5", 9),
            link(9, "bond0", "bond"),
            port(2, "eth1", 9),
            port(3, "eth2", 9),
        ];
        let (targets, sentences) = resolve_first(&links);
        assert_eq!(targets, [2, 3]);
        assert_eq!(
            sentences,
            [
                "bond0.5.6 is a VLAN: using the interface below it, bond0.5",
                "bond0.5 is a VLAN: using the interface below it, bond0",
                "bond0 is a bond: using its ports eth1, eth2",
            ]
        );
    }

    #[test]
    fn two_vlans_of_one_interface_in_a_bond_are_one_target() {
        let in_bond = |vlan: LinkInfo| LinkInfo { master: Some(9), ..vlan };
        let links = [
            link(9, "bond0", "bond"),
            in_bond(vlan(4, "eth1.5", 2)),
            in_bond(vlan(5, "eth1.6", 2)),
            link(2, "eth1", ""),
        ];
        assert_eq!(resolve_first(&links).0, [2]);
    }

    #[test]
    fn a_loop_ends() {
        let links = [vlan(2, "a", 3), vlan(3, "b", 2)];
        let error = resolve(&links[0], &links).unwrap_err();
        assert_eq!(error.to_string(), "a is stacked on itself");
    }

    #[test]
    fn what_can_not_be_resolved_is_said() {
        let foreign = DeviceRef { ifindex: 2, netnsid: Some(1) };
        let cases = [
            (link(9, "bond0", "bond"), "bond0 is a bond without ports", Kind::Failed),
            (
                LinkInfo { lower: Some(foreign), ..link(4, "v", "vlan") },
                "v is a VLAN of an interface in another network namespace",
                Kind::Failed,
            ),
            (vlan(4, "v", 77), "v is a VLAN of interface 77, which is gone", Kind::NotFound),
        ];
        for (named, message, kind) in cases {
            let error = resolve(&named, std::slice::from_ref(&named)).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.kind()), (message, kind));
        }
    }
}
