//! What attaching costs the traffic of a veth, by mode: rates as ratios to nothing attached, and
//! how large the packets are that the stack gets. In every round each variant has its turn, and an
//! empty program stands beside ours, to tell what is the mode's and what is ours.

mod measure;

use std::{
    io::{self, Write},
    net::UdpSocket,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use measure::{Floors, Result, Spread};
use nic_common::policy::CopyPolicy;
use nic_user::{
    lab::{
        Host, Lab, Shape,
        bpf::{Hook, Program, XDP_PASS},
        traffic::{self, IpVersion},
    },
    netlink::{
        ethtool::Ethtool,
        link::{Links, XdpMode},
    },
    nic::{Nic, mode::Mode},
    offload::{self, Attached, Lock, ModeWanted, Options, Slot},
    report::{
        style::Style,
        table::{Align, Table},
    },
};
use nix::sys::socket::{setsockopt, sockopt};

/// Rounds of one measurement, an odd number.
const ROUNDS: usize = 7;
/// Payload of a round over TCP.
const TCP_BYTES: u64 = 512 << 20;
/// How long datagrams are sent in a round.
const UDP_TIME: Duration = Duration::from_millis(400);
/// Payload of a datagram, and how many make a super-packet.
const DATAGRAM: usize = 1472;
const DATAGRAMS: usize = 44;

/// How much slower traffic may be with TC programs alone, and with ours in place of an empty one.
const LIMIT: f64 = 1.25;

fn main() -> Result<()> {
    if !measure::is_wanted() {
        return Ok(());
    }
    measure::warn_if_busy();
    let mut floors = Floors::default();
    run(&mut floors)?;
    Ok(floors.result()?)
}

fn run(floors: &mut Floors) -> Result<()> {
    println!("{}", measure::cpu_model());
    println!("{ROUNDS} rounds: median (min-max); ratios of each round to nothing attached\n");
    let mut table = Table::new([
        ("TRAFFIC", Align::Left),
        ("ATTACHED", Align::Left),
        ("GBIT/S", Align::Right),
        ("RATIO", Align::Right),
        ("KB A PACKET", Align::Right),
    ]);
    for traffic in Traffic::ALL {
        let variants = measured(traffic)?;
        for (variant, samples) in VARIANTS.iter().zip(&variants) {
            let rates = samples.iter().map(|sample| sample.rate);
            let ratios: Vec<f64> =
                rates.clone().zip(&variants[0]).map(|(rate, base)| rate / base.rate).collect();
            let sizes = samples.iter().map(|sample| sample.packet / 1e3).collect();
            let ratio = Spread::of(ratios);
            if variant.is_ours() {
                let slower = beside(samples, &variants[variant.base()]);
                let what = format!(
                    "{}, {}, over {}",
                    traffic.title(),
                    variant.title(),
                    variant.base_title()
                );
                floors.check(&what, slower, LIMIT, "times as slow");
            }
            table.push([
                traffic.title().into(),
                variant.title(),
                Spread::of(rates.map(|rate| rate / 1e9).collect()).text(),
                format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.min, ratio.max),
                format!("{:.1}", Spread::of(sizes).median),
            ]);
        }
    }
    Ok(table.write(&mut io::stdout(), Style::Plain)?)
}

/// How many times slower `samples` are than those of the same rounds beside them.
fn beside(samples: &[Sample], base: &[Sample]) -> f64 {
    Spread::of(samples.iter().zip(base).map(|(one, base)| base.rate / one.rate).collect()).median
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Traffic {
    TcpOffloaded,
    TcpSegmented,
    UdpOffloaded,
    UdpSegmented,
}

impl Traffic {
    const ALL: [Self; 4] =
        [Self::TcpOffloaded, Self::TcpSegmented, Self::UdpOffloaded, Self::UdpSegmented];

    const fn title(self) -> &'static str {
        match self {
            Self::TcpOffloaded => "bulk TCP, TSO",
            Self::TcpSegmented => "bulk TCP, sender segments",
            Self::UdpOffloaded => "UDP GSO, offload",
            Self::UdpSegmented => "UDP GSO, sender segments",
        }
    }

    /// A lab whose first end sends so, and whose second merges what it can.
    fn lab(self) -> Result<Lab> {
        let lab = Lab::new(Shape { queues: 1, mtu: 1500 })?;
        let offload = matches!(self, Self::TcpOffloaded | Self::UdpOffloaded);
        // veth merges only for a sender that has none of these (`veth_skb_is_eligible_for_gro`).
        for kind in ["tcp", "tcp-ecn", "tcp-mangleid", "tcp6", "udp"] {
            set_feature(lab.a(), &format!("tx-{kind}-segmentation"), offload)?;
        }
        set_feature(lab.b(), "rx-gro", true)?;
        Ok(lab)
    }

    /// Payload that arrived, and in which time.
    fn send(self, lab: &Lab) -> Result<(u64, Duration)> {
        match self {
            Self::TcpOffloaded | Self::TcpSegmented => {
                let start = Instant::now();
                let sent = traffic::tcp(lab.a(), lab.b(), IpVersion::V4, 1, TCP_BYTES)?;
                Ok((sent, start.elapsed()))
            }
            Self::UdpOffloaded | Self::UdpSegmented => datagrams(lab),
        }
    }
}

fn set_feature(host: &Host, feature: &str, on: bool) -> Result<()> {
    let mut ethtool = host.run(Ethtool::open)??;
    ethtool.set_features(host.ifindex(), &[(feature, on)])?;
    Ok(())
}

/// Sends super-packets of datagrams for a while, and takes them whole.
fn datagrams(lab: &Lab) -> Result<(u64, Duration)> {
    let receiver = lab.b().run(|| UdpSocket::bind((lab.b().ipv4(), 0)))??;
    receiver.set_read_timeout(Some(Duration::from_millis(20)))?;
    setsockopt(&receiver, sockopt::UdpGroSegment, &true)?;
    let sender = lab.a().run(|| UdpSocket::bind((lab.a().ipv4(), 0)))??;
    sender.connect(receiver.local_addr()?)?;
    setsockopt(&sender, sockopt::UdpGsoSegment, &(DATAGRAM as i32))?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            let mut received = 0;
            // What is still on its way when the sender ends was sent in time.
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(len) => received += len as u64,
                    Err(_) if done.load(Ordering::Relaxed) => return received,
                    Err(_) => {}
                }
            }
        });
        let payload = vec![0xa5; DATAGRAM * DATAGRAMS];
        let start = Instant::now();
        let mut sent = Ok(0);
        while start.elapsed() < UDP_TIME && sent.is_ok() {
            sent = sender.send(&payload);
        }
        let elapsed = start.elapsed();
        done.store(true, Ordering::Relaxed);
        let received = receiving.join().map_err(|_| "the receiver failed")?;
        sent?;
        Ok((received, elapsed))
    })
}

/// What is attached to the receiving end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Nothing,
    Empty(XdpMode),
    Ours(Mode),
}

const VARIANTS: [Variant; 6] = [
    Variant::Nothing,
    Variant::Ours(Mode::Tc),
    Variant::Empty(XdpMode::Generic),
    Variant::Ours(Mode::Xdp(XdpMode::Generic)),
    Variant::Empty(XdpMode::Native),
    Variant::Ours(Mode::Xdp(XdpMode::Native)),
];

impl Variant {
    fn title(self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::Empty(mode) => format!("empty, {}", mode.name()),
            Self::Ours(mode) => format!("nicctl, {}", mode.name()),
        }
    }

    const fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Which variant ours is compared with: the mode without us.
    fn base(self) -> usize {
        let base = match self {
            Self::Ours(Mode::Xdp(mode)) => Self::Empty(mode),
            _ => Self::Nothing,
        };
        VARIANTS.iter().position(|variant| *variant == base).unwrap_or_default()
    }

    fn base_title(self) -> String {
        VARIANTS[self.base()].title()
    }

    /// Works while it is attached.
    fn with<T>(self, host: &Host, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match self {
            Self::Nothing => work(),
            Self::Empty(mode) => {
                let program = Program::returning(Hook::Xdp, XDP_PASS)?;
                let set = |fd| {
                    host.links(|links: &mut Links| links.set_xdp(host.ifindex(), fd, mode.flag()))
                };
                set(Some(program.as_fd()))?;
                let done = work();
                set(None)?;
                done
            }
            Self::Ours(mode) => {
                let lock = Lock::take(|_| {})?;
                let nic = host.run(|| Nic::by_index(host.ifindex()))??;
                host.run(|| attach(&lock, &nic, mode))??;
                let done = work();
                host.run(|| offload::detach(&lock, &Slot::of(&nic.link)?))??;
                done
            }
        }
    }
}

fn attach(lock: &Lock, nic: &Nic, mode: Mode) -> nic_user::error::Result<Attached> {
    let options = Options {
        mode: ModeWanted::Only(mode),
        policy: &|policy: CopyPolicy| policy,
        pull: None,
        log: None,
        clsact: false,
        for_rings: false,
    };
    offload::attach(lock, nic, &options)
}

/// One round of one variant.
#[derive(Clone, Copy)]
struct Sample {
    /// Bits of payload a second.
    rate: f64,
    /// Bytes of payload in a packet as the stack gets it.
    packet: f64,
}

/// The samples of each variant, taken in turns.
fn measured(traffic: Traffic) -> Result<Vec<Vec<Sample>>> {
    let lab = traffic.lab()?;
    let mut samples = vec![Vec::new(); VARIANTS.len()];
    for round in 1..=ROUNDS {
        eprint!("\r{}: round {round} of {ROUNDS} ", traffic.title());
        io::stderr().flush()?;
        for (variant, samples) in VARIANTS.iter().zip(&mut samples) {
            samples.push(variant.with(lab.b(), || sample(traffic, &lab))?);
        }
    }
    eprint!("\r{:60}\r", "");
    Ok(samples)
}

fn sample(traffic: Traffic, lab: &Lab) -> Result<Sample> {
    let before = ip_packets(lab.b())?;
    let (bytes, time) = traffic.send(lab)?;
    let packets = ip_packets(lab.b())? - before;
    Ok(Sample { rate: bytes as f64 * 8.0 / time.as_secs_f64(), packet: bytes as f64 / packets })
}

/// IPv4 packets that a host's stack got, super-packets as one (`InReceives`).
fn ip_packets(host: &Host) -> Result<f64> {
    let snmp = host.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))??;
    let values = snmp.lines().filter(|line| line.starts_with("Ip:")).nth(1);
    let value = values.and_then(|line| line.split(' ').nth(3)).ok_or("no InReceives")?;
    Ok(value.parse()?)
}
