//! What nicctl shows of a card is what sysfs and procfs say.

use std::fs;

use nic_user::{lab::Host, nic::sysfs::Sysfs};
use serde_json::Value;

use crate::{Guest, Outcome, nicctl};

pub fn shown_is_what_the_kernel_says(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let document = nicctl::json("show", host.interface(), host, &[]);
    assert_eq!(document["driver"]["name"], guest.driver.as_str());
    assert_eq!(document["notes"], Value::Array(Vec::new()));
    let setting = |group: &str, name: &str| document["settings"][group][name]["value"].clone();
    assert_eq!(Some(setting("link", "mtu").to_string()), in_sysfs(host, "mtu"));
    for (name, file) in
        [("gro-flush-timeout", "gro_flush_timeout"), ("defer-hard-irqs", "napi_defer_hard_irqs")]
    {
        assert_eq!(Some(setting("napi", name).to_string()), in_sysfs(host, file), "{name}");
    }
    for (group, queue, file) in [("rps", "rx-0", "rps_cpus"), ("xps", "tx-0", "xps_cpus")] {
        let theirs = in_sysfs(host, &format!("queues/{queue}/{file}"));
        assert_eq!(setting(group, queue).as_str(), theirs.as_deref(), "{group}");
    }
    let interrupts = document["settings"]["irq"].as_object();
    for (number, interrupt) in interrupts.into_iter().flatten() {
        let file = format!("/proc/irq/{number}/smp_affinity_list");
        assert_eq!(interrupt["value"], fs::read_to_string(file).unwrap().trim_end());
    }
    assert_eq!(interrupts.is_some(), guest.driver != "veth");
    assert_eq!(document["copybreak"]["state"], copybreak(&guest.driver));
    fits(host);
    Outcome::Passed
}

/// What a file of the interface's directory says; `None` where the kernel does not.
fn in_sysfs(host: &Host, file: &str) -> Option<String> {
    let link = host.link().unwrap();
    host.run(|| Sysfs::of(&link).unwrap().read(file).ok()).unwrap()
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
