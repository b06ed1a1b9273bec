//! nicctl at work: two hosts joined by a cable, traffic of several kinds between them, and what
//! nicctl says about it. Everything is made for the demo and removed at its end.
//!
//! Run it with `cargo xtask demo`; it needs root. `--picture FILE` also draws what `nicctl stats`
//! printed. A package of its own and no example of nic-user:
//! those are built with all that the tests need, which takes longer than nicctl itself.

mod picture;

use std::{
    env, fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use nic_user::lab::{
    Host, Lab, Shape,
    frames::{self, Ends},
    traffic::{self, IpVersion},
};
use serde_json::Value;

const QUEUES: u32 = 4;

fn main() -> anyhow::Result<()> {
    let start = Instant::now();
    let picture = picture_path()?;
    let nicctl = Nicctl::find()?;
    step("Two hosts, joined by a veth pair with 4 queues");
    let lab = Lab::new(Shape { queues: QUEUES, mtu: 1500 })?;
    let (a, b) = (lab.a(), lab.b());
    for host in [a, b] {
        println!("  {}: {} and {}", host.interface(), host.ipv4(), host.ipv6());
    }

    step("nicctl attach --mode native");
    for host in [a, b] {
        let netns = host.netns_name();
        nicctl.show(&["attach", host.interface(), "--mode", "native", "--netns", netns])?;
    }

    for (title, send) in KINDS {
        let before = nicctl.packets(b)?;
        let sending = Instant::now();
        let sent = send(a, b)?;
        let counted = nicctl.packets(b)? - before;
        let took = sending.elapsed().as_secs_f32();
        println!("  {title:<44} {sent:>16}, {counted:>7} frames counted, {took:.1} s");
        ensure!(counted > 0, "{title}: nothing was counted");
    }

    step("nicctl stats nic-b");
    let stats = nicctl.output(&["stats", b.interface(), "--netns", b.netns_name()])?;
    print!("{stats}");
    if let Some(path) = picture {
        let command = format!("nicctl stats {}", b.interface());
        let svg = picture::svg(&command, &stats.replace(b.netns_name(), "demo"));
        fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    step("nicctl stats nic-a");
    nicctl.show(&["stats", a.interface(), "--netns", a.netns_name()])?;

    step("nicctl detach");
    for host in [a, b] {
        nicctl.show(&["detach", host.interface(), "--netns", host.netns_name()])?;
        ensure!(host.link()?.xdp.is_empty(), "{} still has a program", host.interface());
    }
    drop(lab);
    println!("\nNothing is left behind. It took {:.1} s.", start.elapsed().as_secs_f32());
    Ok(())
}

/// The value of `--picture`, the only argument there is.
fn picture_path() -> anyhow::Result<Option<PathBuf>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [] => Ok(None),
        [name, path] if name == "--picture" => Ok(Some(path.into())),
        _ => bail!("usage: cargo xtask demo [--picture FILE]"),
    }
}

/// A kind of traffic: what it is called, and how it is sent from one host to the other. It returns
/// what was sent, in words.
type Kind = (&'static str, fn(&Host, &Host) -> anyhow::Result<String>);

const KINDS: [Kind; 5] = [
    ("TCP over IPv4, 4 connections", |a, b| bulk(a, b, IpVersion::V4)),
    ("TCP over IPv6, 4 connections", |a, b| bulk(a, b, IpVersion::V6)),
    ("UDP over IPv4 and IPv6, 64 to 1400 bytes", |a, b| datagrams(a, b)),
    ("VLAN, QinQ, VXLAN, GRE, extension headers", |a, b| {
        let ends = Ends::between(a, b);
        many(a, ends.samples().into_iter().map(|sample| sample.frame).collect())
    }),
    ("VLAN-tagged IPv6", |a, b| {
        let ends = Ends::between(a, b);
        let datagram = ends.udp(IpVersion::V6, &[0xa5; 1000]);
        many(a, vec![ends.ethernet(frames::vlan(5, ends.ipv6(datagram)))])
    }),
];

fn bulk(a: &Host, b: &Host, ip: IpVersion) -> anyhow::Result<String> {
    let bytes = traffic::tcp(a, b, ip, QUEUES, 32 << 20)?;
    Ok(format!("{} MiB", bytes >> 20))
}

fn datagrams(a: &Host, b: &Host) -> anyhow::Result<String> {
    let mut count = 0;
    for ip in IpVersion::ALL {
        for size in [64, 256, 512, 1024, 1400] {
            count += traffic::udp(a, b, ip, 16, 400, size)?;
        }
    }
    Ok(format!("{count} datagrams"))
}

fn many(a: &Host, frames: Vec<Vec<u8>>) -> anyhow::Result<String> {
    const ROUNDS: u64 = 100;
    let mut sent = 0;
    for _ in 0..ROUNDS {
        sent += traffic::send_frames(a, &frames)?;
    }
    Ok(format!("{sent} frames"))
}

fn step(title: &str) {
    println!("\n\u{2022} {title}");
}

/// The program that is shown.
struct Nicctl(PathBuf);

impl Nicctl {
    /// The one built beside this program.
    fn find() -> anyhow::Result<Self> {
        Ok(Self(env::current_exe()?.with_file_name("nicctl")))
    }

    fn show(&self, arguments: &[&str]) -> anyhow::Result<()> {
        print!("{}", self.output(arguments)?);
        Ok(())
    }

    /// Frames that have been counted at `host`, once their number stands still.
    fn packets(&self, host: &Host) -> anyhow::Result<u64> {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut last = None;
        loop {
            let now = self.packets_now(host)?;
            if last.replace(now) == Some(now) {
                return Ok(now);
            }
            ensure!(Instant::now() < deadline, "{} does not come to rest", host.interface());
        }
    }

    fn packets_now(&self, host: &Host) -> anyhow::Result<u64> {
        let arguments = ["stats", host.interface(), "--netns", host.netns_name(), "--json"];
        let document: Value = serde_json::from_str(&self.output(&arguments)?)?;
        document["interfaces"][0]["total"]["rx"]["packets"].as_u64().context("no packets in stats")
    }

    fn output(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let program = self.0.display();
        let output = Command::new(&self.0)
            .args(arguments)
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
