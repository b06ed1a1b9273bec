//! `udp-gso`: one stream of datagrams, segmented by the caller, the stack, or the device.

use std::{io, net::IpAddr, rc::Rc};

use super::{
    attached::attach,
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
    lab::{
        Host, Lab, Shape,
        bpf::{Hook, Program, XDP_PASS},
        frames::Ends,
    },
};

/// The feature that hands UDP super-packets to the device as they are.
const SEGMENTATION: &str = "tx-udp-segmentation";
/// The feature that it needs inside a UDP tunnel.
const TUNNEL_SEGMENTATION: &str = "tx-udp_tnl-segmentation";
/// The feature with which a device segments what it only half understands: the kernel prepares the
/// outer headers for it (GSO_PARTIAL).
const PARTIAL: &str = "tx-gso-partial";

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

const FIRST_NOTE: &str = "rates count payload that the receiver read from its socket; what it \
                          cannot keep up with is lost, unnoticed by the sender";

/// Payload that fits into a tunnel, in bytes.
const TUNNELLED: usize = 1400;

/// Sets the experiment up in a lab of its own.
///
/// # Errors
///
/// There can be no lab here.
pub fn in_lab() -> Result<Experiment> {
    let lab = Rc::new(Lab::new(Shape::default())?);
    let path = Path { lab, cpus: Cpus::apart()?, program: None };
    path.experiment(
        "veth",
        [
            "veth does not segment: with the feature on, a super-packet crosses it whole, and the \
             receiving stack splits it unless the socket takes it whole",
            "sending over veth includes the receiving side's work up to the socket",
            "our driver segments in user space and sends through AF_XDP in copy mode: the kernel \
             allocates a socket buffer per segment, and the receiver verifies its checksum, \
             unlike for packets of the same machine's stack",
            "no virtual device has GSO_PARTIAL; through the tunnel, a super-packet is split \
             before the device, or crosses it whole",
        ],
    )
}

/// Sets the experiment up in a lab around two interfaces.
///
/// # Errors
///
/// The kernel does not say where this process may run, or takes no XDP program.
pub fn over_cards(lab: &Rc<Lab>) -> Result<Experiment> {
    let program = Some(Rc::new(Program::returning(Hook::Xdp, XDP_PASS)?));
    let path = Path { lab: lab.clone(), cpus: Cpus::apart()?, program };
    let ends = [lab.a(), lab.b()].map(Host::interface).join(" to ");
    path.experiment(&ends, ["CPU: all CPUs of this machine, which is both ends"])
}

/// Where datagrams go.
struct Path {
    lab: Rc<Lab>,
    cpus: Cpus,
    /// What is attached while our driver sends: some network cards send what is in its rings only
    /// then.
    program: Option<Rc<Program>>,
}

impl Path {
    fn experiment(
        &self,
        devices: &str,
        notes: impl IntoIterator<Item = &'static str>,
    ) -> Result<Experiment> {
        let mut cases: Vec<Case> =
            PUBLISHED.iter().map(|published| self.plain(published)).collect();
        let mut notes: Vec<String> =
            [FIRST_NOTE].into_iter().chain(notes).map(str::to_owned).collect();
        match self.tunnelled() {
            Ok(case) => cases.push(case),
            Err(error) => notes.push(format!("no tunnel measured: {error}")),
        }
        Ok(Experiment {
            name: "udp-gso",
            title: "UDP GSO: one stream, from the sender to the receiving socket",
            source: "net/mlx5e: Add UDP GSO support (2018), ConnectX-4 Lx, 40 Gbit/s",
            place: format!("{devices}; {}", self.cpus),
            notes,
            cases,
        })
    }

    fn plain(&self, published: &Published) -> Case {
        let Published { size, software, offload } = *published;
        let ends = [self.lab.a().ipv4(), self.lab.b().ipv4()].map(IpAddr::V4);
        let variant = |title, by, receiving, on: Option<bool>, [rate, cost]: [Option<f64>; 2]| {
            let features = on.map(|on| (SEGMENTATION, on)).into_iter().collect();
            let trial = UdpTrial {
                lab: self.lab.clone(),
                cpus: self.cpus,
                ends,
                size,
                features,
                program: self.program.clone().filter(|_| matches!(by, By::Driver)),
                by,
                receiving,
                _tunnel: None,
            };
            Variant::new(title, trial).published(rate, cost)
        };
        use By::{Driver, Socket};
        use Receiving::{Many, Merged};
        let segmented = Socket(Sending::Segmented);
        Case::new(
            format!("{size} bytes"),
            Measure::Bytes,
            vec![
                variant("plain send", Socket(Sending::One), Many, None, [None; 2]),
                variant("sendmmsg", Socket(Sending::Many), Many, None, [None; 2]),
                variant("GSO, software", segmented, Many, Some(false), software),
                variant("GSO, offload", segmented, Many, Some(true), offload),
                variant("offload + GRO", segmented, Merged, Some(true), [None; 2]),
                variant("our driver", Driver, Many, None, [None; 2]),
            ],
        )
    }

    fn tunnelled(&self) -> Result<Case> {
        let tunnel = Rc::new(Tunnel::new(&self.lab)?);
        let variant = |title, sending, features: &[_]| {
            let trial = UdpTrial {
                lab: self.lab.clone(),
                cpus: self.cpus,
                ends: Tunnel::ADDRESSES.map(IpAddr::V4),
                size: TUNNELLED,
                features: features.to_vec(),
                program: None,
                by: By::Socket(sending),
                receiving: Receiving::Many,
                _tunnel: Some(tunnel.clone()),
            };
            Variant::new(title, trial)
        };
        let [off, on] = [false, true].map(|on| [(SEGMENTATION, on), (TUNNEL_SEGMENTATION, on)]);
        let offload = if features::can_be_set(self.lab.a(), PARTIAL)? {
            // Otherwise the kernel turns off what the device can only do that way.
            variant("GSO, partial", Sending::Segmented, &[&on[..], &[(PARTIAL, true)]].concat())
        } else {
            variant("GSO, offload", Sending::Segmented, &on)
        };
        Ok(Case::new(
            format!("{TUNNELLED} bytes through VXLAN"),
            Measure::Bytes,
            vec![
                variant("plain send", Sending::One, &[]),
                variant("GSO, software", Sending::Segmented, &off),
                offload,
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
    /// Attached to the sender, if any.
    program: Option<Rc<Program>>,
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
        let program = self.program.iter().map(|program| (&**program, from));
        let _attached = attach(&program.collect::<Vec<_>>())?;
        let stream = Stream::open((from, source), (to, target))?;
        let ends = Ends { ports: stream.ports()?, ..Ends::between(from, to) };
        let bytes = Bytes::default();
        let Self { by, receiving, size, .. } = *self;
        let (cpu, sender, sent) = (self.cpus.sender, &stream.sender, &bytes.sent);
        let workers = vec![
            match by {
                By::Socket(how) => {
                    Worker::new(Side::Sender, cpu, move |over| sender.send(how, size, over, sent))
                }
                By::Driver => Worker::prepared(Side::Sender, cpu, || {
                    let port = udp_port::Sender::open(from, &ends, size);
                    let port = port.map_err(io::Error::other)?;
                    Ok(|over: &_| port.send(over, sent).map_err(io::Error::other))
                }),
            },
            Worker::new(Side::Receiver, self.cpus.receiver, |over| {
                stream.receiver.receive(receiving, size, over, &bytes.received)
            }),
        ];
        let read = || Ok([bytes.sent.get(), bytes.received.get()]);
        let window = round.measure(workers, read)?;
        let [sent, received] = [0, 1].map(|index| window.after[index] - window.before[index]);
        let lost = sent.saturating_sub(received) as f64;
        Ok(Sample::of(&window, received).with("lost", "%", percent(lost, sent as f64)))
    }
}
