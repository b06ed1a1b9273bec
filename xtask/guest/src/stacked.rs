//! Interfaces that are made of others, which the host's kernel may not have.

use nic_user::lab::{Lab, Shape};

use crate::{Guest, Outcome, nicctl};

pub fn a_bond_is_its_ports(_: &Guest) -> Outcome {
    of_ports("bond", "top is a bond: using its port nic-a")
}

pub fn a_team_is_its_ports(_: &Guest) -> Outcome {
    of_ports("team", "top is a team: using its port nic-a")
}

fn of_ports(kind: &str, sentence: &str) -> Outcome {
    let lab = Lab::new(Shape::default()).unwrap();
    let a = lab.a();
    a.links(|links| {
        links.add_plain("top", kind)?;
        let top = links.by_name("top")?.ifindex;
        links.set_up(a.ifindex(), false)?;
        links.set_master(a.ifindex(), top)?;
        links.set_up(top, true)
    })
    .unwrap();
    resolves(&lab, sentence)
}

pub fn a_vlan_is_what_is_below_it(_: &Guest) -> Outcome {
    let lab = Lab::new(Shape::default()).unwrap();
    let a = lab.a();
    a.links(|links| links.add_vlan("top", a.ifindex(), 5)).unwrap();
    resolves(&lab, "top is a VLAN: using the interface below it, nic-a")
}

fn resolves(lab: &Lab, sentence: &str) -> Outcome {
    let a = lab.a();
    let attached = nicctl::json("attach", "top", a, &["--mode", "generic"]);
    assert_eq!(attached["resolved"][0], sentence);
    assert_eq!(attached["interfaces"][0]["name"], "nic-a");
    let list = nicctl::attached();
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!(list[0]["name"], "nic-a");
    assert_eq!(a.link().unwrap().xdp.len(), 1);
    let detached = nicctl::json("detach", "top", a, &[]);
    assert_eq!(detached["interfaces"][0]["was_attached"], true);
    assert!(nicctl::attached().is_empty());
    Outcome::Passed
}
