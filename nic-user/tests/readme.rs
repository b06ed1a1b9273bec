//! The README, as somebody tries it who sees it for the first time: each line is pasted.

mod attached;
mod common;
mod paste;

use attached::{nicctl, on};
use nic_user::{
    lab::{Lab, Shape},
    netlink::link_edit::VethEnd,
};
use paste::paste;

/// The lines of the blocks that a shell is to run, of one section.
fn lines(section: &str) -> Vec<&'static str> {
    let page = include_str!("../../README.md");
    let section = page.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let blocks = section.split("```bash\n").skip(1).filter_map(|part| part.split("```").next());
    blocks.flat_map(str::lines).collect()
}

#[test]
fn what_the_readme_shows_can_be_pasted() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let host = lab.b();
    let end = |name| VethEnd { name, queues: 1, mtu: 1500, netns: None };
    host.links(|links| {
        links.add_veth(end("nic-v"), end("nic-w"))?;
        let [v, w] = [links.by_name("nic-v")?.ifindex, links.by_name("nic-w")?.ifindex];
        links.set_up(v, true)?;
        links.set_up(w, true)
    })
    .unwrap();
    let lines = [lines("Five commands"), lines("Use")].concat();
    assert!(lines.len() > 20);
    for line in lines {
        let here = line.replace("eth0", "nic-b").replace("eth1", "nic-v");
        let goes_on =
            ["--watch", "nicctl log", "nicctl forward"].iter().any(|it| line.contains(it));
        let timeout = if goes_on { "timeout --signal INT 2 " } else { "" };
        let output = paste(&format!("ip netns exec {} {timeout}{here}", host.netns_name()));
        let expected = if goes_on { 124 } else { 0 };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{line}: {said}");
    }
    nicctl(&on(host, "restore", &[]));
}
