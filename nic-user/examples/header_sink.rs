//! Keeps the headers of what arrives for one address, and gives the payload's frames back at once:
//! `header_sink IFACE ADDRESS[/PREFIX]`. Prints what the headers cost in memory.
//!
//! `Split` copies exactly the headers into a small buffer; a frame whose payload nobody wants is
//! dropped, which recycles it.

use std::{
    env,
    error::Error,
    net::IpAddr,
    time::{Duration, Instant},
};

use nic_common::{
    policy::CopyPolicy,
    steer::{Rule, Rules},
};
use nic_user::{
    driver::{
        Interface, Options,
        buffers::{Buffers, Layout},
        port::{Config, Port},
        receive::Building,
    },
    nic::{InterfaceName, Nic},
};

/// Headers that are kept.
const KEPT: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [name, prefix] = &arguments[..] else {
        return Err("usage: header_sink IFACE ADDRESS[/PREFIX]".into());
    };
    let rule = to(prefix)?;
    let nic = Nic::by_name(&InterfaceName::new(name)?)?;
    let interface = Interface { name, ifindex: nic.ifindex(), netns: None };
    let config = Config {
        queues: (0..nic.rx_queues()).collect(),
        building: Building { policy: CopyPolicy::DEFAULT, bounce_below: 0 },
        options: Options { fill: 512, ..Options::default() },
    };
    let rules = Rules::new(&[rule]).ok_or("too many rules")?;
    let buffers = Buffers::new(Layout { frames: 1024 * nic.rx_queues(), ..Layout::default() })?;
    let mut port = Port::steered(&interface, &config, &rules, &buffers)?;
    println!("keeping headers of what arrives at {name} for {prefix}");
    let mut headers = Vec::with_capacity(KEPT);
    let (mut packets, mut bytes, mut header_bytes) = (0_u64, 0, 0);
    let mut told = Instant::now();
    loop {
        port.wait(Duration::from_millis(100))?;
        for queue in port.queues_mut() {
            queue.receive(64, |packet| {
                packets += 1;
                bytes += packet.len() as u64;
                header_bytes += u64::from(packet.info.header_len);
                if headers.len() == KEPT {
                    headers.clear();
                }
                headers.push(packet.linear);
                // Here the payload's frame goes back.
            });
        }
        if told.elapsed() >= Duration::from_secs(1) {
            let frames = buffers.frames().account();
            let held = (headers.len(), frames.held);
            println!("{packets} packets, {bytes} bytes, {header_bytes} of headers; held: {held:?}");
            told = Instant::now();
        }
    }
}

/// The rule that takes what is for this address or prefix.
fn to(prefix: &str) -> Result<Rule, Box<dyn Error>> {
    let (address, len) = match prefix.split_once('/') {
        Some((address, len)) => (address.parse::<IpAddr>()?, len.parse()?),
        None => {
            let address: IpAddr = prefix.parse()?;
            (address, if address.is_ipv4() { 32 } else { 128 })
        }
    };
    Ok(Rule::TAKE.to(address, len).ok_or("the prefix is longer than the address")?)
}
