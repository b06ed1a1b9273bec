//! `big-tcp`: packets of more than 64 KB, in transactions and in bulk.

use std::rc::Rc;

use super::{
    cpu::Cpus,
    experiment::{Case, Experiment, Sample, Trial, Variant},
    features,
    model::{Measure, Published},
    round::{Count, Round, Side, Worker},
    tcp::Connection,
};
use crate::{
    error::Result,
    lab::{Host, Lab, Shape, traffic::IpVersion},
    offload::TcCounters,
};

/// The largest packet of the kernels before, and of every device by default.
const LEGACY: u32 = 65_536;
/// The largest packet that the discussion tried.
const DISCUSSED: u32 = 185_000;
/// The largest packet that this kernel allows (`GSO_MAX_SIZE`).
const LARGEST: u32 = 524_280;
const ALL: [u32; 3] = [LEGACY, DISCUSSED, LARGEST];
const TWO: [u32; 2] = [LEGACY, DISCUSSED];

/// Bytes of a question that just does not fit into one packet of the old size.
const QUESTION: usize = 70_000;
/// Bytes of a question that does.
const FITTING_QUESTION: usize = 64_000;

/// 6591 to 8384 transactions a second; 62.5 + 97.4 to 54.4 + 57.6 µs of both sides' CPU time.
const PUBLISHED: Published = Published { rate: Some(1.27), cost: Some(0.70) };

/// Features that hand TCP super-packets to the device as they are.
const SEGMENTATION: [&str; 2] = ["tx-tcp-segmentation", "tx-tcp6-segmentation"];
const GRO: &str = "rx-gro";

/// Sets the experiment up in labs of its own.
///
/// # Errors
///
/// There can be no lab here.
pub fn in_lab() -> Result<Experiment> {
    let cpus = Cpus::together()?;
    let whole = Rc::new(Cable::whole()?);
    let jumbo = Rc::new(Cable::segmented(9000)?);
    let mut cases = Vec::new();
    for traffic in [Traffic::Transactions(QUESTION), Traffic::Bulk] {
        for ip in [IpVersion::V6, IpVersion::V4] {
            cases.push(case(&whole, ip, traffic, &ALL, cpus));
        }
        cases.push(case(&jumbo, IpVersion::V6, traffic, &TWO, cpus));
    }
    cases.push(case(&whole, IpVersion::V6, Traffic::Transactions(FITTING_QUESTION), &TWO, cpus));
    let note = "veth does not segment: super-packets cross it whole, as they reach a NIC with \
                TSO; with segmentation, they are split before it and merged behind it";
    Ok(experiment(&format!("veth; {cpus}"), note, cases))
}

/// Sets the experiment up in a lab around two interfaces.
///
/// # Errors
///
/// This process may use no processor.
pub fn over_cards(lab: &Rc<Lab>) -> Result<Experiment> {
    let cpus = Cpus::together()?;
    let cable = Rc::new(Cable::of(lab.clone(), "")?);
    let case = |ip, traffic| case(&cable, ip, traffic, &ALL, cpus);
    let cases = [Traffic::Transactions(QUESTION), Traffic::Bulk]
        .into_iter()
        .flat_map(|traffic| [IpVersion::V6, IpVersion::V4].map(|ip| case(ip, traffic)))
        .chain([case(IpVersion::V6, Traffic::Transactions(FITTING_QUESTION))])
        .collect();
    let ends = [lab.a(), lab.b()].map(Host::interface).join(" to ");
    let note = "CPU: all CPUs of this machine, which is both ends";
    Ok(experiment(&format!("{ends}; {cpus}"), note, cases))
}

fn experiment(place: &str, note: &str, cases: Vec<Case>) -> Experiment {
    Experiment {
        name: "big-tcp",
        title: "BIG TCP: packets of more than 64 KB",
        source: "mlx4: support BIG TCP packets (2022), ConnectX-3",
        place: place.to_owned(),
        notes: [
            "both ends share one CPU: on two CPUs, the saving would not show",
            note,
            "average packet: as seen at TC egress of the client; asking and answering CPU: of the \
             client's and the server's thread, per transaction",
            "requests of 64000 bytes fit into one packet of the old size: no gain expected",
        ]
        .map(str::to_owned)
        .into(),
        cases,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Traffic {
    /// Questions and answers of so many bytes.
    Transactions(usize),
    /// As much as the connection takes.
    Bulk,
}

fn traffic_name(traffic: Traffic) -> String {
    match traffic {
        Traffic::Transactions(size) => format!("TCP_RR {size}"),
        Traffic::Bulk => "bulk".to_owned(),
    }
}

const fn ip_name(ip: IpVersion) -> &'static str {
    match ip {
        IpVersion::V4 => "IPv4",
        IpVersion::V6 => "IPv6",
    }
}

fn case(cable: &Rc<Cable>, ip: IpVersion, traffic: Traffic, sizes: &[u32], cpus: Cpus) -> Case {
    let title = format!("{}, {}{}", traffic_name(traffic), ip_name(ip), cable.title);
    let variant = |&max_size: &u32| {
        let trial = TcpTrial { cable: cable.clone(), ip, traffic, max_size, cpus };
        let variant = Variant::new(size_name(max_size), trial);
        let discussed =
            cable.is_whole() && traffic == Traffic::Transactions(QUESTION) && ip == IpVersion::V6;
        match PUBLISHED {
            Published { rate, cost } if discussed && max_size == DISCUSSED => {
                variant.published(rate, cost)
            }
            _ => variant,
        }
    };
    let measure = match traffic {
        Traffic::Transactions(_) => Measure::Transactions,
        Traffic::Bulk => Measure::Bytes,
    };
    Case::new(title, measure, sizes.iter().map(variant).collect())
}

const fn size_name(max_size: u32) -> &'static str {
    match max_size {
        LEGACY => "up to 65536",
        DISCUSSED => "up to 185000",
        _ => "up to 524280",
    }
}

/// Two hosts, and how super-packets get from one to the other.
struct Cable {
    lab: Rc<Lab>,
    title: &'static str,
    /// At the host that asks; none where the kernel has no TCX.
    counters: Option<TcCounters>,
}

impl Cable {
    /// Super-packets cross whole.
    fn whole() -> Result<Self> {
        Self::of(Rc::new(Lab::new(Shape::default())?), "")
    }

    /// Super-packets are cut up in front of the cable, and put together behind it.
    fn segmented(mtu: u32) -> Result<Self> {
        let lab = Lab::new(Shape { mtu, ..Shape::default() })?;
        for host in [lab.a(), lab.b()] {
            let [v4, v6] = SEGMENTATION;
            features::set(host, host.ifindex(), &[(v4, false), (v6, false), (GRO, true)])?;
        }
        Self::of(Rc::new(lab), ", segmented at MTU 9000")
    }

    fn of(lab: Rc<Lab>, title: &'static str) -> Result<Self> {
        let host = lab.a();
        let link = host.link()?;
        let queues = link.rx_queues.max(link.tx_queues);
        let counters = host.run(|| TcCounters::attach(host.interface(), queues).ok())?;
        Ok(Self { lab, title, counters })
    }

    const fn is_whole(&self) -> bool {
        self.title.is_empty()
    }

    fn ends(&self) -> (&Host, &Host) {
        (self.lab.a(), self.lab.b())
    }

    /// Packets and bytes that the first host has handed to its interface.
    fn sent(&self) -> Result<[u64; 2]> {
        let Some(counters) = &self.counters else { return Ok([0; 2]) };
        let (_, sent) = counters.read()?;
        Ok([sent.packets, sent.bytes])
    }
}

struct TcpTrial {
    cable: Rc<Cable>,
    ip: IpVersion,
    traffic: Traffic,
    max_size: u32,
    cpus: Cpus,
}

impl Trial for TcpTrial {
    fn set_up(&mut self) -> Result<()> {
        self.cable.lab.set_max_packet_size(self.max_size)
    }

    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let (a, b) = self.cable.ends();
        let connection = Connection::open(a, b, self.ip)?;
        let done = Count::default();
        let (traffic, connection, done) = (self.traffic, &connection, &done);
        let workers = vec![
            Worker::new(Side::Sender, self.cpus.sender, move |over| match traffic {
                Traffic::Transactions(size) => connection.from.ask(size, over, done),
                Traffic::Bulk => connection.from.send(over),
            }),
            Worker::new(Side::Receiver, self.cpus.receiver, move |_| match traffic {
                Traffic::Transactions(size) => connection.to.answer(size),
                Traffic::Bulk => connection.to.receive(done),
            }),
        ];
        let window = round.measure(workers, || Ok((done.get(), self.cable.sent()?)))?;
        let (before, after) = (window.before, window.after);
        let amount = after.0 - before.0;
        let [packets, bytes] = [0, 1].map(|index| (after.1[index] - before.1[index]) as f64);
        let average = (packets > 0.0).then(|| bytes / packets);
        let sample = Sample::of(&window, amount).with("average packet", "B", average);
        let each = |seconds: f64| (amount > 0).then(|| seconds * 1e6 / amount as f64);
        Ok(match traffic {
            Traffic::Bulk => sample,
            Traffic::Transactions(_) => sample
                .with("asking CPU", "µs", each(window.cpu.sender))
                .with("answering CPU", "µs", each(window.cpu.receiver)),
        })
    }
}
