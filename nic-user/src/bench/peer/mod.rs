//! Experiments with another machine at the other end, where `nicctl bench serve` runs.

pub mod protocol;
pub mod serve;

use std::{
    cell::RefCell,
    fmt, io,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    rc::Rc,
    time::Duration,
};

use protocol::{Answer, Channel, Done, PORT, Question, Tcp, Udp, VERSION};

use super::{
    cpu::Cpus,
    experiment::{Case, Experiment, Sample, Trial, Variant, percent},
    model::Measure,
    round::{Count, Round, Side, Window, Worker},
    tcp::End,
    udp::{Sender, Sending},
};
use crate::{
    error::{Error, Result},
    netlink::{link::Links, route::Routes},
    report::cell::cell,
};

/// How much of a text of the other side is shown, in columns.
const MAX_TEXT: usize = 160;
/// How long the other side may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The other machine.
pub struct Peer {
    channel: RefCell<Channel>,
    ours: IpAddr,
    theirs: IpAddr,
    kernel: String,
    cpu: String,
    receiver: usize,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.theirs, self.ours)
    }
}

impl Peer {
    /// Connects to `HOST` or `HOST:PORT`, with the token that was printed there, if one was.
    ///
    /// # Errors
    ///
    /// Nobody is there, or does not speak as this nicctl does.
    pub fn connect(host: &str, token: Option<&str>) -> Result<Self> {
        let stream = connect(host).map_err(|error| {
            // Not from here: whatever this command was told of namespaces holds on this side.
            Error::io(format!("connect to {host}"), &error)
                .with_fix(format!("`nicctl bench serve` must run there; its port is {PORT}"))
        })?;
        Self::over(stream, token).map_err(|error| error.while_doing(host))
    }

    fn over(stream: TcpStream, token: Option<&str>) -> Result<Self> {
        let fail = |error: io::Error| Error::io("read the ends of a connection", &error);
        let (ours, theirs) =
            (stream.local_addr().map_err(fail)?.ip(), stream.peer_addr().map_err(fail)?.ip());
        let channel = RefCell::new(Channel::new(stream).map_err(fail)?);
        let token = token.map(str::to_owned);
        match ask(&channel, Question::Hello { version: VERSION, token })? {
            Answer::Hello { version: VERSION, kernel, cpu, receiver } => {
                let [kernel, cpu] = [kernel, cpu].map(|text| cell(&text, MAX_TEXT));
                Ok(Self { channel, ours, theirs, kernel, cpu, receiver })
            }
            _ => Err(unexpected()),
        }
    }

    /// Has it begin to receive; the address to send to.
    fn begin(&self, question: Question) -> Result<SocketAddr> {
        match ask(&self.channel, question)? {
            Answer::Ready { port } => Ok((self.theirs, port).into()),
            _ => Err(unexpected()),
        }
    }

    fn read(&self) -> Result<Done> {
        match ask(&self.channel, Question::Read)? {
            Answer::Done(done) => Ok(done),
            _ => Err(unexpected()),
        }
    }

    fn end(&self) -> Result<()> {
        match ask(&self.channel, Question::End)? {
            Answer::Ended => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// Measures one thread here, and what the other side has begun.
    fn measure(
        &self,
        round: &Round<'_>,
        worker: Worker<'_>,
        here: impl Fn() -> u64,
    ) -> Result<Both> {
        let window = round.measure(vec![worker], || Ok((here(), self.read()?)))?;
        self.end()?;
        Ok(Both(window))
    }

    fn place(&self, cpus: Cpus) -> String {
        let Self { ours, theirs, kernel, cpu, receiver, .. } = self;
        format!(
            "from {ours}, CPU {}, to {theirs}, CPU {receiver} of another machine ({cpu}; Linux \
             {kernel})",
            cpus.sender
        )
    }
}

fn connect(host: &str) -> io::Result<TcpStream> {
    let addresses = host.to_socket_addrs().or_else(|_| (host, PORT).to_socket_addrs())?;
    let mut error = io::Error::other("it has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

fn ask(channel: &RefCell<Channel>, question: Question) -> Result<Answer> {
    let mut channel = channel.borrow_mut();
    channel.send(&question)?;
    match channel.receive(PATIENCE)? {
        Some(Answer::Error(error)) => {
            Err(Error::failed(format!("the other side says: {}", cell(&error, MAX_TEXT))))
        }
        Some(answer) => Ok(answer),
        None => Err(Error::failed("the other side closed the connection")),
    }
}

fn unexpected() -> Error {
    Error::failed("the other side sent an unexpected answer")
        .with_fix("use the same nicctl on both machines")
}

/// What both machines did in a window.
struct Both(Window<(u64, Done)>);

impl Both {
    /// What was counted here.
    const fn here(&self) -> u64 {
        self.0.after.0 - self.0.before.0
    }

    /// What was counted there.
    const fn there(&self) -> u64 {
        self.0.after.1.bytes.saturating_sub(self.0.before.1.bytes)
    }

    /// The CPU time of both; and that of each machine, for every unit.
    fn sample(mut self, done: u64, measure: Measure) -> Sample {
        let (before, after) = (self.0.before.1, self.0.after.1);
        let local = self.0.cpu.busy;
        let remote = after.busy - before.busy;
        self.0.cpu.receiver = after.thread - before.thread;
        self.0.cpu.softirq += after.softirq - before.softirq;
        self.0.cpu.busy += remote;
        let each = |busy| (done > 0).then(|| measure.cost(busy, done as f64));
        let unit = measure.cost_unit();
        Sample::of(&self.0, done).with("local CPU", unit, each(local)).with(
            "remote CPU",
            unit,
            each(remote),
        )
    }
}

/// How the interface is set up that leads to the other machine.
struct Way {
    name: String,
    max_size: Option<u32>,
}

impl Way {
    fn to(peer: &Peer) -> Result<Self> {
        let fail = |error: crate::netlink::Error| error.while_doing("find the route");
        let route =
            Routes::open().and_then(|mut routes| routes.route(peer.theirs)).map_err(fail)?;
        // There is none to an address of this machine.
        let Some(route) = route else { return Ok(Self { name: "lo".to_owned(), max_size: None }) };
        let link = Links::open().and_then(|mut links| links.by_index(route.ifindex));
        let link = link.map_err(fail)?;
        let max_size =
            if peer.theirs.is_ipv4() { link.gso_ipv4_max_size } else { link.gso_max_size };
        Ok(Self { name: link.name, max_size })
    }
}

/// `udp-gso` to another machine.
///
/// # Errors
///
/// The way there cannot be read.
pub fn udp_gso(peer: &Rc<Peer>) -> Result<Experiment> {
    let cpus = Cpus::apart()?;
    let way = Way::to(peer)?;
    let variant = |title, sending, size, merged| {
        Variant::new(
            title,
            UdpTrial { peer: peer.clone(), cpu: cpus.sender, sending, size, merged },
        )
    };
    let case = |size: u16| {
        let variants = vec![
            variant("plain send", Sending::One, size, false),
            variant("sendmmsg", Sending::Many, size, false),
            variant("GSO", Sending::Segmented, size, false),
            variant("GSO + GRO", Sending::Segmented, size, true),
        ];
        Case::new(format!("{size} bytes"), Measure::Bytes, variants)
    };
    let cases = [1472, 1024, 512].map(|size| case(size - header_difference(peer.theirs)));
    Ok(Experiment {
        name: "udp-gso",
        title: "UDP GSO: one stream, from the sender to the receiving socket",
        source: "net/mlx5e: Add UDP GSO support (2018), ConnectX-4 Lx, 40 Gbit/s",
        place: peer.place(cpus),
        notes: vec![
            format!(
                "neither machine is changed: {} segments as configured \
                 (feature.tx-udp-segmentation); change that between two runs and compare them \
                 with `nicctl bench compare`",
                way.name
            ),
            "CPU: all CPUs of both machines".to_owned(),
        ],
        cases: cases.into(),
    })
}

/// How much longer an IPv6 header is.
const fn header_difference(address: IpAddr) -> u16 {
    if address.is_ipv6() { 20 } else { 0 }
}

struct UdpTrial {
    peer: Rc<Peer>,
    cpu: usize,
    sending: Sending,
    size: u16,
    merged: bool,
}

impl Trial for UdpTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let fail = |error: io::Error| Error::io("open a UDP socket", &error);
        let sender = Sender::bind(self.peer.ours).map_err(fail)?;
        let from_port = sender.address().map_err(fail)?.port();
        let Self { size, merged, .. } = *self;
        let target = self.peer.begin(Question::Udp(Udp { from_port, size, merged }))?;
        sender.connect(target).map_err(fail)?;
        let sent = Count::default();
        let worker = Worker::new(Side::Sender, self.cpu, |over| {
            sender.send(self.sending, size.into(), over, &sent)
        });
        let both = self.peer.measure(round, worker, || sent.get())?;
        let (sent, received) = (both.here(), both.there());
        let lost = percent(sent.saturating_sub(received) as f64, sent as f64);
        Ok(both.sample(received, Measure::Bytes).with("lost", "%", lost))
    }
}

/// `big-tcp` to another machine.
///
/// # Errors
///
/// The way there cannot be read.
pub fn big_tcp(peer: &Rc<Peer>) -> Result<Experiment> {
    let cpus = Cpus::apart()?;
    let way = Way::to(peer)?;
    let case = |title: &str, measure, tcp| {
        let trial = TcpTrial { peer: peer.clone(), cpu: cpus.sender, tcp };
        Case::new(title.to_owned(), measure, vec![Variant::new("as set up", trial)])
    };
    let transactions = |title, size| case(title, Measure::Transactions, Tcp::Answer { size });
    let size = way.max_size.map_or("no known limit".to_owned(), |size| size.to_string());
    Ok(Experiment {
        name: "big-tcp",
        title: "BIG TCP: packets of more than 64 KB",
        source: "mlx4: support BIG TCP packets (2022), ConnectX-3",
        place: peer.place(cpus),
        notes: vec![
            format!(
                "neither machine is changed; the largest packet on {} is {size}: change \
                 link.gso-max-size and link.gro-max-size on both between two runs and compare \
                 them with `nicctl bench compare`",
                way.name
            ),
            "CPU: all CPUs of both machines".to_owned(),
        ],
        cases: vec![
            transactions("TCP_RR 70000", 70_000),
            transactions("TCP_RR 64000", 64_000),
            case("bulk", Measure::Bytes, Tcp::Receive {}),
        ],
    })
}

struct TcpTrial {
    peer: Rc<Peer>,
    cpu: usize,
    tcp: Tcp,
}

impl Trial for TcpTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let target = self.peer.begin(Question::Tcp(self.tcp))?;
        let end = TcpStream::connect_timeout(&target, PATIENCE).and_then(End::new);
        let end = end.map_err(|error| Error::io("connect over TCP", &error))?;
        let (tcp, done) = (self.tcp, Count::default());
        let worker = Worker::new(Side::Sender, self.cpu, |over| match tcp {
            Tcp::Answer { size } => end.ask(size as usize, over, &done),
            Tcp::Receive {} => end.send(over),
        });
        let both = self.peer.measure(round, worker, || done.get())?;
        Ok(match self.tcp {
            Tcp::Answer { .. } => {
                let transactions = both.here();
                both.sample(transactions, Measure::Transactions)
            }
            Tcp::Receive {} => {
                let received = both.there();
                both.sample(received, Measure::Bytes)
            }
        })
    }
}
