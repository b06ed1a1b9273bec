//! Turns features of a lab's interfaces on and off.

use nic_user::lab::Host;
use nic_user::netlink::ethtool::Ethtool;
use nic_user::netlink::ethtool::features::FeatureChanges;

pub fn set(host: &Host, feature: &str, on: bool) {
    let mut ethtool = host.run(Ethtool::open).unwrap().unwrap();
    let outcome = ethtool.set_features(host.ifindex(), &[(feature, on)]).unwrap();
    assert_eq!(outcome, FeatureChanges { changed: outcome.changed.clone(), ..Default::default() });
}
