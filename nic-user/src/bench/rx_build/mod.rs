//! `rx-build`: what it costs to make a packet object of every frame, and where it can be done
//! without.

mod forwarder;
mod programs;
mod rings;

use std::{io, net::IpAddr, net::Ipv4Addr, rc::Rc};

use forwarder::OurForwarder;

use super::{
    attached::attach,
    cpu::{self, Cpus},
    experiment::{Case, Experiment, Sample, Trial, Variant},
    features, generator,
    model::Measure,
    round::{Count, Over, Round, Side, Worker},
    tcp::Connection,
};
use crate::{
    error::{Error, Result},
    lab::{
        Host, Lab, Shape,
        bpf::{Link, Program},
        frames::Ends,
        generator::Generator,
        traffic::IpVersion,
    },
    netlink::link::{LinkStats, Links},
    nic::sysfs,
};

const GRO: &str = "rx-gro";
/// Nobody, behind the host that frames come from.
const BEYOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
const BEYOND_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 77];

/// Sets the experiment up in labs of its own.
///
/// # Errors
///
/// There can be no lab here.
pub fn in_lab() -> Result<Experiment> {
    let cpus = cpu::allowed()?;
    let together = Cpus::together()?;
    let [tc, xdp] = [Rc::new(Site::tc_drop()?), Rc::new(Site::xdp_drop()?)];
    let mut cases: Vec<Case> = streams(&cpus).map(|cpus| drop_case(&tc, &xdp, cpus)).collect();
    cases.extend(rings::cases()?);
    cases.push(forward_case(&cpus)?);
    cases.push(transaction_case(&Rc::new(Lab::new(Shape::default())?), together)?);
    Ok(experiment(
        format!("veth; frames are generated and received on the same CPU; {together} for TCP_RR"),
        [
            "SND% is generator and receiver together: both run in the generator's thread",
            "our driver: the receiver is on another CPU and takes frames in batches; rates are \
             per time spent on this, not waiting; it drops what it builds",
            "forwarding sends frames back out of the interface they arrived on; what the kernel \
             forwards is dropped at TC, what XDP forwards at XDP; our forwarder has a CPU to \
             itself",
        ],
        cases,
    ))
}

/// Sets the experiment up in a lab around two interfaces: what needs no third host.
///
/// # Errors
///
/// The interface that is to receive cannot be set up, or programs cannot be loaded.
pub fn over_cards(lab: &Rc<Lab>) -> Result<Experiment> {
    let cpus = cpu::allowed()?;
    let together = Cpus::together()?;
    let (sender, receiver) = (lab.a(), lab.b());
    // As in labs, where it matters if the interfaces are veth.
    features::set(receiver, receiver.ifindex(), &[(GRO, true)])?;
    let site = Rc::new(Site::new(lab.clone(), Last::Second, Vec::new())?);
    let case = |cpus| -> Result<Case> {
        let variants = vec![
            Variant::new("TC drop", FrameTrial::with(&site, programs::tc_drop()?, cpus)?),
            Variant::new("XDP drop", FrameTrial::with(&site, programs::xdp_drop()?, cpus)?),
        ];
        Ok(Case::new(drop_title(cpus), Measure::Packets, variants))
    };
    let mut cases = streams(&cpus).map(case).collect::<Result<Vec<_>>>()?;
    cases.push(transaction_case(lab, together)?);
    let ends = [sender, receiver].map(Host::interface).join(" to ");
    Ok(experiment(
        format!("{ends}; {together} for TCP_RR"),
        [
            "CPU: all CPUs of this machine, which is both ends",
            "rates: as counted by the receiving interface; drivers that do not count XDP drops \
             show none",
        ],
        cases,
    ))
}

fn experiment<const N: usize>(place: String, notes: [&str; N], cases: Vec<Case>) -> Experiment {
    Experiment {
        name: "rx-build",
        title: "Socket buffers on demand: small frames with and without them",
        source: "net/mlx5e: Build RX SKB on demand (2016), ConnectX-4, 64 B frames",
        place,
        notes: [
            "frames come from inside the kernel (live-frame test runs of XDP), without socket \
             buffers; TC sees a frame only once it has one",
        ]
        .into_iter()
        .chain(notes)
        .chain(["published: the author saw no change of TCP_RR"])
        .map(str::to_owned)
        .collect(),
        cases,
    }
}

/// One processor, two, four, and so on.
fn streams(cpus: &[usize]) -> impl Iterator<Item = &[usize]> {
    let counts = std::iter::successors(Some(1), |count| Some(count * 2));
    // The first processor usually serves interrupts.
    counts.map_while(|count| cpus.get(cpus.len().checked_sub(count)?..))
}

fn drop_case(tc: &Rc<Site>, xdp: &Rc<Site>, cpus: &[usize]) -> Case {
    let variant = |title, site| Variant::new(title, FrameTrial::at(site, cpus));
    let variants = vec![variant("TC drop", tc), variant("XDP drop", xdp)];
    Case::new(drop_title(cpus), Measure::Packets, variants)
}

fn drop_title(cpus: &[usize]) -> String {
    let plural = if cpus.len() == 1 { "" } else { "s" };
    format!("drop 64 B frames, {} stream{plural}", cpus.len())
}

fn forward_case(cpus: &[usize]) -> Result<Case> {
    let cpus = cpus.last().map(std::slice::from_ref).unwrap_or_default();
    let variant = |title, site| Variant::new(title, FrameTrial::at(&Rc::new(site), cpus));
    Ok(Case::new(
        "forward 64 B frames, IPv4, 1 stream".to_owned(),
        Measure::Packets,
        vec![
            variant("kernel", Site::kernel_forward()?),
            variant("XDP, fib lookup", Site::xdp_forward()?),
            variant("our forwarder", Site::our_forward()?),
        ],
    ))
}

fn transaction_case(lab: &Rc<Lab>, cpus: Cpus) -> Result<Case> {
    let trial = |program| TransactionTrial { lab: lab.clone(), program, cpus };
    Ok(Case::new(
        "TCP_RR of 1 byte".to_owned(),
        Measure::Transactions,
        vec![
            Variant::new("without XDP", trial(None)),
            Variant::new("XDP pass", trial(Some(programs::xdp_pass()?))).published(Some(1.0), None),
        ],
    ))
}

/// Two hosts, and what the second one does with frames from the first.
struct Site {
    generator: Generator,
    /// Who counts the frames that went all the way.
    last: Last,
    forwarder: Option<OurForwarder>,
    /// Detached before their lab is gone.
    _links: Vec<Link>,
    lab: Rc<Lab>,
}

/// Where frames end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// At the second host.
    Second,
    /// Back at the first one.
    First,
}

impl Site {
    fn tc_drop() -> Result<Self> {
        let lab = lab()?;
        let host = lab.b();
        // Lets veth take frames that are no packet objects yet.
        features::set(host, host.ifindex(), &[(GRO, true)])?;
        let links = vec![programs::tc_drop()?.attach(host, host.ifindex())?];
        Self::new(lab, Last::Second, links)
    }

    fn xdp_drop() -> Result<Self> {
        let lab = lab()?;
        let links = vec![programs::xdp_drop()?.attach(lab.b(), lab.b().ifindex())?];
        Self::new(lab, Last::Second, links)
    }

    fn kernel_forward() -> Result<Self> {
        let lab = lab()?;
        let router = lab.b();
        forward(router)?;
        features::set(router, router.ifindex(), &[(GRO, true)])?;
        let links = vec![programs::tc_drop()?.attach(lab.a(), lab.a().ifindex())?];
        Self::new(lab, Last::First, links)
    }

    fn xdp_forward() -> Result<Self> {
        let lab = lab()?;
        forward(lab.b())?;
        let links = vec![
            programs::xdp_forward()?.attach(lab.b(), lab.b().ifindex())?,
            programs::xdp_drop()?.attach(lab.a(), lab.a().ifindex())?,
        ];
        Self::new(lab, Last::First, links)
    }

    fn our_forward() -> Result<Self> {
        // One queue, and so one pair of rings.
        let lab = Rc::new(Lab::new(Shape { queues: 1, ..Shape::default() })?);
        forward(lab.b())?;
        let forwarder = OurForwarder::new(lab.b())?;
        let links = vec![programs::xdp_drop()?.attach(lab.a(), lab.a().ifindex())?];
        Ok(Self { forwarder: Some(forwarder), ..Self::new(lab, Last::First, links)? })
    }

    fn new(lab: Rc<Lab>, last: Last, links: Vec<Link>) -> Result<Self> {
        let mut ends = Ends::between(lab.a(), lab.b());
        if last == Last::First {
            ends.ipv4[1] = BEYOND;
        }
        let generator = Generator::new(lab.a(), frame(&ends, 64))?;
        Ok(Self { generator, last, forwarder: None, _links: links, lab })
    }

    fn last(&self) -> &Host {
        match self.last {
            Last::Second => self.lab.b(),
            Last::First => self.lab.a(),
        }
    }
}

/// A frame of UDP with so many bytes, FCS included.
fn frame(ends: &Ends, len: usize) -> Vec<u8> {
    /// Ethernet, IPv4 and UDP headers, and FCS.
    const OTHERS: usize = 14 + 20 + 8 + 4;
    ends.ethernet(ends.ipv4(ends.udp(IpVersion::V4, &vec![0xa5; len.saturating_sub(OTHERS)])))
}

/// With a queue for every processor: veth gives frames to that of the sender's.
fn lab() -> Result<Rc<Lab>> {
    let queues = u32::try_from(cpu::allowed()?.len()).unwrap_or(u32::MAX);
    Ok(Rc::new(Lab::new(Shape { queues, ..Shape::default() })?))
}

/// Makes a router of a host, with a way back to where frames come from.
fn forward(router: &Host) -> Result<()> {
    let interface = router.interface();
    router.links(|links| links.add_neighbour(router.ifindex(), IpAddr::V4(BEYOND), BEYOND_MAC))?;
    let settings = [
        ("ip_forward".to_owned(), "1"),
        // Nobody is told of a better way.
        ("conf/all/send_redirects".to_owned(), "0"),
        (format!("conf/{interface}/send_redirects"), "0"),
    ];
    let write = || {
        settings.iter().try_for_each(|(setting, value)| {
            sysfs::write(format!("/proc/sys/net/ipv4/{setting}").as_ref(), value)
        })
    };
    let written: io::Result<()> = router.run(write)?;
    written.map_err(|error| Error::io("enable forwarding on a host", &error))
}

/// Frames from the generator to their end.
struct FrameTrial {
    site: Rc<Site>,
    /// What is attached for a round only.
    programs: Option<Programs>,
    cpus: Vec<usize>,
}

/// Programs at both ends.
struct Programs {
    /// Some drivers send XDP frames only while a program is attached.
    first: Program,
    /// What takes the frames.
    last: Program,
}

impl FrameTrial {
    fn at(site: &Rc<Site>, cpus: &[usize]) -> Self {
        Self { site: site.clone(), programs: None, cpus: cpus.to_vec() }
    }

    fn with(site: &Rc<Site>, last: Program, cpus: &[usize]) -> Result<Self> {
        let programs = Some(Programs { first: programs::xdp_pass()?, last });
        Ok(Self { programs, ..Self::at(site, cpus) })
    }
}

impl Trial for FrameTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let Site { generator, lab, forwarder, .. } = &*self.site;
        let last = self.site.last();
        let _attached = match &self.programs {
            Some(programs) => attach(&[(&programs.first, lab.a()), (&programs.last, last)])?,
            None => Vec::new(),
        };
        let fail = |error: crate::netlink::Error| error.while_doing("count frames");
        let mut links = last.run(Links::open)?.map_err(fail)?;
        let worker = |&cpu: &usize| generator::worker(generator, lab.a(), cpu);
        let mut workers: Vec<_> = self.cpus.iter().map(worker).collect();
        if let Some(forwarder) = forwarder {
            let router = lab.b();
            let run = |over: &Over| forwarder.run(router, over);
            workers.push(Worker::new(Side::Receiver, Cpus::apart()?.receiver, run));
        }
        let read = || -> Result<LinkStats> { links.stats(last.ifindex()).map_err(fail) };
        let window = round.measure(workers, read)?;
        Ok(Sample::of(&window, window.after.rx_packets - window.before.rx_packets))
    }
}

/// Questions and answers of one byte.
struct TransactionTrial {
    lab: Rc<Lab>,
    /// At both ends, if any.
    program: Option<Program>,
    cpus: Cpus,
}

impl Trial for TransactionTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let program = self.program.iter();
        let ends = program.flat_map(|program| [(program, self.lab.a()), (program, self.lab.b())]);
        let _attached = attach(&ends.collect::<Vec<_>>())?;
        let connection = Connection::open(self.lab.a(), self.lab.b(), IpVersion::V4)?;
        let transactions = Count::default();
        let workers = vec![
            Worker::new(Side::Sender, self.cpus.sender, |over| {
                connection.from.ask(1, over, &transactions)
            }),
            Worker::new(Side::Receiver, self.cpus.receiver, |_| connection.to.answer(1)),
        ];
        let window = round.measure(workers, || Ok(transactions.get()))?;
        Ok(Sample::of(&window, window.after - window.before))
    }
}
