//! `udp-gso`: one stream of datagrams, segmented by the caller, the stack, or the device.

use std::{io, net::IpAddr, rc::Rc};

use super::{
    cpu::Cpus,
    experiment::{Case, Experiment, Sample, Trial, Variant, percent},
    features,
    model::Measure,
    round::{Round, Side, Worker},
    tunnel::Tunnel,
    udp::{Bytes, Receiving, Sending, Stream},
    udp_port,
};
use crate::{
    error::Result,
    lab::{Lab, Shape, frames::Ends},
};

/// The feature that hands UDP super-packets to the device as they are.
const SEGMENTATION: &str = "tx-udp-segmentation";
/// The feature that it needs inside a UDP tunnel.
const TUNNEL_SEGMENTATION: &str = "tx-udp_tnl-segmentation";

/// What the discussion saw with datagrams of one size, as ratios to plain sending.
struct Published {
    size: usize,
    software: [Option<f64>; 2],
    offload: [Option<f64>; 2],
}

/// Gbit/s 10.2, 25.5, 35.6 at 17, 17, 8 % CPU; 5.7, 19.2, 35.6; 3.5, 10.4, 33.8.
const PUBLISHED: [Published; 3] = [
    Published { size: 1472, software: [Some(2.5), Some(0.40)], offload: [Some(3.49), Some(0.135)] },
    Published { size: 1024, software: [Some(3.37), None], offload: [Some(6.25), None] },
    Published { size: 512, software: [Some(2.97), None], offload: [Some(9.66), None] },
];

/// Payload that fits into a tunnel, in bytes.
const TUNNELLED: usize = 1400;

/// Sets the experiment up.
///
/// # Errors
///
/// There can be no lab here.
pub fn experiment() -> Result<Experiment> {
    let lab = Rc::new(Lab::new(Shape::default())?);
    let cpus = Cpus::apart()?;
    let path = Path { lab, cpus };
    let mut cases: Vec<Case> = PUBLISHED.iter().map(|published| path.plain(published)).collect();
    cases.push(path.tunnelled()?);
    Ok(Experiment {
        name: "udp-gso",
        title: "UDP GSO: one stream, from the sender to the receiving socket",
        source: "net/mlx5e: Add UDP GSO support (2018), ConnectX-4 Lx, 40 Gbit/s",
        place: format!("veth; {cpus}"),
        notes: [
            "rates are of payload that the receiver has taken from its socket; what it has no time \
             for is lost, which the sender does not notice",
            "veth segments nothing: with the feature on, a super-packet crosses whole, and the \
             receiving stack cuts it up unless the socket takes it whole",
            "sending over veth includes the receiving side's work up to the socket",
            "our driver segments in user space and sends through AF_XDP in copy mode: the kernel \
             makes a packet object of each segment, and the receiver verifies its checksum, as it \
             does not for what comes from the same machine's stack",
            "no virtual device has GSO_PARTIAL; through the tunnel, a super-packet is cut up in \
             front of the device, or crosses whole",
        ]
        .map(str::to_owned)
        .into(),
        cases,
    })
}

/// Where datagrams go.
struct Path {
    lab: Rc<Lab>,
    cpus: Cpus,
}

impl Path {
    fn plain(&self, published: &Published) -> Case {
        let Published { size, software, offload } = *published;
        let ends = [self.lab.a().ipv4(), self.lab.b().ipv4()].map(IpAddr::V4);
        let variant = |title, by, receiving, on, [rate, cost]: [Option<f64>; 2]| {
            let features = vec![(SEGMENTATION, on)];
            let trial = UdpTrial {
                lab: self.lab.clone(),
                cpus: self.cpus,
                ends,
                size,
                features,
                by,
                receiving,
                _tunnel: None,
            };
            Variant::new(title, trial).published(rate, cost)
        };
        use By::{Driver, Socket};
        use Receiving::{Many, Merged};
        let none = [None; 2];
        Case::new(
            format!("{size} bytes"),
            Measure::Bytes,
            vec![
                variant("plain send", Socket(Sending::One), Many, true, none),
                variant("sendmmsg", Socket(Sending::Many), Many, true, none),
                variant("GSO, software", Socket(Sending::Segmented), Many, false, software),
                variant("GSO, offload", Socket(Sending::Segmented), Many, true, offload),
                variant("offload + GRO", Socket(Sending::Segmented), Merged, true, none),
                variant("our driver", Driver, Many, true, none),
            ],
        )
    }

    fn tunnelled(&self) -> Result<Case> {
        let tunnel = Rc::new(Tunnel::new(&self.lab)?);
        let variant = |title, sending, on| {
            let trial = UdpTrial {
                lab: self.lab.clone(),
                cpus: self.cpus,
                ends: Tunnel::ADDRESSES.map(IpAddr::V4),
                size: TUNNELLED,
                features: vec![(SEGMENTATION, on), (TUNNEL_SEGMENTATION, on)],
                by: By::Socket(sending),
                receiving: Receiving::Many,
                _tunnel: Some(tunnel.clone()),
            };
            Variant::new(title, trial)
        };
        Ok(Case::new(
            format!("{TUNNELLED} bytes through VXLAN"),
            Measure::Bytes,
            vec![
                variant("plain send", Sending::One, true),
                variant("GSO, software", Sending::Segmented, false),
                variant("GSO, offload", Sending::Segmented, true),
            ],
        ))
    }
}

/// Who sends.
#[derive(Clone, Copy)]
enum By {
    /// The kernel.
    Socket(Sending),
    /// Our driver, which segments in front of its rings.
    Driver,
}

struct UdpTrial {
    lab: Rc<Lab>,
    cpus: Cpus,
    /// Addresses of sender and receiver.
    ends: [IpAddr; 2],
    /// Payload of a datagram, in bytes.
    size: usize,
    features: Vec<(&'static str, bool)>,
    by: By,
    receiving: Receiving,
    _tunnel: Option<Rc<Tunnel>>,
}

impl Trial for UdpTrial {
    fn set_up(&mut self) -> Result<()> {
        let sender = self.lab.a();
        features::set(sender, sender.ifindex(), &self.features)
    }

    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let [source, target] = self.ends;
        let (from, to) = (self.lab.a(), self.lab.b());
        let stream = Stream::open((from, source), (to, target))?;
        let ports = stream.ports()?;
        let ends = Ends { ports, ..Ends::between(from, to) };
        let bytes = Bytes::default();
        let Self { by, receiving, size, .. } = *self;
        let workers = vec![
            Worker::new(Side::Sender, self.cpus.sender, |over| match by {
                By::Socket(sending) => stream.send(sending, size, over, &bytes),
                By::Driver => {
                    udp_port::send(from, &ends, size, over, &bytes.sent).map_err(io::Error::other)
                }
            }),
            Worker::new(Side::Receiver, self.cpus.receiver, |over| {
                stream.receive(receiving, size, over, &bytes)
            }),
        ];
        let read = || Ok([bytes.sent.get(), bytes.received.get()]);
        let window = round.measure(workers, read)?;
        let [sent, received] = [0, 1].map(|index| window.after[index] - window.before[index]);
        let lost = sent.saturating_sub(received) as f64;
        Ok(Sample::of(&window, received).with("lost", "%", percent(lost, sent as f64)))
    }
}
