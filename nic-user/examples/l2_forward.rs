//! Forwards every frame between two interfaces: `l2_forward A B`. The whole of it is
//! `nicctl forward`; this is its heart.

use std::{env, error::Error, time::Duration};

use nic_common::{policy::CopyPolicy, steer::Rules};
use nic_user::{
    driver::{
        Interface, Options,
        buffers::{Buffers, Layout},
        port::{self, Config, Port},
        receive::Building,
    },
    nic::{InterfaceName, Nic},
};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<_> = env::args().skip(1).collect();
    let [first, second] = &names[..] else { return Err("usage: l2_forward A B".into()) };
    // Frames of one memory go from one port to the other without a copy.
    let buffers = Buffers::new(Layout { frames: 16_384, ..Layout::default() })?;
    let open = |name: &str| -> Result<Port, Box<dyn Error>> {
        let nic = Nic::by_name(&InterfaceName::new(name)?)?;
        let interface = Interface { name, ifindex: nic.ifindex(), netns: None };
        let policy = CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false };
        let config = Config {
            queues: vec![0],
            building: Building { policy, bounce_below: 0 },
            options: Options::default(),
        };
        Ok(Port::steered(&interface, &config, &Rules::ALL, &buffers)?)
    };
    let mut ports = [open(first)?, open(second)?];
    println!("forwarding queue 0 of {first} and {second}");
    let mut arrived = Vec::new();
    loop {
        port::wait(&[&ports[0], &ports[1]], Duration::from_secs(1))?;
        for from in [0, 1] {
            ports[from].queues_mut()[0]
                .receive_frames(64, |frame, more| arrived.push((frame, more)));
            let to = &mut ports[1 - from].queues_mut()[0];
            for (frame, more) in arrived.drain(..) {
                // What does not fit into the ring is dropped.
                let _ = to.send_frame(frame, more);
            }
            to.flush()?;
        }
    }
}
