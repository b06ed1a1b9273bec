//! What nicctl shows of a card is what others show.

use nic_user::lab::Host;
use serde_json::Value;

use crate::{Guest, Outcome, nicctl, peers};

pub fn shown_is_what_others_show(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let document = nicctl::json("show", host.interface(), host, &[]);
    assert_eq!(document["driver"]["name"], guest.driver.as_str());
    assert_eq!(document["notes"], Value::Array(Vec::new()));
    let compared = peers::compare(host, host.interface(), &document);
    assert_eq!(compared.missing, Vec::<&str>::new());
    println!("{} values are those of ethtool, ip, sysfs and procfs", compared.values);
    let interrupts = document["settings"]["irq"].as_object();
    let has_interrupts = !matches!(guest.driver.as_str(), "veth" | "netdevsim" | "r8152");
    assert_eq!(interrupts.is_some(), has_interrupts);
    assert_eq!(document["copybreak"]["state"], copybreak(&guest.driver));
    fits(host);
    Outcome::Passed
}

fn copybreak(driver: &str) -> &'static str {
    match driver {
        "virtio_net" | "igb" | "e1000e" => "fixed",
        "veth" | "vmxnet3" => "none",
        "r8152" => "tunable",
        _ => "unknown",
    }
}

fn fits(host: &Host) {
    let output = nicctl::run(&["show", host.interface(), "--netns", host.netns_name()]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    assert!(text.lines().count() <= 50);
}
